# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests `await handle`: the event loop must run on while a task waits. Runs with two ranks."""

import asyncio
import threading
import time
import traceback
import unittest

import numpy as np
import rueda
from rueda import _awaiting


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
            # The event loop and the waiting thread must use little processor time.
            self.assertLess(time.process_time() - used, 0.2)
            return await waiting, turns

        result, turns = asyncio.run(main())
        np.testing.assert_array_equal(result, np.full(4, rueda.size()))
        self.assertGreater(turns, 5)

    def test_a_long_wait_costs_nothing(self):
        async def main():
            used = time.process_time()
            result = await rueda.allreduce_async(np.full(4, rueda.rank() + 1.0), "long", rueda.Sum)
            return result, time.process_time() - used

        rueda.barrier()
        if rueda.rank() == 1:
            time.sleep(1)
        result, used = asyncio.run(main())
        np.testing.assert_array_equal(result, np.full(4, 3.0))
        if rueda.rank() == 0:
            self.assertLess(used, 0.025)  # processor time in seconds; a loop that polls every 4 ms would need 0.045

    def test_who_awaits_lets_senders_go_on(self):
        """A rank that waits for an operation also accepts messages. So rank 1's send may complete before rank 0 starts
        the receive."""
        message = np.full(3, rueda.rank() + 5.0)

        async def main():
            result = await rueda.allreduce_async(np.ones(4), "after the message", rueda.Sum)
            return result, await rueda.receive_async(message, 1)

        rueda.barrier()
        if rueda.rank() == 0:
            result, sender = asyncio.run(main())
            self.assertEqual(sender, 1)
        else:
            time.sleep(0.2)  # after this sleep, the other rank is waiting
            rueda.send(message, 0)
            result = rueda.allreduce(np.ones(4), "after the message", rueda.Sum)
        np.testing.assert_array_equal(result, np.full(4, 2.0))
        np.testing.assert_array_equal(message, np.full(3, 6.0))

    def test_one_awaited_after_another_while_the_first_is_pending_for_long(self):
        async def main():
            if rueda.rank() == 1:
                for i in range(20):
                    await asyncio.sleep(0.01)
                    await rueda.allreduce_async(np.ones(1), f"short.{i}", rueda.Sum)
                return await rueda.allreduce_async(np.ones(1), "first", rueda.Sum)
            first = asyncio.ensure_future(result_of(rueda.allreduce_async(np.ones(1), "first", rueda.Sum)))
            for i in range(20):
                short = await rueda.allreduce_async(np.ones(1), f"short.{i}", rueda.Sum)
                self.assertEqual(short.tolist(), [2.0])
                # Rank 1 starts the operation "first" only after its 20 short operations.
                self.assertTrue(i == 19 or not first.done())
            return await first

        self.assertEqual(asyncio.run(main()).tolist(), [2.0])

    def test_a_time_limit_names_the_ranks_that_have_not_come(self):
        """After the timeout, the operation continues and can be awaited again."""
        tensor = np.full(4, rueda.rank() + 1.0)

        async def main():
            handle = rueda.allreduce_async(tensor, "limited", rueda.Sum)
            with self.assertRaises(asyncio.TimeoutError) as caught:
                await asyncio.wait_for(handle, 0.3)
            rueda.send(np.ones(1), 1)
            return caught.exception, await handle

        if rueda.rank() == 1:
            rueda.receive(np.ones(1), 0)
            result = rueda.allreduce(tensor, "limited", rueda.Sum)
        else:
            error, result = asyncio.run(main())
            text = "".join(traceback.format_exception(error))
            self.assertRegex(
                text, "CancelledError: tensor 'limited': not completed: rank 1 has not announced it, rank 0 has"
            )
        np.testing.assert_array_equal(result, np.full(4, 3.0))

    def test_a_cancelled_task_tells_its_reason_and_the_ranks(self):
        async def main():
            handle = rueda.allreduce_async(np.ones(4), "not needed", rueda.Sum)
            task = asyncio.ensure_future(result_of(handle))
            await asyncio.sleep(0)  # this pause lets the task begin to wait
            task.cancel("the program has changed its mind")
            with self.assertRaises(asyncio.CancelledError) as caught:
                await task
            rueda.send(np.ones(1), 1)
            return caught.exception, await handle

        if rueda.rank() == 1:
            rueda.receive(np.ones(1), 0)
            rueda.allreduce(np.ones(4), "not needed", rueda.Sum)
        else:
            error, _ = asyncio.run(main())
            text = "".join(traceback.format_exception(error))
            self.assertIn("the program has changed its mind", text)
            self.assertIn("tensor 'not needed': not completed: rank 1 has not announced it", text)

    def test_jobs_that_end_while_others_begin_to_await(self):
        """The program may await a handle of the next job while the thread of the previous job is still ending."""
        for _ in range(20):
            self.assertEqual(asyncio.run(result_of(rueda.allreduce_async(np.ones(1), "x", rueda.Sum))).tolist(), [2.0])
            stopping = threading.Thread(target=_awaiting.stop)
            stopping.start()
            self.assertEqual(asyncio.run(result_of(rueda.allreduce_async(np.ones(1), "y", rueda.Sum))).tolist(), [2.0])
            stopping.join()

    def test_out_of_order(self):
        async def main():
            if rueda.rank() == 0:
                first = asyncio.ensure_future(result_of(rueda.barrier_async("first")))
                await asyncio.sleep(0)
                # The second barrier completes although rank 1 has not started the allreduce.
                await rueda.barrier_async("second")
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
