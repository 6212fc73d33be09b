# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests the PyTorch twin of examples/deepfm: 1 and 2 ranks give the same AUC, which is close to the best one and to that
of the program in C++. The environment variable DEEPFM_TRAIN names train.py."""

import os
import re
import sys
import unittest

from deepfm_job import FEATURES, RUEDARUN, DeepFmTest, run


class Torch(DeepFmTest):
    def train_torch(self, ranks: int, *options) -> tuple[float, str]:
        command = [RUEDARUN, "--no-mpi", "-np", ranks, sys.executable, "-B", os.environ["DEEPFM_TRAIN"],
                   "--train", self.clicks / "train-*.libsvm", "--test", self.clicks / "test-*.libsvm",
                   "--features", FEATURES, "--batch", 203, *options]  # fmt: skip
        done = run(command)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return float(re.search(r"AUC ([01]\.\d{6}) after", done.stdout)[1]), done.stdout

    def test_ranks_and_languages_agree(self):
        one, _ = self.train_torch(1, "--epochs", 2)
        two, _ = self.train_torch(2, "--epochs", 2, "--checkpoint-dir", self.folder / "run")
        self.assertLess(abs(one - two), 0.002)
        cpp, _ = self.train("cpp", 1, "--epochs", 2, "--batch", 203, "--lr", 0.05)
        self.assertLess(abs(one - cpp), 0.01)
        self.assertGreater(one, self.best[1] - 0.04)
        self.assertLess(one, self.best[1] + 0.005)
        # Another start finds the checkpoint of the last step, and trains nothing.
        again, output = self.train_torch(2, "--epochs", 2, "--checkpoint-dir", self.folder / "run")
        self.assertNotIn("epoch", output)
        self.assertEqual(again, two)


if __name__ == "__main__":
    unittest.main(verbosity=2)
