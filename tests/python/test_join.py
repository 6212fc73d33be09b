# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests jobs in which some ranks have fewer batches than others. Runs with two or more ranks."""

import asyncio
import pathlib
import shutil
import signal
import tempfile
import time
import unittest

import numpy as np
import rueda


def setUpModule():
    rueda.init()


def tearDownModule():
    rueda.shutdown()


class Join(unittest.TestCase):
    def train(self, batches_of, average):
        """Checks each step's average over the ranks that still have a batch."""
        for step in range(batches_of(rueda.rank())):
            active = [rank for rank in range(rueda.size()) if step < batches_of(rank)]
            divisor = rueda.size() if average == "all" else len(active)
            mine = np.full(5, 10.0 * rueda.rank() + step)
            result = rueda.allreduce(mine, "gradient")
            np.testing.assert_allclose(result, sum(10.0 * rank + step for rank in active) / divisor, rtol=1e-15)
            low, high = rueda.grouped_allreduce([mine, mine[:2].copy()], "group", rueda.Min)
            np.testing.assert_array_equal(low, np.full(5, 10.0 * min(active) + step))
            np.testing.assert_array_equal(high, np.full(2, 10.0 * min(active) + step))
            rueda.barrier()
            rueda.barrier("each step")
        return rueda.join(average=average)

    def test_more_batches_on_higher_ranks_and_then_on_lower_ones(self):
        for average in ("all", "active"):
            self.assertEqual(self.train(lambda rank: 3 + 2 * rank, average), rueda.size() - 1)
            self.assertEqual(self.train(lambda rank: 2 * (rueda.size() - rank), average), 0)

    def test_random_numbers_of_batches_against_numpy(self):
        same = np.random.default_rng(7)  # the same numbers on all ranks
        for round_ in range(6):
            batches = same.integers(0, 6, rueda.size())
            batches[same.integers(rueda.size())] += 1  # at least one rank has a batch
            inputs = same.integers(-9, 10, (7, rueda.size(), 40)).astype(np.float32)
            average = ("all", "active")[round_ % 2]
            for step in range(batches[rueda.rank()]):
                given = inputs[step, batches > step]
                mine = inputs[step, rueda.rank()]
                shape = (step % 3 + 1, 5)  # the shape changes while some ranks have joined
                results = [
                    rueda.allreduce_async(mine, "sum", rueda.Sum),
                    rueda.allreduce_async(mine[:15].reshape(3, 5)[: shape[0]], "shaped", rueda.Max),
                    rueda.allreduce_async(mine, f"new.{round_}.{step}", rueda.Min),
                    rueda.allreduce_async(np.tile(mine, 5000), "large", rueda.Average),
                    rueda.allreduce_async(mine, op=rueda.Product),
                ]
                divisor = rueda.size() if average == "all" else len(given)
                expected = [
                    given.sum(axis=0),
                    given.max(axis=0)[:15].reshape(3, 5)[: shape[0]],
                    given.min(axis=0),
                    np.tile(given.sum(axis=0), 5000) / divisor,
                    given.prod(axis=0),
                ]
                for result, right in zip(results, expected, strict=True):
                    np.testing.assert_allclose(result.result(), right, rtol=1e-6)
            last = rueda.join(average=average)
            self.assertEqual(rueda.allgather(np.array([last])).tolist(), [last] * rueda.size())
            self.assertEqual(batches[last], batches.max())

    def test_as_a_handle(self):
        for average in ("all", "active"):
            for step in range(1 + rueda.rank()):
                active = range(step, rueda.size())
                divisor = rueda.size() if average == "all" else len(active)
                mine = rueda.allreduce(np.array([float(rueda.rank())]), "gradient")
                self.assertAlmostEqual(mine[0], sum(active) / divisor)
            if rueda.rank() > 0:
                # Rank 0 sends this message after its checks in the join, so the others join later.
                rueda.receive(np.empty(1), 0)
            joined = rueda.join_async(average=average)
            if rueda.rank() == 0 and rueda.size() > 1:
                with self.assertRaises(rueda.InvalidArgument):
                    rueda.allreduce(np.ones(1), "late")
                for other in range(1, rueda.size()):
                    rueda.send(np.ones(1), other)
            self.assertEqual(joined.result(), rueda.size() - 1)
            self.assertTrue(joined.poll())

        async def join() -> int:
            return await rueda.join_async()

        self.assertIn(asyncio.run(join()), range(rueda.size()))
        with self.assertRaisesRegex(ValueError, "expected 'all' or 'active'"):
            rueda.join_async(average="some")

    def test_what_needs_every_rank_is_refused_and_works_afterwards(self):
        last = rueda.size() - 1
        if rueda.rank() != last:
            with self.assertRaisesRegex(
                rueda.InvalidArgument, rf"tensor 'b': this broadcast needs every rank, and rank {last} is in join\(\)"
            ):
                rueda.broadcast(np.zeros(3), 0, "b")
            with self.assertRaisesRegex(rueda.InvalidArgument, "tensor 'g': this allgather needs every rank"):
                rueda.allgather(np.zeros(3), "g")
        rueda.join()
        np.testing.assert_array_equal(rueda.broadcast(np.full(3, rueda.rank()), last, "b"), np.full(3, last))

    def test_in_a_process_set(self):
        pair = rueda.add_process_set([0, rueda.size() - 1]) if rueda.size() > 2 else rueda.global_process_set
        if rueda.rank() == 0:
            np.testing.assert_array_equal(rueda.allreduce(np.ones(2), "alone", rueda.Sum, process_set=pair), np.ones(2))
        rueda.join()
        if rueda.size() > 2:
            rueda.remove_process_set(pair)

    def interrupted_join(self, others):
        """A signal interrupts rank 0's join. Checks what the other ranks then do, and what their joins return."""
        folder = rueda.broadcast_object(tempfile.mkdtemp() if rueda.rank() == 0 else None)
        mark = pathlib.Path(folder, "interrupted")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)  # all ranks have seen the file before they join
        if rueda.rank() == 0:

            def fail(*_):
                raise InterruptedError("of the test")

            before = signal.signal(signal.SIGALRM, fail)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with self.assertRaisesRegex(InterruptedError, "of the test"):
                rueda.join()
            signal.signal(signal.SIGALRM, before)
            mark.touch()
            return None
        deadline = time.monotonic() + 60
        while not mark.exists():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return others()

    def test_a_join_that_a_signal_interrupted_is_taken_up(self):
        def others():
            total = sum(range(1, rueda.size()))
            result = rueda.allreduce(np.full(2, float(rueda.rank())), "without rank 0", rueda.Sum)
            np.testing.assert_array_equal(result, np.full(2, total))
            return rueda.join()

        last = self.interrupted_join(others)
        if rueda.rank() == 0:
            with self.assertRaisesRegex(rueda.InvalidArgument, r"call join\(\) with the same average to go on"):
                rueda.join(average="active")
            last = rueda.join()
        self.assertNotEqual(last, 0)
        self.assertEqual(rueda.allgather(np.array([last])).tolist(), [last] * rueda.size())
        np.testing.assert_array_equal(rueda.allreduce(np.ones(2), "all", rueda.Sum), np.full(2, rueda.size()))

    def test_a_join_that_was_interrupted_and_has_ended_is_not_the_next_one(self):
        last = self.interrupted_join(rueda.join)
        while rueda.rank() == 0:
            try:
                rueda.barrier("after")  # completes as soon as all ranks have joined
                break
            except rueda.InvalidArgument:
                time.sleep(0.01)
        if rueda.rank() != 0:
            self.assertNotEqual(last, 0)
            rueda.barrier("after")
        else:
            np.testing.assert_array_equal(rueda.allreduce(np.ones(2), "alone", rueda.Sum), np.ones(2))
        self.assertEqual(rueda.join(), 0)

    def test_another_average_is_refused(self):
        with self.assertRaisesRegex(ValueError, "average is 'some'; expected 'all' or 'active'"):
            rueda.join(average="some")


if __name__ == "__main__":
    unittest.main()
