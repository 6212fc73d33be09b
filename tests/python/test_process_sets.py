# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares every operation in a set of some ranks with NumPy. Runs with two or more ranks."""

import asyncio
import unittest

import numpy as np
import rueda


def setUpModule():
    rueda.init()


def tearDownModule():
    rueda.shutdown()


class Sets(unittest.TestCase):
    def setUp(self):
        # The set has all ranks except the first, so ranks have other numbers in the set than in the job.
        self.ranks = list(range(1, rueda.size()))
        self.set = rueda.add_process_set(reversed(self.ranks))
        self.inputs = [np.arange(12, dtype=np.float64).reshape(6, 2) * (rank + 1) for rank in self.ranks]
        self.mine = np.arange(12, dtype=np.float64).reshape(6, 2) * (rueda.rank() + 1)

    def tearDown(self):
        rueda.remove_process_set(self.set)

    def test_who_is_in(self):
        self.assertEqual(self.set.ranks, self.ranks)
        self.assertEqual(self.set.size(), len(self.ranks))
        self.assertEqual(self.set.included(), rueda.rank() in self.ranks)
        self.assertEqual(rueda.global_process_set.ranks, list(range(rueda.size())))
        if self.set.included():
            self.assertEqual(self.set.rank(), rueda.rank() - 1)
        else:
            with self.assertRaisesRegex(rueda.InvalidArgument, "rank 0 is not a member of process set"):
                self.set.rank()

    def test_who_is_not_in_is_refused(self):
        if not self.set.included():
            with self.assertRaisesRegex(rueda.InvalidArgument, "rank 0 is not a member of process set"):
                rueda.allreduce(self.mine, "x", process_set=self.set)

    def test_every_operation(self):
        if not self.set.included():
            return
        keywords = {"process_set": self.set}
        total = np.sum(self.inputs, axis=0)
        np.testing.assert_array_equal(rueda.allreduce(self.mine, "x", rueda.Sum, **keywords), total)
        np.testing.assert_array_equal(rueda.allreduce_async(self.mine, op=rueda.Sum, **keywords).result(), total)
        for grouped in rueda.grouped_allreduce([self.mine, self.mine], op=rueda.Sum, **keywords):
            np.testing.assert_array_equal(grouped, total)
        for gathered in rueda.grouped_allgather([self.mine, self.mine], **keywords):
            np.testing.assert_array_equal(gathered, np.concatenate(self.inputs))
        rows, sums = rueda.sparse_allreduce(np.arange(6), self.mine, (6, 2), **keywords)
        np.testing.assert_array_equal(rows, np.arange(6))
        np.testing.assert_array_equal(sums, total / len(self.ranks))
        np.testing.assert_array_equal(rueda.broadcast(self.mine, self.ranks[-1], **keywords), self.inputs[-1])
        np.testing.assert_array_equal(rueda.allgather(self.mine, **keywords), np.concatenate(self.inputs))
        splits = [len(rows) for rows in np.array_split(total, len(self.ranks))]
        shares = np.split(total, np.cumsum(splits)[:-1])
        np.testing.assert_array_equal(rueda.reducescatter(self.mine, op=rueda.Sum, **keywords), shares[self.set.rank()])
        for scattered in rueda.grouped_reducescatter([self.mine] * 2, op=rueda.Sum, **keywords):
            np.testing.assert_array_equal(scattered, shares[self.set.rank()])
        received, counts = rueda.alltoall(self.mine, splits, **keywords)
        begin, end = np.cumsum([0, *splits])[self.set.rank() : self.set.rank() + 2]
        np.testing.assert_array_equal(received, np.concatenate([rows[begin:end] for rows in self.inputs]))
        self.assertEqual(list(counts), [end - begin] * len(self.ranks))
        root = self.ranks[-1]
        is_root = rueda.rank() == root
        gathered = rueda.gather(self.mine, root, **keywords)
        reduced = rueda.reduce(self.mine, root, op=rueda.Sum, **keywords)
        if is_root:
            np.testing.assert_array_equal(gathered, np.concatenate(self.inputs))
            np.testing.assert_array_equal(reduced, total)
        else:
            self.assertEqual((gathered, reduced), (None, None))
        scattered = rueda.scatter(self.mine, splits if is_root else None, root, **keywords)
        np.testing.assert_array_equal(scattered, self.inputs[-1][begin:end])
        with self.assertRaisesRegex(rueda.InvalidArgument, "the root rank is 0, which is not in process set"):
            rueda.gather(self.mine, 0, **keywords)
        rueda.barrier(**keywords)
        self.assertEqual(rueda.allgather_object(rueda.rank(), **keywords), self.ranks)
        self.assertEqual(rueda.broadcast_object([rueda.rank()], self.ranks[0], **keywords), [self.ranks[0]])

    def test_slots_belong_to_a_set(self):
        slot = rueda.TensorSlot("slot", self.set)
        if self.set.included():
            for _ in range(3):
                total = rueda.allreduce(self.mine, slot, rueda.Sum, process_set=self.set)
                np.testing.assert_array_equal(total, np.sum(self.inputs, axis=0))
        with self.assertRaisesRegex(rueda.InvalidArgument, "the slot of 'slot' belongs to process set"):
            rueda.allreduce(self.mine, slot)

    def test_sets_do_not_wait_for_each_other(self):
        async def both():
            everyones = rueda.allreduce_async(np.ones(1), "both", rueda.Sum)
            if self.set.included():
                members = rueda.allreduce_async(np.ones(1), "both", rueda.Sum, process_set=self.set)
                self.assertEqual((await members)[0], len(self.ranks))
            self.assertEqual((await everyones)[0], rueda.size())

        asyncio.run(both())

    def test_errors_name_ranks_of_the_job(self):
        if len(self.ranks) > 1 and self.set.included():
            with self.assertRaisesRegex(rueda.Mismatch, r"shape: rank 1: \[3\]; ranks? 2.*: \[4\]"):
                rueda.allreduce(np.ones(3 + (self.set.rank() > 0)), "shapes", process_set=self.set)

    def test_what_cannot_be_a_set(self):
        for ranks, text in (([], "at least one rank"), ([0, 0], "rank 0 twice"), ([rueda.size()], "there is no rank")):
            with self.subTest(ranks=ranks), self.assertRaisesRegex(rueda.InvalidArgument, text):
                rueda.add_process_set(ranks)
        with self.assertRaisesRegex(rueda.InvalidArgument, "has the same ranks already"):
            rueda.add_process_set(self.ranks)
        with self.assertRaisesRegex(rueda.Mismatch, "different changes of the process sets"):
            rueda.add_process_set([rueda.rank()])

    def test_a_removed_set_is_refused(self):
        removed = rueda.add_process_set([0])
        rueda.remove_process_set(removed)
        with self.assertRaisesRegex(rueda.InvalidArgument, "there is no process set"):
            rueda.allreduce(self.mine, "x", process_set=removed)
        with self.assertRaises(rueda.InvalidArgument):
            removed.size()


if __name__ == "__main__":
    unittest.main()
