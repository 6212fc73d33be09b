# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A rank of an elastic job dies, and a replacement takes its place. The final weights must equal those without the failure.
The surviving rank's process continues, and its os.environ shows its new rank."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import torch

TRAINING = pathlib.Path(__file__).with_name("elastic_training.py")


class ElasticJobs(unittest.TestCase):
    def run_job(self, out, *failing, elastic=True, commits=""):
        command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "2"]
        if elastic:
            command += ["--min-np", "2", "--blacklist-cooldown-range", "0.01", "1"]
        command += [sys.executable, "-B", str(TRAINING), str(out), *map(str, failing)]
        environment = {**os.environ, "RUEDA_ELASTIC_DIR": str(commits)} if commits else None
        return subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment)

    def check_weights(self, one, other):
        for a, b in zip(torch.load(one), torch.load(other), strict=True):
            self.assertTrue(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b)

    def test_the_same_weights(self):
        with tempfile.TemporaryDirectory() as made:
            place = pathlib.Path(made)
            whole = self.run_job(place / "whole.pt")
            self.assertEqual(whole.returncode, 0, whole.stderr)
            failed = self.run_job(place / "failed.pt", 8, 0)  # rank 0 dies, and the survivor becomes rank 0
            self.assertEqual(failed.returncode, 0, failed.stderr)
            self.assertIn("the job goes on with 2 ranks (generation 1)", failed.stderr)
            self.check_weights(place / "failed.pt", place / "whole.pt")
            lines = re.findall(r"process (\d+) is rank (\d) in generation (\d) \(RANK=(\d)\)", failed.stdout)
            processes = {(generation, rank): process for process, rank, generation, _ in lines}
            self.assertEqual(processes["1", "0"], processes["0", "1"])
            self.assertNotIn(processes["1", "1"], (processes["0", "0"], processes["0", "1"]))
            self.assertTrue(all(rank == shown for _, rank, _, shown in lines), lines)

            self.check_stored_commit(place)

    def check_stored_commit(self, place):
        """A job continues from the commit of an earlier job. It must do so even if a rank dies before all ranks have
        received the commit."""
        ended = self.run_job(place / "none.pt", 8, 0, elastic=False, commits=place / "commits")
        self.assertNotEqual(ended.returncode, 0)
        (place / "commits").stat()
        resumed = self.run_job(place / "resumed.pt", -1, 0, commits=place / "commits")
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertIn("the job goes on with 2 ranks (generation 1)", resumed.stderr)
        self.assertRegex(resumed.stderr, r"going on from commit \d+ in ")
        self.check_weights(place / "resumed.pt", place / "whole.pt")


if __name__ == "__main__":
    unittest.main()
