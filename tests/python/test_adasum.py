# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares Adasum with its definition in NumPy, on any layout of ranks on hosts. ruedarun or mpirun starts the
ranks.
"""

import unittest

import numpy as np
import rueda


def pair(a, b):
    """Computes the paper's definition."""
    a_square, b_square, product = a @ a, b @ b, a @ b
    if a_square == 0 or b_square == 0:
        return a + b
    return (1 - product / (2 * a_square)) * a + (1 - product / (2 * b_square)) * b


def tree(vectors):
    """First combines adjacent pairs, beginning at the front, until the number of vectors is a power of two. Then
    combines all vectors in pairs until one vector is left.
    """
    vectors = list(vectors)
    even = 1 << (len(vectors).bit_length() - 1)
    folded = len(vectors) - even
    vectors = [pair(*vectors[2 * i : 2 * i + 2]) for i in range(folded)] + vectors[2 * folded :]
    while len(vectors) > 1:
        vectors = [pair(*vectors[i : i + 2]) for i in range(0, len(vectors), 2)]
    return vectors[0]


TOLERANCES = {np.float16: 3e-3, np.float32: 2e-6, np.float64: 1e-12}


class Adasum(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        rueda.init()
        # The ranks of each host. The ranks of a host are consecutive, so the host's lowest rank and its number
        # of ranks are enough to compute them.
        cls.hosts = {}
        for rank, host in enumerate(rueda.allgather_object((rueda.rank() - rueda.local_rank(), rueda.local_size()))):
            cls.hosts.setdefault(host, []).append(rank)

    @classmethod
    def tearDownClass(cls):
        rueda.shutdown()

    def expected(self, inputs, dtype, ranks=None):
        partials = []
        for host in self.hosts.values():
            members = [rank for rank in host if ranks is None or rank in ranks]
            if members:
                partial = tree([inputs[rank].astype(np.longdouble).ravel() for rank in members])
                partials.append(partial.astype(dtype).astype(np.longdouble) if len(self.hosts) > 1 else partial)
        return tree(partials).reshape(inputs[0].shape)

    def inputs(self, shape, dtype, seed):
        """Returns the inputs of all ranks. Each rank can compute them."""
        generator = np.random.default_rng(seed)
        common = generator.standard_normal(shape)
        return [(common + generator.standard_normal(shape)).astype(dtype) for _ in range(rueda.size())]

    def compare(self, found, expected, dtype):
        scale = float(np.max(np.abs(expected), initial=1e-30))
        np.testing.assert_allclose(
            found.astype(np.longdouble), expected, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype] * scale
        )

    def test_every_dtype_and_size(self):
        for dtype in TOLERANCES:
            for shape in ((), (1,), (7,), (20, 3), (5000,), (300, 700), (0, 3)):
                with self.subTest(dtype=dtype, shape=shape):
                    inputs = self.inputs(shape, dtype, 1)
                    found = rueda.allreduce(inputs[rueda.rank()], f"{dtype.__name__}.{shape}", rueda.Adasum)
                    self.assertEqual(found.shape, shape)
                    if found.size:
                        self.compare(found, self.expected(inputs, dtype), dtype)

    def test_factors(self):
        inputs = self.inputs((1000,), np.float32, 2)
        found = rueda.allreduce(
            inputs[rueda.rank()], "factors", rueda.Adasum, prescale_factor=0.5, postscale_factor=-3.0
        )
        self.compare(found, -1.5 * self.expected(inputs, np.float32), np.float32)

    def test_a_group_is_tensor_by_tensor(self):
        of_members = [self.inputs(shape, np.float32, 3 + i) for i, shape in enumerate([(5,), (40_000,), (8, 8), (1,)])]
        found = rueda.grouped_allreduce([inputs[rueda.rank()] for inputs in of_members], "group", rueda.Adasum)
        for result, inputs in zip(found, of_members, strict=True):
            self.compare(result, self.expected(inputs, np.float32), np.float32)

    def test_among_other_operations(self):
        inputs = [self.inputs((n,), np.float32, 50 + n) for n in (3, 3000, 30_000)]
        for _ in range(3):
            handles = []
            for i, of_ranks in enumerate(inputs):
                handles.append(rueda.allreduce_async(np.ones(1000), f"sum.{i}", rueda.Sum))
                handles.append(rueda.allreduce_async(of_ranks[rueda.rank()], f"among.{i}", rueda.Adasum))
            for i, of_ranks in enumerate(inputs):
                np.testing.assert_array_equal(handles[2 * i].result(), np.full(1000, rueda.size()))
                self.compare(handles[2 * i + 1].result(), self.expected(of_ranks, np.float32), np.float32)

    def test_resident_and_in_place(self):
        inputs = self.inputs((25_000,), np.float64, 6)
        array = rueda.empty((25_000,), np.float64)
        array[:] = inputs[rueda.rank()]
        rueda.allreduce_(array, "resident", rueda.Adasum)
        self.compare(array, self.expected(inputs, np.float64), np.float64)

    def test_zeros_and_nan(self):
        zeros = rueda.allreduce(np.zeros(1000), "zeros", rueda.Adasum)
        np.testing.assert_array_equal(zeros, np.zeros(1000))
        values = np.arange(1000.0) if rueda.rank() == 0 else np.zeros(1000)
        np.testing.assert_array_equal(rueda.allreduce(values, "of one", rueda.Adasum), np.arange(1000.0))
        values = np.arange(1000.0)
        values[500] = np.nan if rueda.rank() == 0 else 1
        found = rueda.allreduce(values, "nan", rueda.Adasum)
        self.assertTrue(np.isnan(found).all() if rueda.size() > 1 else np.isnan(found).sum() == 1)

    def test_a_process_set(self):
        if rueda.size() < 2:
            return
        ranks = list(range(1, rueda.size()))
        members = rueda.add_process_set(ranks)
        inputs = self.inputs((3333,), np.float32, 7)
        if members.included():
            found = rueda.allreduce(inputs[rueda.rank()], "set", rueda.Adasum, process_set=members)
            self.compare(found, self.expected(inputs, np.float32, ranks), np.float32)
        rueda.remove_process_set(members)


if __name__ == "__main__":
    unittest.main()
