# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A rank is killed in the middle of a training. Every other rank gets an error that names this rank, and no rank
hangs.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).with_name("dying_rank.py")


class Faults(unittest.TestCase):
    def test_every_survivor_is_told(self):
        for where in ("before the backward pass", "before the step", "in collectives"):
            with self.subTest(where=where), tempfile.TemporaryDirectory() as folder:
                command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "3", "--grace", "20", sys.executable, "-B"]
                ran = subprocess.run(
                    [*command, str(PROGRAM), folder, where], capture_output=True, text=True, timeout=100
                )
                self.assertEqual(ran.returncode, 128 + 9, ran.stderr)
                for rank in (0, 2):
                    seconds, _, said = (pathlib.Path(folder) / str(rank)).read_text().partition(" ")
                    self.assertRegex(said, "^Aborted: .*rank 1 .*killed by signal 9")
                    self.assertLess(float(seconds), 15)
                self.assertFalse((pathlib.Path(folder) / "1").exists())


if __name__ == "__main__":
    unittest.main()
