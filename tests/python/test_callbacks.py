# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests `add_done_callback`: after the end of an operation, every callback must be called once with the handle. Runs
with two ranks."""

import gc
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


def outcome_of(call):
    try:
        return call()
    except Exception as error:
        return error


class Callbacks(unittest.TestCase):
    def test_results_by_callbacks_alone(self):
        """The program drops the handles, so only the callbacks keep them alive."""
        count = 100
        results = {}
        left = threading.Semaphore(0)

        def keep(index, handle):
            results[index] = handle.result()  # result() does not wait here, because the operation has ended
            left.release()

        for index in range(count):
            mine = np.full(10, index + rueda.rank(), np.float64)
            rueda.allreduce_async(mine, f"r{index}", rueda.Sum).add_done_callback(lambda h, i=index: keep(i, h))
        for _ in range(count):
            self.assertTrue(left.acquire(timeout=30))
        for index in range(count):
            np.testing.assert_array_equal(results[index], np.full(10, sum(index + r for r in range(rueda.size()))))

    def test_several_callbacks_come_in_their_order_and_late_ones_at_once(self):
        called = []
        done = threading.Event()
        handle = rueda.barrier_async("ordered") if rueda.rank() == 0 else None
        if handle is not None:
            for name in "abc":
                handle.add_done_callback(lambda h, n=name: called.append((n, h is handle)))
            handle.add_done_callback(lambda _: done.set())
            # the other rank starts these operations later, so none of them can complete during this time
            time.sleep(0.02)
            self.assertEqual(called, [])
            rueda.barrier("go")
            self.assertTrue(done.wait(30))
        else:
            rueda.barrier("go")
            handle = rueda.barrier_async("ordered")
            handle.wait()
        expected = [("a", True), ("b", True), ("c", True)] if rueda.rank() == 0 else []
        self.assertEqual(called, expected)
        handle.add_done_callback(lambda _: called.append(threading.current_thread()))
        self.assertEqual(called, [*expected, threading.main_thread()])

    def test_a_failure_is_told(self):
        done = threading.Event()
        told = []

        def look(handle):
            try:
                handle.result()
            except rueda.Mismatch as error:
                told.append(str(error))
            done.set()

        rueda.allreduce_async(np.ones(1 + rueda.rank()), "unlike").add_done_callback(look)
        self.assertTrue(done.wait(30))
        self.assertIn("'unlike'", told[0])

    def test_a_callback_may_start_and_not_wait(self):
        done = threading.Event()
        told = []
        tensor = np.ones(4)

        def first(_):
            handle = rueda.allreduce_async_(tensor, "second", rueda.Sum)
            try:
                handle.wait()
            except rueda.InvalidArgument as error:
                told.append(str(error))
            handle.add_done_callback(second)

        def second(handle):
            told.append(handle.result()[0])
            done.set()

        rueda.allreduce_async_(tensor, "first", rueda.Sum).add_done_callback(first)
        self.assertTrue(done.wait(30))
        # A callback that is added to a pending operation runs on a thread of Rueda, where it must not wait.
        if len(told) == 2:
            self.assertRegex(told[0], "a completion callback called something that waits")
        self.assertEqual(told[-1], rueda.size() ** 2)

    def test_what_waits_is_refused_before_it_starts(self):
        """Each call must fail before it starts an operation, sends a message, or joins."""
        other = (rueda.rank() + 1) % rueda.size()
        ones = np.ones(3)
        waiting = [
            lambda: rueda.allreduce(ones, "waits", rueda.Sum),
            lambda: rueda.allreduce_(ones, "waits", rueda.Sum),
            lambda: rueda.grouped_allreduce([ones], "waits", rueda.Sum),
            lambda: rueda.grouped_allreduce_([ones], "waits", rueda.Sum),
            lambda: rueda.grouped_allgather([ones], "waits"),
            lambda: rueda.grouped_reducescatter([ones], "waits", rueda.Sum),
            lambda: rueda.sparse_allreduce([0], ones[:1], (3,), "waits", rueda.Sum),
            lambda: rueda.allgather(ones, "waits"),
            lambda: rueda.alltoall(np.ones(rueda.size()), name="waits"),
            lambda: rueda.reducescatter(ones, "waits"),
            lambda: rueda.broadcast(ones, 0, "waits"),
            lambda: rueda.gather(ones, 0, "waits"),
            lambda: rueda.scatter(np.ones(rueda.size()), name="waits"),
            lambda: rueda.reduce(ones, 0, "waits"),
            lambda: rueda.broadcast_parameters([ones]),
            lambda: rueda.barrier("waits"),
            lambda: rueda.send(ones, other, 3),
            lambda: rueda.receive(ones, other, 3),
            lambda: rueda.add_process_set([0]),
            lambda: rueda.remove_process_set(rueda.global_process_set),
            rueda.join,
            rueda.shutdown,
        ]
        for is_queued in (True, False):
            told = []
            done = threading.Event()

            def call_all(_, told=told, done=done):
                told.extend(map(outcome_of, waiting))
                done.set()

            handle = rueda.allreduce_async(ones, "waited for") if rueda.rank() == 0 else None
            if handle is not None and is_queued:
                handle.add_done_callback(call_all)
            rueda.barrier("go")
            handle = handle or rueda.allreduce_async(ones, "waited for")
            handle.wait()
            if rueda.rank() == 0:
                if not is_queued:
                    handle.add_done_callback(call_all)
                self.assertTrue(done.wait(30))
                self.assertEqual(len(told), len(waiting))
                for error in told:
                    self.assertIsInstance(error, rueda.InvalidArgument)
                    self.assertIn("a completion callback called something that waits", str(error))
            mine = np.full(3, rueda.rank() + 1.0)
            total = sum(range(1, rueda.size() + 1))
            np.testing.assert_array_equal(rueda.allreduce(mine, "waits", rueda.Sum), np.full(3, total))
            received = np.zeros(3)
            # The receive must get this message. If a refused call had sent a message, the receive would get the message
            # of the refused call.
            sent = rueda.send_async(mine, other, 3)
            rueda.receive(received, tag=3)
            sent.wait()
            np.testing.assert_array_equal(received, np.full(3, other + 1.0))

    def test_what_a_callback_raises_is_reported(self):
        reported = []
        hook, sys.unraisablehook = sys.unraisablehook, lambda report: reported.append(report.exc_value)
        try:
            done = threading.Event()

            def fail(_):
                raise KeyError("of the test")

            handle = rueda.barrier_async("reported")
            handle.add_done_callback(fail)
            handle.add_done_callback(lambda _: done.set())
            self.assertTrue(done.wait(30))
        finally:
            sys.unraisablehook = hook
        self.assertEqual([error.args for error in reported], [("of the test",)])

    def test_no_function(self):
        handle = rueda.barrier_async("no function")
        with self.assertRaisesRegex(TypeError, "5 cannot be called"):
            handle.add_done_callback(5)
        handle.wait()

    def test_nothing_is_kept_afterwards(self):
        class Owner:
            def note(self, _):
                done.set()

        done = threading.Event()
        owner = Owner()
        handle = rueda.barrier_async("kept")
        handle.add_done_callback(owner.note)
        gone = weakref.ref(owner)
        del owner
        self.assertTrue(done.wait(30))
        handle.wait()
        rueda.barrier()
        deadline = time.monotonic() + 10  # the thread frees the list only after it has left the callback
        while gone() is not None and time.monotonic() < deadline:
            gc.collect()
            time.sleep(0.001)
        self.assertIsNone(gone())

    def test_pending_at_a_shutdown(self):
        told = []

        def look(handle):
            try:
                handle.result()
            except rueda.RuedaError as error:
                told.append(str(error))

        rueda.allreduce_async(np.ones(1), f"of rank {rueda.rank()}").add_done_callback(look)
        rueda.barrier()
        rueda.shutdown()
        self.assertEqual(len(told), 1)
        self.assertIn("shut", told[0])
        rueda.init()


if __name__ == "__main__":
    unittest.main()
