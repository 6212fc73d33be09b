# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests groups without a name. The groups of the ranks must match, whatever some ranks did before. Runs with two or
more ranks.

If the ranks counted their groups differently, rank 0's group would wait forever.
"""

import unittest

import numpy as np
import rueda


class UnnamedGroups(unittest.TestCase):
    def setUp(self):
        rueda.init()

    def tearDown(self):
        rueda.shutdown()

    def check(self, process_set=rueda.global_process_set):
        """Runs one group of each kind without a name, and checks the results."""
        keywords = {"process_set": process_set}
        mine = np.full(4, rueda.rank() + 1.0)
        total = sum(rank + 1.0 for rank in process_set.ranks)
        for result in (
            rueda.grouped_allreduce([mine], op=rueda.Sum, **keywords),
            rueda.grouped_allreduce_([mine.copy()], op=rueda.Sum, **keywords),
            rueda.grouped_allreduce_async_([mine.copy()], op=rueda.Sum, **keywords).result(),
        ):
            np.testing.assert_array_equal(result, [np.full(4, total)])
        gathered = np.repeat([rank + 1.0 for rank in process_set.ranks], 4)
        np.testing.assert_array_equal(rueda.grouped_allgather([mine], **keywords), [gathered])
        rows = rueda.grouped_reducescatter([np.ones(process_set.size())], op=rueda.Sum, **keywords)
        np.testing.assert_array_equal(rows, [[process_set.size()]])
        _, sums = rueda.sparse_allreduce([1], [rueda.rank() + 1.0], (3,), op=rueda.Sum, **keywords)
        self.assertEqual(sums.tolist(), [total])

    def test_what_one_rank_alone_could_not_start(self):
        nothing = object()
        self.check()
        if rueda.rank() == 1:
            mine = np.ones(2)
            for call in (
                lambda: rueda.grouped_allreduce([nothing]),
                lambda: rueda.grouped_allreduce_([nothing]),
                lambda: rueda.grouped_allreduce_async_([np.ones(2), nothing]),
                lambda: rueda.grouped_allgather([nothing]),
                lambda: rueda.grouped_allgather_async([np.ones(2), nothing]),
                lambda: rueda.grouped_reducescatter([nothing]),
                lambda: rueda.grouped_reducescatter_async([nothing]),
                lambda: rueda.sparse_allreduce([0], np.array([1j]), (3,)),
            ):
                with self.assertRaises(TypeError):
                    call()
            with self.assertRaises(rueda.InvalidArgument):
                rueda.grouped_allreduce_([mine, mine])  # two outputs in the same memory must be refused
        self.check()

    def test_groups_without_a_name_that_a_rank_in_join_has_not_started(self):
        if rueda.rank() != 1:
            for _ in range(3):
                rueda.grouped_allreduce([np.ones(2)], op=rueda.Sum)
        rueda.join()
        self.check()

    def test_members_that_share_memory_are_refused(self):
        shared = np.ones(1000, np.float32)
        for members in ([shared, shared], [shared[:600], np.ones(3), shared[400:]]):
            with self.assertRaisesRegex(rueda.InvalidArgument, r"'tied_1of\d' and 'tied_\dof\d' overlap in memory"):
                rueda.grouped_allreduce_(members, "tied", rueda.Sum)
        # if the refused group had started, this tensor would have changed
        np.testing.assert_array_equal(shared, np.ones(1000, np.float32))
        # The same tensor may be an input of two members.
        for result in rueda.grouped_allreduce([shared, shared], "tied", rueda.Sum):
            np.testing.assert_array_equal(result, np.full(1000, rueda.size()))

    def test_groups_of_the_next_job_s_sets_are_counted_anew(self):
        if rueda.size() < 3:
            return  # with two ranks, only the world has several ranks, and no other set can be tested

        def first_set(ranks):
            made = rueda.add_process_set(ranks)
            if made.included():
                self.check(made)
            return made

        number = first_set([1]).process_set_id
        rueda.shutdown()
        rueda.init()
        two = first_set([0, 1])
        self.assertGreater(two.process_set_id, number)

    def test_more_than_there_are_names(self):
        last = rueda.size() - 1
        for step in range(70):
            (result,) = rueda.grouped_allreduce([np.full(2, float(step))])
            np.testing.assert_array_equal(result, np.full(2, float(step)))
            if rueda.rank() == last and step % 7 == 0:
                with self.assertRaises(TypeError):
                    rueda.grouped_allgather([None])
        self.check()

    def test_more_that_are_pending_than_there_are_names(self):
        """The last rank is late, so the other ranks have 64 unnamed groups pending, which is the maximum. Another group
        is refused, and must not be counted: the later groups must still match."""
        if rueda.rank() == rueda.size() - 1:
            rueda.barrier()
        handles = [
            rueda.grouped_allreduce_async([np.full(2, float(step)), np.ones(1 + step % 3)], op=rueda.Sum)
            for step in range(64)
        ]
        if rueda.rank() != rueda.size() - 1:
            with self.assertRaisesRegex(
                rueda.DuplicateName, "^64 groups without a name are pending in this process set: "
            ):
                rueda.grouped_allgather([np.ones(2)])
            rueda.barrier()
        for step, handle in enumerate(handles):
            first, second = handle.result()
            np.testing.assert_array_equal(first, np.full(2, float(step * rueda.size())))
            np.testing.assert_array_equal(second, np.full(1 + step % 3, float(rueda.size())))
        self.check()


if __name__ == "__main__":
    unittest.main()
