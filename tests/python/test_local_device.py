# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests that a Python rank creates no CUDA context when it asks for its GPU. The ranks find a stand-in for NVML, and one
for CUDA that writes a file when it is loaded. tests/core/local_device has more tests, with ranks in C++.

Usage: test_local_device.py RUEDARUN FOLDER_OF_STAND_INS MODULE [unittest's arguments]. MODULE is rueda or rueda.torch.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

RUEDARUN = FAKES = MODULE = ""
RANK = pathlib.Path(__file__).resolve().parent / "local_device_rank.py"


class LocalDevice(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rueda-device-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.mark = self.folder / "cuda"

    def lines(self, *arguments):
        """Returns what two ranks print on a host with two GPUs."""
        (self.folder / "gpus").write_text("0 0 1024\n" * 2)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RUEDA_", "CUDA_", "SLURM_"))}
        environment = {
            **kept,
            "LD_LIBRARY_PATH": ":".join([FAKES, *filter(None, [kept.get("LD_LIBRARY_PATH")])]),
            "FAKE_NVML": str(self.folder / "gpus"),
            "FAKE_CUDA_MARK": str(self.mark),
        }
        command = [RUEDARUN, "--no-mpi", "-np", "2", sys.executable, "-B", str(RANK), MODULE, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return sorted(line.split("] ", 1)[-1] for line in done.stdout.splitlines())

    def test_no_rank_loads_cuda(self):
        self.assertEqual(self.lines(), ["device 0, without libcuda", "device 1, without libcuda"])
        self.assertFalse(self.mark.exists(), "a rank has loaded libcuda")

    def test_a_rank_that_uses_cuda_would_be_noticed(self):
        self.assertEqual(self.lines("use-cuda"), ["device 0, with libcuda", "device 1, with libcuda"])
        self.assertIn("cuInit", self.mark.read_text())


if __name__ == "__main__":
    RUEDARUN, FAKES, MODULE = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
