# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A rank is killed: every other one gets an error that names it, from every kind of call; nothing hangs or crashes."""

import os
import pathlib
import re
import subprocess
import sys
import unittest


class KilledRank(unittest.TestCase):
    def test_every_survivor_learns_of_it(self):
        program = pathlib.Path(__file__).with_name("faulty_rank.py")
        command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "3", sys.executable, "-B", str(program)]
        job = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        self.assertNotEqual(job.returncode, 0)
        said = dict(re.findall(r"<(\d): ([^>]*)>", job.stdout))
        right = "; ".join(["named"] * 5 + ["in time"])
        self.assertEqual(said, {"0": right, "1": right}, job.stdout + job.stderr)


if __name__ == "__main__":
    unittest.main()
