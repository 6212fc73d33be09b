# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests several jobs, one after the other, in one process. The tests check what each job leaves behind, and which
objects can be used after it.
"""

import os
import unittest

import numpy as np
import rueda

ROUNDS = 100
# The first rounds do not count, because in these rounds Python and the libraries allocate memory that they never
# release.
WARM = 20


def kib_of(file, *keys):
    with open(f"/proc/self/{file}", encoding="ascii") as lines:
        return sum(int(line.split()[1]) for line in lines if line.split(":")[0] in keys)


def footprint():
    """Returns three sizes of the process in KiB: its addresses, its anonymous memory, and its shared memory. The
    private pages of program code do not count, because they depend on which rank ended first.
    """
    return (
        kib_of("status", "VmSize"),
        kib_of("smaps_rollup", "Anonymous"),
        kib_of("status", "RssShmem"),
    )


class Rounds(unittest.TestCase):
    def test_a_hundred_jobs(self):
        # In each job, a rank reserves 2 TiB of addresses for resident memory. A process has enough addresses for only a
        # few such jobs at the same time.
        os.environ["RUEDA_RESIDENT_LIMIT"] = "2048G"
        before = (0, 0, 0)
        kept = []
        for job in range(ROUNDS):
            rueda.init()
            tensor = rueda.empty(100_000)
            tensor[:] = rueda.rank() + job
            rueda.allreduce_(tensor, "tensor", rueda.Sum)
            total = sum(rank + job for rank in range(rueda.size()))
            small = np.ones(10)
            for i in range(10):
                rueda.allreduce_(small, f"small.{i}", rueda.Max)
            rueda.shutdown()
            self.assertEqual(tensor[-1], total)
            del tensor
            kept.append(np.ones(50_000))  # the system maps this allocation separately, perhaps where the arena was
            if job == WARM:
                before = footprint()
        addresses, anonymous, shared = (
            (now - then) / (ROUNDS - 1 - WARM) for now, then in zip(footprint(), before, strict=True)
        )
        held = kept[0].nbytes / 1024
        self.assertLess(addresses, 2 * held + 64)
        self.assertLess(anonymous, held + 64)
        self.assertLess(shared, 4)

    def test_what_is_held_outlives_its_job(self):
        rueda.init()
        held = rueda.empty((1000, 100))
        held[:] = 1
        handle = rueda.allreduce_async_(held, "held", rueda.Sum)
        handle.wait()
        size = rueda.size()
        rueda.shutdown()
        for _ in range(3):
            self.assertRaises(rueda.NotInitialized, rueda.empty, 10)
            self.assertTrue(handle.poll())
            np.testing.assert_array_equal(held, np.full((1000, 100), size, np.float32))
            rueda.init()
            other = rueda.empty((1000, 100))
            other[:] = 7
            held[:] = 1
            rueda.allreduce_(held, "held", rueda.Sum)
            np.testing.assert_array_equal(other, np.full((1000, 100), 7, np.float32))
            rueda.shutdown()
            other += held
            np.testing.assert_array_equal(other, np.full((1000, 100), 7 + size, np.float32))


if __name__ == "__main__":
    unittest.main()
