# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests the state that must be equal on all ranks at the start: parameters, the state of every optimizer of
torch.optim, objects, and process sets."""

import collections
import copy
import inspect
import unittest

import rueda
import rueda.torch as hvd
import torch


def setUpModule():
    hvd.init(process_sets=[EVEN, hvd.ProcessSet([hvd_rank for hvd_rank in (1,)])] if SIZE > 1 else None)


def tearDownModule():
    hvd.shutdown()
    assert EVEN.process_set_id is None and EVEN.included() is None


rueda.init()
SIZE = rueda.size()
rueda.shutdown()
EVEN = hvd.ProcessSet(range(0, SIZE, 2))


def model_of(seed: int) -> torch.nn.Module:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))


def same(left, right) -> bool:
    """Compares state dicts: all values, and the types of values that are not tensors."""
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


class Parameters(unittest.TestCase):
    def test_everything_that_names_tensors(self):
        root = SIZE - 1
        right = model_of(root).state_dict()
        for of in (
            lambda model: model.state_dict(),
            lambda model: list(model.state_dict().items()),
            lambda model: list(model.state_dict().values()),
            lambda model: iter(model.state_dict().items()),
        ):
            model = model_of(hvd.rank())
            hvd.broadcast_parameters(of(model), root_rank=root)
            self.assertTrue(same(dict(model.state_dict()), dict(right)))

    def test_parameters_in_another_order_of_memory(self):
        mine = torch.nn.Parameter(
            torch.full((2, 3, 4, 5), float(hvd.rank())).contiguous(memory_format=torch.channels_last)
        )
        strides = mine.stride()
        transposed = torch.arange(6.0).reshape(2, 3).t() + hvd.rank()
        hvd.broadcast_parameters({"image": mine, "transposed": transposed}, 0)
        self.assertEqual(mine.stride(), strides)
        self.assertTrue((mine == 0).all())
        self.assertTrue(torch.equal(transposed, torch.arange(6.0).reshape(2, 3).t()))

    def test_a_tensor_that_one_rank_alone_cannot_send(self):
        unfit = SIZE - 1
        for odd in (
            torch.ones(2, device="meta"),
            torch.ones(2, dtype=torch.complex64),
            torch.eye(2).to_sparse(),
            torch.ones(3, 2, dtype=torch.complex64).t(),
        ):
            mine = {
                "first": torch.ones(2),
                "second": odd if hvd.rank() == unfit else torch.ones(2),
                "third": torch.ones(1),
            }
            with self.assertRaisesRegex(ValueError, "'second'"):
                hvd.broadcast_parameters(mine, 0)
        self.assertEqual(hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), SIZE)

    def test_bfloat16_and_bool(self):
        mine = {
            "half": torch.full((3,), float(hvd.rank()), dtype=torch.bfloat16),
            "mask": torch.tensor([hvd.rank() == 0]),
        }
        hvd.broadcast_parameters(mine, 0)
        self.assertTrue((mine["half"] == 0).all() and mine["mask"].item())


#: Arguments that some optimizers need, or that give some optimizers additional state.
SPECIAL = {"SGD": {"momentum": 0.9}, "RMSprop": {"momentum": 0.9, "centered": True}, "Adam": {"amsgrad": True}}
# This test leaves out optimizers that cannot train dense layers on the CPU, LBFGS (which Rueda does not accept), and
# Muon (which accepts only matrices).
LEFT_OUT = {"Optimizer", "SparseAdam", "LBFGS", "Muon"}


def optimizers():
    for name, kind in vars(torch.optim).items():
        if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer) and name not in LEFT_OUT:
            yield name, kind


def train(model, optimizer, steps, wrapped_step=None):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(5, 3)).square().sum().backward()
        optimizer.step()


class States(unittest.TestCase):
    def test_every_optimizer(self):
        for name, kind in optimizers():
            for trained in (0, 2):
                with self.subTest(name, trained=trained):
                    # Before the call, the root has made `trained` steps with one learning rate. The other ranks have
                    # another learning rate.
                    lr = 0.5 if hvd.rank() == 0 else 0.001
                    model = model_of(0)
                    optimizer = kind(model.parameters(), lr=lr, **SPECIAL.get(name, {}))
                    group = optimizer.param_groups[0]
                    train(model, optimizer, trained if hvd.rank() == 0 else 1)
                    hvd.broadcast_parameters(model.state_dict(), 0)
                    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
                    reference_model = model_of(0)
                    reference = kind(reference_model.parameters(), lr=0.5, **SPECIAL.get(name, {}))
                    train(reference_model, reference, trained)
                    self.assertTrue(same(optimizer.state_dict(), reference.state_dict()), name)
                    self.assertIs(optimizer.param_groups[0], group)
                    # Two more steps must also have equal results on all ranks.
                    train(model, optimizer, 2)
                    train(reference_model, reference, 2)
                    self.assertTrue(same(dict(model.state_dict()), dict(reference_model.state_dict())), name)

    def test_gradients_are_zeros_where_there_was_no_state(self):
        """Horovod makes a step with zero gradients to create the optimizer's state. Some programs then read .grad or
        add to it."""
        for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.SparseAdam):
            with self.subTest(kind.__name__):
                weight = torch.nn.Parameter(torch.ones(2, 3))
                frozen = torch.nn.Parameter(torch.ones(4), requires_grad=False)
                hvd.broadcast_optimizer_state(kind([weight, frozen], lr=0.1), 0)
                self.assertEqual(weight.grad.is_sparse, kind is torch.optim.SparseAdam)
                self.assertTrue(torch.equal(weight.grad.to_dense(), torch.zeros(2, 3)))
                self.assertFalse(weight.grad.requires_grad)
                self.assertIsNone(frozen.grad)

    def test_gradients_stay_where_there_was_a_state(self):
        model = model_of(0)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        train(model, optimizer, 1)
        before = [parameter.grad.clone() for parameter in model.parameters()]
        hvd.broadcast_optimizer_state(optimizer, 0)
        for parameter, gradient in zip(model.parameters(), before, strict=True):
            self.assertTrue(torch.equal(parameter.grad, gradient))

    def test_types_and_groups_survive(self):
        model = model_of(hvd.rank())
        first, _, second = model
        optimizer = torch.optim.SGD(
            [
                {"params": first.parameters(), "note": ("a", [hvd.rank()], {"b": None}), "lr": 1 + hvd.rank()},
                {"params": second.parameters(), "lr": torch.tensor(2.0 + hvd.rank())},
            ],
            lr=0.1,
        )
        hvd.broadcast_optimizer_state(optimizer, root_rank=SIZE - 1)
        first_group, second_group = optimizer.param_groups
        self.assertEqual(first_group["note"], ("a", [SIZE - 1], {"b": None}))
        self.assertEqual((first_group["lr"], type(first_group["lr"])), (SIZE, int))
        self.assertTrue(torch.equal(second_group["lr"], torch.tensor(1.0 + SIZE)))

    def test_schedulers_go_on_with_what_came(self):
        model = model_of(0)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0 if hvd.rank() == 0 else 0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        hvd.broadcast_optimizer_state(optimizer, 0)
        train(model, optimizer, 1)
        scheduler.step()
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.5)

    def test_what_is_refused(self):
        with self.assertRaisesRegex(ValueError, "LBFGS"):
            hvd.broadcast_optimizer_state(torch.optim.LBFGS(model_of(0).parameters()), 0)
        if SIZE > 1:
            parameters = list(model_of(0).parameters())
            optimizer = torch.optim.SGD(parameters[: 2 + hvd.rank()], lr=0.1)
            with self.assertRaisesRegex(rueda.Mismatch, "rank 1"):
                hvd.broadcast_optimizer_state(optimizer, 0)

    def test_a_state_that_the_root_cannot_send(self):
        parameter = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
        optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9)
        if hvd.rank() == 0:
            parameter.abs().sum().backward()
            optimizer.step()
        with self.assertRaisesRegex(ValueError, "not supported"):
            hvd.broadcast_optimizer_state(optimizer, 0)


class Objects(unittest.TestCase):
    def test_broadcast(self):
        for root in range(SIZE):
            thing = {
                "rank": hvd.rank(),
                "tensor": torch.full((3,), hvd.rank()),
                "ordered": collections.OrderedDict(a=1),
            }
            for name in (None, "thing"):
                got = hvd.broadcast_object(copy.copy(thing) if hvd.rank() == root else None, root, name)
                self.assertEqual((got["rank"], got["tensor"].tolist()), (root, [root] * 3))
                self.assertIsInstance(got["ordered"], collections.OrderedDict)

    def test_allgather(self):
        for name in (None, "thing"):
            got = hvd.allgather_object({"rank": hvd.rank(), "text": "x" * (1000 * hvd.rank())}, name)
            self.assertEqual(got, [{"rank": rank, "text": "x" * (1000 * rank)} for rank in range(SIZE)])

    def test_in_a_process_set(self):
        if SIZE > 1 and EVEN.included():
            self.assertEqual(hvd.broadcast_object(hvd.rank(), 0, process_set=EVEN), 0)


@unittest.skipIf(SIZE < 2, "takes several ranks")
class Sets(unittest.TestCase):
    def test_from_the_beginning(self):
        members = list(range(0, SIZE, 2))
        self.assertEqual((EVEN.ranks, EVEN.size(), EVEN.included()), (members, len(members), hvd.rank() in members))
        if EVEN.included():
            self.assertEqual(EVEN.rank(), members.index(hvd.rank()))
            self.assertEqual(hvd.allreduce(torch.tensor([1.0]), op=hvd.Sum, process_set=EVEN).item(), len(members))
            self.assertEqual(hvd.allgather(torch.tensor([hvd.rank()]), process_set=EVEN).tolist(), members)
            parameter = torch.ones(2, requires_grad=True)
            hvd.allreduce(parameter * (hvd.rank() + 1), op=hvd.Sum, process_set=EVEN).sum().backward()
            self.assertEqual(parameter.grad.tolist(), [len(members) * (hvd.rank() + 1.0)] * 2)
            hvd.barrier(process_set=EVEN)
        else:
            with self.assertRaises(ValueError):
                EVEN.rank()
            with self.assertRaises(ValueError):
                hvd.allreduce(torch.ones(1), process_set=EVEN)

    def test_added_and_removed(self):
        with self.assertRaises(ValueError):
            hvd.add_process_set(list(range(0, SIZE, 2)))
        added = hvd.add_process_set([0]) if SIZE > 2 else None
        if added is not None:
            self.assertEqual(added.ranks, [0])
            self.assertTrue(hvd.remove_process_set(added))
            self.assertIsNone(added.process_set_id)
            self.assertFalse(hvd.remove_process_set(added))
        self.assertEqual(hvd.global_process_set.process_set_id, 0)
        self.assertEqual(hvd.global_process_set.ranks, list(range(SIZE)))


if __name__ == "__main__":
    unittest.main()
