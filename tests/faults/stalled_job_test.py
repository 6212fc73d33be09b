# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs stalled jobs of two ranks, and checks rank 0's log, the files in RUEDA_DIAGNOSTICS_DIR, and ruedarun's exit
status.

Usage: stalled_job_test.py RUEDARUN STALLED_RANK [unittest's arguments].
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

RUEDARUN = ""
STALLED_RANK = ""
STALLED_STATUS = 79
WARNING = 0.4
SHUTDOWN = 1.2


class Job:
    """Runs a job that a stall ends, and keeps its output."""

    def __init__(self, scenario: str, folder: pathlib.Path, **environment: str) -> None:
        # A stopped rank reports no reason. ruedarun must kill it only after the other rank has reported its reason.
        grace = "2" if scenario == "stopped" else "0.3"
        command = [RUEDARUN, "--no-mpi", "-np", "2", "--grace", grace, STALLED_RANK, scenario]
        settings = {
            "RUEDA_STALL_CHECK_TIME_SECONDS": str(WARNING),
            "RUEDA_STALL_SHUTDOWN_TIME_SECONDS": str(SHUTDOWN),
            "RUEDA_DIAGNOSTICS_DIR": str(folder),
        }
        run = subprocess.run(
            command,
            env={**os.environ, **settings, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.status = run.returncode
        # Removes the number of the rank, which ruedarun writes before each line.
        self.errors = re.sub(r"^\[[01]\] ", "", run.stderr, flags=re.MULTILINE)
        self.files = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        self.folder = folder

    def reports(self, rank: int = 0) -> list[dict]:
        """Returns the reports in a rank's file, the oldest first."""
        content = json.loads((self.folder / f"stall.rank.{rank}.json").read_text())
        assert content["format"] == "rueda-stall-report"
        assert content["version"] == 1
        assert content["rank"] == rank
        return content["reports"]


class StalledJob(unittest.TestCase):
    """Runs one job for each scenario."""

    def run_job(self, scenario: str, **environment: str) -> Job:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        job = Job(scenario, pathlib.Path(folder.name) / "made" / "here", **environment)
        self.assertEqual(job.status, STALLED_STATUS, job.errors)
        return job

    def check_cause(self, job: Job, kind: str, text: str, ranks: list[int], of_rank: int = 0) -> dict:
        """Checks that the log names the cause right after the report's first sentence, and that the report in the file
        also names this cause. Returns the first report."""
        lines = job.errors.splitlines()
        causes = [number for number, line in enumerate(lines) if "Probable cause: " + text in line]
        self.assertTrue(causes, job.errors)
        above = lines[causes[0] - 1]
        self.assertTrue("Probable cause: " in above or "more than 0.4 seconds" in above, job.errors)
        self.assertNotIn(".partial", "".join(job.files))
        first = job.reports(of_rank)[0]
        found = [cause for cause in first["probable_causes"] if cause["kind"] == kind]
        self.assertEqual(len(found), 1, first)
        self.assertIn(text, found[0]["text"])
        self.assertEqual(found[0]["ranks"], ranks)
        return first

    def test_busy(self) -> None:
        job = self.run_job("busy")
        first = self.check_cause(job, "busy", "rank 1 has been busy with 'saving checkpoint' for ", [1])
        self.assertEqual(job.files, ["recorder-rank0.json", "recorder-rank1.json", "stall.rank.0.json"])
        self.assertEqual(first["tensors"][0]["name"], "gradient")
        self.assertEqual(first["tensors"][0]["ready"], [0])
        self.assertEqual(first["tensors"][0]["missing"], [1])
        self.assertGreaterEqual(first["tensors"][0]["seconds"], WARNING)
        self.assertEqual(first["warning_seconds"], WARNING)
        self.assertIsNone(first["ends_job"])
        (rank,) = first["ranks"]
        self.assertEqual(rank["rank"], 1)
        self.assertEqual(rank["busy"], "saving checkpoint")
        self.assertGreater(rank["busy_seconds"], 0)
        self.assertEqual(rank["step"], 7)
        self.assertEqual(rank["last_finished"]["name"], "first")
        self.assertGreater(rank["last_finished"]["seconds"], 0)
        self.assertEqual(rank["process_state"], "sleeping")
        self.assertEqual(rank["waits_in"], [])
        self.assertEqual(first["steps"], [{"step": 7, "ranks": [0, 1]}])
        self.assertIn("\n  tensor 'gradient': waiting for ", first["text"])
        last = job.reports()[-1]
        self.assertIn("tensor 'gradient' has waited for rank 1 for ", last["ends_job"])
        self.assertGreaterEqual(last["tensors"][0]["seconds"], SHUTDOWN)
        self.assertIn("RUEDA_STALL_SHUTDOWN_TIME_SECONDS (1.2)", job.errors.splitlines()[-1])

    def test_crosswise(self) -> None:
        job = self.run_job("crosswise")
        text = "the ranks are waiting for each other crosswise: "
        first = self.check_cause(job, "crosswise", text, [0, 1])
        self.assertEqual({tensor["name"] for tensor in first["tensors"]}, {"one", "other"})
        waits = {rank["rank"]: rank["waits_in"][0]["name"] for rank in first["ranks"]}
        self.assertEqual(waits.get(1, "other"), "other")
        self.assertEqual(waits.get(0, "one"), "one")

    def test_numbers(self) -> None:
        job = self.run_job("numbers")
        self.check_cause(job, "numbered_names", "the names differ only in a number: rank ", [0, 1])
        self.assertNotIn("crosswise", job.errors)

    def test_loop(self) -> None:
        job = self.run_job("loop")
        text = (
            "rank 1 ended its loop with step 2 and waits in tensor 'validation loss', while rank 0 is in step 3; with "
            "data of different length, a rank that has no more calls join()"
        )
        first = self.check_cause(job, "loop_ended", text, [0, 1])
        self.assertEqual(first["steps"], [{"step": 2, "ranks": [1]}, {"step": 3, "ranks": [0]}])

    def test_sends(self) -> None:
        job = self.run_job("sends")
        text = "ranks 0 and 1 are both in a send to each other, and neither receives; "
        self.assertIn("Probable cause: " + text, job.errors)
        # Rank 0 also reports the messages of rank 1, so there is no file stall.rank.1.json.
        self.assertEqual(job.files, ["recorder-rank0.json", "recorder-rank1.json", "stall.rank.0.json"])
        last = job.reports()[-1]
        self.assertEqual(last["probable_causes"][0]["kind"], "sends_to_each_other", last)
        whats = {tensor["what"]: tensor["ready"] for tensor in last["tensors"]}
        self.assertEqual(whats, {"send to rank 1, tag 5": [0], "send to rank 0, tag 5": [1]})

    def test_message_of_another_rank(self) -> None:
        """Rank 0 writes the report about rank 1's wait. Rank 1 only prints one line, which refers to this report."""
        job = self.run_job("receive_in_rank_1")
        self.assertNotIn("stall.rank.1.json", job.files)
        first = job.reports()[0]
        self.assertEqual(first["tensors"][0]["what"], "receive from rank 0, tag 5")
        self.assertEqual(first["tensors"][0]["ready"], [1])
        self.assertEqual(first["tensors"][0]["missing"], [0])
        self.assertEqual(first["ranks"][0]["rank"], 0)
        self.assertRegex(
            job.errors, r"\[rank 1\]: receive from rank 0, tag 5 has waited for [\d.]+ s; the stall report "
        )
        self.assertIn("receive from rank 0, tag 5 has waited for rank 0 for ", job.reports()[-1]["ends_job"])

    def test_stopped(self) -> None:
        job = self.run_job("stopped")
        first = self.check_cause(job, "does_not_run", "the process of rank 1 (pid ", [1])
        self.assertEqual(first["ranks"][0]["process_state"], "stopped by a signal")

    def test_other_waits(self) -> None:
        """A wait in a receive, a join, the creation of a process set, or a shutdown must be reported like a tensor."""
        for scenario, what in (
            ("receive", "receive from rank 1, tag 5"),
            ("join", "join()"),
            ("process_set", "add_process_set() or remove_process_set()"),
            ("shutdown", "shutdown()"),
        ):
            with self.subTest(scenario):
                job = self.run_job(scenario)
                first = job.reports()[0]
                self.assertEqual(first["tensors"][0]["what"], what, job.errors)
                self.assertIn(f"\n  {what}: waiting for ", job.errors)
                self.assertEqual(first["tensors"][0]["ready"], [0])
                self.assertEqual(first["tensors"][0]["missing"], [1])
                self.assertEqual(first["ranks"][0]["rank"], 1)

    def test_no_folder(self) -> None:
        """If the folder cannot be created, each rank prints one line about it, and the job ends as if
        RUEDA_DIAGNOSTICS_DIR were not set."""
        with tempfile.NamedTemporaryFile() as file:
            job = self.run_job("busy", RUEDA_DIAGNOSTICS_DIR=file.name + "/below")
            ranks = re.findall(r"\[rank (\d)\]: RUEDA_DIAGNOSTICS_DIR: a file could not be written: ", job.errors)
            self.assertEqual(ranks.count("0"), 1, job.errors)
            # Rank 1 prints this line only at the end of the job, and may be killed before.
            self.assertLessEqual(ranks.count("1"), 1, job.errors)


if __name__ == "__main__":
    RUEDARUN, STALLED_RANK = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
