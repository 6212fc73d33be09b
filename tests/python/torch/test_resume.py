# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Kills ranks of a training job with SIGKILL at random steps, starts the job again, and compares its losses bit by bit
with those of a job that was not interrupted. RESUME_SEED sets the seed of the random steps."""

import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

import rueda
import torch
from rueda import training

RUEDARUN = os.environ["RUEDARUN"]
TRAINER = pathlib.Path(__file__).with_name("resumed_training.py")
STEPS = 40
SEED = int(os.environ.get("RESUME_SEED") or random.randrange(1 << 30))


class Resume(unittest.TestCase):
    def setUp(self):
        print(f"RESUME_SEED={SEED}", flush=True)
        self.random = random.Random(SEED)
        folder = tempfile.TemporaryDirectory(prefix="rueda-resume-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_job(self, name: str, ranks: int, *killed) -> tuple[int, int, list[tuple[int, str]]]:
        """Runs the job until it ends or is killed. Returns the exit status, the first step, and the loss of each
        step. Afterwards, self.rows has the input rows of each step."""
        losses = self.folder / f"{name}.losses"
        losses.unlink(missing_ok=True)
        job = [sys.executable, "-B", TRAINER, self.folder / name, losses, STEPS, *killed]
        command = [str(word) for word in (RUEDARUN, "--no-mpi", "-np", ranks, *job)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        output = done.stdout + done.stderr
        begin = re.search(r"begins at step (\d+)", output)
        self.assertIsNotNone(begin, output)
        self.assertNotIn("left out", output)
        lines = [line.split() for line in losses.read_text().splitlines()] if losses.exists() else []
        self.rows = {int(step): taken for step, _, taken in lines}
        return done.returncode, int(begin[1]), [(int(step), loss) for step, loss, _ in lines]

    def test_the_losses_of_a_job_that_was_killed_have_the_same_bits(self):
        ranks = 2
        status, first, expected = self.run_job("whole", ranks)
        self.assertEqual((status, first, [step for step, _ in expected]), (0, 0, list(range(STEPS))))
        whole = dict(expected)
        first_losses, last_losses = (
            [float.fromhex(loss) for _, loss in part] for part in (expected[:5], expected[-5:])
        )
        self.assertLess(sum(last_losses), 0.8 * sum(first_losses))

        step = 0
        for kill in range(2):
            rank = self.random.randrange(ranks)
            # The job starts again at the step of the last kill or earlier, so it will reach the step chosen here.
            step = self.random.randrange(step, STEPS - 1)
            when = self.random.choice(["forward", "backward", "step"])
            with self.subTest(kill=kill, rank=rank, step=step, when=when):
                status, first, losses = self.run_job("killed", ranks, rank, step, when)
                self.assertNotEqual(status, 0)
                self.check(losses, whole, first)
        status, first, losses = self.run_job("killed", ranks)
        self.assertEqual(status, 0)
        self.assertEqual(len(losses), STEPS - first)
        self.check(losses, whole, first)

    def check(self, losses, whole, first):
        for step, loss in losses:
            self.assertGreaterEqual(step, first)
            self.assertEqual(loss, whole[step], f"step {step}")

    def test_another_number_of_ranks_continues_in_the_middle_of_an_epoch(self):
        _, _, losses = self.run_job("ranks", 2, 0, 23, "forward")
        self.assertEqual(losses[-1][0], 22)
        rows = self.rows
        status, first, losses = self.run_job("ranks", 1)
        self.assertEqual((status, len(losses)), (0, STEPS - first))
        # The second job repeats the steps from the checkpoint to the kill, and must read the same rows. The checkpoint
        # is at step 20 or earlier. Step 20 has the last batch of the third epoch.
        self.assertTrue(0 < first <= 20, first)
        for step in range(first, 23):
            self.assertEqual(self.rows[step], rows[step], f"step {step}")


class States(unittest.TestCase):
    """Tests that checkpoints keep the state of PyTorch's objects. These tests need only one process."""

    def setUp(self):
        rueda.init()
        folder = tempfile.TemporaryDirectory(prefix="rueda-states-")
        self.addCleanup(folder.cleanup)
        self.manager = training.CheckpointManager(folder.name)

    def test_all_dtypes_and_layouts_keep_their_bits(self):
        names = "uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 bool".split()
        model = {name: torch.arange(6).reshape(2, 3).to(getattr(torch, name)) for name in names}
        model["transposed"] = torch.arange(6.0).reshape(2, 3).t()
        model["parameter"] = torch.nn.Parameter(torch.ones(2))
        model["scalar"] = torch.tensor(2.5)
        self.manager.save(1, model, {"bits": torch.tensor([1.5], dtype=torch.bfloat16)})
        self.assertIsNone(self.manager.last_failure())
        found = {name: torch.zeros_like(tensor) for name, tensor in model.items()}
        found["transposed"] = torch.zeros(2, 3).t()
        found["parameter"] = torch.nn.Parameter(torch.zeros(2))
        info = self.manager.restore(found)
        for name, tensor in model.items():
            self.assertTrue(torch.equal(found[name], tensor), name)
        self.assertEqual(info.state["bits"].dtype, torch.bfloat16)
        self.assertEqual(info.state["bits"].item(), 1.5)

    def test_every_optimizer_continues_with_its_state(self):
        for make in (
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
            lambda p: torch.optim.Adam(p, lr=0.1, amsgrad=True),
            lambda p: torch.optim.Adagrad(p, lr=0.1),
            lambda p: torch.optim.RMSprop(p, lr=0.1),
            lambda p: torch.optim.LBFGS(p, lr=0.1),
        ):

            def train(model, optimizer, steps):
                def closure():
                    optimizer.zero_grad()
                    loss = model(torch.ones(4, 3)).square().sum()
                    loss.backward()
                    return loss

                for _ in range(steps):
                    optimizer.step(closure)

            model = torch.nn.Linear(3, 2)
            optimizer = make(model.parameters())
            train(model, optimizer, 3)
            self.manager.save(3, model, {"optimizer": optimizer})
            self.manager.wait()
            train(model, optimizer, 2)

            resumed = torch.nn.Linear(3, 2)
            resumed_optimizer = make(resumed.parameters())
            self.manager.restore(resumed, {"optimizer": resumed_optimizer})
            train(resumed, resumed_optimizer, 2)
            for ours, theirs in zip(resumed.parameters(), model.parameters()):
                self.assertTrue(torch.equal(ours, theirs), type(optimizer).__name__)

    def test_another_default_device_changes_nothing(self):
        if not hasattr(torch, "set_default_device"):
            self.skipTest("this PyTorch has no default device")
        model = {"w": torch.arange(3.0).reshape(3, 1).t()}
        self.manager.save(1, model, {"x": torch.ones(2)})
        self.assertIsNone(self.manager.last_failure())
        torch.set_default_device("meta")
        try:
            info = self.manager.restore(model)
        finally:
            torch.set_default_device("cpu")
        self.assertEqual(info.state["x"].tolist(), [1, 1])

    def test_random_numbers_continue(self):
        model = {"w": torch.zeros(1)}
        self.manager.save(1, model, {"random": training.RandomState()})
        self.manager.wait()
        drawn = torch.rand(3)
        self.manager.restore(model, {"random": training.RandomState()})
        self.assertTrue(torch.equal(torch.rand(3), drawn))


if __name__ == "__main__":
    unittest.main()
