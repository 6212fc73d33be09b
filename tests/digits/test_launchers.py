# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests that the processes compute the same bits with every launcher, and that they print an error only once."""

import unittest

from digits_job import MPIRUN, DigitsTest, alone, direct, over_mpirun, plain_mpirun


@unittest.skipUnless(MPIRUN, "there is no mpirun here")
class Launchers(DigitsTest):
    def test_every_launcher_gives_the_same_bits(self):
        self.train(direct, 2, "direct", "--epochs", "2")
        for launch in (over_mpirun, plain_mpirun):
            with self.subTest(launcher=launch.__name__):
                output = self.train(launch, 2, launch.__name__, "--epochs", "2")
                self.assertEqual(output.count("accuracy 0.") + output.count("accuracy 1."), 3)
                self.same_files("direct", launch.__name__)

    def test_alone_is_one_process_of_a_launcher(self):
        self.train(alone, 1, "alone", "--epochs", "1")
        self.train(plain_mpirun, 1, "mpirun", "--epochs", "1")
        self.same_files("alone", "mpirun")

    def test_wrong_input_is_one_line_and_status_2(self):
        for launch in (over_mpirun, plain_mpirun):
            with self.subTest(launcher=launch.__name__):
                self.refused(
                    launch(2, self.program("run", "--lr-policy", "fast")), "'fast'", "none, linear, sqrt, capped"
                )

    def test_output_into_a_pipe_is_plain(self):
        self.assertNotIn("\x1b", self.train(plain_mpirun, 2, "run", "--epochs", "1"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
