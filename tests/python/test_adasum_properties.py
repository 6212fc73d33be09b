# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares Adasum of random vectors with its definition in NumPy, on any number of ranks and any layout of hosts."""

import unittest
from dataclasses import dataclass, field

import numpy as np
import rueda
from hypothesis import given
from hypothesis import strategies as st
from properties import BFLOAT16, JobTest, ranks, same_bits, same_everywhere, seeds

DTYPES = [np.dtype(name) for name in ("float16", "float32", "float64")] + BFLOAT16
# The relative rounding error of each type, for numbers that are not near the ends of its range.
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}
SMALLEST = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 5e-324}
KINDS = ["normal", "alike", "zero", "one hot", "first's", "small", "large"]

shapes = st.one_of(
    st.lists(st.integers(0, 9), max_size=4).map(tuple),
    st.integers(1, 300).map(lambda count: (count,)),
    st.sampled_from([(4096,), (4097, 3), (40_000,), (300, 401)]),
)
tensors = st.tuples(st.sampled_from(DTYPES), shapes, st.lists(st.sampled_from(KINDS), min_size=8, max_size=8), seeds)


def vector(kind: str, rank: int, dtype: np.dtype, shape: tuple[int, ...], seed: int) -> np.ndarray:
    def normal(of):
        return np.random.default_rng([seed, of]).standard_normal(shape)

    if kind == "zero":
        return np.zeros(shape, dtype)
    if kind == "one hot":
        values = np.zeros(shape)
        if values.size:
            values.flat[rank % values.size] = 1 + rank
        return values.astype(dtype)
    scale = {"small": 2.0**-6, "large": 2.0**6}.get(kind, 1.0)
    values = {"first's": lambda: normal(0), "alike": lambda: normal(100) + 0.1 * normal(rank)}
    return np.array(scale * values.get(kind, lambda: normal(rank))(), dtype)


@dataclass
class Tree:
    """Computes Adasum as the paper defines it. If the number of vectors is not a power of two, first combines pairs at
    the front until the number is a power of two (docs/design/0007-adasum.md)."""

    #: `cancelled` says how much the inputs cancel out. The relative error grows by this factor. Each combined vector
    #: has a ratio: the sum of the squared norms of the inputs from which it was made, divided by its own squared norm.
    #: `cancelled` is the largest of these ratios.
    cancelled: float = 1.0

    def pair(self, a, b):
        (a, a_inputs), (b, b_inputs) = a, b
        a_square, b_square, product = a @ a, b @ b, a @ b
        inputs = a_inputs + b_inputs
        if a_square == 0 or b_square == 0:
            return a + b, inputs
        self.cancelled = max(self.cancelled, a_inputs / a_square, b_inputs / b_square)
        return (1 - product / (2 * a_square)) * a + (1 - product / (2 * b_square)) * b, inputs

    def of(self, vectors):
        """Combines the vectors. Each vector is kept together with a number: the sum of the squared norms of the inputs
        from which the vector was made."""
        vectors = [(v, float(v @ v)) for v in (np.ravel(v).astype(np.longdouble) for v in vectors)]
        folded = len(vectors) - (1 << (len(vectors).bit_length() - 1))
        vectors = [self.pair(*vectors[2 * i : 2 * i + 2]) for i in range(folded)] + vectors[2 * folded :]
        while len(vectors) > 1:
            vectors = [self.pair(*vectors[i : i + 2]) for i in range(0, len(vectors), 2)]
        return vectors[0][0]


@dataclass
class Expected:
    """Computes the expected Adasum of a set: first over the ranks of each host, rounded to the tensor's type, and then
    over the hosts."""

    hosts: list[list[int]]
    inputs: list[np.ndarray]
    factor: float
    tree: Tree = field(default_factory=Tree)

    def value(self, members: list[int]) -> np.ndarray:
        dtype = self.inputs[0].dtype
        parts = [[self.inputs[rank] for rank in host if rank in members] for host in self.hosts]
        partials = [self.tree.of(part) * self.factor for part in parts if part]
        if len(self.hosts) > 1:
            partials = [partial.astype(np.float64).astype(dtype) for partial in partials]
        return self.tree.of(partials).reshape(self.inputs[0].shape)

    def tolerance(self, right: np.ndarray) -> np.ndarray:
        """Returns the allowed error. On one host only the final result is rounded. On several hosts the partial results
        are also rounded, and may be rounded in different directions."""
        dtype = self.inputs[0].dtype
        scale = abs(self.factor) * max(float(np.max(np.abs(v.astype(float)), initial=0)) for v in self.inputs)
        exact = 2.0**-46 * self.tree.cancelled * scale * len(self.inputs)
        if len(self.hosts) == 1:
            return 1.001 * ROUNDING[dtype.name] * np.abs(right) + exact + SMALLEST[dtype.name]
        rounded = 4 * ROUNDING[dtype.name] * len(self.hosts) * scale * len(self.inputs)
        return rounded * np.sqrt(self.tree.cancelled) + exact + 4 * SMALLEST[dtype.name] + np.zeros_like(right)


class AdasumProperties(JobTest):
    def compare(self, found, inputs, members, factor):
        expected = Expected(self.hosts, inputs, factor)
        right = expected.value(members)
        self.assertEqual((found.shape, found.dtype), (right.shape, inputs[0].dtype))
        beyond = np.abs(found.astype(np.longdouble) - right) - expected.tolerance(right)
        self.assertLessEqual(np.max(beyond, initial=0), 0)

    @same_everywhere(30)
    @given(
        st.lists(tensors, min_size=1, max_size=4),
        st.booleans(),
        st.booleans(),
        st.sampled_from([(1.0, 1.0), (0.5, 1.0), (1.0, -2.0), (4.0, 0.25)]),
        st.integers(0, 3),
    )
    def check(self, drawn, grouped, resident, factors, set_index):
        process_set = self.sets[set_index % len(self.sets)]
        if not process_set.included():
            return
        everyones = [
            [vector(kinds[rank % len(kinds)], rank, dtype, shape, seed) for rank in ranks()]
            for dtype, shape, kinds, seed in drawn
        ]
        mine = [np.array(inputs[rueda.rank()]) for inputs in everyones]
        if resident:
            for i, (dtype, shape, _, _) in enumerate(drawn):
                copied, mine[i] = mine[i], rueda.empty(shape, dtype)
                mine[i][...] = copied
        prescale, postscale = factors
        options = {"prescale_factor": prescale, "postscale_factor": postscale, "process_set": process_set}
        if grouped:
            results = rueda.grouped_allreduce_(mine, f"group of {len(mine)}", rueda.Adasum, **options)
        else:
            handles = [
                rueda.allreduce_async_(tensor, f"tensor {i}", rueda.Adasum, **options) for i, tensor in enumerate(mine)
            ]
            results = [handle.result() for handle in handles]
        for result, inputs in zip(results, everyones, strict=True):
            self.compare(result, inputs, process_set.ranks, prescale * postscale)
            self.assertTrue(same_bits(result, process_set))

    def test_random_tensors_alone_in_groups_and_in_process_sets(self):
        self.check()

    @same_everywhere(10)
    @given(tensors)
    def check_a_tensor_alone(self, drawn):
        """Neither the batch nor the kind of memory may change a bit of the result."""
        dtype, shape, kinds, seed = drawn
        mine = vector(kinds[rueda.rank() % len(kinds)], rueda.rank(), dtype, shape, seed)
        alone = rueda.allreduce(mine, "alone", rueda.Adasum)
        other = np.full(777, rueda.rank(), np.float32)
        resident = rueda.empty(shape, dtype)
        resident[...] = mine
        handles = [
            rueda.allreduce_async(other, "sum", rueda.Sum),
            rueda.allreduce_async(mine, "among", rueda.Adasum),
            rueda.allreduce_async(other, "adasum", rueda.Adasum),
            rueda.allreduce_async_(resident, "resident", rueda.Adasum),
            rueda.allreduce_async(mine, op=rueda.Adasum),
        ]
        self.assertEqual(handles[0].result()[0], sum(ranks()))
        for handle in (handles[1], handles[3], handles[4]):
            self.assertEqual(handle.result().tobytes(), alone.tobytes())
        handles[2].wait()

    def test_a_tensor_is_by_itself(self):
        self.check_a_tensor_alone()


if __name__ == "__main__":
    unittest.main()
