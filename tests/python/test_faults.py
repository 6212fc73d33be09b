# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A rank is killed: every other one gets Aborted, in each way of waiting, and the job ends."""

import os
import pathlib
import re
import subprocess
import sys
import unittest


class KilledRank(unittest.TestCase):
    def test_every_survivor_learns_of_it(self):
        program = pathlib.Path(__file__).with_name("faulty_rank.py")
        command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "4", sys.executable, "-B", str(program)]
        job = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(job.returncode, 0)
        said = dict(re.findall(r"<(\d): ([^>]*)>", job.stdout))
        right = "; ".join(["Aborted, naming rank 1"] * 3 + ["in time"])
        self.assertEqual(said, {rank: right for rank in ("0", "2", "3")}, job.stdout + job.stderr)


if __name__ == "__main__":
    unittest.main()
