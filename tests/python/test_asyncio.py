# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""`await handle`: the event loop goes on meanwhile. Two ranks."""

import asyncio
import time
import unittest

import numpy as np
import rueda


def setUpModule():
    rueda.init()


def tearDownModule():
    rueda.shutdown()


async def result_of(handle):
    return await handle


class Awaiting(unittest.TestCase):
    def test_many_handles_in_another_order_on_each_rank(self):
        async def main():
            order = list(range(50))[:: 1 if rueda.rank() == 0 else -1]
            handles = {i: rueda.allreduce_async(np.full(10, i + rueda.rank()), f"a{i}", rueda.Sum) for i in order}
            return await asyncio.gather(*(handles[i] for i in range(50)))

        for index, result in enumerate(asyncio.run(main())):
            np.testing.assert_array_equal(result, np.full(10, sum(index + r for r in range(rueda.size()))))

    def test_the_loop_goes_on(self):
        async def main():
            tensor = np.ones(4)
            if rueda.rank() == 1:
                await asyncio.sleep(0.3)
                return await rueda.allreduce_async_(tensor, "slow", rueda.Sum), 30
            waiting = asyncio.ensure_future(result_of(rueda.allreduce_async_(tensor, "slow", rueda.Sum)))
            turns = 0
            used = time.process_time()
            while not waiting.done():
                await asyncio.sleep(0.01)
                turns += 1
            self.assertLess(time.process_time() - used, 0.2)  # nobody spins, neither the loop nor the thread
            return await waiting, turns

        result, turns = asyncio.run(main())
        np.testing.assert_array_equal(result, np.full(4, rueda.size()))
        self.assertGreater(turns, 5)

    def test_out_of_order(self):
        async def main():
            if rueda.rank() == 0:
                first = asyncio.ensure_future(result_of(rueda.barrier_async("first")))
                await asyncio.sleep(0)
                await rueda.barrier_async("second")  # completes while the other has not begun on rank 1
                self.assertFalse(first.done())
                await rueda.barrier_async("third")
                await first
            else:
                for name in ("second", "third", "first"):
                    await rueda.barrier_async(name)

        asyncio.run(main())

    def test_failures(self):
        async def main():
            with self.assertRaises(rueda.Mismatch):
                await rueda.allreduce_async(np.ones(1 + rueda.rank()), "unlike")

        asyncio.run(main())

    def test_a_cancelled_task_leaves_the_operation(self):
        tensor = np.ones(1)

        async def main():
            handle = rueda.allreduce_async_(tensor, "cancelled", rueda.Sum)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(result_of(handle), 0.05)
            return handle

        if rueda.rank() == 0:
            handle = asyncio.run(main())
            rueda.barrier("go")
            handle.wait()
        else:
            rueda.barrier("go")
            rueda.allreduce_(tensor, "cancelled", rueda.Sum)
        self.assertEqual(tensor[0], rueda.size())

    def test_again_after_a_shutdown(self):
        rueda.shutdown()
        rueda.init()
        self.assertIsNone(asyncio.run(result_of(rueda.barrier_async())))


if __name__ == "__main__":
    unittest.main()
