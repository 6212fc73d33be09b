# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests how ruedarun divides the GPUs of a host among its ranks, and what rueda doctor says about GPUs. A stand-in for
NVML, the library of NVIDIA's driver, is found through LD_LIBRARY_PATH. No GPU is needed.

Usage: ruedarun_gpus_test.py RUEDARUN RUEDA FOLDER_OF_STAND_INS [unittest's arguments].
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support" / "hosts"))
import hosts as test_hosts  # noqa: E402

RUEDARUN = RUEDA = FAKES = ""
TIMEOUT = 60
SHOW = ["sh", "-c", "echo ${CUDA_VISIBLE_DEVICES-all} ${RUEDA_GPUS_PER_RANK-0} ${RUEDA_SHARE_GPU-0}"]


class GpuTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rueda-gpus-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.list = self.folder / "gpus"

    def environment(self, gpus, **more):
        names = ("RUEDA_", "HOROVOD_", "SLURM_", "CUDA_", "OMPI_", "PMIX_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(names)}
        self.list.write_text("0 0 1024\n" * gpus if isinstance(gpus, int) else gpus)
        folders = [FAKES, *filter(None, [kept.get("LD_LIBRARY_PATH")])]
        return {**kept, "LD_LIBRARY_PATH": ":".join(folders), "FAKE_NVML": str(self.list), **more}

    def run_it(self, *words, gpus=4, program=None, **more):
        return subprocess.run(
            [program or RUEDARUN, *map(str, words)],
            env=self.environment(gpus, **more),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )

    def shown(self, *options, **more):
        """Returns the lines of the ranks, in the order of the ranks."""
        done = self.run_it(*options, *SHOW, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line.split("] ", 1)[-1] for line in sorted(done.stdout.splitlines())]


class Ways(GpuTest):
    def ways(self):
        yield ["--no-mpi"]
        if shutil.which("mpirun"):
            yield []

    def test_each_rank_gets_its_gpus(self):
        for way in self.ways():
            with self.subTest(way=way):
                self.assertEqual(self.shown(*way, "-np", 2), ["all 0 0"] * 2)
                self.assertEqual(self.shown(*way, "-np", 2, "--gpus-per-rank", 1), ["0 1 0", "1 1 0"])
                self.assertEqual(self.shown(*way, "-np", 2, "--gpus-per-rank=2"), ["0,1 2 0", "2,3 2 0"])

    def test_the_gpus_that_the_shell_shows_are_divided(self):
        for way in self.ways():
            with self.subTest(way=way):
                given = {"CUDA_VISIBLE_DEVICES": "3,GPU-1"}
                self.assertEqual(self.shown(*way, "-np", 2, "--gpus-per-rank", 1, **given), ["3 1 0", "GPU-1 1 0"])
                by_option = self.shown(*way, "-np", 2, "--gpus-per-rank", 1, "-x", "CUDA_VISIBLE_DEVICES=2,1", **given)
                self.assertEqual(by_option, ["2 1 0", "1 1 0"])

    def test_too_few_gpus_are_an_error_before_any_rank_starts(self):
        for way in self.ways():
            with self.subTest(way=way):
                done = self.run_it(*way, "-np", 3, "--gpus-per-rank", 1, "touch", "started", gpus=2)
                self.assertEqual(done.returncode, 2)
                self.assertRegex(
                    done.stderr,
                    r"^ruedarun: there are 3 ranks with 1 GPU each on host '.*' but 2 GPUs; start at most 2 ranks there "
                    r".*\n$",
                )
                self.assertFalse((self.folder / "started").exists())
                shared = self.shown(*way, "-np", 3, "--gpus-per-rank", 1, "--share-gpu", gpus=2)
                self.assertEqual(shared, ["0 1 1", "0 1 1", "1 1 1"])
                self.assertEqual(self.shown(*way, "-np", 2, "--share-gpu"), ["all 0 1"] * 2)

    def test_a_host_without_gpus(self):
        done = self.run_it("--no-mpi", "-np", 2, "--gpus-per-rank", 1, "true", gpus=0)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^ruedarun: this process finds no NVIDIA GPU on host '")

    def test_dry_run_shows_the_gpus(self):
        done = self.run_it("--no-mpi", "-np", 2, "--gpus-per-rank", 1, "--dry-run", "true")
        self.assertIn(" CUDA_VISIBLE_DEVICES=1 ", done.stdout.splitlines()[1])
        done = self.run_it("--no-mpi", "-np", 2, "--gpus-per-rank", 2, "--explain", "true")
        self.assertIn("# CUDA_VISIBLE_DEVICES: 2 GPUs for each rank, of 4 GPUs\n", done.stdout)

    def test_a_pasted_command_divides_the_gpus_too(self):
        if not shutil.which("mpirun"):
            self.skipTest("there is no mpirun")
        done = self.run_it("-np", 2, "--gpus-per-rank", 1, "--dry-run", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES >$RANK")
        self.assertIn("# rank 1 gets CUDA_VISIBLE_DEVICES=1\n", done.stdout)
        pasted = subprocess.run(
            ["sh", "-c", done.stdout],
            env=self.environment(4),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        self.assertEqual(pasted.returncode, 0, pasted.stderr)
        self.assertEqual([(self.folder / rank).read_text() for rank in "01"], ["0\n", "1\n"])

    def test_an_inner_job_does_not_inherit_the_number(self):
        self.assertEqual(self.shown("--no-mpi", "-np", 1, RUEDA_GPUS_PER_RANK="1"), ["all 0 0"])

    def test_wrong_numbers(self):
        for value in ("0", "-1", "x", "257"):
            done = self.run_it("-np", 2, "--gpus-per-rank", value, "true")
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, r"--gpus-per-rank.* expected a number of GPUs from 1 to 256")

    def test_under_srun_the_option_has_no_effect(self):
        step = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1"}
        task = {"SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
        done = self.run_it("--gpus-per-rank", 1, "--share-gpu", *SHOW, **step, **task)
        self.assertEqual((done.returncode, done.stdout), (0, "all 0 1\n"), done.stderr)
        self.assertIn("--gpus-per-rank (srun --gpus-per-task does it)", done.stderr)


class Doctor(GpuTest):
    def test_the_doctor_lists_the_gpus(self):
        cuda = self.folder / "cuda"
        mark = self.folder / "mark"
        (cuda / "lib64").mkdir(parents=True)
        (cuda / "lib64" / "libnccl.so.2.28.9").write_text("")
        (cuda / "lib64" / "libnccl.so.2").symlink_to("libnccl.so.2.28.9")
        done = self.run_it(
            "doctor",
            "-np",
            3,
            program=RUEDA,
            gpus="0 0 85899345920\n0 0 1024 #Other GPU\n",
            CUDA_HOME=str(cuda),
            FAKE_CUDA_MARK=str(mark),
        )
        self.assertIn(done.returncode, (1, 2), done.stderr)
        uuid = "0000000-0000-0000-0000-000000000000"
        self.assertIn(f"ok       GPU 0: Fake GPU, 80 GiB, GPU-0{uuid}, 00000000:00:00.0\n", done.stdout)
        self.assertIn(f"ok       GPU 1: Other GPU, 1 KiB, GPU-1{uuid}, 00000000:01:00.0\n", done.stdout)
        self.assertIn(f"ok       GPU driver: 580.95.05, {FAKES}/libcuda.so.1\n", done.stdout)
        self.assertRegex(done.stdout, r"ok       NCCL: \S+, .*/libnccl.so.2\n")
        self.assertRegex(done.stdout, r"warning  order of the GPUs: ")
        self.assertRegex(done.stdout, r"warning  ranks and GPUs: 3 ranks for 2 GPUs: ")
        self.assertFalse(mark.exists(), "the doctor has loaded libcuda")

    def test_without_gpus(self):
        done = self.run_it("doctor", program=RUEDA, gpus=0)
        self.assertIn("ok       GPUs: no NVIDIA GPU that this user may open\n", done.stdout)
        self.assertNotIn("NCCL", done.stdout)


class SeveralHosts(GpuTest):
    """Runs ruedarun on the first of two test hosts."""

    @classmethod
    def setUpClass(cls):
        reason = None if shutil.which("mpirun") else "there is no mpirun"
        reason = reason or test_hosts.why_not()
        if reason:
            raise unittest.SkipTest(reason)
        cls.hosts = test_hosts.Hosts(2)
        cls.addClassCleanup(cls.hosts.close)

    def run_it(self, *words, gpus=(2, 4), **more):
        env = self.environment(0, **more)
        for host, number in enumerate(gpus):
            (self.folder / f"gpus.rueda-h{host}").write_text("0 0 1024\n" * number)
        process = self.hosts.popen(
            0,
            [RUEDARUN, "-x", "FAKE_NVML", *map(str, words)],
            env=env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        out, err = process.communicate(timeout=TIMEOUT)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def test_each_host_divides_its_own_gpus(self):
        # CUDA_VISIBLE_DEVICES describes the GPUs of this host, so ruedarun does not send it to other hosts.
        self.assertEqual(
            self.shown("-H", "rueda-h0:1,rueda-h1:2", "--gpus-per-rank", 1, CUDA_VISIBLE_DEVICES="1"),
            ["1 1 0", "0 1 0", "1 1 0"],
        )

    def test_a_host_with_too_few_gpus_stops_the_job_before_it_starts(self):
        done = self.run_it("-H", "rueda-h0:2,rueda-h1:2", "--gpus-per-rank", 1, "touch", "started", gpus=(2, 1))
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(
            done.stderr,
            r"rank 2 .*there are 2 ranks with 1 GPU each on host 'rueda-h1' but 1 GPU; start at most 1 rank ",
        )
        self.assertFalse((self.folder / "started").exists())


if __name__ == "__main__":
    RUEDARUN, RUEDA, FAKES = sys.argv[1:4]
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
