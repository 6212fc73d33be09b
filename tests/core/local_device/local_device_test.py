# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests which GPU the ranks of a job use, on a machine without GPUs. The ranks find a stand-in for NVML, the library of
NVIDIA's driver, and one for CUDA, through LD_LIBRARY_PATH.

Usage: local_device_test.py RUEDARUN DEVICE_RANK FOLDER_OF_STAND_INS [unittest's arguments].
"""

import ctypes
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

RUEDARUN = DEVICE_RANK = FAKES = ""
TIMEOUT = 60


class LocalDevice(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rueda-device-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.mark = self.folder / "cuda"

    def environment(self, gpus, **more):
        names = ("RUEDA_", "HOROVOD_", "SLURM_", "CUDA_", "OMPI_", "PMIX_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(names)}
        (self.folder / "gpus").write_text("0 0 1024\n" * gpus)
        folders = [FAKES, *filter(None, [kept.get("LD_LIBRARY_PATH")])]
        return {
            **kept,
            "LD_LIBRARY_PATH": ":".join(folders),
            "FAKE_NVML": str(self.folder / "gpus"),
            "FAKE_CUDA_MARK": str(self.mark),
            **more,
        }

    def start(self, ranks, *options, gpus=2, program=(), **more):
        return subprocess.run(
            [RUEDARUN, "--no-mpi", "-np", str(ranks), *options, *(program or [DEVICE_RANK])],
            env=self.environment(gpus, **more),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )

    def lines(self, ranks, *options, **more):
        """Returns what each rank found. Checks that no rank has loaded CUDA."""
        done = self.start(ranks, *options, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = sorted(done.stdout.splitlines())
        for line in found:
            self.assertTrue(line.endswith(" | libnvidia-ml.so"), line)
        self.assertFalse(self.mark.exists(), "a process has loaded libcuda")
        return [line.split("] ", 1)[-1].removesuffix(" | libnvidia-ml.so") for line in found]

    def test_a_device_for_each_rank_without_loading_cuda(self):
        self.assertEqual(self.lines(2), ["device 0", "device 1"])

    def test_the_stand_in_for_cuda_would_be_noticed(self):
        os.environ["FAKE_CUDA_MARK"] = str(self.mark)
        self.addCleanup(os.environ.pop, "FAKE_CUDA_MARK")
        ctypes.CDLL(f"{FAKES}/libcuda.so.1").cuInit(0)
        self.assertEqual(self.mark.read_text(), "loaded\ncuInit\n")

    def test_too_many_ranks(self):
        for line in self.lines(3):
            self.assertRegex(
                line,
                r"^InvalidArgument: local_device: there are 3 ranks on host '.*' but 2 GPUs; start at most 2 ranks ",
            )
        self.assertEqual(self.lines(3, "--share-gpu"), ["device 0", "device 0", "device 1"])
        self.assertEqual(self.lines(3, RUEDA_SHARE_GPU="1"), ["device 0", "device 0", "device 1"])

    def test_no_gpu(self):
        for line in self.lines(2, gpus=0):
            self.assertRegex(line, r"^Unsupported: local_device: this process finds no NVIDIA GPU on host '")
        for line in self.lines(2, CUDA_VISIBLE_DEVICES=""):
            self.assertRegex(
                line, r"^Unsupported: .* none of the 2 GPUs on host '.*', because CUDA_VISIBLE_DEVICES is ''"
            )

    def test_gpus_of_each_rank(self):
        self.assertEqual(self.lines(2, "--gpus-per-rank", "2", gpus=4), ["device 0", "device 0"])
        script = ["sh", "-c", f'CUDA_VISIBLE_DEVICES=$LOCAL_RANK exec "{DEVICE_RANK}"']
        self.assertEqual(self.lines(3, program=script, gpus=4), ["device 0"] * 3)
        reversed_order = ["sh", "-c", f'CUDA_VISIBLE_DEVICES=$((2 - LOCAL_RANK)) exec "{DEVICE_RANK}"']
        self.assertEqual(self.lines(3, "-x", "RUEDA_GPUS_PER_RANK=1", program=reversed_order, gpus=4), ["device 0"] * 3)


if __name__ == "__main__":
    RUEDARUN, DEVICE_RANK, FAKES = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
