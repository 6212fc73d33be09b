# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests that Python and C++ restore each other's checkpoints. CHECKPOINT_EXCHANGE names the C++ program
tests/training/checkpoint_exchange.cpp, and RUEDARUN the launcher."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import rueda
from rueda import training


def setUpModule():
    rueda.init()


class Optimizer:
    """Has a state like an optimizer of PyTorch, with numbers as keys."""

    def __init__(self, moment):
        self.moment = np.array(moment)

    def state_dict(self):
        return {"state": {0: {"moment": self.moment}}, "groups": [{"rate": 0.5, "betas": (0.9, 0.999)}]}

    def load_state_dict(self, state):
        self.moment = state["state"][0]["moment"]


class Exchange(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rueda-exchange-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name, "run")

    def run_ranks(self, ranks: int, *program: object) -> subprocess.CompletedProcess:
        command = [os.environ["RUEDARUN"], "--no-mpi", "-np", ranks, *program]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=100)

    def run_cpp(self, ranks: int, layout: str) -> str:
        done = self.run_ranks(ranks, os.environ["CHECKPOINT_EXCHANGE"], self.folder, layout)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def exchange(self, ranks: int, layout: str):
        weight = np.arange(6, dtype=np.float32).reshape(3, 2)
        model = {"layer.weight": weight, "layer.count": np.array(7)}
        state = {"optimizer": Optimizer([0.25, 1.5, 1e300]), "rate": np.array([0.1, 0.2], np.float32)}
        manager = training.CheckpointManager(self.folder, max_to_keep=10)
        facts = {"values": {"epoch": "3 ä"}, "metric": 1 / 3}
        if layout == "parts":
            self.assertTrue(manager.save_parts(41, training.split_rows(model), state, **facts))
        else:
            self.assertTrue(manager.save(41, model, state, **facts))
        self.assertIsNone(manager.last_failure())
        del manager  # ends this process's claim of the folder, so that the C++ job may save there

        printed = self.run_cpp(ranks, layout)
        self.assertIn("value epoch 3 ä\n", printed)
        self.assertIn(f"step 41 size 1 metric {(1 / 3).hex()}\n", printed)

        found = {"layer.weight": np.zeros((3, 2), np.float32), "layer.count": np.array(0)}
        moment = np.zeros(3)
        manager = training.CheckpointManager(self.folder, max_to_keep=10)
        # The state from a C++ program is not nested: the tensor has its full name, optimizer.state.0.moment.
        restored = manager.restore(found, {"optimizer.state.0.moment": moment})
        self.assertEqual((restored.step, restored.size, restored.metric), (42, ranks, 0.1))
        self.assertEqual(restored.values, {"writer": "C++"})
        np.testing.assert_array_equal(found["layer.weight"], weight + 1)
        self.assertEqual(found["layer.count"], 8)
        np.testing.assert_array_equal(moment, [1.25, 2.5, 1e300])
        np.testing.assert_array_equal(restored.state["rate"], np.array([0.1, 0.2], np.float32) + np.float32(1))

        row = np.zeros((1, 2), np.float32)
        manager.restore_parts({"layer.weight": training.TensorPart(row, range(1, 2), 3)})
        np.testing.assert_array_equal(row, weight[1:2] + 1)

        (self.folder / "save-000002-step-42" / "state.safetensors").unlink()
        optimizer = Optimizer([0, 0, 0])
        self.assertEqual(manager.restore(found, {"optimizer": optimizer}).step, 41)
        np.testing.assert_array_equal(optimizer.moment, [0.25, 1.5, 1e300])

    def test_whole(self):
        self.exchange(1, "whole")

    def test_whole_with_two_ranks(self):
        self.exchange(2, "whole")

    def test_parts_of_two_ranks(self):
        self.exchange(2, "parts")

    def test_parts_of_two_python_ranks(self):
        program = f"""
import numpy as np
import rueda
from rueda import training
rueda.init()
model = {{"layer.weight": np.arange(6, dtype=np.float32).reshape(3, 2), "layer.count": np.array(7)}}
state = {{"optimizer": {{"state": {{0: {{"moment": np.arange(3.0)}}}}}}, "rate": np.ones(2, np.float32)}}
manager = training.CheckpointManager({str(self.folder)!r})
assert manager.save_parts(41, training.split_rows(model), state)
assert manager.last_failure() is None
"""
        done = self.run_ranks(2, sys.executable, "-c", program)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(list(self.folder.glob("save-000001-step-41/part-*-of-2.safetensors"))), 2)
        self.assertIn("step 41 size 2 metric ", self.run_cpp(3, "parts"))
        found = {"layer.weight": np.zeros((3, 2), np.float32), "layer.count": np.array(0)}
        restored = training.CheckpointManager(self.folder).restore(found)
        self.assertEqual((restored.step, restored.size), (42, 3))
        np.testing.assert_array_equal(found["layer.weight"], [[1, 2], [3, 4], [5, 6]])
        self.assertEqual(found["layer.count"], 8)

    def run_parts(self, mode: str) -> subprocess.CompletedProcess:
        """Two ranks restore and save parts. ``mode`` says what happens while rank 1 writes its second part."""
        program = f"""
import os, signal, sys, threading, time
import numpy as np
import rueda
from rueda import training
from rueda.training import _checkpoints
rueda.init()
manager = training.CheckpointManager({str(self.folder)!r})
table = np.arange(8.0)
part = training.split_rows({{"table": table}})
info = manager.restore_parts(part)
print("restored", info and info.step, *part["table"].tensor, flush=True)
if info is None:
    manager.save_parts(1, part)
    manager.wait()
    rueda.barrier()
mode = sys.argv[1]
def write(path, *_):
    while not os.listdir(path):  # until rank 0's thread has begun
        time.sleep(0.01)
    with open(path + b"/part-1-of-2.safetensors.unfinished", "w") as file:
        file.write("half of")
    if mode in ("killed", "handled"):
        os.kill(os.getpid(), signal.SIGKILL)
    while os.path.exists(path):  # until rank 0 gives up
        time.sleep(0.01)
if mode != "well" and rueda.rank() == 1:
    _checkpoints._native.checkpoint_write_part = write
left, own_write = threading.Event(), _checkpoints._native.checkpoint_write_part
def write_late(path, *arguments):
    open(path + b"/begun", "w").close()
    left.wait()
    own_write(path, *arguments)
if mode == "handled" and rueda.rank() == 0:
    _checkpoints._native.checkpoint_write_part = write_late
table += 100
manager.save_parts(2, part)
if mode == "raises" and rueda.rank() == 0:
    raise ValueError("the loss is infinite")
if mode == "handled" and rueda.rank() == 0:
    try:
        rueda.barrier()
    except rueda.Aborted:
        rueda.shutdown()
        left.set()
        sys.exit(3)
manager.wait()
rueda.barrier()
print("kept", *(each.step for each in manager.checkpoints()), flush=True)
"""
        return self.run_ranks(2, sys.executable, "-c", program, mode)

    def test_a_job_that_fails_while_a_rank_writes_its_part(self):
        for mode, restored in (
            ("killed", "restored None 0.0 "),
            ("raises", "restored 1 0.0 "),
            ("handled", "restored 1 0.0 "),
        ):
            done = self.run_parts(mode)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(restored, done.stdout)
            self.assertNotIn("kept", done.stdout)
            # Rank 0 knows that the job ends, so it does not wait for rank 1's part until part_timeout has passed.
            text = (
                "step 2 was not saved: the job ends, and the part of rank 1 is missing; the newest complete checkpoint"
            )
            self.assertIn(text, done.stderr)
            self.assertNotIn("still runs; sending SIGTERM", done.stderr)
        done = self.run_parts("well")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("restored 1 0.0 1.0 2.0 3.0\n", done.stdout)
        self.assertIn("restored 1 4.0 5.0 6.0 7.0\n", done.stdout)
        self.assertIn("kept 2 1\n", done.stdout)
        self.assertEqual(len(list(self.folder.glob("save-*"))), 2)

    def test_a_folder_of_another_job_is_refused(self):
        program = f"""
import rueda
from rueda import training
rueda.init()
manager = training.CheckpointManager({str(self.folder)!r})
manager.claim()
print("claimed", flush=True)
input()
"""
        manager = training.CheckpointManager(self.folder)
        other = subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with other:
            self.addCleanup(other.kill)
            self.assertEqual(other.stdout.readline(), "claimed\n")
            for attempt in (lambda: manager.save(1, {}), manager.claim):
                with self.assertRaisesRegex(
                    rueda.InvalidArgument, rf"another job uses this folder \(process {other.pid} on host "
                ):
                    attempt()
            other.kill()
        self.assertTrue(manager.save(1, {"w": np.zeros(1)}))
        self.assertIsNone(manager.last_failure())
        second = training.CheckpointManager(self.folder)  # in the same process
        self.assertTrue(second.save(2, {"w": np.zeros(1)}))
        # Without this wait, the manager's thread could still write while the folder is removed.
        second.wait()

    def test_other_programs_read_the_model(self):
        try:
            from safetensors.numpy import load_file
        except ImportError as missing:
            self.skipTest(f"{missing}")
        model = {"weight": np.arange(6, dtype=np.float32).reshape(3, 2)}
        manager = training.CheckpointManager(self.folder)
        manager.save(1, model)
        manager.wait()
        loaded = load_file(self.folder / "save-000001-step-1" / "model.safetensors")
        self.assertEqual(list(loaded), ["weight"])
        np.testing.assert_array_equal(loaded["weight"], model["weight"])


if __name__ == "__main__":
    unittest.main()
