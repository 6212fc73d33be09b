# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares random operations, types, shapes, process sets and orders with NumPy. Each rank draws how it waits for an
operation, for example by callbacks. Sometimes the ranks disagree about an operation; only this operation may fail."""

import asyncio
import functools
import random
import threading
import unittest
from dataclasses import dataclass, field

import numpy as np
import rueda
from hypothesis import given
from hypothesis import strategies as st
from properties import JobTest, ranks, same_everywhere, seeds

INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
DTYPES = [*INTEGERS, "bool", "float16", "float32", "float64"]
REDUCTIONS = {rueda.Sum: np.sum, rueda.Min: np.min, rueda.Max: np.max, rueda.Product: np.prod}
KINDS = ["allreduce", "allgather", "broadcast", "reducescatter", "alltoall", "gather", "scatter", "reduce", "group"]
ROWS = ("alltoall", "gather", "scatter")

shapes = st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple)
large_shapes = st.integers(1, 200_000).map(lambda count: (count,))


@dataclass(frozen=True)
class Operation:
    kind: str
    dtype: str
    shape: tuple[int, ...]
    op: rueda.ReduceOp
    seed: int
    resident: bool
    set_index: int
    disagrees: bool  # whether the last member passes a different type

    @property
    def reduction(self):
        return rueda.Max if self.dtype == "bool" and self.op == rueda.Sum else self.op


operations = st.builds(
    Operation,
    st.sampled_from(KINDS),
    st.sampled_from(DTYPES),
    st.one_of(shapes, large_shapes),
    st.sampled_from(list(REDUCTIONS)),
    seeds,
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from([False] * 7 + [True]),
)


def drawn(seed: int, rank: int, shape, dtype) -> np.ndarray:
    first = 0 if dtype == "bool" else 1
    return np.random.default_rng([seed, rank]).integers(first, first + 2, shape).astype(dtype)


@dataclass
class Starter:
    """Starts an operation among the members of a set. begin() returns the handle and the expected result."""

    operation: Operation
    name: str
    process_set: rueda.ProcessSet
    keywords: dict = field(init=False)

    def __post_init__(self):
        self.members = self.process_set.ranks
        self.place = self.members.index(rueda.rank())
        self.keywords = {"process_set": self.process_set}
        self.root = self.members[self.operation.seed % len(self.members)]
        self.fails = self.operation.disagrees and len(self.members) > 1

    def given_by(self, rank: int, salt: int = 0) -> np.ndarray:
        operation = self.operation
        shape = operation.shape
        if operation.kind == "allgather" or operation.kind in ROWS:
            shape = (sum(self.splits_of(rank)), *shape[1:])
        return drawn(operation.seed + salt, rank, shape, operation.dtype)

    def splits_of(self, rank: int) -> list[int]:
        return np.random.default_rng([self.operation.seed, rank, 2]).integers(0, 5, len(self.members)).tolist()

    def mine(self) -> np.ndarray:
        array = self.given_by(rueda.rank())
        if self.fails and rueda.rank() == self.members[-1]:
            return array.astype("float64" if array.dtype != np.float64 else "float32")
        if self.operation.resident:
            array, copied = rueda.empty(array.shape, array.dtype), array
            array[...] = copied
        return array

    def reduced(self, salt: int = 0) -> np.ndarray:
        everyones = [self.given_by(rank, salt) for rank in self.members]
        return REDUCTIONS[self.operation.reduction](everyones, axis=0).astype(self.operation.dtype)

    def part_of(self, rank: int, place: int) -> np.ndarray:
        """Returns the rows that `rank` sends to the member whose index in the set is `place`."""
        return np.split(self.given_by(rank), np.cumsum(self.splits_of(rank))[:-1])[place]

    def begin(self):
        return getattr(self, "begin_" + self.operation.kind)(self.mine())

    def begin_allreduce(self, mine):
        return rueda.allreduce_async_(mine, self.name, self.operation.reduction, **self.keywords), self.reduced()

    def begin_group(self, mine):
        second = drawn(self.operation.seed + 1, rueda.rank(), self.operation.shape, self.operation.dtype)
        handle = rueda.grouped_allreduce_async([mine, second], self.name, self.operation.reduction, **self.keywords)
        return handle, np.array([self.reduced(), self.reduced(1)])

    def begin_reduce(self, mine):
        handle = rueda.reduce_async(mine, self.root, self.name, self.operation.reduction, **self.keywords)
        return handle, self.reduced() if rueda.rank() == self.root else None

    def begin_reducescatter(self, mine):
        handle = rueda.reducescatter_async(mine, self.name, self.operation.reduction, **self.keywords)
        return handle, np.array_split(self.reduced(), len(self.members))[self.place]

    def begin_broadcast(self, mine):
        return rueda.broadcast_async_(mine, self.root, self.name, **self.keywords), self.given_by(self.root)

    def begin_allgather(self, mine):
        right = np.concatenate([self.given_by(rank) for rank in self.members])
        return rueda.allgather_async(mine, self.name, **self.keywords), right

    def begin_gather(self, mine):
        right = np.concatenate([self.given_by(rank) for rank in self.members])
        handle = rueda.gather_async(mine, self.root, self.name, **self.keywords)
        return handle, right if rueda.rank() == self.root else None

    def begin_scatter(self, mine):
        splits = self.splits_of(self.root) if rueda.rank() == self.root else None
        handle = rueda.scatter_async(mine, splits, self.root, self.name, **self.keywords)
        return handle, self.part_of(self.root, self.place)

    def begin_alltoall(self, mine):
        right = np.concatenate([self.part_of(rank, self.place) for rank in self.members])
        handle = rueda.alltoall_async(mine, self.splits_of(rueda.rank()), self.name, **self.keywords)
        return handle, right


class Callbacks:
    """Several callbacks of one operation. Each must be called once, with the handle, after the end of the operation, in
    the order of registration."""

    def __init__(self, count: int):
        self.count = count
        self.calls: list[tuple[int, object, bool]] = []
        self.all_called = threading.Semaphore(0)

    def add_to(self, handle):
        for number in range(self.count):
            handle.add_done_callback(functools.partial(self.note, number))

    def note(self, number, handle):
        self.calls.append((number, handle, handle.poll()))
        self.all_called.release()

    def handle(self):
        """Waits for the last callback. Returns the result that the callbacks got."""
        for _ in range(self.count):
            if not self.all_called.acquire(timeout=60):
                raise TimeoutError(f"{len(self.calls)} of {self.count} callbacks have been called")
        if [(number, ended) for number, _, ended in self.calls] != [(n, True) for n in range(self.count)]:
            raise AssertionError(f"callbacks were called as {self.calls}")
        if len({id(handle) for _, handle, _ in self.calls}) != 1:
            raise AssertionError(f"callbacks were called with different handles: {self.calls}")
        return self.calls[0][1]


def polled(handle):
    while not handle.poll():
        pass
    return handle.result()


async def awaited(handle):
    return await handle


ENDS = [lambda handle: handle.result(), polled, lambda handle: asyncio.run(awaited(handle))]


class Properties(JobTest):
    def compare(self, starter, end, right):
        """Compares a result or an error with the expected one. `end` is a function that waits and returns the
        result."""
        if starter.fails:
            with self.assertRaisesRegex(rueda.Mismatch, f"'{starter.name}.* the ranks disagree about the dtype: rank"):
                end()
            return
        result = end()
        kind = starter.operation.kind
        if right is None:
            self.assertIsNone(result)
            return
        if kind == "alltoall" or (kind == "gather" and isinstance(result, tuple)):
            result = result[0]
        np.testing.assert_array_equal(result, right)
        self.assertEqual(np.asarray(result).dtype.name, starter.operation.dtype)

    @same_everywhere(60)
    @given(st.lists(operations, min_size=1, max_size=8), seeds)
    def check(self, batch, seed):
        own = random.Random(seed + rueda.rank())
        starters = []
        for index, operation in enumerate(batch):
            process_set = self.sets[operation.set_index % len(self.sets)]
            if process_set.included():
                starters.append(Starter(operation, f"operation {index}", process_set))
        begun = []
        for starter in own.sample(starters, len(starters)):  # each rank starts the operations in its own order
            handle, right = starter.begin()
            callbacks = Callbacks(own.choice([0, 0, 1, 3]))
            callbacks.add_to(handle)
            # Without other references, only the callbacks keep a handle alive.
            kept = handle if callbacks.count == 0 or own.random() < 0.5 else None
            begun.append((starter, kept, callbacks, right))
            del handle
        for starter, handle, callbacks, right in own.sample(begun, len(begun)):
            waits_for_callbacks = handle is None or own.random() < 0.5
            if waits_for_callbacks and callbacks.count > 0:
                handle = callbacks.handle()
            self.compare(starter, functools.partial(own.choice(ENDS), handle), right)
            late = Callbacks(1)
            late.add_to(handle)
            if waits_for_callbacks:  # this rank has already waited until the earlier callbacks were called
                self.assertEqual(late.calls, [(0, handle, True)])  # a callback that is added late is called at once
            elif callbacks.count > 0:
                self.assertIs(callbacks.handle(), handle)
            self.assertIs(late.handle(), handle)

    def test_random_batches_in_any_order(self):
        self.check()

    @same_everywhere(40)
    @given(st.sampled_from(INTEGERS), st.integers(1, 40), seeds)
    def check_averages(self, dtype, count, seed):
        limits = np.iinfo(dtype)
        everyones = [
            np.random.default_rng([seed, rank]).integers(limits.min, limits.max, count, dtype, endpoint=True)
            for rank in ranks()
        ]
        sums = [sum(int(numbers[i]) for numbers in everyones) for i in range(count)]
        right = [abs(total) // rueda.size() * (1 if total > 0 else -1) for total in sums]
        self.assertEqual(rueda.allreduce(everyones[rueda.rank()], "averages").tolist(), right)
        wrapped = [(total - limits.min) % (1 << limits.bits) + limits.min for total in sums]
        self.assertEqual(rueda.allreduce(everyones[rueda.rank()], "sums", rueda.Sum).tolist(), wrapped)

    def test_averages_of_integers_are_exact_and_sums_wrap(self):
        self.check_averages()


if __name__ == "__main__":
    unittest.main()
