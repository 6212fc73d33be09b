# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests that the training of the example digits has the same loss curve on a GPU as on the CPU. DIGITS_RANKS has the
numbers of ranks, and DIGITS_SHARE_GPU=1 says that all ranks use one GPU."""

import os
import unittest

from digits_job import DigitsTest, direct, losses, rows

RANKS = [int(number) for number in os.environ.get("DIGITS_RANKS", "1").split(",")]
OPTIONS = ("--epochs", os.environ.get("DIGITS_EPOCHS", "2"))


def on_gpu(processes, program):
    command = direct(processes, program)
    if os.environ.get("DIGITS_SHARE_GPU") == "1":
        command[1:1] = ["--share-gpu"]
    return command


class Devices(DigitsTest):
    def compare(self, run, other):
        """Compares two runs. The GPU adds numbers in another order than the CPU. So the losses differ by rounding
        errors, which grow with each step."""
        for step, (loss, expected) in enumerate(zip(losses(self.path(run)), losses(self.path(other)))):
            self.assertLess(abs(loss - expected), 1e-3 * expected + 1e-4 * (step + 1), f"step {step}")
        accuracy, expected = (float(rows(self.path(name))[-1]["accuracy"]) for name in (run, other))
        self.assertLessEqual(abs(accuracy - expected), 0.02)
        print(f"{run}: accuracy {accuracy:.4f}, on the CPU {expected:.4f}")

    def test_the_curve_is_that_of_the_cpu(self):
        for ranks in RANKS:
            with self.subTest(ranks=ranks):
                self.train(direct, ranks, f"cpu{ranks}", *OPTIONS)
                self.train(on_gpu, ranks, f"cuda{ranks}", *OPTIONS, "--device", "cuda")
                self.compare(f"cuda{ranks}", f"cpu{ranks}")

    def test_a_checkpoint_of_the_cpu_continues_on_a_gpu(self):
        self.train(direct, 1, "cpu", "--epochs", "2")
        self.train(direct, 1, "run", "--epochs", "1")
        self.train(on_gpu, 1, "run", "--epochs", "2", "--resume", "--device", "cuda")
        self.compare("run", "cpu")

    def test_a_share_without_images_changes_nothing(self):
        # The last batch has fewer images than there are ranks.
        options = ("--epochs", "1", "--batch", "3", "--lr", "0.001")
        self.train(direct, 1, "cpu", *options)
        self.train(on_gpu, max(RANKS), "cuda", *options, "--device", "cuda")
        self.compare("cuda", "cpu")


class Missing(DigitsTest):
    def test_other_devices_are_refused(self):
        self.refused(self.program("run", "--device", "tpu"), "--device", "tpu")


if __name__ == "__main__":
    unittest.main(verbosity=2)
