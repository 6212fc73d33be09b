# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A rank of an elastic job dies, and a replacement takes its place. The final weights must equal those without the failure.
The survivor keeps its process, and also Python's os.environ shows its new rank."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import torch

TRAINING = pathlib.Path(__file__).with_name("elastic_training.py")


class ElasticJobs(unittest.TestCase):
    def run_job(self, out, *failing):
        command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "2", "--min-np", "2"]
        command += ["--blacklist-cooldown-range", "0.01", "1", sys.executable, "-B", str(TRAINING), str(out)]
        command += map(str, failing)
        return subprocess.run(command, capture_output=True, text=True, timeout=100)

    def test_the_same_weights(self):
        with tempfile.TemporaryDirectory() as made:
            place = pathlib.Path(made)
            whole = self.run_job(place / "whole.pt")
            self.assertEqual(whole.returncode, 0, whole.stderr)
            failed = self.run_job(place / "failed.pt", 8, 0)  # rank 0, whose role the survivor takes
            self.assertEqual(failed.returncode, 0, failed.stderr)
            self.assertIn("the job goes on with 2 ranks (generation 1)", failed.stderr)
            for one, other in zip(torch.load(place / "failed.pt"), torch.load(place / "whole.pt"), strict=True):
                self.assertTrue(torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other)
            lines = re.findall(r"process (\d+) is rank (\d) in generation (\d) \(RANK=(\d)\)", failed.stdout)
            processes = {(generation, rank): process for process, rank, generation, _ in lines}
            self.assertEqual(processes["1", "0"], processes["0", "1"])
            self.assertNotIn(processes["1", "1"], (processes["0", "0"], processes["0", "1"]))
            self.assertTrue(all(rank == shown for _, rank, _, shown in lines), lines)


if __name__ == "__main__":
    unittest.main()
