# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests `rueda stacks` with real jobs, as its users see it.

Usage: rueda_stacks_test.py RUEDA RUEDARUN WATCHED_RANK [unittest's arguments].
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

import rueda_top_test as top

TAKEN = 20
NOBODY = 65534
FUNCTION = "loop_until_it_exists"


class Stacks(top.WithJob):
    def stacks(self, *arguments, status=0):
        done = top.rueda("stacks", *arguments)
        self.assertEqual((done.returncode, done.stderr), (status, ""), done)
        return done.stdout

    def start_loop(self, **settings):
        self.start("loop", **settings)
        # Rank 1 may need some time to reach its loop, and rank 0 may still be in the previous step. So the test asks
        # again until both have arrived.
        text = self.stacks(self.pids[0])
        while FUNCTION not in text or "in step 2" in text:
            text = self.stacks(self.pids[0])
        return text

    def pid_of(self, rank):
        ranks = json.loads(top.rueda("stacks", "--json", self.pids[0]).stdout)["ranks"]
        return next(found["pid"] for found in ranks if found["rank"] == rank)

    def test_shows_where_all_ranks_are(self):
        text = self.start_loop()
        (job,) = self.jobs()
        self.assertRegex(text, rf"^{job['id']}  running  {top.WATCHED_RANK} loop ")
        self.assertRegex(text, r"(?m)^rank 0 \(pid \d+\): \w+; in step 3\n  native, innermost first")
        self.assertRegex(
            text, rf"(?m)^rank 1 \(pid \d+\): running; in step 3\n  native, innermost.*\n(    .*\n)*    {FUNCTION}"
        )
        for _ in range(TAKEN):
            self.assertIn(FUNCTION, self.stacks(job["id"]))

    def test_in_json(self):
        self.start_loop()
        view = json.loads(self.stacks("--json", self.pids[1]))
        self.assertEqual((view["state"], view["abort_reason"]), ("running", None))
        self.assertEqual([rank["rank"] for rank in view["ranks"]], [0, 1])
        self.assertEqual(sorted(rank["pid"] for rank in view["ranks"]), self.pids)
        for rank in view["ranks"]:
            self.assertEqual((rank["step"], rank["scope"], rank["has_stack"]), (3, "", True))
        self.assertIn(FUNCTION, view["ranks"][1]["stack"])
        self.assertNotIn(FUNCTION, view["ranks"][0]["stack"])

    def test_a_stopped_rank_is_described_from_outside(self):
        self.start_loop()
        pid = self.pid_of(1)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        os.kill(pid, signal.SIGSTOP)
        stat = pathlib.Path(f"/proc/{pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "T":
            pass  # waits until the kernel reports that the process is stopped
        text = self.stacks(self.pids[0], status=2)
        self.assertRegex(
            text,
            r"(?m)^rank 1 \(pid \d+\): stopped by a signal; in step 3\n"
            r"  stack: it could not be read: (the rank has not answered in time|the rank's background thread does not run)",
        )
        self.assertRegex(text, r"(?m)^rank 0 \(pid \d+\): \w+; in step 3\n  native, innermost first")
        ranks = json.loads(self.stacks("--json", self.pids[0], status=2))["ranks"]
        self.assertEqual([rank["has_stack"] for rank in ranks], [True, False])
        os.kill(pid, signal.SIGCONT)
        # Rank 1 first answers the earlier requests for its stack, so the test may have to ask again.
        while top.rueda("stacks", self.pids[0]).returncode != 0:
            pass

    def test_a_signal_also_writes_the_flight_recorders(self):
        self.start_loop(RUEDA_DIAGNOSTICS_DIR=str(self.folder / "diagnostics"))
        os.kill(self.pid_of(0), signal.SIGUSR2)
        files = [self.folder / "diagnostics" / f"recorder-rank{rank}.json" for rank in range(2)]
        deadline = time.monotonic() + top.TIMEOUT
        while not all(file.exists() for file in files) and time.monotonic() < deadline:
            time.sleep(0.01)
        for rank, file in enumerate(files):
            record = json.loads(file.read_text())
            self.assertEqual((record["rank"], record["written_by"], record["step"]), (rank, 0, 3))
            self.assertEqual(record["reason"], "a person requested the stacks by a signal")
        done = top.rueda("analyze", self.folder / "diagnostics")
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        self.assertRegex(done.stdout, r"(?m)^  allreduce 'gradient': rank 0 called it, .*; rank 1 did not call it$")

    def test_stacks_are_switched_off(self):
        self.start("missing", RUEDA_STACK_SIGNAL="none")
        text = self.stacks(self.pids[0], status=2)
        self.assertEqual(
            text.count("stack: the rank does not show it, because it was started with RUEDA_STACK_SIGNAL=none"), 2
        )

    def test_no_job(self):
        for arguments in (["j0"], ["--json", "j0"], [str(os.getpid())]):
            done = top.rueda("stacks", *arguments)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertRegex(done.stderr, r"^rueda: (there is no job '|no job of Rueda).*\n$")

    def test_a_job_of_another_user(self):
        if os.geteuid() != 0:
            done = top.rueda("stacks", 1)
            pid = 1
        else:
            self.start("even", ranks=1)
            pid = self.pids[0]
            program = shutil.copy(top.RUEDA, self.folder / "rueda")
            self.folder.chmod(0o755)
            done = subprocess.run(
                [program, "stacks", str(pid)],
                capture_output=True,
                text=True,
                timeout=top.TIMEOUT,
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
            )
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertRegex(
            done.stderr,
            rf"^rueda: process {pid} belongs to another user.*: run rueda as the user who started the job\n$",
        )

    def test_called_wrongly(self):
        for arguments in (["--jsom"], ["j1", "j2"]):
            done = top.rueda("stacks", *arguments)
            self.assertEqual((done.returncode, done.stdout), (3, ""), arguments)
            self.assertRegex(done.stderr, r"^rueda: .*\n$")
        text = top.rueda("stacks", "--help").stdout
        self.assertTrue(text.startswith("Usage: rueda stacks "), text)
        self.assertIn("Examples:", text)


if __name__ == "__main__":
    top.use_programs(*sys.argv[1:4])
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
