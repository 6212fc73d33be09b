# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Kills a rank during a training. Every other rank must get an error that names this rank, and no rank may hang."""

import os
import pathlib
import re
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

    def test_a_stall_ends_every_wait(self):
        """Horovod's interface has no timeouts. A setting must end the waits, and the error must name the tensor and the
        missing rank."""
        program = pathlib.Path(__file__).with_name("stalled_rank.py")
        command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "2", "--grace", "1", sys.executable, "-B", str(program)]
        settings = {"RUEDA_STALL_CHECK_TIME_SECONDS": "1", "RUEDA_STALL_SHUTDOWN_TIME_SECONDS": "2"}
        ran = subprocess.run(command, capture_output=True, text=True, timeout=150, env={**os.environ, **settings})
        self.assertNotEqual(ran.returncode, 0)
        said = dict(re.findall(r"<(\w+): ([^>]*)>", ran.stdout))
        self.assertEqual(sorted(said), ["await", "step", "synchronize"], ran.stdout + ran.stderr)
        for name, text in said.items():
            with self.subTest(wait=name):
                self.assertRegex(
                    text,
                    "^Aborted: .*tensor '[^']*' has waited for rank 1 for .*, more than RUEDA_STALL_SHUTDOWN_TIME_SECONDS",
                )


if __name__ == "__main__":
    unittest.main()
