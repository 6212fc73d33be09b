# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests elastic training: commits, failures that all ranks survive, and samplers. test_hvd_restarts.py tests failures
in which a rank ends."""

import os
import pathlib
import tempfile
import unittest

import rueda.torch as hvd
import torch
from rueda.torch.elastic import commits
from rueda.torch.elastic import state as states


def setUpModule():
    hvd.init()
    torch.set_num_threads(1)


def tearDownModule():
    hvd.shutdown()


def trained():
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return model, hvd.DistributedOptimizer(optimizer, model.named_parameters())


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.full((2, 3), 1.0 + hvd.rank())).square().mean().backward()
    optimizer.step()


def weights(model) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in model.parameters()]


class Case(unittest.TestCase):
    def assertSameWeights(self, model, expected):
        for parameter, right in zip(model.parameters(), expected, strict=True):
            self.assertTrue(torch.equal(parameter, right))


class Commits(Case):
    def test_save_restore_sync(self):
        model, optimizer = trained()
        state = hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=hvd.rank(), note={"a": [1]})
        state.sync()
        everyones = hvd.allgather_object([weight.tolist() for weight in weights(model)])
        self.assertEqual(everyones, everyones[:1] * hvd.size())
        self.assertEqual(state.epoch, 0)
        step(model, optimizer)
        state.epoch = 5
        state.commit()
        kept = weights(model)
        momentum = optimizer.state[model.weight]["momentum_buffer"].clone()
        step(model, optimizer)
        state.epoch = 6
        state.note["a"].append(2)
        state.restore()
        self.assertSameWeights(model, kept)
        self.assertTrue(torch.equal(optimizer.state[model.weight]["momentum_buffer"], momentum))
        self.assertEqual((state.epoch, state.note), (5, {"a": [1]}))
        self.assertIs(state.model, model)

    def test_another_model_takes_the_place(self):
        model, optimizer = trained()
        state = hvd.elastic.TorchState(model=model, optimizer=optimizer)
        other = torch.nn.Linear(2, 2)
        state.model = other
        kept = weights(other)
        other.weight.data.zero_()
        state.restore()
        self.assertSameWeights(other, kept)

    def test_handlers_of_ones_own(self):
        class Counter:
            def __init__(self):
                self.count = 0

        class CounterHandler(states.StateHandler):
            def __init__(self, value):
                super().__init__(value)
                self.save()

            def save(self):
                self.kept = self.value.count

            def restore(self):
                self.value.count = self.kept

            def sync(self):
                self.value.count = hvd.broadcast_object(self.value.count)
                self.save()

        before = list(states.get_handler_registry())
        states.set_handler_registry([(Counter, CounterHandler), *before])
        self.addCleanup(states.set_handler_registry, before)
        counter = Counter()
        counter.count = 10 + hvd.rank()
        state = hvd.elastic.TorchState(counter=counter)
        state.sync()
        self.assertEqual(counter.count, 10)
        counter.count = 99
        state.restore()
        self.assertEqual(counter.count, 10)

    def test_hosts_that_change(self):
        for change, skip_sync in ((1, False), (2, True), (3, False)):
            state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, a=1)
            state.commit()
            if hvd.rank() == 0:
                state.on_hosts_updated(100, change)
            with self.assertRaises(hvd.elastic.HostsUpdatedInterrupt) as raised:
                state.commit()
            self.assertEqual(raised.exception.skip_sync, skip_sync)
            state.commit()


class Failures(Case):
    def test_a_failure_that_all_ranks_survive(self):
        model, optimizer = trained()
        state = hvd.elastic.TorchState(model=model, optimizer=optimizer, batch=0)
        resets = []
        state.register_reset_callbacks([lambda: resets.append(state.batch)])
        attempts = []

        @hvd.elastic.run
        def train(state, steps):
            attempts.append(state.batch)
            while state.batch < steps:
                step(model, optimizer)
                state.batch += 1
                if state.batch == 3 and len(attempts) == 1:
                    # The ranks disagree, so all of them get HorovodInternalError and repeat the step.
                    hvd.allreduce(torch.ones(1 + hvd.rank()) if hvd.size() > 1 else torch.ones(()), name="disagreement")
                    raise hvd.HorovodInternalError("of a single rank")
                state.commit()
            return "done"

        self.assertEqual(train(state, 5), "done")
        self.assertEqual((attempts, resets), ([0, 2], [2]))
        other, by = trained()
        hvd.broadcast_parameters(other.state_dict(), 0)
        for _ in range(5):
            step(other, by)
        self.assertSameWeights(model, weights(other))

    def test_a_failure_that_comes_again_is_raised(self):
        state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, a=1)
        attempts = []

        @hvd.elastic.run
        def train(state):
            attempts.append(1)
            raise hvd.HorovodInternalError("every time")

        with self.assertRaisesRegex(hvd.HorovodInternalError, "every time"):
            train(state)
        self.assertEqual(len(attempts), 2)

    def test_what_is_wrong_is_raised_at_once(self):
        state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, a=1)

        @hvd.elastic.run
        def train(state):
            hvd.allgather(torch.tensor(1.0))

        with self.assertRaises(hvd.HorovodInternalError):
            train(state)

    def test_hosts_that_change_interrupt_and_nothing_is_lost(self):
        state = hvd.elastic.ObjectState(hvd.broadcast_object, hvd.rank, number=0)
        starts = []

        @hvd.elastic.run
        def train(state):
            starts.append(state.number)
            while state.number < 4:
                state.number += 1
                if state.number == 2 and hvd.rank() == 0 and len(starts) == 1:
                    state.on_hosts_updated(7, 1)
                state.commit()

        train(state)
        self.assertEqual(starts, [0, 2])


class Samplers(Case):
    def everyones(self, sampler) -> list[int]:
        return sorted(sum(hvd.allgather_object(list(sampler)), []))

    def test_every_sample_once_and_then_what_is_left(self):
        count = 8 * hvd.size()
        sampler = hvd.elastic.ElasticSampler(range(count), seed=3)
        self.assertEqual((len(sampler), self.everyones(sampler)), (8, list(range(count))))
        seen = sum(hvd.allgather_object(list(sampler)[:6]), [])
        sampler.record_batch(0, 4)
        sampler.record_batch(1, 2)
        kept = sampler.state_dict()
        sampler.load_state_dict(kept)
        self.assertEqual(len(sampler), 2)
        self.assertEqual(sorted(seen + self.everyones(sampler)), list(range(count)))
        order = list(sampler)
        sampler.set_epoch(1)
        self.assertEqual(len(sampler), 8)
        sampler.set_epoch(0)
        self.assertNotEqual(list(sampler)[:2], order)

    def test_what_does_not_divide_is_given_twice(self):
        for count in (1, hvd.size() + 1, 3):
            sampler = hvd.elastic.ElasticSampler(range(count), shuffle=False)
            self.assertEqual(len(list(sampler)), -(-count // hvd.size()))
            self.assertEqual(set(self.everyones(sampler)), set(range(count)))

    def test_state(self):
        sampler = hvd.elastic.ElasticSampler(range(8 * hvd.size()))
        state = hvd.elastic.TorchState(sampler=sampler)
        if hvd.rank() == 0:
            sampler.record_batch(0, 3)
        state.sync()
        self.assertEqual((sampler.processed_num, len(sampler)), (3 * hvd.size(), 5))
        sampler.record_batch(1, 5)
        state.restore()
        self.assertEqual(len(sampler), 5)


class Files(Case):
    def test_written_read_and_removed(self):
        with tempfile.TemporaryDirectory() as folder:
            where = pathlib.Path(folder) / "new"
            self.assertIsNone(commits.read(where))
            for number in (1, 2):
                commits.write(where, number, {"objects": {"a": torch.full((2,), number)}})
            number, content = commits.read(where)
            self.assertEqual((number, content["objects"]["a"].tolist()), (2, [2, 2]))
            self.assertEqual(len(list(where.iterdir())), 1)
            commits.remove(where)
            self.assertIsNone(commits.read(where))
            commits.remove(where)
            torch.save({"another": "file"}, where / "rueda-commit.pt")
            with self.assertRaisesRegex(ValueError, "no commit"):
                commits.read(where)
            if os.geteuid() == 0:
                os.chown(where / "rueda-commit.pt", 12345, 12345)
                with self.assertRaisesRegex(ValueError, "belongs to user 12345"):
                    commits.read(where)


if __name__ == "__main__":
    unittest.main()
