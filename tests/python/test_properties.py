# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Random operations, dtypes, shapes and orders. Every rank draws the same ones, as the seed is the same, and computes with
NumPy what all ranks brought."""

import random
import unittest

import numpy as np
import rueda
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
DTYPES = [*INTEGERS, "bool", "float16", "float32", "float64"]
REDUCTIONS = {rueda.Sum: np.sum, rueda.Min: np.min, rueda.Max: np.max, rueda.Product: np.prod}

shapes = st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple)
large_shapes = st.integers(1, 200_000).map(lambda count: (count,))
seeds = st.integers(0, 2**32 - 1)
# Shrinking is off: a rank that alone found a failure would go on alone.
same_everywhere = settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate,),
)


def setUpModule():
    rueda.init()


def tearDownModule():
    rueda.shutdown()


def ranks() -> range:
    return range(rueda.size())


def drawn(seed: int, rank: int, shape, dtype) -> np.ndarray:
    first = 0 if dtype == "bool" else 1
    return np.random.default_rng([seed, rank]).integers(first, first + 2, shape).astype(dtype)


def rows_of(seed: int, rank: int, shape) -> int:
    return int(np.random.default_rng([seed, rank, 1]).integers(0, shape[0] + 1))


@st.composite
def operations(draw):
    return (
        draw(st.sampled_from(["allreduce", "allgather", "broadcast", "reducescatter", "alltoall"])),
        draw(st.sampled_from(DTYPES)),
        draw(st.one_of(shapes, large_shapes)),
        draw(st.sampled_from(list(REDUCTIONS))),
        draw(seeds),
        draw(st.booleans()),
    )


def begin(operation, name: str):
    """Starts it; gives the handle, and what its result has to be."""
    kind, dtype, shape, op, seed, resident = operation
    op = rueda.Max if dtype == "bool" and op == rueda.Sum else op
    me = rueda.rank()
    if kind == "allgather":
        everyones = [drawn(seed, r, (rows_of(seed, r, shape), *shape[1:]), dtype) for r in ranks()]
        return rueda.allgather_async(everyones[me], name), np.concatenate(everyones)
    if kind == "alltoall":
        return begin_alltoall(dtype, shape, seed, name)
    everyones = [drawn(seed, r, shape, dtype) for r in ranks()]
    mine = everyones[me].copy()
    if resident:
        mine = rueda.empty(shape, dtype)
        mine[...] = everyones[me]
    if kind == "broadcast":
        root = seed % rueda.size()
        return rueda.broadcast_async_(mine, root, name), everyones[root]
    whole = REDUCTIONS[op](everyones, axis=0).astype(dtype)
    if kind == "reducescatter":
        return rueda.reducescatter_async(mine, name, op), np.array_split(whole, rueda.size())[me]
    return rueda.allreduce_async_(mine, name, op), whole


def begin_alltoall(dtype, shape, seed: int, name: str):
    def splits_of(rank):
        return np.random.default_rng([seed, rank, 2]).integers(0, 5, rueda.size()).tolist()

    def rows(rank):
        return drawn(seed, rank, (sum(splits_of(rank)), *shape[1:]), dtype)

    me = rueda.rank()
    parts = [np.split(rows(r), np.cumsum(splits_of(r))[:-1])[me] for r in ranks()]
    return rueda.alltoall_async(rows(me), splits_of(me), name), np.concatenate(parts)


class Properties(unittest.TestCase):
    @same_everywhere
    @given(st.lists(operations(), min_size=1, max_size=6), seeds)
    def check(self, batch, seed):
        order = list(range(len(batch)))
        random.Random(seed + rueda.rank()).shuffle(order)  # another one on every rank
        begun = {index: begin(batch[index], f"operation {index}") for index in order}
        for index, (handle, right) in begun.items():
            result = handle.result()
            if batch[index][0] == "alltoall":
                result = result[0]
            np.testing.assert_array_equal(result, right)
            self.assertEqual(result.dtype.name, batch[index][1])

    def test_random_batches_in_any_order(self):
        self.check()

    @same_everywhere
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
