# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""mpi4py in the same process: whoever comes first initialises MPI. Under mpirun; the argument says who is first."""

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


if __name__ == "__main__":
    Both.first = sys.argv.pop()
    print(f"{Both.first} first, mpi4py {mpi4py.__version__}")
    unittest.main()
