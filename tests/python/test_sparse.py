# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares sparse allreduces with dense sums and with Python's integers. Runs with one or more ranks."""

import unittest
from fractions import Fraction

import numpy as np
import rueda


def setUpModule():
    rueda.init()


def tearDownModule():
    rueda.shutdown()


def ranks() -> range:
    return range(rueda.size())


def sparse(rank: int, dims: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns a rank's places in a tensor of shape (11, 4, 2), some of them twice, and the values at these places."""
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
        # The sum must be rounded once at the end. Rounded in each step, 2048 + 1 + 1 would stay 2048 in float16.
        _, total = rueda.sparse_allreduce(np.zeros(3, int), np.array([2048, 1, 1], np.float16), (1,), op=rueda.Sum)
        self.assertEqual(total[0], np.float16(2050 * rueda.size()))

    def test_integers_truncate_toward_zero(self):
        mine = [-3] if rueda.rank() == 0 else [0]
        _, average = rueda.sparse_allreduce([0], np.array(mine), (1,), "truncated")
        self.assertEqual(average[0], int(-3 / rueda.size()))

    def test_averages_of_integers_are_those_of_the_exact_sum(self):
        for dtype in ("int64", "uint64", "int32", "uint8"):
            limits = np.iinfo(dtype)
            edges = [int(limits.max), int(limits.min), int(limits.max) - 1, int(limits.min) + 1, 0, 5]
            random = np.random.default_rng(7)
            # Each rank computes the rows of all ranks. At the last two places, the sum is as far from zero as possible.
            of_rank = [
                [*(edges[choice] for choice in random.integers(0, len(edges), 30)), int(limits.max), int(limits.min)]
                for _ in ranks()
            ]
            mine = np.array(of_rank[rueda.rank()], dtype)
            _, averages = rueda.sparse_allreduce(np.arange(len(mine)), mine, (len(mine),), f"exact {dtype}")
            right = [int(Fraction(sum(column), rueda.size())) for column in zip(*of_rank, strict=True)]
            self.assertEqual(averages.tolist(), right)
            self.assertEqual(averages.dtype, np.dtype(dtype))

    def test_sums_of_integers_wrap(self):
        mine = np.array([2**63 - 1], np.int64)
        _, total = rueda.sparse_allreduce([0], mine, (1,), "wraps", rueda.Sum)
        self.assertEqual(total[0], (rueda.size() * (2**63 - 1) + 2**63) % 2**64 - 2**63)

    def test_ranks_that_disagree(self):
        if rueda.size() == 1:
            return
        last = rueda.size() - 1
        first_extent = 5 if rueda.rank() < last else 6
        places = np.zeros((1, 2), int)
        others = {2: "rank 0", 4: "ranks 0-2"}[rueda.size()]
        with self.assertRaisesRegex(
            rueda.Mismatch,
            rf"^sparse allreduce 'extents': the ranks disagree: {others}: average of shape \(4, 5\); rank {last}: average of "
            r"shape \(4, 6\)$",
        ):
            rueda.sparse_allreduce(places, np.ones(1), (4, first_extent), "extents")
        op = rueda.Sum if rueda.rank() < last else rueda.Average
        with self.assertRaisesRegex(rueda.Mismatch, rf"{others}: sum of shape \(4,\); rank {last}: average of"):
            rueda.sparse_allreduce([1], np.ones(1), (4,), "operations", op)
        # The allgathers find a difference in the number of dimensions or in the shape of a row.
        with self.assertRaises(rueda.Mismatch):
            shape = (4, 5) if rueda.rank() < last else (4, 5, 1)
            rueda.sparse_allreduce(places, np.ones((1, *shape[2:])), shape, "dimensions")
        result = rueda.sparse_allreduce(places, np.ones(1), (4, 5), "extents", rueda.Sum)
        self.assertEqual((result[0].tolist(), result[1].tolist()), ([[0, 0]], [rueda.size()]))

    def test_ranks_of_a_set_that_disagree_are_named_by_their_numbers_in_the_job(self):
        if rueda.size() < 3:
            return
        last = rueda.size() - 1
        pair = rueda.add_process_set([1, last])
        if pair.included():
            extent = 4 if rueda.rank() == 1 else 3
            with self.assertRaisesRegex(rueda.Mismatch, rf"rank 1: .*\(4,\); rank {last}: .*\(3,\)"):
                rueda.sparse_allreduce([1], np.ones(1), (extent,), process_set=pair)
        rueda.remove_process_set(pair)

    def test_bool_is_refused(self):
        for op in (rueda.Sum, rueda.Average):
            with self.assertRaisesRegex(rueda.Unsupported, f"there is no {op.name.lower()} of bool"):
                rueda.sparse_allreduce([0], np.array([True]), (1,), op=op)

    def test_what_one_rank_alone_asks_for_is_a_mismatch(self):
        last = rueda.size() - 1
        for _ in range(2 if last else 0):
            mine = np.ones(1, bool if rueda.rank() == last else float)
            with self.assertRaisesRegex(rueda.Mismatch, "'odd_2of3': the ranks disagree about the dtype"):
                rueda.sparse_allreduce([0], mine, (1,), "odd")
            with self.assertRaisesRegex(rueda.Mismatch, rf"rank {last}: max of shape"):
                rueda.sparse_allreduce([0], np.ones(1), (1,), "odd", rueda.Max if rueda.rank() == last else rueda.Sum)
        self.assertEqual(rueda.sparse_allreduce([0], np.ones(1), (1,), "odd", rueda.Sum)[1], [rueda.size()])

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
