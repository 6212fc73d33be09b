# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests memory, threads, signals, forks and the end of the process. Runs with two ranks."""

import contextlib
import gc
import os
import signal
import sys
import threading
import time
import unittest
import weakref

import numpy as np
import rueda


def setUpModule():
    rueda.init()


def tearDownModule():
    rueda.shutdown()


class Buffers(unittest.TestCase):
    def test_a_dropped_handle_keeps_its_tensors(self):
        tensor = np.ones(1000)
        alive = weakref.ref(tensor)
        if rueda.rank() == 0:
            rueda.allreduce_async_(tensor, "dropped", rueda.Sum)
            del tensor
            gc.collect()
            np.testing.assert_array_equal(alive(), np.ones(1000))
            rueda.barrier("was dropped")
        else:
            rueda.barrier("was dropped")
            rueda.allreduce_(tensor, "dropped", rueda.Sum)
            np.testing.assert_array_equal(tensor, np.full(1000, 2))
            del tensor
        # The next call of any function drops Rueda's reference to the tensor.
        for _ in range(2):
            rueda.barrier("later")
        self.assertIsNone(alive())

    def test_a_buffer_in_use_cannot_be_resized(self):
        raw = bytearray(8)
        handle = rueda.allreduce_async_(raw, "held", rueda.Max) if rueda.rank() == 0 else None
        if handle is not None:
            with self.assertRaises(BufferError):
                raw.append(1)
        rueda.barrier("held it")
        if handle is None:
            rueda.allreduce_(raw, "held", rueda.Max)
        else:
            handle.wait()
        raw.append(1)

    def test_no_references_are_lost(self):
        tensor = np.ones(3)
        name = "counted" + str(rueda.size())

        def use():
            rueda.allreduce_(tensor, name)
            rueda.allreduce_async_(tensor, name).wait()
            rueda.grouped_allreduce_([tensor], name)
            rueda.allgather(tensor, name).sum()
            rueda.alltoall(np.ones(2), [1, 1], name)
            # The wrong arguments are: an average of bools, an unsupported type, and no tensor.
            for wrong in (np.ones(3, bool), np.ones(3, complex), 3):
                with contextlib.suppress(TypeError, rueda.Unsupported):
                    rueda.allreduce_(wrong, name)

        use()
        before = sys.getrefcount(tensor), sys.getrefcount(name)
        for _ in range(50):
            use()
        self.assertEqual((sys.getrefcount(tensor), sys.getrefcount(name)), before)


class Threads(unittest.TestCase):
    def test_other_threads_run_while_one_waits(self):
        ticks = []
        if rueda.rank() == 0:
            stop = threading.Event()

            def tick():
                while not stop.wait(0.005):
                    ticks.append(1)

            thread = threading.Thread(target=tick)
            thread.start()
            rueda.allreduce_(np.ones(1), "threads")
            stop.set()
            thread.join()
            self.assertGreater(len(ticks), 10)
        else:
            with rueda.busy("sleeping in a test"), rueda.busy("inside of it"):
                time.sleep(0.3)
            rueda.allreduce_(np.ones(1), "threads")


class Signals(unittest.TestCase):
    def test_a_handler_runs_while_its_thread_waits(self):
        class Interrupted(Exception):
            pass

        def handler(_number, _frame):
            raise Interrupted

        tensor = np.ones(1)
        if rueda.rank() == 0:
            previous = signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            begin = time.monotonic()
            with self.assertRaises(Interrupted):
                rueda.allreduce_(tensor, "signal", rueda.Sum)
            self.assertLess(time.monotonic() - begin, 5)
            signal.signal(signal.SIGALRM, previous)
            rueda.barrier("interrupted")
            rueda.barrier("joined")
            deadline = time.monotonic() + 30
            while tensor[0] != 2 and time.monotonic() < deadline:
                time.sleep(0.001)
        else:
            rueda.barrier("interrupted")
            rueda.allreduce_(tensor, "signal", rueda.Sum)
            rueda.barrier("joined")
        self.assertEqual(tensor[0], 2)  # the result shows that the operation continued after the signal


class Forks(unittest.TestCase):
    def in_child(self, body) -> int:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = body()
            finally:
                os._exit(status)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def test_a_child_gets_an_error_and_harms_nobody(self):
        tensor = np.ones(1)
        handle = rueda.allreduce_async_(tensor, "parent", rueda.Sum)

        def use():
            for call in (rueda.rank, rueda.init, lambda: rueda.allreduce_(np.ones(1)), rueda.barrier, handle.wait):
                try:
                    call()
                except rueda.NotInitialized as error:
                    if "forked" not in str(error):
                        return 2
                else:
                    return 3
            rueda.shutdown()
            return 0 if not rueda.is_initialized() else 4

        self.assertEqual(self.in_child(use), 0)
        handle.wait()
        self.assertEqual(tensor[0], rueda.size())

    def test_a_child_that_drops_what_the_parent_has_pending(self):
        handles = [rueda.allreduce_async(np.ones(1), "pending", rueda.Sum)]

        def drop():
            handles.clear()
            gc.collect()
            return 0

        self.assertEqual(self.in_child(drop), 0)
        self.assertEqual(handles[0].result()[0], rueda.size())


class Lives(unittest.TestCase):
    def test_init_again(self):
        kept = rueda.empty(1000, "int32")
        kept[:] = 3
        slot = rueda.TensorSlot("again")
        for _ in range(3):
            rueda.allreduce_(np.ones(1), slot)
            rueda.shutdown()
            rueda.shutdown()
            with self.assertRaises(rueda.NotInitialized):
                rueda.size()
            rueda.init()
            rueda.init()
        np.testing.assert_array_equal(kept, np.full(1000, 3))

    def test_what_is_pending_fails_at_shutdown(self):
        handle = rueda.allreduce_async(np.ones(1), f"only rank {rueda.rank()}")
        rueda.barrier("both pending")
        rueda.shutdown()
        with self.assertRaisesRegex(rueda.HorovodInternalError, "shut"):
            handle.wait()
        rueda.init()


if __name__ == "__main__":
    unittest.main()
