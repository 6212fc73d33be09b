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

    def run_cpp(self, ranks: int, layout: str) -> str:
        command = [
            os.environ["RUEDARUN"],
            "--no-mpi",
            "-np",
            ranks,
            os.environ["CHECKPOINT_EXCHANGE"],
            self.folder,
            layout,
        ]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def exchange(self, ranks: int, layout: str):
        weight = np.arange(6, dtype=np.float32).reshape(3, 2)
        model = {"layer.weight": weight, "layer.count": np.array(7)}
        state = {"optimizer": Optimizer([0.25, 1.5, 1e300]), "rate": np.array([0.1, 0.2], np.float32)}
        manager = training.CheckpointManager(self.folder, max_to_keep=10)
        self.assertTrue(manager.save(41, model, state, values={"epoch": "3 ä"}, metric=1 / 3))
        self.assertIsNone(manager.last_failure())
        del manager  # ends the claim of this process, so that the C++ job may save

        printed = self.run_cpp(ranks, layout)
        self.assertIn("value epoch 3 ä\n", printed)
        self.assertIn(f"step 41 size 1 metric {(1 / 3).hex()}\n", printed)

        found = {"layer.weight": np.zeros((3, 2), np.float32), "layer.count": np.array(0)}
        moment = np.zeros(3)
        manager = training.CheckpointManager(self.folder, max_to_keep=10)
        # A C++ program has no nested state, so the tensors have their full names.
        restored = manager.restore(found, {"optimizer.state.0.moment": moment})
        self.assertEqual((restored.step, restored.size, restored.metric), (42, ranks, 0.1))
        self.assertEqual(restored.values, {"writer": "C++"})
        np.testing.assert_array_equal(found["layer.weight"], weight + 1)
        self.assertEqual(found["layer.count"], 8)
        np.testing.assert_array_equal(moment, [1.25, 2.5, 1e300])
        np.testing.assert_array_equal(restored.state["rate"], np.array([0.1, 0.2], np.float32) + np.float32(1))

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
        second.wait()  # otherwise it would still write while the folder is removed

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
