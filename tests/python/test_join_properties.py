# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Gives the ranks random numbers of batches with random operations. Checks which operations continue without the joined
ranks, and which are refused. Some operations are pending when a rank joins; their results are checked, too. Runs in
process sets, on any layout of two or more ranks."""

import random
import unittest
from dataclasses import dataclass

import numpy as np
import rueda
from hypothesis import given
from hypothesis import strategies as st
from properties import JobTest, ranks, same_everywhere, seeds
from test_adasum_properties import Tree

REDUCTIONS = {rueda.Sum: np.sum, rueda.Min: np.min, rueda.Max: np.max, rueda.Product: np.prod}
SHAPES = [(), (1,), (7,), (3, 5), (0, 4), (5000,), (40_000,)]
DTYPES = ["int32", "int64", "uint8", "float32", "float64"]
NEED_ALL = ["broadcast", "allgather", "alltoall", "reducescatter", "gather", "scatter", "reduce"]
GO_ON = ["reduction", "average", "group", "adasum", "barrier"]


@dataclass(frozen=True)
class Drawn:
    """One operation of a step. It is the same on every rank that takes part."""

    kind: str
    name: str | None
    set_index: int
    seed: int
    shape: tuple[int, ...]
    dtype: str
    op: rueda.ReduceOp
    in_place: bool

    def tensor(self, rank: int, dtype=None, shape=None) -> np.ndarray:
        """Returns a rank's input. The values 1, 2 and 3 make sums and products exact, and a missing rank changes the
        result."""
        numbers = np.random.default_rng([self.seed, rank]).integers(1, 4, self.shape if shape is None else shape)
        return np.array(numbers, dtype or self.dtype)


def step_of(same: random.Random, sets: int) -> list[Drawn]:
    """Draws the operations of a step. At least one of them needs all ranks. So the rank with the most batches waits in
    its last step until all other ranks have joined."""
    drawn = []
    for i in range(same.randrange(1, 5)):
        kind = same.choice([*GO_ON, *GO_ON, same.choice(NEED_ALL)])
        name = None if same.random() < 0.2 and kind != "group" else f"operation {i}"
        values = same.randrange(sets) if i else 0, same.randrange(2**32), same.choice(SHAPES), same.choice(DTYPES)
        drawn.append(Drawn(kind, name, *values, same.choice(list(REDUCTIONS)), same.random() < 0.5))
    return drawn


def shuffled(drawn: list[Drawn], own: random.Random) -> list[Drawn]:
    """Returns the operations in this rank's own order. Unnamed operations keep their order, because the ranks match
    unnamed operations by their order."""
    mixed = own.sample(drawn, len(drawn))
    unnamed = iter([one for one in drawn if one.name is None])
    return [next(unnamed) if one.name is None else one for one in mixed]


class JoinProperties(JobTest):
    def adasum(self, drawn, members, active):
        """Returns the expected Adasum. A joined rank contributes zeros at its place in the order of the ranks."""
        zeros = np.zeros(drawn.shape).ravel()
        of_rank = {r: drawn.tensor(r, "float64").ravel() if r in active else zeros for r in members}
        hosts = [[of_rank[rank] for rank in host if rank in members] for host in self.hosts]
        return Tree().of([Tree().of(host) for host in hosts if host]).reshape(drawn.shape)

    def begin(self, drawn, active, divisor):
        """Starts an operation. Returns its handle and the expected result."""
        process_set = self.sets[drawn.set_index]
        keywords = {"process_set": process_set}
        mine, given = drawn.tensor(rueda.rank()), [drawn.tensor(rank) for rank in active]
        if drawn.kind in NEED_ALL:
            return self.begin_one_that_needs_all(drawn, process_set)
        if drawn.kind == "barrier":
            return rueda.barrier_async(drawn.name, **keywords), None
        if drawn.kind == "average":
            exact = np.sum(given, axis=0, dtype=np.float64) / divisor
            right = np.trunc(exact) if mine.dtype.kind in "iu" else exact
            return rueda.allreduce_async(mine, drawn.name, **keywords), right
        if drawn.kind == "adasum":
            mine = drawn.tensor(rueda.rank(), "float64")
            handle = rueda.allreduce_async(mine, drawn.name, rueda.Adasum, **keywords)
            return handle, self.adasum(drawn, process_set.ranks, active)
        right = np.array(REDUCTIONS[drawn.op](given, axis=0)).astype(drawn.dtype)
        if drawn.kind == "group":
            small = REDUCTIONS[drawn.op]([drawn.tensor(rank, "int64", (3,)) for rank in active], axis=0)
            pair = [mine, drawn.tensor(rueda.rank(), "int64", (3,))]
            return rueda.grouped_allreduce_async(pair, drawn.name, drawn.op, **keywords), [right, small]
        start = rueda.allreduce_async_ if drawn.in_place else rueda.allreduce_async
        return start(mine, drawn.name, drawn.op, **keywords), right

    def begin_one_that_needs_all(self, drawn, process_set):
        members, me = process_set.ranks, rueda.rank()
        root, place = members[drawn.seed % len(members)], members.index(rueda.rank())
        rows = np.array(members) + 1.0  # each rank has a different number of rows
        name, keywords = drawn.name, {"process_set": process_set}
        if drawn.kind == "broadcast":
            return rueda.broadcast_async(rows * me, root, name, **keywords), rows * root
        if drawn.kind == "allgather":
            return rueda.allgather_async(np.full(2, me), name, **keywords), np.repeat(members, 2)
        if drawn.kind == "alltoall":
            return rueda.alltoall_async(rows * 0 + me, None, name, **keywords), (members, [1] * len(members))
        if drawn.kind == "reducescatter":
            right = [rows[place] * len(members)]
            return rueda.reducescatter_async(rows, name, rueda.Sum, **keywords), right
        if drawn.kind == "gather":
            right = np.repeat(members, 2) if me == root else None
            return rueda.gather_async(np.full(2, me), root, name, **keywords), right
        if drawn.kind == "scatter":
            return rueda.scatter_async(rows, None, root, name, **keywords), rows[place : place + 1]
        right = rows * len(members) if me == root else None
        return rueda.reduce_async(rows, root, name, rueda.Sum, **keywords), right

    def compare(self, drawn, handle, right, joined):
        if drawn.kind in NEED_ALL and joined:
            with self.assertRaisesRegex(rueda.InvalidArgument, f"this {drawn.kind} needs every rank, and rank") as told:
                handle.result()
            for rank in joined:
                # The text names the rank, or a range that contains the rank.
                self.assertRegex(str(told.exception), rf"\b{rank}\b|-")
            return
        result = handle.result()
        if right is None:
            self.assertIsNone(result)
        elif drawn.kind in ("group", "alltoall"):
            for one, expected in zip(result, right, strict=True):
                np.testing.assert_array_equal(one, expected)
        else:
            exact = drawn.kind not in ("average", "adasum") or result.dtype.kind in "iu"
            np.testing.assert_allclose(result, right, rtol=0 if exact else 1e-6)

    @same_everywhere(25)
    @given(st.integers(1, 5), st.booleans(), seeds)
    def check(self, most, waits, seed):
        """If `waits` is true, a rank joins only after all its operations have ended. Otherwise it may join earlier."""
        same, own = random.Random(seed), random.Random(seed + rueda.rank())
        steps = [step_of(same, len(self.sets)) for _ in range(most)]
        batches = [same.randrange(most + 1) for _ in ranks()]
        averages = [same.choice(["all", "active"]) for _ in ranks()]
        ends = []
        for step in range(batches[rueda.rank()]):
            started = []
            for drawn in shuffled(steps[step], own):
                members = self.sets[drawn.set_index].ranks
                active = [rank for rank in members if batches[rank] > step]
                joined = [rank for rank in members if rank not in active]
                if rueda.rank() in members:
                    divisor = len(active) + sum(averages[rank] == "all" for rank in joined)
                    started.append((drawn, *self.begin(drawn, active, divisor), joined))
            ends = own.sample(started, len(started))
            if waits or step + 1 < batches[rueda.rank()] or own.random() < 0.5:
                for end in ends:
                    self.compare(*end)
                ends = []
        last = rueda.join(average=averages[rueda.rank()])
        for end in ends:
            self.compare(*end)
        self.assertEqual(rueda.allgather(np.array([last])).tolist(), [last] * rueda.size())
        if waits:
            self.assertEqual(batches[last], max(batches))

    def test_random_batches(self):
        self.check()


if __name__ == "__main__":
    unittest.main()
