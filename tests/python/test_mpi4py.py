# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests mpi4py in the same process. mpi4py or Rueda initialises MPI, depending on the program's argument. Runs under
mpirun."""

import os
import sys
import unittest

import mpi4py
import numpy as np
import rueda


class Both(unittest.TestCase):
    first = "mpi4py"

    def test_both_communicate(self):
        if self.first == "rueda":
            rueda.init()
        from mpi4py import MPI

        if self.first == "mpi4py":
            rueda.init()
        world = MPI.COMM_WORLD
        self.assertEqual((rueda.rank(), rueda.size()), (world.rank, world.size))
        for step in range(20):
            mine = np.full(10, world.rank + step, np.float64)
            other = np.empty_like(mine)
            handle = rueda.allreduce_async(mine, "sum", rueda.Sum)
            world.Allreduce(mine, other)
            np.testing.assert_array_equal(handle.result(), other)
        rueda.shutdown()
        self.assertFalse(MPI.Is_finalized())
        self.assertEqual(world.allreduce(1), world.size)


class Parts(unittest.TestCase):
    """Tests jobs of some of the launched ranks. The class Both runs first, and initialises MPI."""

    def test_parts_of_the_launch(self):
        """Forms two jobs at the same time, from communicators and from lists. MPI computes the expected sums."""
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        for comm_of in (lambda part: part, lambda part: part.group.Translate_ranks(None, world.group)):
            for colour in (world.rank % 2, world.rank // 2, 0 if world.rank < world.size - 1 else 1):
                part = world.Split(colour, key=world.rank)
                rueda.init(comm=comm_of(part))
                self.assertEqual((rueda.rank(), rueda.size()), (part.rank, part.size))
                mine = np.full(1000, world.rank + 1.0)
                np.testing.assert_array_equal(
                    rueda.allreduce(mine, "sum", rueda.Sum), np.full(1000, part.allreduce(world.rank + 1.0))
                )
                hosts = part.allgather(os.environ.get("RUEDA_HOSTNAME"))
                self.assertEqual(rueda.local_size(), hosts.count(hosts[part.rank]))
                self.assertEqual(rueda.local_rank(), hosts[: part.rank].count(hosts[part.rank]))
                rueda.shutdown()
                self.assertEqual(part.allreduce(1), part.size)  # the caller's communicator must still work
                part.Free()

    def test_a_communicator_in_another_order(self):
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        turned = world.Split(0, key=-world.rank)
        rueda.init(comm=turned)
        self.assertEqual(rueda.rank(), world.size - 1 - world.rank)
        self.assertEqual(rueda.allgather_object(world.rank), list(range(world.size))[::-1])
        rueda.shutdown()

    def test_a_second_call_with_the_same_ranks_does_nothing(self):
        """If the second call has the same ranks in the same order, it means the same job. It does not matter whether a
        communicator or a list gives the ranks. If the second call has other ranks or another order, it asks for a
        different job."""
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        again = world.Split(0, key=world.rank)
        turned = world.Split(0, key=-world.rank)
        everybody = list(range(world.size))
        others = (MPI.COMM_SELF, [world.rank], MPI.COMM_NULL)
        for first, same, different in (
            (turned, (turned, None), (world, again, everybody, *others)),
            (world, (world, again, None, [], everybody), (turned, *others)),
            (None, (world, again, everybody), (turned, *others)),
            (everybody, (world, again, everybody), (turned, *others)),
        ):
            rueda.init(comm=first)
            mine = rueda.rank()
            for comm in same:
                rueda.init(comm=comm)
            for comm in different:
                with self.assertRaisesRegex(rueda.InvalidArgument, "is in a job already, of the ranks"):
                    rueda.init(comm=comm)
            self.assertEqual((rueda.rank(), rueda.size()), (mine, world.size))
            mine = rueda.allreduce(np.array([world.rank + 1.0]), "sum", rueda.Sum)[0]
            self.assertEqual(mine, world.size * (world.size + 1) / 2)
            rueda.shutdown()

    def test_some_ranks_stay_away(self):
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        if world.rank < world.size - 1:
            rueda.init(comm=range(world.size - 1))
            self.assertEqual(rueda.allgather_object(world.rank), list(range(world.size - 1)))
            rueda.shutdown()

    def test_communicators_that_cannot_be(self):
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        with self.assertRaisesRegex(rueda.InvalidArgument, "MPI_COMM_NULL"):
            rueda.init(comm=MPI.COMM_NULL)
        if world.size > 1:
            half = world.Split(world.rank % 2)
            between = half.Create_intercomm(0, world, 1 - world.rank % 2)
            with self.assertRaisesRegex(rueda.InvalidArgument, "intercommunicator"):
                rueda.init(comm=between)
            merged = between.Merge()
            rueda.init(comm=merged)
            self.assertEqual(rueda.size(), world.size)
            with self.assertRaisesRegex(rueda.InvalidArgument, "is in a job already"):
                rueda.init(comm=MPI.COMM_SELF)
            rueda.shutdown()

    def test_lists_that_differ(self):
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        if world.size > 3:
            if world.rank in (0, 1):
                other = [0, 1, 3]
                with self.assertRaisesRegex(rueda.Mismatch, r"rank 0: 0, 1; rank 1: 0, 1, 3; give the same list"):
                    rueda.init(comm=[0, 1] if world.rank == 0 else other)
            world.Barrier()
            rueda.init(comm=[0, 1, 3] if world.rank != 2 else [2])
            self.assertEqual(rueda.allgather_object(world.rank), [2] if world.rank == 2 else [0, 1, 3])
            rueda.shutdown()


if __name__ == "__main__":
    Both.first = sys.argv.pop()
    print(f"{Both.first} first, mpi4py {mpi4py.__version__}")
    unittest.main()
