# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests rueda.torch.training: learning rates of PyTorch's optimizers, clipping of gradients, and checkpoints of
PyTorch tensors that are saved in parts."""

import ast
import inspect
import math
import os
import re
import shutil
import tempfile
import unittest
from unittest import mock

import rueda
import rueda.torch as hvd
import rueda.torch.training
import torch
from rueda import training


def setUpModule():
    hvd.init()


def optimizer_with(*rates):
    groups = [{"params": [torch.nn.Parameter(torch.zeros(1))], "lr": rate} for rate in rates]
    return torch.optim.SGD(groups, lr=1.0)


class Interface(unittest.TestCase):
    def test_everything_has_an_example(self):
        for name in rueda.torch.training.__all__:
            document = inspect.getdoc(getattr(rueda.torch.training, name)) or ""
            blocks = re.findall(r"Example::\n\n((?:    .*\n?|\n)+)", document)
            self.assertGreater(len(blocks), 0, name)
            for block in blocks:
                ast.parse("def example():\n" + block)


class Schedulers(unittest.TestCase):
    RATE = training.LearningRate(
        0.1, "linear", workers=4, warmup_steps=3, schedule=training.CosineDecay(10, floor=0.25)
    )

    def test_every_step_has_the_rate_of_the_policy(self):
        optimizer = optimizer_with(0.1, 0.2)
        scheduler = rueda.torch.training.LearningRateScheduler(optimizer, self.RATE)
        for step in range(12):
            self.assertEqual(optimizer.param_groups[0]["lr"], self.RATE.at(step))
            self.assertEqual(optimizer.param_groups[1]["lr"], self.RATE.at(step) * 2)
            optimizer.step()
            scheduler.step()

    def test_a_resumed_scheduler_goes_on(self):
        optimizer = optimizer_with(0.1)
        scheduler = rueda.torch.training.LearningRateScheduler(optimizer, self.RATE)
        for _ in range(5):
            optimizer.step()
            scheduler.step()
        state, rates = scheduler.state_dict(), optimizer.state_dict()
        self.assertNotIn("_rate", state)
        optimizer = optimizer_with(0.1)
        scheduler = rueda.torch.training.LearningRateScheduler(optimizer, self.RATE)
        optimizer.load_state_dict(rates)
        scheduler.load_state_dict(state)
        self.assertEqual(optimizer.param_groups[0]["lr"], self.RATE.at(5))
        optimizer.step()
        scheduler.step()
        self.assertEqual(optimizer.param_groups[0]["lr"], self.RATE.at(6))

    def test_a_plateau_lowers_it_further(self):
        plateau = training.Plateau(factor=0.5, patience=0)
        optimizer = optimizer_with(0.1)
        scheduler = rueda.torch.training.LearningRateScheduler(optimizer, self.RATE, plateau)
        plateau.observe(1.0)
        plateau.observe(1.0)
        optimizer.step()
        scheduler.step()
        self.assertEqual(optimizer.param_groups[0]["lr"], self.RATE.at(1) * 0.5)

    def test_the_distributed_optimizer_is_an_optimizer(self):
        model = torch.nn.Linear(2, 1)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters()
        )
        scheduler = rueda.torch.training.LearningRateScheduler(optimizer, self.RATE)
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        scheduler.step()
        self.assertEqual(optimizer.param_groups[0]["lr"], self.RATE.at(1))

    def test_another_rate_than_the_base_is_refused(self):
        # If the optimizer's rate was already multiplied by the number of workers, the scheduler would multiply it
        # again.
        for rates, found in (((0.4,), "0.4"), ((0.2, 0.05), "0.05, 0.2")):
            optimizer = optimizer_with(*rates)
            with self.assertRaisesRegex(rueda.InvalidArgument, rf"is 0.1, but the optimizer has the .* {found}; give"):
                rueda.torch.training.LearningRateScheduler(optimizer, self.RATE)
            self.assertEqual([group["lr"] for group in optimizer.param_groups], list(rates))

    def test_arguments_of_other_types_are_refused(self):
        for arguments, words in ((("linear",), "rate is 'linear'"), ((self.RATE, 0.5), "plateau is 0.5")):
            with self.assertRaisesRegex(rueda.InvalidArgument, words):
                rueda.torch.training.LearningRateScheduler(optimizer_with(0.1), *arguments)


class Threads(unittest.TestCase):
    def test_pytorch_gets_this_ranks_share_of_the_cores(self):
        before = torch.get_num_threads()
        self.addCleanup(torch.set_num_threads, before)
        with mock.patch.dict(os.environ):
            os.environ.pop("OMP_NUM_THREADS", None)
            os.environ.pop("MKL_NUM_THREADS", None)
            torch.set_num_threads(os.cpu_count())  # PyTorch's own number
            cores = training.use_cores(lambda line: None)
            self.assertEqual(torch.get_num_threads(), rueda.threads_per_rank())
            self.assertEqual(cores.threads, rueda.threads_per_rank())
            self.assertIn(cores.interop_threads, (None, torch.get_num_interop_threads()))
            torch.set_num_threads(7)
            os.environ.pop("OMP_NUM_THREADS", None)
            training.use_cores(lambda line: None)
            self.assertEqual(torch.get_num_threads(), 7)
            os.environ["OMP_NUM_THREADS"] = "7"
            self.assertTrue(training.use_cores(lambda line: None).is_set_by_user)
            self.assertEqual(torch.get_num_threads(), 7)


class Metrics(unittest.TestCase):
    def test_numbers_that_numpy_does_not_have(self):
        scores = torch.tensor([0.25, 0.5], dtype=torch.bfloat16, requires_grad=True)
        mean, auc = training.Mean(), training.Auc()
        mean.add(scores)
        auc.add(scores, torch.tensor([False, True]))
        self.assertEqual((mean.compute(), auc.compute()), (0.375, 1.0))


class CheckpointParts(unittest.TestCase):
    def test_all_dtypes_and_layouts_keep_their_bits(self):
        folder = rueda.broadcast_object(tempfile.mkdtemp(prefix="rueda-parts-") if rueda.rank() == 0 else None)
        try:
            manager = training.CheckpointManager(folder)
            names = "uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 bool".split()
            model = {name: torch.arange(15).reshape(5, 3).to(getattr(torch, name)) for name in names}
            model["transposed"] = torch.arange(15.0).reshape(3, 5).t()
            model["parameter"] = torch.nn.Parameter(torch.arange(7.0))
            model["scalar"] = torch.tensor(2.5)
            manager.save_parts(1, training.split_rows(model), {"bits": torch.tensor([1.5], dtype=torch.bfloat16)})
            self.assertIsNone(manager.last_failure())
            rueda.barrier()
            whole = {name: torch.zeros_like(tensor) for name, tensor in model.items()}
            whole["parameter"] = torch.nn.Parameter(torch.zeros(7))
            rows = {name: torch.zeros_like(tensor) for name, tensor in model.items()}
            rows["parameter"] = torch.nn.Parameter(torch.zeros(7))
            manager.restore(whole)
            parts = training.split_rows(rows)
            info = manager.restore_parts(parts)
            self.assertEqual((info.state["bits"].dtype, info.state["bits"].item()), (torch.bfloat16, 1.5))
            for name, tensor in model.items():
                self.assertTrue(torch.equal(whole[name], tensor), name)
            for name, part in parts.items():
                expected = model[name][part.rows.start : part.rows.stop] if model[name].dim() > 0 else model[name]
                self.assertTrue(torch.equal(part.tensor, expected), name)
        finally:
            rueda.barrier()
            if rueda.rank() == 0:
                shutil.rmtree(folder)


class Clipping(unittest.TestCase):
    def test_the_norm_is_that_of_pytorch(self):
        torch.manual_seed(3)
        parameters = [torch.nn.Parameter(torch.zeros(5, 4)), torch.nn.Parameter(torch.zeros(7))]
        ours = [torch.randn(5, 4), torch.randn(7)]
        for parameter, gradient in zip(parameters, ours):
            parameter.grad = gradient.clone()
        unused = torch.nn.Parameter(torch.zeros(2))
        norm = rueda.torch.training.clip_grad_norm_([*parameters, unused], 1.0)
        found = [parameter.grad for parameter in parameters]
        for parameter, gradient in zip(parameters, ours):
            parameter.grad = gradient.clone()
        self.assertAlmostEqual(norm, torch.nn.utils.clip_grad_norm_(parameters, 1.0).item(), places=5)
        for ours, parameter in zip(found, parameters):
            torch.testing.assert_close(ours, parameter.grad)

    def test_across_ranks_that_have_other_parameters(self):
        mine = torch.nn.Parameter(torch.zeros(3))
        mine.grad = torch.full((3,), hvd.rank() + 1.0)
        norm = rueda.torch.training.clip_grad_norm_(mine, 1.0, sharded=True)
        self.assertAlmostEqual(norm, math.sqrt(3 * sum((rank + 1) ** 2 for rank in range(hvd.size()))), places=12)
        torch.testing.assert_close(mine.grad, torch.full((3,), (hvd.rank() + 1) / norm))

    def test_what_is_not_finite_is_refused(self):
        mine = torch.nn.Parameter(torch.zeros(1))
        mine.grad = torch.tensor([math.nan])
        with self.assertRaisesRegex(rueda.InvalidArgument, "their norm is nan"):
            rueda.torch.training.clip_grad_norm_([mine], 1.0)
        self.assertEqual(rueda.torch.training.clip_grad_norm_([], 1.0), 0.0)


if __name__ == "__main__":
    unittest.main()
