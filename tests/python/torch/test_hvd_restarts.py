# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A rank dies during a training, and ruedarun starts the job again. The final weights must equal those without the
failure."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

TRAINING = pathlib.Path(__file__).with_name("elastic_training.py")


class Restarts(unittest.TestCase):
    def run_job(self, folder, out, *failing):
        command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "2", "--max-restarts", "1", "--grace", "2"]
        command += [sys.executable, "-B", str(TRAINING), str(out), *map(str, failing)]
        environment = {**os.environ, "RUEDA_ELASTIC_DIR": str(folder)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)

    def test_the_same_weights(self):
        with tempfile.TemporaryDirectory() as made:
            place = pathlib.Path(made)
            whole = self.run_job(place / "commits", place / "whole.pt")
            self.assertEqual(whole.returncode, 0, whole.stderr)
            self.assertEqual(list((place / "commits").iterdir()), [])  # a job that succeeded must leave no file
            for step, rank in ((3, 1), (8, 0)):
                with self.subTest(step=step, rank=rank):
                    failed = self.run_job(place / "commits", place / "failed.pt", step, rank)
                    self.assertEqual(failed.returncode, 0, failed.stderr)
                    self.assertIn("starting the job again", failed.stderr)
                    self.assertIn("going on from commit", failed.stderr)
                    right = torch.load(place / "whole.pt")
                    for one, other in zip(torch.load(place / "failed.pt"), right, strict=True):
                        self.assertTrue(torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other)


if __name__ == "__main__":
    unittest.main()
