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


class TorchTest(DeepFmTest):
    def torch_job(self, ranks: int, *options, train=None, test=None):
        command = [RUEDARUN, "--no-mpi", "-np", ranks, sys.executable, "-B", os.environ["DEEPFM_TRAIN"],
                   "--train", *(train or [self.clicks / "train-*.libsvm"]), "--test", test or self.clicks / "test-*.libsvm",
                   "--features", FEATURES, "--batch", 203, "--epochs", 1, *options]  # fmt: skip
        return run(command, timeout=300)  # seconds; each process imports PyTorch

    def train_torch(self, ranks: int, *options, **paths) -> tuple[str, int]:
        """Trains, and returns the AUC and the number of steps."""
        done = self.torch_job(ranks, *options, **paths)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        area, steps = re.search(r"AUC ([01]\.\d{6}) after (\d+) steps", done.stdout).groups()
        return area, int(steps)

    def refused_as_empty(self, ranks, words, **paths):
        done = self.torch_job(ranks, **paths)
        self.assertEqual(done.returncode, 2, done.stderr)
        lines = [line for line in done.stderr.splitlines() if "train.py" in line]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].endswith(f"train.py: {words}"), done.stderr)
        self.assertNotIn("AUC", done.stdout)


class Torch(TorchTest):
    def test_ranks_formats_and_languages_agree(self):
        text, steps = self.train_torch(1)
        self.assertEqual(steps, 99)
        one = float(text)
        records = {"train": [self.clicks / "train-*.tfrecord"], "test": self.clicks / "test-*.tfrecord"}
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

    def test_empty_input_is_refused(self):
        empty = self.folder / "empty.libsvm"
        empty.write_text("")
        self.refused_as_empty(2, "--train has no samples; give files that are not empty", train=[empty])

    def test_a_job_that_stopped_continues_exactly(self):
        # The last batch has only one sample, so one of the two ranks has no sample.
        steps = ("--batch", 2857, "--lr", 0.2, "--shuffle", 3000)
        whole = self.train_torch(2, *steps)
        self.assertEqual(whole[1], 8)
        files = [self.folder / f"train-00{i}.libsvm" for i in range(4)]
        for path in files:
            path.write_bytes((self.clicks / path.name).read_bytes())
        options = (*steps, "--checkpoint-dir", self.folder / "run", "--checkpoint-every", 2)
        train = [self.folder / "train-*.libsvm"]
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


class Slow(TorchTest):
    """Tests that start many processes, each of which imports PyTorch."""

    def test_four_ranks(self):
        one, steps = self.train_torch(1)
        four, count = self.train_torch(4)
        self.assertLess(abs(float(four) - float(one)), 0.002)
        self.assertEqual(count, steps)

    def test_fifos_lanes_and_threads(self):
        # The FIFOs have 15000 and 5000 samples, so rank 1 has no samples in the last two thirds of each epoch. Two
        # files with the same samples must give the same losses, if each file is a lane.
        long, short = self.folder / "long.libsvm", self.folder / "short.libsvm"
        long.write_bytes(b"".join((self.clicks / f"train-00{i}.libsvm").read_bytes() for i in range(3)))
        short.write_bytes((self.clicks / "train-003.libsvm").read_bytes())
        fifos = [self.feed(path.stem, path, epochs=2) for path in (long, short)]
        options = ("--shuffle", 0, "--batch", 500, "--epochs", 2, "--metrics")
        found = self.train_torch(2, *options, self.folder / "fifos", "--fifo", "--format", "libsvm", train=fifos,
                                 test=self.clicks / "test-*.libsvm")  # fmt: skip
        lanes = self.train_torch(2, *options, self.folder / "lanes", "--lanes", 2, "--threads", 2, train=[long, short])
        self.assertEqual(found, lanes)
        self.assertEqual(found[1], 2 * 60)  # rank 0 uses at most 250 of its 15000 samples in each step
        rows, others = ((self.folder / name / "metrics.csv").read_text().splitlines() for name in ("fifos", "lanes"))
        self.assertEqual(rows, others)
        self.assertEqual(rows[0], "step,epoch,loss")
        numbers = [[float(text) for text in row.split(",")] for row in rows[1:]]
        self.assertEqual([row[:2] for row in numbers], [[i, i // 60] for i in range(120)])
        losses = [loss for _, _, loss in numbers]
        self.assertLess(sum(losses[-20:]), 0.9 * sum(losses[:20]))

    def test_a_job_with_a_fifo_continues_exactly(self):
        options = ("--fifo", "--format", "libsvm", "--shuffle", 300)
        right = self.clicks / "train-000.libsvm"
        whole = self.train_torch(1, *options, train=[self.feed("whole", right)])
        saving = (*options, "--checkpoint-dir", self.folder / "run", "--checkpoint-every", 3)
        lines = right.read_text().splitlines()
        lines[4000] = "2" + lines[4000][1:]
        wrong = self.folder / "wrong.libsvm"
        wrong.write_text("\n".join(lines))
        # The checkpoint's options contain the name of the FIFO. Therefore both writers use the same name.
        (self.folder / "first").mkdir()
        done = self.torch_job(1, *saving, train=[self.feed("first/clicks", wrong)])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the label is 2", done.stderr)
        (self.folder / "second").mkdir()
        done = self.torch_job(1, *saving, train=[self.feed("second/clicks", right)])
        self.assertEqual(done.returncode, 0, done.stderr)
        first = int(re.search(r"continuing at step (\d+)", done.stdout)[1])
        self.assertGreater(first, 0)
        self.assertLess(first, whole[1])
        self.assertIn(f"AUC {whole[0]} after {whole[1]} steps", done.stdout)

    def test_test_files_that_are_refused(self):
        empty, ones = self.folder / "empty.libsvm", self.folder / "ones.libsvm"
        empty.write_text("")
        lines = (self.clicks / "test-000.libsvm").read_text().splitlines(keepends=True)
        ones.write_text("".join(line for line in lines if line.startswith("1")))
        self.refused_as_empty(1, "--test has no samples; give files that are not empty", test=empty)
        self.refused_as_empty(
            1, "--test has no sample with the label 1, or none with 0, so that there is no AUC", test=ones
        )
        # A file of another format is noticed before the training.
        done = self.torch_job(1, "--format", "libsvm", test=self.clicks / "test-000.tfrecord")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("test-000.tfrecord", done.stderr)
        self.assertNotIn("AUC", done.stdout)

    def test_fifos_that_are_refused(self):
        for ranks, options, words in (
            (1, ("--fifo", "--epochs", 2), "'a' has no {epoch}"),
            (2, ("--fifo",), "a multiple of this number of FIFOs"),
        ):
            with self.subTest(words=words):
                done = self.torch_job(ranks, *options, train=["a"])
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
