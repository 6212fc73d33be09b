# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares sparse allreduces with dense sums. Runs with one or more ranks."""

import unittest

import numpy as np
import rueda


def setUpModule():
    rueda.init()


def tearDownModule():
    rueda.shutdown()


def ranks() -> range:
    return range(rueda.size())


def sparse(rank: int, dims: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns places (indices of elements or rows) in a tensor of shape (11, 4, 2), and this rank's values at these
    places. Some places occur twice."""
    random = np.random.default_rng(100 + rank)
    count = 5 * rank  # rank 0 has no places
    places = np.stack([random.integers(0, extent, count) for extent in (11, 4)[:dims]], axis=1)
    return places, random.integers(-9, 9, (count, *(4, 2)[dims - 1 :])).astype(np.float64)


class SparseAllreduce(unittest.TestCase):
    def check(self, results, dims, divisor):
        indices, sums = results
        dense = np.zeros((11, 4, 2))
        there = set()
        for rank in ranks():
            for place, value in zip(*sparse(rank, dims), strict=True):
                dense[tuple(place)] += value
                there.add(tuple(place.tolist()))
        self.assertEqual([tuple(place) for place in indices.reshape(-1, dims).tolist()], sorted(there))
        for place, value in zip(indices.reshape(-1, dims), sums, strict=True):
            np.testing.assert_array_equal(value, dense[tuple(place)] / divisor)

    def test_sums_and_averages(self):
        for dims in (1, 2):
            places, elements = sparse(rueda.rank(), dims)
            places = places[:, 0] if dims == 1 else places
            result = rueda.sparse_allreduce(places, elements, (11, 4, 2), "sparse", rueda.Sum)
            self.assertEqual(result[0].ndim, dims)
            self.check(result, dims, 1)
            self.check(rueda.sparse_allreduce(places, elements, (11, 4, 2)), dims, rueda.size())
            self.check(rueda.sparse_allreduce_async(places, elements, (11, 4, 2)).result(), dims, rueda.size())

    def test_dtypes(self):
        for dtype in ("int32", "uint8", "float16", "float32"):
            value = np.array([-7 if dtype == "int32" else 7, 1], dtype)
            indices, total = rueda.sparse_allreduce([2, 2], value, [3], f"sparse {dtype}")
            self.assertEqual((indices.dtype, indices.tolist(), total.dtype), (np.int64, [2], np.dtype(dtype)))
            self.assertEqual(total.tolist(), [-6 if dtype == "int32" else 8])
        # The sum must be rounded once at the end. If the sum were rounded in each step, 2048 + 1 + 1 would stay 2048 in
        # float16.
        _, total = rueda.sparse_allreduce(np.zeros(3, int), np.array([2048, 1, 1], np.float16), (1,), op=rueda.Sum)
        self.assertEqual(total[0], np.float16(2050 * rueda.size()))

    def test_nothing_anywhere(self):
        indices, total = rueda.sparse_allreduce([], np.zeros((0, 3)), (5, 3), "nothing")
        self.assertEqual((indices.shape, total.shape), ((0,), (0, 3)))

    def test_what_is_refused(self):
        for indices, elements, shape, text in (
            ([5], np.zeros((1, 2)), (5, 2), r"the index 5 lies outside of the shape \(5, 2\); expected 0 to 4"),
            ([-1], np.zeros((1, 2)), (5, 2), "the index -1 lies outside"),
            ([0], np.zeros((1, 3)), (5, 2), r"the shape \(1, 3\); expected \(1, 2\)"),
            ([0, 1], np.zeros((1, 2)), (5, 2), r"expected \(2, 2\), for 2 places"),
            ([0.5], np.zeros((1, 2)), (5, 2), "expected whole numbers"),
            (np.zeros((1, 3), int), np.zeros(1), (5, 2), "places along 3 dimensions"),
            (np.zeros((0, 2), int), np.zeros(0), (2**32, 2**31), "at most 9223372036854775807 places"),
            ([], np.zeros((0, 3)), (-1, 3), r"the shape is \(-1, 3\); expected extents from 0 on"),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(rueda.InvalidArgument, text):
                rueda.sparse_allreduce(indices, elements, shape)
        with self.assertRaisesRegex(rueda.InvalidArgument, "the reduce operation is max; expected sum or average"):
            rueda.sparse_allreduce([0], np.zeros(1), (1,), op=rueda.Max)


if __name__ == "__main__":
    unittest.main()
