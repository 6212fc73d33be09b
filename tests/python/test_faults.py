# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A rank is killed, or fails: every other one gets Aborted, in each way of waiting, and the job ends."""

import os
import pathlib
import re
import subprocess
import sys
import time
import unittest


class KilledRank(unittest.TestCase):
    def test_every_survivor_learns_of_it(self):
        program = pathlib.Path(__file__).with_name("faulty_rank.py")
        command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "4", sys.executable, "-B", str(program)]
        job = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(job.returncode, 0)
        said = dict(re.findall(r"<(\d): ([^>]*)>", job.stdout))
        right = "; ".join(["Aborted, naming rank 1"] * 3 + ["in time"])
        self.assertEqual(said, {rank: right for rank in ("0", "2", "3")}, job.stdout + job.stderr)


class FailedRank(unittest.TestCase):
    """One that leaves by an error holds up nobody, and is what the job has failed of."""

    def run_job(self, way, seconds_of_rank_2, *flags):
        program = pathlib.Path(__file__).with_name("failing_rank.py")
        command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "3", *flags]
        command += [sys.executable, "-B", str(program), way, str(seconds_of_rank_2)]
        begin = time.monotonic()
        job = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        said = dict(re.findall(r"<(\d): ([^>]*)>", job.stdout))
        return job, said, time.monotonic() - begin

    def check(self, way, status, reason, ranks):
        job, said, _ = self.run_job(way, 1)
        reason = f"rank 1 has ended the job: {reason}"
        self.assertEqual(said, dict.fromkeys(ranks, said["0"]), job.stdout + job.stderr)
        self.assertIn(reason, said["0"])
        self.assertEqual(job.returncode, status, job.stderr)
        self.assertIn("rank 1 ", job.stderr.splitlines()[-1])
        self.assertIn(f"ended with exit status {status}", job.stderr.splitlines()[-1])

    def test_an_uncaught_exception_ends_the_job(self):
        self.check("raise", 1, "ValueError: bad batch", "02")

    def test_an_exit_with_a_status_ends_the_job(self):
        self.check("exit", 5, "it ended with exit status 5, without calling rueda::shutdown()", "02")

    def test_a_program_ends_the_job(self):
        job, said, _ = self.run_job("abort", 1)
        self.assertEqual(sorted(said), ["0", "1", "2"], job.stdout + job.stderr)
        for text in said.values():
            self.assertIn("rank 1 has ended the job: the loss is nan", text)
        self.assertEqual(job.returncode, 4, job.stderr)

    def test_a_rank_that_computes_is_not_waited_for(self):
        job, said, seconds = self.run_job("raise", 90, "--grace", "1")
        self.assertEqual(sorted(said), ["0"], job.stdout + job.stderr)
        self.assertEqual(job.returncode, 1, job.stderr)
        self.assertLess(seconds, 60)


if __name__ == "__main__":
    unittest.main()
