# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests `init(comm=..., process_sets=...)`: jobs of some launched ranks, and process sets that exist from the start.
Runs with four ranks."""

import os
import unittest

import numpy as np
import rueda

LAUNCHED = int(os.environ["RUEDA_RANK"])


class Init(unittest.TestCase):
    def tearDown(self):
        rueda.shutdown()

    def check_job(self, members):
        """Checks the rank, the size, and a sum of the launch ranks."""
        self.assertEqual((rueda.rank(), rueda.size()), (members.index(LAUNCHED), len(members)))
        self.assertEqual((rueda.local_rank(), rueda.local_size()), (rueda.rank(), rueda.size()))
        self.assertEqual(rueda.allreduce(np.array([LAUNCHED + 1.0]), "x", rueda.Sum)[0], sum(m + 1.0 for m in members))
        self.assertEqual(rueda.allgather_object(LAUNCHED), members)

    def test_two_jobs_at_once(self):
        for first in ([0, 1], [0, 2], [3, 0]):
            members = sorted(first if LAUNCHED in first else {0, 1, 2, 3} - set(first))
            rueda.init(comm=first if LAUNCHED in first else reversed(members))
            self.check_job(members)
            rueda.init(comm=np.array(members))  # the job exists already, so these two calls have no effect
            rueda.init()
            with self.assertRaisesRegex(rueda.InvalidArgument, "is in a job already, of the ranks"):
                rueda.init(comm=range(4))
            rueda.shutdown()

    def test_all_ranks(self):
        for everybody in (None, [], [2, 3, 0, 1]):
            rueda.init(comm=everybody)
            self.check_job([0, 1, 2, 3])
            rueda.shutdown()

    def test_some_ranks_stay_away(self):
        if LAUNCHED < 3:
            rueda.init(comm=[0, 1, 2])
            self.check_job([0, 1, 2])

    def test_what_cannot_be(self):
        for comm, text in (
            ([0, 1, 2, 3, 4], "there is no rank 4; 4 processes were launched"),
            ([LAUNCHED, LAUNCHED], f"rank {LAUNCHED} is in the list twice"),
            ([(LAUNCHED + 1) % 4], f"this process is rank {LAUNCHED} of those that were launched"),
            (["one"], "expected integers"),
            (5, "expected None, a list of ranks or an mpi4py communicator"),
        ):
            with self.subTest(comm=comm), self.assertRaisesRegex(rueda.InvalidArgument, text):
                rueda.init(comm=comm)
        self.assertFalse(rueda.is_initialized())

    def test_sets_from_the_start(self):
        even, odd = rueda.ProcessSet([2, 0]), [1, 3]
        with self.assertRaisesRegex(rueda.InvalidArgument, r"ProcessSet\(\[2, 0\]\) is not known to the job"):
            even.process_set_id  # noqa: B018  (reading the attribute must fail)
        for _ in range(2):  # the same objects can be used in another job
            rueda.init(process_sets=[even, odd])
            self.assertEqual(even.ranks, [0, 2])
            self.assertEqual(even.included(), rueda.rank() % 2 == 0)
            if even.included():
                self.assertEqual(rueda.allreduce(np.ones(1) * rueda.rank(), "x", rueda.Sum, process_set=even)[0], 2)
            with self.assertRaisesRegex(rueda.InvalidArgument, "has the same ranks already"):
                rueda.add_process_set(odd)
            late = rueda.add_process_set(rueda.ProcessSet([0, 1, 2]))
            self.assertEqual(late.size(), 3)
            rueda.shutdown()

    def test_sets_of_the_last_job_are_not_those_of_the_next(self):
        rueda.init()
        old = rueda.add_process_set([0, 1])
        number = old.process_set_id
        rueda.shutdown()
        rueda.init()
        new = rueda.add_process_set([1, 2])
        self.assertGreater(new.process_set_id, number)
        for call in (
            lambda: rueda.allreduce(np.ones(1), "x", process_set=old),
            lambda: rueda.remove_process_set(old),
            lambda: rueda.TensorSlot("x", old),
            lambda: old.ranks,
        ):
            with self.assertRaisesRegex(rueda.InvalidArgument, r"ProcessSet\(\[0, 1\]\) is not known to the job"):
                call()
        if new.included():
            mine = np.full(1, float(rueda.rank()))
            self.assertEqual(rueda.allreduce(mine, "x", rueda.Sum, process_set=new).tolist(), [3.0])
        # if the set of the earlier job is added again, it becomes a set of this job
        self.assertEqual(rueda.add_process_set(old).ranks, [0, 1])
        if old.included():
            mine = np.full(1, float(rueda.rank()))
            self.assertEqual(rueda.allreduce(mine, "x", rueda.Sum, process_set=old).tolist(), [1.0])
        self.assertEqual(rueda.global_process_set.size(), 4)

    def test_sets_that_cannot_be_end_the_job_again(self):
        for sets, text in (
            ([[0, 1], [1, 0]], "has the same ranks already"),
            ([[0, 7]], "rank 7"),
            ("other", "dynamic"),
        ):
            with self.subTest(sets=sets), self.assertRaisesRegex(rueda.InvalidArgument, text):
                rueda.init(process_sets=sets)
            self.assertFalse(rueda.is_initialized())
        rueda.init(process_sets="dynamic")
        self.assertEqual(rueda.global_process_set.size(), 4)

    def test_sets_that_differ_between_ranks(self):
        with self.assertRaisesRegex(
            rueda.Mismatch,
            r"the ranks give different process sets: rank 0: none; ranks 1-3: \[0, 1\]; expected the same",
        ):
            rueda.init(process_sets=[] if LAUNCHED == 0 else [[1, 0]])
        self.assertFalse(rueda.is_initialized())
        rueda.init(process_sets=[[0, 1]])
        again, other = rueda.ProcessSet([1, 0]), rueda.ProcessSet([2, 3])
        rueda.init(process_sets=[again])
        self.assertEqual(again.ranks, [0, 1])
        with self.assertRaisesRegex(rueda.InvalidArgument, "begun already, without a process set of ranks 2, 3"):
            rueda.init(process_sets=[other])

    def test_sets_of_a_job_of_some_ranks(self):
        members = [0, 1, 3]
        if LAUNCHED in members:
            last_two = rueda.ProcessSet([1, 2])  # these numbers are ranks of the job, not of the launch
            rueda.init(members, [last_two])
            self.assertEqual(last_two.included(), LAUNCHED != 0)
            if last_two.included():
                gathered = rueda.allgather(np.array([LAUNCHED]), "x", process_set=last_two)
                np.testing.assert_array_equal(gathered, [1, 3])
                parameters = {"w": np.full(3, float(LAUNCHED))}
                rueda.broadcast_parameters(parameters, root_rank=2, process_set=last_two)
                np.testing.assert_array_equal(parameters["w"], np.full(3, 3.0))


if __name__ == "__main__":
    unittest.main()
