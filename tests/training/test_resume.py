# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Kills ranks of a training job at random moments, starts the job again, and compares its losses with those of a job
that was not interrupted. The environment variables RESUME_JOB and RUEDARUN name the programs. RESUME_SEED sets the seed
of the random moments."""

import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import job_environment  # noqa: E402

JOB = os.environ["RESUME_JOB"]
RUEDARUN = os.environ["RUEDARUN"]
STEPS = 40
SEED = int(os.environ.get("RESUME_SEED") or random.randrange(1 << 30))
ENVIRONMENT = job_environment.job_environment()


class Resume(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.random = random.Random(SEED)
        print(f"RESUME_SEED={SEED}", flush=True)

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rueda-resume-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_job(self, name: str, ranks: int, layout: str, *kill) -> tuple[int, int, list[tuple[int, float]]]:
        """Runs the job until it ends or is killed. Returns the exit status, the first step, and the losses by step."""
        losses = self.folder / f"{name}.losses"
        losses.unlink(missing_ok=True)
        command = [RUEDARUN, "--no-mpi", "-np", ranks, JOB, self.folder / name, losses, STEPS, layout, *kill]
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=100, env=ENVIRONMENT
        )
        output = done.stdout + done.stderr
        begin = re.search(r"begins at step (\d+)", output)
        self.assertIsNotNone(begin, output)
        self.assertNotIn("left out", output)
        lines = [line.split() for line in losses.read_text().splitlines()] if losses.exists() else []
        return done.returncode, int(begin.group(1)), [(int(step), float.fromhex(loss)) for step, loss in lines]

    def check_losses(self, found, expected, first: int, exact: bool):
        """Checks that `found` has the losses of `expected` from step `first` on."""
        self.assertEqual([step for step, _ in found], list(range(first, STEPS)))
        for (step, loss), (_, wanted) in zip(found, expected[first:], strict=True):
            with self.subTest(step=step):
                if exact:
                    self.assertEqual(loss, wanted)
                else:
                    self.assertAlmostEqual(loss, wanted, delta=1e-12 * max(1.0, wanted))

    def interrupt_and_resume(self, layout: str, ranks: int, new_ranks: int):
        status, first, whole = self.run_job("whole", ranks, layout)
        self.assertEqual((status, first), (0, 0))
        self.assertEqual(len(whole), STEPS)
        self.assertLess(whole[-1][1], 0.1 * whole[0][1])  # the job learns something
        step = self.random.randrange(2, STEPS)
        status, first, _ = self.run_job("killed", ranks, layout, self.random.randrange(ranks), step)
        self.assertNotEqual(status, 0)
        self.assertEqual(first, 0)
        status, first, rest = self.run_job("killed", new_ranks, layout)
        self.assertEqual(status, 0)
        # The kill may have interrupted the saving of checkpoint `step`. Checkpoint `step - 1` was complete before that.
        self.assertIn(first, (step - 1, step))
        self.check_losses(rest, whole, first, exact=ranks == new_ranks)

    def test_a_killed_job_resumes_at_its_step_with_the_same_losses(self):
        self.interrupt_and_resume("whole", 2, 2)

    def test_it_resumes_with_other_numbers_of_ranks(self):
        self.interrupt_and_resume("whole", 2, 3)
        self.folder = self.folder / "again"
        self.folder.mkdir()
        self.interrupt_and_resume("whole", 3, 1)

    def test_it_resumes_at_the_position_of_its_pipeline(self):
        self.interrupt_and_resume("pipeline", 2, 2)

    def test_it_resumes_at_the_position_of_its_pipeline_with_another_number_of_ranks(self):
        self.interrupt_and_resume("pipeline", 3, 1)

    def test_it_resumes_from_parts(self):
        self.interrupt_and_resume("parts", 3, 3)

    def test_it_resumes_from_parts_of_another_number_of_ranks(self):
        self.interrupt_and_resume("parts", 3, 2)

    def test_an_error_of_one_rank_reaches_all_ranks(self):
        command = [RUEDARUN, "--no-mpi", "-np", 2, JOB, self.folder / "uneven", self.folder / "losses", 0, "uneven"]
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=60, env=ENVIRONMENT
        )
        output = done.stdout + done.stderr
        self.assertEqual(done.returncode, 0, output)
        rows = "rank 1: checkpoint: tensor 'weights' has 3 rows on this rank, and they are called rows 4 to 7 of 1"
        for rank in (0, 1):
            self.assertRegex(output, f"rank {rank} got: rank 0: checkpoint of step 1: the metric is -?nan")
            self.assertEqual(output.count(f"rank {rank} got: {rows}"), 2, output)
            self.assertIn(f"rank {rank}: started 1, restored step 3", output)
        self.assertIn("rank 0 was asked 4 times", output)
        self.assertIn("rank 1 was asked 0 times", output)

    def test_it_survives_kills_at_any_moment(self):
        _, _, whole = self.run_job("whole", 2, "whole")
        losses = []
        for _ in range(4):
            delay = self.random.randrange(200, 30000)
            status, first, losses = self.run_job("killed", 2, "whole", self.random.randrange(2), f"{delay}us")
            if status == 0:
                break
        else:
            status, first, losses = self.run_job("killed", 2, "whole")
        self.assertEqual(status, 0)
        self.check_losses(losses, whole, first, exact=True)


if __name__ == "__main__":
    unittest.main()
