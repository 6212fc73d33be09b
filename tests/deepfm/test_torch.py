# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests the PyTorch version of examples/deepfm: 1 and 2 ranks give the same AUC, which is close to the best possible
AUC and to the AUC of the C++ program. The environment variable DEEPFM_TRAIN has the path of train.py.
"""

import os
import re
import sys
import unittest

from deepfm_job import FEATURES, RUEDARUN, DeepFmTest, run


class Torch(DeepFmTest):
    def train_torch(self, ranks: int) -> float:
        command = [RUEDARUN, "--no-mpi", "-np", ranks, sys.executable, "-B", os.environ["DEEPFM_TRAIN"],
                   "--train", self.clicks / "train-*.libsvm", "--test", self.clicks / "test-*.libsvm",
                   "--features", FEATURES, "--batch", 203, "--epochs", 1]  # fmt: skip
        done = run(command)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return float(re.search(r"AUC ([01]\.\d{6}) after", done.stdout)[1])

    def test_ranks_and_languages_agree(self):
        one = self.train_torch(1)
        self.assertLess(abs(one - self.train_torch(2)), 0.002)
        # The AUCs are not equal, because the C++ program has other initial parameters and another order of the samples.
        cpp, _ = self.train("cpp", 1, "--batch", 203)
        self.assertLess(abs(one - cpp), 0.015)
        self.assertGreater(one, self.best[1] - 0.06)
        self.assertLess(one, self.best[1] + 0.005)


if __name__ == "__main__":
    unittest.main(verbosity=2)
