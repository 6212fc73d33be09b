# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests of JobSummary, use_cores, and of the two functions behind them: blocked_seconds and threads_per_rank."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import weakref
from unittest import mock

import numpy as np
import rueda
from rueda import training
from rueda.training import _cores


def setUpModule():
    rueda.init()


def shared_folder() -> str:
    return rueda.broadcast_object(tempfile.mkdtemp(prefix="rueda-summary-") if rueda.rank() == 0 else None)


class Blocked(unittest.TestCase):
    def test_the_time_in_which_a_rank_waits_counts(self):
        """Rank 0 is late until the other ranks were blocked for 0.2 s. A rank of a busy machine may itself be late, so
        several rounds may be needed."""
        if rueda.size() == 1:
            self.skipTest("one rank waits for no other rank")
        before = rueda.blocked_seconds()
        for _ in range(600):
            if rueda.rank() == 0:
                time.sleep(0.1)
            handle = rueda.allreduce_async(np.ones(1), "late")
            handle.wait()
            blocked = rueda.blocked_seconds() - before
            mine = np.array([1e9 if rueda.rank() == 0 else blocked])
            if rueda.allreduce(mine, "least", rueda.Min)[0] >= 0.2:
                break
        else:
            self.fail("a minute of waiting was not counted")

    def test_the_time_stays_when_the_process_joins_another_job(self):
        before = rueda.blocked_seconds()
        rueda.shutdown()
        rueda.init()
        self.assertGreaterEqual(rueda.blocked_seconds(), before)

    def test_an_operation_beside_the_program_does_not_count(self):
        handle = rueda.allreduce_async(np.ones(1), "beside")
        while not handle.poll():
            time.sleep(0.001)
        before = rueda.blocked_seconds()
        handle.wait()
        self.assertEqual(rueda.blocked_seconds(), before)


class Summary(unittest.TestCase):
    def setUp(self):
        self.folder = shared_folder()
        self.addCleanup(self.remove)

    def remove(self):
        rueda.barrier()
        if rueda.rank() == 0:
            shutil.rmtree(self.folder, ignore_errors=True)

    def test_a_job_with_checkpoints(self):
        summary = training.JobSummary()
        manager = training.CheckpointManager(f"{self.folder}/saves")
        taken = []

        def batches():
            for number in range(3):
                if number == 1:
                    time.sleep(0.05)
                yield number

        for number in summary.data(batches()):
            taken.append(number)
            summary.step(10 * (rueda.rank() + 1))
        with summary.waiting_for_data():
            time.sleep(0.05)
        manager.save(3, {"weights": np.ones(3, np.float32)})
        said = []
        file = pathlib.Path(self.folder, "summary.json")
        report = summary.finish(checkpoints=manager, json_file=file, say=said.append)
        rueda.barrier()
        size = rueda.size()
        self.assertEqual((taken, report.steps, report.samples), ([0, 1, 2], 3, 30 * size * (size + 1) // 2))
        self.assertEqual([rank.samples for rank in report.ranks], [30 * (rank + 1) for rank in range(size)])
        self.assertAlmostEqual(report.samples_per_second * report.seconds, report.samples, places=6)
        for rank in report.ranks:
            self.assertGreaterEqual(rank.waiting_for_data, 0.1)
            self.assertLessEqual(rank.waiting_for_data + rank.in_communication, rank.seconds)
        if rueda.rank() != 0:
            self.assertEqual((said, report.checkpoint), ([], None))
            return
        self.assertEqual(said, [report.text()])
        self.assertEqual(json.loads(file.read_text()), report.as_dict())
        self.assertEqual((report.checkpoint["step"], report.checkpoint_failure), (3, None))
        self.assertEqual(str(pathlib.Path(report.checkpoint["folder"]).parent), f"{self.folder}/saves")
        self.assertGreaterEqual(report.checkpoint["age_seconds"], 0)
        self.assertLess(report.checkpoint["age_seconds"], 600)
        self.assertRegex(said[0], r"\ncheckpoints: the last one is of step 3, saved \d+\.\d s before the end: ")

    def test_a_short_job_waited_for_no_rank(self):
        for seconds, awaited in ((0.99, None), (1.0, 1)):
            ranks = [training.RankReport("a", seconds, 1, 1, blocked, 0.0) for blocked in (0.5, 0.1)]
            report = training.JobReport(ranks, False)
            self.assertEqual(report.awaited_rank, awaited)
            self.assertEqual("they waited for rank 1" in report.text(), awaited == 1)

    def test_samples_of_other_types_are_written(self):
        summary = training.JobSummary()
        summary.step(np.ones(3, bool).sum())
        summary.step(np.array(2))
        with self.assertRaises(TypeError):
            summary.step(1.5)
        with self.assertRaisesRegex(rueda.InvalidArgument, "a step has -5 samples"):
            summary.step(-5)
        file = pathlib.Path(self.folder, "summary.json")
        summary.finish(json_file=file, say=lambda text: None)
        if rueda.rank() == 0:
            written = json.loads(file.read_text())
            self.assertEqual((written["steps"], written["samples"]), (2, 5 * rueda.size()))

    def test_data_keeps_no_batch(self):
        class Item:
            pass

        alive = []

        def batches():
            for _number in range(3):
                item = Item()
                alive.append(weakref.ref(item))
                yield item
                del item
                self.assertIsNone(alive[-1]())  # neither the consumer nor the summary holds the item any more

        for batch in training.JobSummary().data(batches()):
            del batch
        self.assertEqual(len(alive), 3)

    def test_checkpoints_that_cannot_be_listed(self):
        manager = training.CheckpointManager(f"{self.folder}/saves")
        said = []
        with mock.patch.object(manager, "checkpoints", side_effect=rueda.InvalidArgument("no permission")):
            report = training.JobSummary().finish(checkpoints=manager, say=said.append)
        if rueda.rank() == 0:
            self.assertEqual(report.checkpoint_failure, "the last one is unknown: no permission")
            self.assertEqual(said[0].splitlines()[-1], "checkpoints: the last one is unknown: no permission")

    def test_a_file_that_cannot_be_written_is_a_warning(self):
        summary = training.JobSummary()
        file = pathlib.Path(self.folder, "none", "summary.json")
        if rueda.rank() == 0:
            with self.assertLogs("rueda.training", "WARNING") as logs:
                report = summary.finish(json_file=file, say=lambda text: None)
            self.assertIn("The summary of the job was not written: [Errno 2]", logs.output[0])
        else:
            report = summary.finish(json_file=file)
        self.assertEqual((report.steps, report.samples, report.has_checkpoints), (0, 0, False))


class Threads(unittest.TestCase):
    PROGRAM = (
        "import rueda, rueda.training as t, os\nrueda.init()\nc = t.use_cores(lambda line: None)\n"
        "print(c.is_set_by_user, c.threads, os.environ['OMP_NUM_THREADS'])\n"
    )

    def setUp(self):
        patch = mock.patch.dict(os.environ)
        patch.start()
        self.addCleanup(patch.stop)
        os.environ.pop("OMP_NUM_THREADS", None)
        os.environ.pop("KMP_BLOCKTIME", None)

    def test_the_ranks_share_the_cores(self):
        threads = rueda.threads_per_rank()
        self.assertGreaterEqual(threads, 1)
        self.assertLessEqual(threads, len(os.sched_getaffinity(0)))
        self.assertLessEqual(threads, max(1, os.cpu_count() // rueda.local_size()))
        said = []
        cores = training.use_cores(said.append)
        self.assertEqual((cores.threads, cores.is_set_by_user), (threads, False))
        self.assertEqual(os.environ["OMP_NUM_THREADS"], str(threads))
        self.assertEqual(os.environ.get("KMP_BLOCKTIME"), "1" if threads > 1 else None)
        self.assertEqual(said, [cores.summary] if rueda.rank() == 0 else [])
        self.assertRegex(
            cores.summary, rf"^cores: {threads} threads? on each rank, because {rueda.local_size()} ranks? "
        )
        again = training.use_cores(said.append)
        self.assertFalse(again.is_set_by_user)

    def test_a_number_of_pytorch_that_the_program_has_chosen_stays(self):
        threads = rueda.threads_per_rank()
        usable = len(os.sched_getaffinity(0))
        for before, mkl, kept in ((usable, "", False), (4096, "", True), (usable, "1", True)):
            with self.subTest(before=before, mkl=mkl):
                os.environ.update(OMP_NUM_THREADS="", MKL_NUM_THREADS=mkl)
                torch = mock.Mock()
                torch.get_num_threads.return_value = before
                torch.get_num_interop_threads.return_value = 4096
                with mock.patch.dict(sys.modules, torch=torch):
                    cores = training.use_cores(lambda line: None)
                self.assertEqual(torch.set_num_threads.call_args_list, [] if kept else [mock.call(threads)])
                self.assertEqual(cores.threads, before if kept else threads)
                self.assertEqual("PyTorch keeps" in cores.summary, kept)
                self.assertEqual(os.environ["OMP_NUM_THREADS"], str(threads))

    def test_the_users_number_stays(self):
        for value, threads in (("3", 3), ("4,2", 4), (" 5 , 2", 5)):
            os.environ["OMP_NUM_THREADS"] = value
            cores = training.use_cores(lambda line: None)
            self.assertEqual((cores.threads, cores.is_set_by_user), (threads, True))
            self.assertEqual(os.environ["OMP_NUM_THREADS"], value)
            self.assertEqual(cores.summary, f"cores: OMP_NUM_THREADS={value} stays as it is")

    def test_a_value_that_is_no_number_is_replaced_and_named(self):
        threads = rueda.threads_per_rank()
        for value in ("abc", "0", "-1", ",2", "1.5"):
            with self.subTest(value=value):
                os.environ["OMP_NUM_THREADS"] = value
                cores = training.use_cores(lambda line: None)
                self.assertEqual((cores.threads, cores.is_set_by_user), (threads, False))
                self.assertEqual(os.environ["OMP_NUM_THREADS"], str(threads))
                self.assertIn(f"; OMP_NUM_THREADS={value} had no effect, because it is no number", cores.summary)

    def alone(self, shell: str, **variables: str) -> str:
        """Runs the program in a job of its own, as a child of a shell that was started with these variables."""
        ours = ("RUEDA_", "OMPI_", "PMIX_", "PMI_")
        around = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        done = subprocess.run(
            ["sh", "-c", f'{shell} "$@"; exit $?', "sh", sys.executable, "-c", self.PROGRAM],
            env={**around, **variables},
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_a_1_of_torchrun_is_not_the_users(self):
        if rueda.rank() != 0:
            self.skipTest("one rank is enough")
        cores = len(os.sched_getaffinity(0))
        words = self.alone("OMP_NUM_THREADS=1 TORCHELASTIC_RUN_ID=none").split()
        self.assertEqual((words[0], words[1]), ("False", words[2]))
        self.assertLessEqual(int(words[1]), cores)
        self.assertEqual(self.alone("TORCHELASTIC_RUN_ID=none", OMP_NUM_THREADS="1"), "True 1 1")
        self.assertEqual(self.alone("OMP_NUM_THREADS=1"), "True 1 1")  # no torchrun
        self.assertEqual(self.alone("OMP_NUM_THREADS=3 TORCHELASTIC_RUN_ID=none"), "True 3 3")

    def test_a_parent_whose_environment_cannot_be_read(self):
        os.environ.update(OMP_NUM_THREADS="1", TORCHELASTIC_RUN_ID="none")
        with mock.patch("builtins.open", side_effect=PermissionError):
            self.assertFalse(_cores._is_of_torchrun("1"))

    def test_a_mask_of_one_core(self):
        if rueda.rank() != 0:
            self.skipTest("one rank is enough")
        first = min(os.sched_getaffinity(0))
        self.assertEqual(self.alone(f"taskset -c {first}"), "False 1 1")


if __name__ == "__main__":
    unittest.main()
