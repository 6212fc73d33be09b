# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests that the PyTorch program of examples/deepfm has the same AUC on a GPU as on the CPU. This must also hold when
the GPU continues from a checkpoint of the CPU. Needs a GPU: scripts/gpu runs this test. DEEPFM_TRAIN names train.py,
DEEPFM_RANKS has the numbers of ranks, and DEEPFM_SHARE_GPU=1 says that all ranks use one GPU.
"""

import os
import re
import sys
import unittest

from deepfm_job import FEATURES, RUEDARUN, DeepFmTest, run

RANKS = [int(number) for number in os.environ.get("DEEPFM_RANKS", "1").split(",")]
SHARED = ["--share-gpu"] if os.environ.get("DEEPFM_SHARE_GPU") == "1" else []


class Devices(DeepFmTest):
    def auc(self, ranks: int, device: str, *options) -> float:
        done = run([RUEDARUN, "--no-mpi", *(SHARED if device == "cuda" else []), "-np", ranks, sys.executable, "-B",
                    os.environ["DEEPFM_TRAIN"], "--device", device, "--train", self.clicks / "train-*.libsvm",
                    "--test", self.clicks / "test-*.libsvm", "--features", FEATURES, "--batch", 512, *options])  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return float(re.search(r"AUC ([01]\.\d{6}) after \d+ steps", done.stdout)[1])

    def test_the_auc_is_that_of_the_cpu(self):
        expected = self.auc(1, "cpu", "--epochs", 1)
        for ranks in RANKS:
            with self.subTest(ranks=ranks):
                found = self.auc(ranks, "cuda", "--epochs", 1)
                print(f"{ranks} ranks: AUC {found:.4f}, on the CPU {expected:.4f}")
                self.assertLess(abs(found - expected), 0.002)

    def test_a_checkpoint_of_the_cpu_continues_on_a_gpu(self):
        expected = self.auc(1, "cpu", "--epochs", 2)
        options = ("--checkpoint-dir", self.folder / "run")
        self.auc(1, "cpu", "--epochs", 1, *options)
        found = self.auc(max(RANKS), "cuda", "--epochs", 2, *options)
        self.assertLess(abs(found - expected), 0.002)


if __name__ == "__main__":
    unittest.main(verbosity=2)
