# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests training with gradients that are compressed between two hosts. Both hosts are this machine under two names."""

import unittest

from digits_job import MPIRUN, DigitsTest, direct, losses, plain_mpirun, rows


def two_hosts(processes, program):
    """Returns the command that starts half of the processes on each host (`mpirun a : b`)."""
    half = processes // 2
    first = [*plain_mpirun(half, []), "-x", "RUEDA_HOSTNAME=a", *program]
    return [*first, ":", "-np", str(half), "-x", "RUEDA_HOSTNAME=b", *program]


@unittest.skipUnless(MPIRUN, "there is no mpirun here")
class Compression(DigitsTest):
    def trained(self, compression, launch=two_hosts):
        run = f"{launch.__name__}-{compression}"
        self.train(launch, 4, run, "--compression", compression)
        return losses(self.path(run)), float(rows(self.path(run))[-1]["accuracy"])

    def test_the_training_converges_with_each(self):
        plain, accuracy = self.trained("none")
        self.assertGreater(accuracy, 0.95)
        for compression, digits in (("fp16", 2**-11), ("bf16", 2**-8)):
            with self.subTest(compression=compression):
                curve, reached = self.trained(compression)
                print(f"accuracy {accuracy} without, {reached} with {compression}")
                self.assertLessEqual(abs(reached - accuracy), 0.01)
                self.assertLess(curve[-1], 0.1 * curve[0])
                # The first loss is computed before any exchange of gradients, so it must be the same as without
                # compression. The next losses must differ from those without compression: this shows that the gradients
                # were compressed. But the differences must not be larger than rounding to 16 bits can cause.
                self.assertEqual(curve[0], plain[0])
                self.assertNotEqual(curve[1:10], plain[1:10])
                for step in range(1, 5):
                    self.assertLess(abs(curve[step] - plain[step]), 10 * digits * plain[step], f"step {step}")

    def test_the_bits_are_those_of_the_run_before(self):
        self.train(two_hosts, 4, "first", "--epochs", "2", "--compression", "bf16")
        self.train(two_hosts, 4, "second", "--epochs", "2", "--compression", "bf16")
        self.same_files("first", "second")

    def test_on_one_host_nothing_is_compressed(self):
        plain, _ = self.trained("none", direct)
        same, _ = self.trained("fp16", direct)
        self.assertEqual(same, plain)

    def test_another_compression_is_another_training(self):
        self.train(direct, 2, "run", "--epochs", "1", "--compression", "fp16")
        self.refused(direct(2, self.program("run", "--epochs", "2", "--resume")), "compression 'fp16'", "'none'")
        self.refused(direct(2, self.program("run", "--compression", "fp8")), "--compression", "fp8")


if __name__ == "__main__":
    unittest.main(verbosity=2)
