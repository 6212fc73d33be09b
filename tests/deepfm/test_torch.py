# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests the PyTorch twin of examples/deepfm. The number of ranks and the format do not change the AUC. The AUC is close
to the best one, and close to that of the program in C++. A job that stopped continues exactly. The environment variable
DEEPFM_TRAIN names train.py."""

import json
import os
import re
import sys
import unittest

import torch
from deepfm_job import FEATURES, RUEDARUN, DeepFmTest, run


class Torch(DeepFmTest):
    def torch_job(self, ranks: int, *options, train=None, test=None):
        command = [RUEDARUN, "--no-mpi", "-np", ranks, sys.executable, "-B", os.environ["DEEPFM_TRAIN"],
                   "--train", train or self.clicks / "train-*.libsvm", "--test", test or self.clicks / "test-*.libsvm",
                   "--features", FEATURES, "--batch", 203, "--epochs", 1, *options]  # fmt: skip
        return run(command, timeout=300)  # seconds; each process imports PyTorch

    def train_torch(self, ranks: int, *options, **paths) -> tuple[str, int]:
        """Trains, and returns the AUC and the number of steps."""
        done = self.torch_job(ranks, *options, **paths)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        area, steps = re.search(r"AUC ([01]\.\d{6}) after (\d+) steps", done.stdout).groups()
        return area, int(steps)

    def test_ranks_formats_and_languages_agree(self):
        text, steps = self.train_torch(1)
        self.assertEqual(steps, 99)
        one = float(text)
        records = {name: self.clicks / f"{name}-*.tfrecord" for name in ("train", "test")}
        self.assertLess(abs(one - float(self.train_torch(2, **records)[0])), 0.002)
        # The order of the samples is that of the program in C++, but the initial parameters are different.
        cpp, _ = self.train("cpp", 1, "--batch", 203)
        self.assertLess(abs(one - cpp), 0.015)
        self.assertGreater(one, self.best[1] - 0.06)
        self.assertLess(one, self.best[1] + 0.005)

    def test_a_gpu_that_is_missing(self):
        if torch.cuda.is_available():
            self.skipTest("this machine has a GPU; test_torch_devices.py uses it")
        done = self.torch_job(1, "--device", "cuda")
        self.assertNotEqual(done.returncode, 0)
        lines = [line for line in done.stderr.splitlines() if "train.py" in line]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertIn("train.py: --device cuda needs a GPU", lines[0])
        self.assertIn("--device cpu", lines[0])

    def test_a_job_that_stopped_continues_exactly(self):
        # The last batch has only one sample, so one of the two ranks has no sample.
        steps = ("--batch", 2857, "--lr", 0.2, "--shuffle", 3000)
        whole = self.train_torch(2, *steps)
        self.assertEqual(whole[1], 8)
        files = [self.folder / f"train-00{i}.libsvm" for i in range(4)]
        for path in files:
            path.write_bytes((self.clicks / path.name).read_bytes())
        options = (*steps, "--checkpoint-dir", self.folder / "run", "--checkpoint-every", 2)
        train = self.folder / "train-*.libsvm"
        # A wrong label stops the job in the middle of the epoch.
        right = files[2].read_text()
        lines = right.splitlines()
        lines[2500] = "2" + lines[2500][1:]
        files[2].write_text("\n".join(lines))
        done = self.torch_job(2, *options, train=train)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"reading sample \d+ of this rank's part of step \d+, epoch 0: the label is 2")
        files[2].write_text(right)
        for changed, words in (
            (("--lr", 0.1), ("--lr '0.2'", "'0.1'")),
            (("--train", self.clicks / "train-000.libsvm"), ("--train 'train-*.libsvm'", "'train-000.libsvm'")),
        ):
            with self.subTest(changed=changed[0]):
                done = self.torch_job(1, *options, *changed, train=train)
                self.assertNotEqual(done.returncode, 0)
                for word in words:
                    self.assertIn(word, done.stderr)
        summary = self.folder / "summary.json"
        done = self.torch_job(2, *options, "--summary", summary, train=train)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        first = int(re.search(r"continuing at step (\d+)", done.stdout)[1])
        self.assertGreater(first, 0)
        self.assertLess(first, 8)
        self.assertIn(f"AUC {whole[0]} after 8 steps", done.stdout)
        numbers = json.loads(summary.read_text())
        self.assertEqual((numbers["ranks"], numbers["steps"]), (2, 8 - first))
        self.assertEqual(numbers["samples"], 20000 - 2857 * first)
        self.assertEqual((numbers["checkpoint"]["step"], numbers["checkpoint_failure"]), (8, None))
        self.assertRegex(
            done.stdout, rf"job: \d+\.\d s on 2 ranks, {8 - first} steps?, {numbers['samples']} samples?, "
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
