# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests join() as a handle, and joins that a signal interrupts. test_join_properties.py tests which operations continue
without the joined ranks. Runs with two or more ranks.
"""

import asyncio
import pathlib
import shutil
import signal
import tempfile
import time
import unittest

import numpy as np
import rueda
from rueda import data


def setUpModule():
    rueda.init()


def tearDownModule():
    rueda.shutdown()


class Join(unittest.TestCase):
    def test_as_a_handle(self):
        for average in ("all", "active"):
            for step in range(1 + rueda.rank()):
                active = range(step, rueda.size())
                divisor = rueda.size() if average == "all" else len(active)
                mine = rueda.allreduce(np.array([float(rueda.rank())]), "gradient")
                self.assertAlmostEqual(mine[0], sum(active) / divisor)
            if rueda.rank() > 0:
                # Rank 0 sends this message only after its checks, so the other ranks join after these checks.
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

    def interrupted_join(self, others):
        """Lets a signal interrupt rank 0's join. Checks what the other ranks then do, and what their joins return."""
        folder = rueda.broadcast_object(tempfile.mkdtemp() if rueda.rank() == 0 else None)
        mark = pathlib.Path(folder, "interrupted")
        # no rank needs the file any more when all ranks have joined
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
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
                rueda.barrier("after")  # this barrier completes only after all ranks have joined
                break
            except rueda.InvalidArgument:
                time.sleep(0.01)
        if rueda.rank() != 0:
            self.assertNotEqual(last, 0)
            rueda.barrier("after")
        else:
            np.testing.assert_array_equal(rueda.allreduce(np.ones(2), "alone", rueda.Sum), np.ones(2))
        self.assertEqual(rueda.join(), 0)

    def test_ranks_whose_lanes_have_different_lengths(self):
        """Each rank reads its own file and joins at the end of it. The sum over all steps must have every sample once."""
        size, rank = rueda.size(), rueda.rank()
        folder = pathlib.Path(tempfile.mkdtemp()) if rank == 0 else None
        folder = rueda.broadcast_object(folder, 0)
        lengths = [5 + 3 * file for file in range(size)]
        begins = [sum(lengths[:file]) for file in range(size)]
        (folder / f"file-{rank}").write_text("".join(f"{begins[rank] + i}\n" for i in range(lengths[rank])))
        rueda.barrier("files")
        form = data.Csv([data.CsvColumn("number")], header=False)
        pipeline = data.Pipeline(folder / "file-*", form, batch=2 * size, rank=rank, size=size, lanes=size)
        total, steps = 0.0, 0
        for batch in pipeline:
            total += rueda.allreduce(np.array([batch["number"].sum()]), "sum of the step", rueda.Sum)[0]
            steps += 1
        self.assertEqual(steps, -(-lengths[rank] // 2))
        last = rueda.join()
        self.assertEqual(last, size - 1)  # the last rank has the longest file, so it has seen the sums of all steps
        everything = rueda.broadcast(np.array([total]), last)[0]
        self.assertEqual(everything, sum(range(sum(lengths))))
        if rank == 0:
            shutil.rmtree(folder)

    def test_another_average_is_refused(self):
        with self.assertRaisesRegex(ValueError, "average is 'some'; expected 'all' or 'active'"):
            rueda.join(average="some")


if __name__ == "__main__":
    unittest.main()
