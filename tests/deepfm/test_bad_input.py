# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Gives deepfm bad input. The program must print one line about the input and end with the right exit status. The
jobs have two ranks, so that a test also notices if one rank waits for the other rank for ever.
"""

import re
import unittest

from deepfm_job import DEEPFM, FEATURES, RUEDARUN, DeepFmTest, run


class WrongData(DeepFmTest):
    def refused_line(self, change, *words):
        """Changes one line in the middle of the training data, and checks that deepfm refuses it."""
        lines = (self.clicks / "train-000.libsvm").read_text().splitlines()
        lines[2500] = change(lines[2500])
        path = self.folder / "train.libsvm"
        path.write_text("\n".join(lines))
        self.refused(self.job(2, train=[path]), *words)

    def test_each_error_is_named(self):
        for change, words in (
            (lambda line: "2" + line[1:], ("the label is 2", "must be 0 or 1")),
            (lambda line: line.rpartition(" ")[0], ("38 pairs", "39 were expected")),
            (lambda line: line.replace(" 1:0", f" {FEATURES + 1}:0"), (f"the id is {FEATURES}", "--features")),
            (lambda line: line.replace(" 1:0", " 0:0"), ("record 2500", "the index 0", "at least 1")),
            (lambda line: "one" + line, ("train.libsvm", "record 2500", "a label")),
        ):
            with self.subTest(words=words):
                self.refused_line(change, *words)

    def test_a_value_that_is_not_finite(self):
        self.refused_line(lambda line: re.sub(r" 1:[0-9.]+", " 1:inf", line), "finite")

    def test_an_error_with_several_replicas(self):
        path = self.folder / "train.libsvm"
        path.write_text("2" + (self.clicks / "train-000.libsvm").read_text()[1:])
        self.refused(self.job(2, "--replicas", 2, train=[path]), "the label is 2")

    def test_missing_files(self):
        self.refused(self.job(2, train=[self.folder / "none-*"]), "none-*")
        self.refused(self.job(2, test=self.folder / "none"), "none")
        (self.folder / "empty.libsvm").write_text("\n")
        self.refused(self.job(2, train=[self.folder / "empty.libsvm"]), "no samples")

    def test_test_samples_are_checked_before_the_training(self):
        # The training file has a wrong sample, too. If the training began before this check, the error would be about
        # that sample.
        wrong = self.folder / "train.libsvm"
        wrong.write_text("2" + (self.clicks / "train-000.libsvm").read_text()[1:])
        empty = self.folder / "empty.libsvm"
        empty.write_text("\n")
        right = self.clicks / "test-000.libsvm"
        for tests, words in (
            ([right, self.clicks / "test-000.tfrecord"], ("test-000.tfrecord", "record 0")),
            ([self.clicks / "test-000.tfrecord"], ("test-000.tfrecord", "record 0")),
            ([empty], ("--test has no samples",)),
        ):
            with self.subTest(tests=tests):
                job = self.job(2, "--format", "libsvm", train=[wrong], test=tests[0])
                self.refused([*job, "--test", *tests], *words)
        self.refused(self.job(1, train=[wrong], test=right), "the label is 2")

    def test_test_samples_of_one_label(self):
        lines = (self.clicks / "test-000.libsvm").read_text().splitlines()
        path = self.folder / "test.libsvm"
        path.write_text("\n".join(line for line in lines if line.startswith("1")))
        self.refused(self.job(2, test=path), "--test", "no AUC")


class WrongOptions(DeepFmTest):
    def test_each_is_named(self):
        for options, words in (
            (("--batch", 0), ("--batch",)),
            (("--batch", 1), ("batch",)),
            (("--replicas", 0), ("--replicas",)),
            (("--lr", "nan"), ("nan",)),
            (("--format", "csv"), ("csv", "tfrecord")),
            (("--library", "blas"), ("--library", "blas", "eigen", "onednn")),
            (("--library", "1"), ("--library", "eigen", "onednn")),
            (("--replicas", 2, "--batch", 3), ("--batch with 2 × 2 replicas", "3 samples", "the smallest is 4")),
            (("--replicas", 3, "--batch", 512), ("--batch with 2 × 3 replicas", "85 × 6 and 86 × 6")),
            (("--no-such-option",), ("--no-such-option",)),
            (("--fifo",), ("FIFO", "multiple")),
            (("--fifo", "--epochs", 2), ("--epochs 2", "{epoch}")),
            (("--fifo", "--lanes", 2), ("--lanes", "each FIFO is a lane")),
            (("--lanes", 5), ("lanes is 5", "4 sources")),
            (("--curve", "/proc/none/curve"), ("--curve", "/proc/none/curve")),
        ):
            with self.subTest(options=options):
                self.refused(self.job(2, *options), *words)

    def test_another_model_than_the_checkpoints(self):
        saving = ("--checkpoint-dir", self.folder / "run")
        self.train("first", 1, *saving)
        self.refused(self.job(2, *saving, "--lr", 0.5), "lr '0.05'", "'0.5'")
        self.refused(self.job(2, *saving, "--embedding", 4), "table")

    def test_a_learning_rate_that_is_too_large(self):
        self.refused(self.job(2, "--lr", 1e30), "not finite", "--lr")

    def test_help(self):
        done = run([RUEDARUN, "--no-mpi", "-np", 2, DEEPFM, "--help"])
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout.count("Examples:"), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
