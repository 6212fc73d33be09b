# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests init() with Horovod's arguments: jobs of some ranks, process sets from the start, and a second job after
shutdown(). Runs with four ranks."""

import os
import unittest

import rueda
import rueda.torch as hvd
import torch

RANK = int(os.environ["RUEDA_RANK"])


class Communicator:
    """An object that looks like a communicator of mpi4py."""

    def Get_group(self):  # noqa: N802  (mpi4py's name)
        raise AssertionError("is not asked")


class Init(unittest.TestCase):
    def tearDown(self):
        hvd.shutdown()
        self.assertFalse(hvd.is_initialized())

    def test_some_ranks(self):
        members = [0, 1] if RANK < 2 else [2, 3]
        hvd.init(comm=members)
        self.assertEqual((hvd.size(), hvd.rank()), (2, members.index(RANK)))
        self.assertEqual(hvd.allgather(torch.tensor([RANK])).tolist(), members)
        self.assertEqual(hvd.global_process_set.ranks, [0, 1])

    def test_sets(self):
        for _ in range(2):  # the second pass makes the same calls after shutdown()
            first, others = hvd.ProcessSet([1, 0]), hvd.ProcessSet([2, 3])
            self.assertEqual((first.process_set_id, first.ranks, first.included()), (None, [0, 1], None))
            hvd.init(process_sets=[first, others])
            mine = first if hvd.rank() < 2 else others
            self.assertTrue(mine.included())
            self.assertEqual(hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=mine).item(), 2)
            hvd.shutdown()
            self.assertEqual((first.process_set_id, first.ranks, first.size()), (None, [0, 1], None))
            with self.assertRaises(ValueError):
                hvd.allreduce(torch.ones(1), process_set=first)

    def test_dynamic_sets_and_a_second_call(self):
        hvd.init(process_sets="dynamic")
        hvd.init()
        added = hvd.add_process_set([0, 2])
        self.assertEqual(added.included(), hvd.rank() in (0, 2))
        with self.assertRaises(ValueError):
            hvd.add_process_set(added)

    def test_sets_that_are_the_same(self):
        with self.assertRaises(ValueError):
            hvd.init(process_sets=[hvd.ProcessSet([0, 1]), hvd.ProcessSet([1, 0])])
        self.assertFalse(hvd.is_initialized())
        hvd.init()
        self.assertEqual(hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), 4)

    def test_what_is_refused(self):
        for arguments in ({"comm": 5}, {"comm": ["a"]}, {"process_sets": "static"}):
            with self.assertRaises(ValueError):
                hvd.init(**arguments)
        with self.assertRaises(NotImplementedError):
            hvd.init(process_sets=[hvd.ProcessSet(Communicator())])
        self.assertFalse(hvd.is_initialized())

    def test_both_interfaces_are_one_job(self):
        rueda.init()
        pair = hvd.ProcessSet([2, 3])
        hvd.init(process_sets=[pair])
        self.assertEqual((hvd.size(), hvd.global_process_set.ranks), (rueda.size(), [0, 1, 2, 3]))
        self.assertEqual(pair.included(), hvd.rank() > 1)
        made = rueda.add_process_set([0, 1])
        if made.included():
            self.assertEqual(hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=made).item(), 2)
        rueda.shutdown()
        with self.assertRaises(hvd.HorovodInternalError):
            hvd.allreduce(torch.ones(1))


if __name__ == "__main__":
    unittest.main()
