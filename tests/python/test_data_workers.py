# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests rueda.data.workers(): values, order, memory, deaths, errors, and that nothing is left behind."""

import collections
import contextlib
import errno
import functools
import gc
import inspect
import io
import itertools
import multiprocessing
import os
import pathlib
import random
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import types
import unittest
from unittest import mock

import numpy as np
import rueda
import rueda.data
from rueda.data import _channel, _process, _slots, _worker, _workers

# Most tests fork the workers, because forking is fast. Some tests use the default start method, "spawn".
fork = functools.partial(rueda.data.workers, start_method="fork")
LIMIT = 60  # the maximum number of seconds for a wait; on an idle machine, every wait is much shorter


def numbers(worker, total, size=5):
    """Yields batches that contain the number of the batch, the index of the worker and the epoch."""
    for number in range(worker.index, total, worker.count):
        yield {"number": np.full(size, number), "from": np.array([worker.index, worker.epoch, os.getpid()])}


def numbers_of(batches):
    return [int(batch["number"][0]) for batch in batches]


def kinds(worker):
    yield {
        "bool": np.array([True, False]),
        "int8": np.array([[-1], [2]], "int8"),
        "half": np.float16([1.5]),
        "big endian": np.array([1, 2], ">i4"),
        "complex": np.array([1 + 2j]),
        "text": np.array(["a", "bcd"]),
        "bytes": np.array([b"xy"]),
        "time": np.array(["2026-11-26"], "datetime64[D]"),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "every second": np.arange(10)[::2],
        "scalar": 3.5,
        "list": [1, 2, 3],
        "none": np.empty((0, 4), "float32"),
    }
    yield {}


def filled_in_place(worker, total):
    for number in range(total):
        first, second = worker.empty((1000, 100)), worker.empty(7, "int64")
        first[...] = number
        second[...] = -number
        yield {"first": first, "number": second, "other": np.full(3, number)}


def failing(worker):
    yield {"number": np.zeros(1)}
    raise ValueError(f"row {worker.index + 40} is bad")


def bad_batch(worker, kind):
    yield {
        "object": {"x": np.array([None])},
        "key": {3: np.zeros(1)},
        "list": [np.zeros(1)],
        "structure": {"x": np.zeros(2, "i4,f4")},
    }[kind]


def dying(worker, way, after):
    for number in range(100):
        if worker.index == 1 and number == after:
            way()
        yield {"number": np.full(4, number)}


def kill_self():
    os.kill(os.getpid(), signal.SIGKILL)


def dying_once(worker, marker, begins_later):
    """Makes the batches 0 to 9. Worker 1 kills itself before batch 6, unless the file `marker` exists."""
    for number in range(worker.first_batch() if begins_later else 0, 10):
        if worker.index == 1 and number == 6 and not marker.exists():
            marker.touch()
            kill_self()
        yield {"number": np.full(4, 100 * worker.index + number)}


def dying_late(worker):
    yield {"number": np.zeros(1)}
    yield {"number": np.ones(1)}
    time.sleep(0.5)
    kill_self()


def slow(worker, seconds):
    if worker.index == 1:
        time.sleep(seconds)
    yield {"number": np.array([worker.index])}


def waiting_for(worker, file):
    while worker.index == 1 and not file.exists():
        time.sleep(0.01)
    yield {"number": np.array([worker.index])}


def calls_init(worker):
    rueda.init()
    yield {}


def changing_sizes(worker, seed):
    chance = random.Random(seed)
    for number in range(60):
        size = chance.choice([0, 1, 100, 5000, 300_000])
        array = worker.empty(size, "int32") if chance.random() < 0.5 else np.empty(size, "int32")
        array[...] = number
        yield {"number": np.array([number]), "values": array}


def raising(worker, error):
    yield {"number": np.zeros(1)}
    raise error


def long_traceback(worker):
    raise ValueError("x" * 100_000 + " is the end")
    yield


def same_array_again(worker):
    array = worker.empty(10)
    for number in range(3):
        array[...] = number
        yield {"number": array}


def use_of_memory(pid="self"):
    """Returns two numbers for a process: how many batches it has mapped, and how many descriptors it has open."""
    maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
    return maps.count("memfd:rueda-batch"), len(os.listdir(f"/proc/{pid}/fd"))


def telling_its_memory(worker, total, sizes, in_place):
    chance = random.Random(7)
    for number in range(total):
        size = chance.randint(*sizes)
        array = worker.empty(size) if in_place else np.empty(size, "float32")
        array[...] = number
        yield {"values": array, "number": np.array([number]), "memory": np.array(use_of_memory())}


class Values(unittest.TestCase):
    def test_the_order_is_fixed_and_every_batch_comes_once(self):
        for count, total in ((1, 5), (3, 10), (3, 2)):
            with self.subTest(count=count), fork(numbers, count, args=(total,)) as batches:
                seen = list(batches)
                self.assertEqual(numbers_of(seen), list(range(total)))
                self.assertEqual([int(batch["from"][0]) for batch in seen], [n % count for n in range(total)])

    def test_all_kinds_of_arrays_arrive_unchanged(self):
        with fork(kinds, 1) as batches:
            received, last = batches
        expected = next(kinds(None))
        self.assertEqual(list(received), list(expected))
        for name, value in expected.items():
            with self.subTest(name=name):
                self.assertEqual(received[name].dtype, np.asarray(value).dtype)
                self.assertEqual(received[name].shape, np.asarray(value).shape)
                np.testing.assert_array_equal(received[name], value)
                self.assertTrue(received[name].flags.writeable)
                self.assertEqual(received[name].ctypes.data % 64, 0)
        self.assertEqual(last, {})

    def test_spawned_workers_and_several_epochs(self):
        with rueda.data.workers(numbers, 2, args=(3,), epochs=2) as batches:
            loops = [list(batches), list(batches)]
            with self.assertRaisesRegex(rueda.InvalidArgument, "all 2 epochs .* were taken"):
                iter(batches)
        self.assertEqual([numbers_of(loop) for loop in loops], [[0, 1, 2]] * 2)
        self.assertEqual([int(batch["from"][1]) for loop in loops for batch in loop], [0, 0, 0, 1, 1, 1])
        self.assertNotIn(os.getpid(), {int(batch["from"][2]) for batch in loops[0]})

    def test_a_loop_that_was_left_goes_on(self):
        with fork(numbers, 2, args=(6,)) as batches:
            first = [next(iter(batches)) for _ in range(2)]
            self.assertEqual(numbers_of(first + list(batches)), list(range(6)))

    def test_ready_order_does_not_wait_for_the_slow_one(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "go on"
            with fork(waiting_for, 2, args=(file,), order="ready") as batches:
                first = next(iter(batches))
                file.touch()
                self.assertEqual(numbers_of([first, *batches]), [0, 1])
        with fork(numbers, 3, args=(50,), order="ready", epochs=2) as batches:
            self.assertEqual([sorted(numbers_of(batches)) for _ in range(2)], [list(range(50))] * 2)

    def test_epochs_without_batches(self):
        with fork(numbers, 2, args=(0,), epochs=0) as batches:
            for _ in range(20):
                self.assertEqual(list(batches), [])

    def test_resume_at_every_place(self):
        with fork(numbers, 3, args=(4,), epochs=2) as batches:
            states = [batches.state_dict()]
            for _ in range(2):
                for _batch in batches:
                    states.append(batches.state_dict())
        for taken, state in enumerate(states):
            with self.subTest(taken=taken), fork(numbers, 3, args=(4,), epochs=2) as batches:
                batches.load_state_dict(state)
                rest = numbers_of(batches)
                while batches.state_dict()["epoch"] < 2:
                    rest += numbers_of(batches)
                self.assertEqual(rest, (list(range(4)) * 2)[taken:])
        with fork(numbers, 2, args=(8,)) as batches:
            with self.assertRaisesRegex(rueda.InvalidArgument, "of 3 workers; this pipeline has 2"):
                batches.load_state_dict(states[0])
            for state in (
                {"epoch": 1},
                {"epoch": -1, "taken": [0, 0], "turn": 0},
                {"epoch": 0, "taken": [0, -1], "turn": 0},
                {"epoch": 0, "taken": [0, 1.5], "turn": 0},
            ):
                with self.subTest(state=state), self.assertRaisesRegex(rueda.InvalidArgument, "is not what state_dict"):
                    batches.load_state_dict(state)
            self.assertEqual(numbers_of(batches), list(range(8)))

    def test_the_summary_names_the_slowest_part(self):
        with fork(slow, 2, args=(0.3,)) as batches:
            list(batches)
            counts = batches.statistics()
            self.assertEqual((counts.batches, counts.bytes), (2, 16))
            self.assertGreater(counts.making, 0.25)
            self.assertGreater(counts.first_batch, 0)
            self.assertLessEqual(counts.consumer_waited, counts.seconds)
            batches._statistics = rueda.data.WorkersStatistics(10, 480_000_000, 0.5, 2.0, 1.0, 3.0, 0.4, 0.2)
            self.assertEqual(
                batches.summary(),
                "data workers: 10 batches, 480 MB in 2.00 s after the first one, which took 0.50 s; the trainer waited 1.00 s "
                "(50 %); of their time, the 2 workers spent 75 % in the generators, 10 % copying and 5 % waiting for the trainer; "
                "the slowest part is the generators: use more workers",
            )
            batches._statistics.consumer_waited = 0.01
            self.assertRegex(batches.summary(), "trainer; the trainer is the slowest part$")
            batches._statistics.consumer_waited, batches._statistics.making = 1.0, 0.1
            self.assertRegex(batches.summary(), "is copying: let the generators fill worker.empty")
        with fork(numbers, 1, args=(30,), prefetch=1) as batches:
            for _ in batches:
                time.sleep(0.05)
            self.assertGreater(batches.statistics().workers_waited, 0.1)

    def test_the_wait_for_the_end_of_an_epoch_counts(self):
        with fork(numbers, 2, args=(3,), epochs=2) as batches:
            ticks = itertools.count()
            clock = types.SimpleNamespace(perf_counter=lambda: next(ticks), monotonic=time.monotonic)
            with mock.patch.object(_workers, "time", clock):
                self.assertEqual(numbers_of(batches) + numbers_of(batches), [0, 1, 2] * 2)
            counts = batches.statistics()
        # The simulated clock counts its calls. Each wait reads the clock at its beginning and at its end. Seven waits
        # are counted: one for each of the six batches except the first, and one at the end of each of the two epochs.
        self.assertEqual((counts.first_batch, counts.consumer_waited, counts.seconds), (1, 7, 14))

    def test_a_default_timeout_of_sockets_changes_nothing(self):
        before = socket.getdefaulttimeout()
        socket.setdefaulttimeout(0.01)
        try:
            batches = fork(numbers, 1, args=(6,), prefetch=1)
        finally:
            socket.setdefaulttimeout(before)
        with batches:
            seen = []
            for batch in batches:
                time.sleep(0.1)  # the worker waits for longer than the timeout
                seen.append(int(batch["number"][0]))
        self.assertEqual(seen, list(range(6)))


class Memory(unittest.TestCase):
    def test_arrays_stay_valid_as_long_as_they_live(self):
        with fork(filled_in_place, 2, args=(30,)) as batches:
            kept = [batch for batch in batches]
            rows = [batch["first"][10:20, ::7] for batch in kept]
        for index, batch in enumerate(kept):
            self.assertTrue((batch["first"] == index // 2).all())
            self.assertTrue((batch["number"] == -(index // 2)).all())
            self.assertTrue((batch["other"] == index // 2).all())
        del kept, batch
        gc.collect()
        self.assertEqual([row.max() for row in rows], [index // 2 for index in range(60)])

    def test_a_view_alone_keeps_its_batch(self):
        with fork(numbers, 1, args=(40, 1000)) as batches:
            views = [batch["number"][500:501] for number, batch in enumerate(batches) if number % 5 == 0]
            self.assertEqual([int(view[0]) for view in views], list(range(0, 40, 5)))

    def test_memory_is_used_again(self):
        for sizes in ((1000, 1000), (1000, 200_000)):
            for in_place in (False, True):
                with (
                    self.subTest(sizes=sizes, in_place=in_place),
                    fork(telling_its_memory, 1, args=(300, sizes, in_place)) as batches,
                ):
                    mappings, files = use_of_memory()
                    ours, theirs = [], []
                    for number, batch in enumerate(batches):
                        self.assertEqual(float(batch["values"][-1]), number)
                        ours.append(use_of_memory())
                        theirs.append(batch["memory"].tolist())
                    # At most this many batches are mapped: two that were made in advance, two that the trainer has,
                    # three that are free, and the one that is being made.
                    self.assertLessEqual(max(one[0] for one in ours) - mappings, 9)
                    self.assertLessEqual(max(one[0] for one in theirs) - mappings, 9)
                    self.assertLessEqual(max(one[1] for one in ours) - files, 2)
                    self.assertLessEqual(max(one[1] for one in theirs) - min(one[1] for one in theirs), 4)

    def test_a_kept_batch_costs_no_descriptor(self):
        gc.collect()
        before = use_of_memory()
        kept = []
        with fork(telling_its_memory, 1, args=(100, (10, 10), False)) as batches:
            for batch in batches:
                kept.append(batch)
            after = use_of_memory()
        self.assertGreaterEqual(after[0] - before[0], 100)
        self.assertLess(after[1] - before[1], 10)
        self.assertGreaterEqual(int(kept[-1]["memory"][0]), 97)
        self.assertLess(int(kept[-1]["memory"][1] - kept[0]["memory"][1]), 10)
        self.assertEqual(numbers_of(kept), list(range(100)))
        kept.clear()
        del batch
        gc.collect()
        self.assertEqual(use_of_memory(), before)

    def test_slots_fit_batches_of_different_sizes(self):
        chance = random.Random(3)
        packer = _slots.Packer()
        held = collections.deque()
        for _ in range(300):
            held.append(packer.pack({"x": np.zeros(chance.randint(1000, 100_000), "int8")})[0].number)
            if len(held) > 3:
                packer.release(held.popleft(), 3)
        self.assertLess(packer._next_number, 40)

    def test_one_large_batch_does_not_stay_the_measure(self):
        packer = _slots.Packer()
        capacities = []
        for number in range(60):
            slot, _, _ = packer.pack({"x": np.zeros(1_000_000 if number == 5 else 1000, "int8")})
            capacities.append(slot.capacity)
            packer.release(slot.number, 3)
        self.assertEqual(capacities[4], 4096)
        self.assertGreater(capacities[5], 1_000_000)
        self.assertEqual(set(capacities[30:]), {4096})
        self.assertEqual([slot.capacity for slot in packer._free], [4096])

    def test_an_array_of_an_earlier_batch_is_refused(self):
        with (
            fork(same_array_again, 1) as batches,
            self.assertRaisesRegex(rueda.data.WorkerFailed, "array 'number' .* was made for an earlier batch"),
        ):
            list(batches)
        packer = _slots.Packer()
        packer.pack({"x": np.zeros(3000, "int8")})  # makes the slot large enough for both arrays
        first, second = packer.empty(1000, "int8"), packer.empty(1000, "int8")
        slot = packer.pack({"x": first})[0]
        for array in (first, first[5:], second, second[::2]):
            with self.assertRaisesRegex(rueda.InvalidArgument, "was made for an earlier batch"):
                packer.pack({"x": array})
        packer.empty(10, "int8")  # opens another slot
        with self.assertRaisesRegex(rueda.InvalidArgument, "was made for an earlier batch"):
            packer.pack({"x": first})
        packer.pack({})  # sends the batch with the slot that empty() has opened
        packer.release(slot.number, 3)
        # empty() has opened the slot again, for another array
        self.assertTrue(np.shares_memory(packer.empty(10, "int8"), first))
        with self.assertRaisesRegex(rueda.InvalidArgument, "was made for an earlier batch"):
            packer.pack({"x": second})
        packer.pack({"x": second.copy(), "y": second[:0]})
        packer.drop()
        for _ in range(20):
            packer.release(packer.pack({"x": np.zeros(1_000_000, "int8")})[0].number, 3)
        # the slot is too small for the batches of this loop, so now only the array `first` keeps it
        self.assertNotIn(slot, packer._free)
        with self.assertRaisesRegex(rueda.InvalidArgument, "was made for an earlier batch"):
            packer.pack({"x": first})

    def test_a_batch_may_be_larger_than_the_one_before(self):
        for seed in range(3):
            kept = []
            with fork(changing_sizes, 1, args=(seed,)) as batches:
                for number, batch in enumerate(batches):
                    self.assertEqual(int(batch["number"][0]), number)
                    self.assertTrue((batch["values"] == number).all())
                    if number % 7 == 0:
                        kept.append((number, batch))
            for number, batch in kept:
                self.assertTrue((batch["values"] == number).all())

    def test_the_end_of_a_forked_child_releases_nothing(self):
        with fork(numbers, 1, args=(30, 1000)) as batches:
            held = next(iter(batches))
            child = os.fork()
            if child == 0:
                del held
                gc.collect()
                os._exit(0)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            self.assertEqual(numbers_of(batches), list(range(1, 30)))
            self.assertTrue((held["number"] == 0).all())

    def test_arrays_of_empty_are_not_copied(self):
        packer = _slots.Packer()
        packer.pack({"x": np.zeros(1000), "y": np.zeros(10, "int8"), "z": np.full(3, 3)})
        first, second = packer.empty(1000, "float64"), packer.empty((2, 5), "int8")
        first[...], second[...] = 1, 2
        slot, place, length = packer.pack({"x": first, "y": second, "z": np.full(3, 3)})
        self.assertTrue(np.shares_memory(slot.memory, first) and np.shares_memory(slot.memory, second))
        first[0] = 5  # this change reaches the consumer only if the array lies in the slot's memory
        released = []
        mapped = _slots.MappedSlot(7, os.dup(slot.descriptor), slot.capacity)
        owner = type("Owner", (), {"release": lambda self, slot: released.append(slot.number)})()
        views = mapped.views(place, length, owner)
        self.assertEqual((views["x"][0], views["x"][1], views["y"].tolist()), (5, 1, [[2] * 5] * 2))
        self.assertEqual(views["z"].tolist(), [3, 3, 3])
        del views["x"], views["z"]
        self.assertEqual(released, [])
        views.clear()
        self.assertEqual(released, [7])
        self.assertEqual(packer.release(slot.number, 2), [])

    def test_parts_of_an_array_of_empty_are_not_copied(self):
        packer = _slots.Packer()
        packer.pack({"x": np.zeros(1000)})
        whole = packer.empty((2, 10), "float64")
        whole[...] = np.arange(20).reshape(2, 10)
        slot, place, length = packer.pack({"first": whole[0], "second": whole[1], "column": whole[:, 3]})
        whole[1, 4] = -1
        mapped = _slots.MappedSlot(0, os.dup(slot.descriptor), slot.capacity)
        views = mapped.views(place, length, mock.Mock())
        self.assertEqual((views["first"].tolist(), views["column"].tolist()), (list(range(10)), [3, 13]))
        self.assertEqual(views["second"].tolist(), [10, 11, 12, 13, -1, 15, 16, 17, 18, 19])

    def test_a_forked_child_cannot_use_the_workers(self):
        with fork(numbers, 1, args=(30,)) as batches:
            state = batches.state_dict()
            next(iter(batches))
            for use in (lambda: batches.load_state_dict(state), lambda: next(iter(batches))):
                child = os.fork()
                if child == 0:
                    try:
                        use()
                        os._exit(1)
                    except rueda.InvalidArgument as error:
                        os._exit(0 if "belong to the process that made them" in str(error) else 2)
                    finally:
                        os._exit(3)
                self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            self.assertEqual(numbers_of(batches), list(range(1, 30)))

    def test_too_many_open_files(self):
        with fork(numbers, 1, args=(30,)) as batches:
            poll = select.poll()
            poll.register(batches._processes[0].connection, select.POLLIN)
            poll.poll()  # the first batch is there
            free = os.open("/dev/null", os.O_RDONLY)
            os.close(free)
            limits = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
            try:
                with self.assertRaisesRegex(rueda.ResourceExhausted, "ulimit -n"):
                    next(iter(batches))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            with self.assertRaisesRegex(rueda.ResourceExhausted, "ulimit -n"):
                next(iter(batches))
            self.assertEqual(batches._processes, [])

    def test_a_slot_that_cannot_be_mapped(self):
        with fork(numbers, 1, args=(30,)) as batches:
            refused = mock.Mock(side_effect=OSError(errno.ENOMEM, "Cannot allocate memory"))
            for _ in range(2):
                with (
                    mock.patch.object(_slots, "SharedMapping", refused),
                    self.assertRaisesRegex(rueda.ResourceExhausted, "mapping 4096 bytes .* Cannot allocate memory"),
                ):
                    next(iter(batches))
            self.assertEqual(refused.call_count, 1)


class Failures(unittest.TestCase):
    def test_an_exception_arrives_with_its_text(self):
        batches = fork(failing, 2)
        loop = iter(batches)
        self.assertEqual(len([next(loop), next(loop)]), 2)
        with self.assertRaises(rueda.data.WorkerFailed) as caught:
            next(loop)
        text = str(caught.exception)
        self.assertIn("the generator of data worker 0 (pid ", text)
        self.assertIn(") failed: ValueError: row 40 is bad\n", text)
        self.assertIn("in failing", text)
        with self.assertRaises(rueda.data.WorkerFailed):
            next(loop)

    def test_a_broken_connection_of_the_generator_is_its_failure(self):
        for error in (
            ConnectionResetError("the database has gone"),
            BrokenPipeError(errno.EPIPE, "the database has gone"),
            TimeoutError("the database has gone"),
        ):
            with (
                self.subTest(error=error),
                fork(raising, 1, args=(error,)) as batches,
                self.assertRaisesRegex(
                    rueda.data.WorkerFailed, rf"(?s)failed: {type(error).__name__}: .*the database has gone.*in raising"
                ),
            ):
                list(batches)

    def test_errors_of_the_socket(self):
        for number, expected in (
            (errno.EPIPE, _worker.ConsumerGone),
            (errno.ECONNRESET, _worker.ConsumerGone),
            (errno.ETOOMANYREFS, OSError),
        ):
            connection = mock.Mock()
            connection.sendmsg.side_effect = connection.recv.side_effect = OSError(number, "refused")
            outlet = _worker._Outlet(connection, 1)
            for use in (outlet.finish, lambda outlet=outlet: outlet._receive(True)):
                with self.subTest(number=number), self.assertRaises(expected):
                    use()

    def test_a_long_traceback_keeps_its_end(self):
        with fork(long_traceback, 1) as batches, self.assertRaises(rueda.data.WorkerFailed) as caught:
            list(batches)
        text = str(caught.exception)
        self.assertIn("in long_traceback", text)
        self.assertRegex(text, r"\n\[\.\.\.\]\nx+ is the end")
        self.assertEqual(len(_channel._shortened(b"x" * 100_000)), 60_000)
        self.assertEqual(_channel._shortened(b"x" * 60_000), b"x" * 60_000)

    def test_batches_that_cannot_be_handed_over(self):
        for kind, text in (
            ("object", "array 'x' of a batch: its dtype is object; expected numbers"),
            ("key", "a batch has the key 3; expected texts"),
            ("list", "worker 0 yielded a list; expected a dict of arrays"),
            ("structure", "its dtype is .*expected numbers"),
        ):
            with (
                self.subTest(kind=kind),
                fork(bad_batch, 1, args=(kind,)) as batches,
                self.assertRaisesRegex(rueda.data.WorkerFailed, text),
            ):
                list(batches)

    def test_a_dead_worker_is_named(self):
        for way, text, killed_by, exit_code in (
            (kill_self, r"was killed by signal 9 \(SIGKILL; the system sends", 9, None),
            (functools.partial(os._exit, 3), "exited with code 3", None, 3),
            (functools.partial(sys.exit, 5), "exited with code 5", None, 5),
        ):
            with self.subTest(text=text), fork(dying, 2, args=(way, 2)) as batches:
                seen = []
                with self.assertRaisesRegex(
                    rueda.data.WorkerDied, rf"data worker 1 of 2 \(pid \d+\) {text}.*after it had handed over 2 batches"
                ) as caught:
                    for batch in batches:
                        seen.append(int(batch["number"][0]))
                self.assertEqual(seen, [0, 0, 1, 1, 2])
                error = caught.exception
                self.assertEqual((error.worker, error.signal, error.exit_code), (1, killed_by, exit_code))
                self.assertFalse(os.path.exists(f"/proc/{error.pid}"))

    def test_the_last_batches_of_a_dead_worker_arrive(self):
        with fork(dying_late, 1) as batches:
            loop = iter(batches)
            held = next(loop)
            process = batches._processes[0]
            poll = select.poll()
            poll.register(process.connection, select.POLLIN)
            poll.poll()  # waits until the worker has sent the second batch
            # `del` tells the worker that the slot is free. But the worker dies before it reads this message.
            del held
            while process.connection.fileno() >= 0 and not os.waitid(
                os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
            ):
                time.sleep(0.02)
            self.assertEqual(next(loop)["number"][0], 1)
            with self.assertRaisesRegex(rueda.data.WorkerDied, "signal 9 .* after it had handed over 2 batches"):
                next(loop)

    def test_a_dead_worker_is_replaced(self):
        for begins_later in (False, True):
            with self.subTest(begins_later=begins_later), tempfile.TemporaryDirectory() as folder:
                arguments = (pathlib.Path(folder) / "died", begins_later)
                with fork(dying_once, 2, args=arguments, on_death="replace", epochs=2) as batches:
                    with self.assertLogs("rueda.data", "WARNING") as logged:
                        seen = numbers_of(batches)
                    seen += numbers_of(batches)
                    self.assertEqual(batches.statistics().replaced, 1)
                    self.assertIn("; 1 workers died and were replaced", batches.summary())
                self.assertEqual(seen, [100 * index + number for number in range(10) for index in range(2)] * 2)
                self.assertRegex(logged.output[0], r"data worker 1 of 2 \(pid \d+\) was killed by signal 9 .* replaced")

    def test_a_worker_that_always_dies_is_given_up(self):
        with (
            self.assertLogs("rueda.data", "WARNING") as logged,
            fork(dying, 2, args=(kill_self, 0), on_death="replace") as batches,
            self.assertRaisesRegex(rueda.data.WorkerDied, "not replaced, because 3 replacements in a row"),
        ):
            list(batches)
        self.assertEqual(len(logged.output), 3)

    def test_a_replacement_that_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = (pathlib.Path(folder) / "died", False)
            with fork(dying_once, 2, args=arguments, on_death="replace") as batches:
                refused = mock.Mock(side_effect=rueda.ResourceExhausted("there are too many processes"))
                seen = []
                with (
                    self.assertLogs("rueda.data", "WARNING"),
                    mock.patch.object(_workers, "WorkerProcess", refused),
                    self.assertRaisesRegex(
                        rueda.data.WorkerDied, "signal 9 .*; replacing it failed: there are too many processes"
                    ),
                ):
                    for batch in batches:
                        seen.append(int(batch["number"][0]))
                self.assertEqual(seen, [100 * index + number for number in range(6) for index in range(2)] + [6])
                with self.assertRaises(rueda.data.WorkerDied):
                    next(iter(batches))
                self.assertEqual(refused.call_count, 1)

    def test_a_replacement_that_is_interrupted(self):
        with tempfile.TemporaryDirectory() as folder:
            arguments = (pathlib.Path(folder) / "died", False)
            with fork(dying_once, 2, args=arguments, on_death="replace") as batches:
                attempts = mock.Mock(wraps=_workers.WorkerProcess, side_effect=[KeyboardInterrupt, mock.DEFAULT])
                seen, interrupts = [], 0
                with self.assertLogs("rueda.data", "WARNING"), mock.patch.object(_workers, "WorkerProcess", attempts):
                    while batches.state_dict()["epoch"] == 0:
                        try:
                            seen += numbers_of(itertools.islice(batches, 1))
                        except KeyboardInterrupt:
                            interrupts += 1
                self.assertEqual(seen, [100 * index + number for number in range(10) for index in range(2)])
                self.assertEqual((interrupts, attempts.call_count), (1, 2))

    def test_the_exit_code_was_taken_by_another_part(self):
        batches = fork(numbers, 2, args=(100,))
        process = batches._processes[0]
        os.kill(process.pid, signal.SIGKILL)
        os.waitpid(process.pid, 0)
        with self.assertRaisesRegex(rueda.data.WorkerDied, "ended, and its exit code is not known"):
            list(batches)
        batches = fork(slow, 2, args=(1000,))
        for process in batches._processes:
            os.kill(process.pid, signal.SIGKILL)
            os.waitpid(process.pid, 0)
        batches.close()

    def test_all_processes_are_ended_after_an_exception(self):
        for error in (ValueError("broken"), KeyboardInterrupt()):
            batches = fork(slow, 2, args=(1000,))
            first, second = batches._processes
            real = first.end_by

            def end_by(deadline, real=real, error=error):
                real(deadline)
                raise error

            with self.subTest(error=error), mock.patch.object(first, "end_by", end_by):
                with self.assertRaises(type(error)):
                    batches.close()
                self.assertFalse(os.path.exists(f"/proc/{second.pid}"))
                second.end_by(0)  # does nothing
                batches.close()

    def test_the_start_is_refused(self):
        here = multiprocessing.current_process()
        with (
            mock.patch.object(here, "_inheriting", True, create=True),
            self.assertRaisesRegex(rueda.InvalidArgument, 'imports the script.*if __name__ == "__main__":'),
        ):
            rueda.data.workers(numbers)
        with (
            mock.patch.dict(here._config, daemon=True),
            self.assertRaisesRegex(
                rueda.InvalidArgument, "0 failed: AssertionError: daemonic processes are not allowed"
            ),
        ):
            rueda.data.workers(numbers)
        with (
            mock.patch.object(socket, "socketpair", side_effect=OSError(errno.EMFILE, "Too many open files")),
            self.assertRaisesRegex(rueda.ResourceExhausted, "starting data worker 0 failed: .*Too many open files"),
        ):
            rueda.data.workers(numbers)

    def test_arguments(self):
        for arguments, text in (
            ({"count": 0}, "count is 0; expected a whole number of at least 1"),
            ({"prefetch": 0}, "prefetch is 0"),
            ({"epochs": -1}, "epochs is -1"),
            ({"order": "any"}, "order is 'any'; expected one of 'fixed', 'ready'"),
            ({"on_death": "ignore"}, "on_death is 'ignore'"),
            ({"start_method": "thread"}, "start_method is 'thread'"),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(rueda.InvalidArgument, text):
                rueda.data.workers(numbers, **arguments)
        with self.assertRaisesRegex(rueda.InvalidArgument, "make_generator is 3; expected a function"):
            rueda.data.workers(3)
        with self.assertRaisesRegex(rueda.InvalidArgument, "pickle cannot send make_generator or args"):
            rueda.data.workers(lambda worker: [])

    def test_use_after_close(self):
        batches = fork(numbers, 1, args=(3,))
        kept = next(iter(batches))
        batches.close()
        batches.close()
        for use in (lambda: next(iter(batches)), lambda: batches.load_state_dict(batches.state_dict())):
            with self.assertRaisesRegex(rueda.InvalidArgument, "were closed"):
                use()
        self.assertEqual(kept["number"].tolist(), [0] * 5)

    def test_a_worker_is_no_rank(self):
        with fork(calls_init, 1) as batches, self.assertRaisesRegex(rueda.data.WorkerFailed, "and is no rank"):
            list(batches)


CONSUMER = """
import os, signal, sys, time
import numpy as np
import rueda.data

def batches_of(worker, busy):
    yield {"pid": np.array([os.getpid()])}
    while True:
        if busy:
            time.sleep(1000)
        yield {"x": np.zeros(1000)}

if __name__ == "__main__":
    method, busy, end = sys.argv[1:]
    batches = rueda.data.workers(batches_of, 2, args=(busy == "busy",), start_method=method)
    loop = iter(batches)
    held = [next(loop), next(loop)]
    child = os.fork() if end == "forked" else 0  # the child keeps copies of the sockets
    if end == "forked" and child == 0:
        time.sleep(1000)
    print(child, *[int(batch["pid"][0]) for batch in held], flush=True)
    if end == "error":
        raise RuntimeError("the consumer fails")
    if end in ("kill", "forked"):
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "interrupt":
        os.killpg(0, signal.SIGINT)
        time.sleep(1000)
"""


def processes_of(session):
    """Returns the processes of a session that have not ended."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                fields = pathlib.Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] not in "ZX":
                found.append(int(name))
    return found


class NothingIsLeft(unittest.TestCase):
    def run_consumer(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "consumer.py"
            script.write_text(CONSUMER)
            consumer = subprocess.Popen(
                [sys.executable, "-B", script, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
            output = consumer.stdout.readline()
            consumer.wait(LIMIT)
            child, *workers = map(int, output.split())
            deadline = time.monotonic() + LIMIT
            # If the consumer has a child, the child has a copy of a pipe of multiprocessing's fork server. The fork
            # server then lives until the child has ended.
            while (left := set(processes_of(consumer.pid)) & set(workers)) and time.monotonic() < deadline:
                time.sleep(0.05)
            if child > 0:
                os.kill(child, signal.SIGKILL)
            while not left and processes_of(consumer.pid) and time.monotonic() < deadline:
                time.sleep(0.05)
            left |= set(processes_of(consumer.pid))
            errors = consumer.stderr.read()
            consumer.stdout.close()
            consumer.stderr.close()
        self.assertEqual(left, set(), errors)
        self.assertEqual(len(workers), 2)
        return consumer.returncode, errors

    def test_the_consumer_is_killed(self):
        for method, busy in (("spawn", "busy"), ("fork", "ready")):
            with self.subTest(method=method):
                self.assertEqual(self.run_consumer(method, busy, "kill")[0], -signal.SIGKILL)

    def test_the_consumer_is_killed_and_a_child_has_its_sockets(self):
        for method, busy in (("fork", "ready"), ("forkserver", "busy")):
            with self.subTest(method=method):
                self.assertEqual(self.run_consumer(method, busy, "forked")[0], -signal.SIGKILL)

    def test_the_consumer_ends_without_close(self):
        self.assertEqual(self.run_consumer("fork", "ready", "exit"), (0, ""))
        code, errors = self.run_consumer("fork", "busy", "error")
        self.assertEqual(code, 1)
        self.assertIn("the consumer fails", errors)

    def test_control_c_ends_all(self):
        code, errors = self.run_consumer("fork", "ready", "interrupt")
        self.assertIn(code, (1, -signal.SIGINT), errors)  # how Python ends after Ctrl-C depends on its version
        self.assertEqual(errors.count("KeyboardInterrupt"), 1)

    def test_close_ends_a_busy_generator(self):
        batches = fork(slow, 2, args=(1000,))
        pids = [process.pid for process in batches._processes]
        began = time.monotonic()
        batches.close()
        self.assertLess(time.monotonic() - began, LIMIT)
        self.assertEqual([pid for pid in pids if os.path.exists(f"/proc/{pid}")], [])

    def test_dropping_the_pipeline_ends_it(self):
        batches = fork(numbers, 2, args=(100,))
        pids = [process.pid for process in batches._processes]
        next(iter(batches))
        del batches
        gc.collect()
        self.assertEqual([pid for pid in pids if os.path.exists(f"/proc/{pid}")], [])


class Documentation(unittest.TestCase):
    def test_everything_has_an_example_that_runs(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = f"{folder.name}/image.npy"
        np.save(file, np.zeros(3))
        functions = [rueda.data.workers, rueda.data.WorkerInfo]
        for one in (rueda.data.WorkerInfo, rueda.data.Workers):
            functions += [method for name, method in vars(one).items() if inspect.isfunction(method) and name[0] != "_"]
        self.assertGreaterEqual(len(functions), 8)
        for function in functions:
            with self.subTest(name=function.__qualname__):
                examples = re.findall(r"Example::\n\n((?:    .*\n?|\n)+)", inspect.getdoc(function) or "")
                self.assertEqual(len(examples), 1)
                seen = []
                names = {"np": np, "rueda": rueda, "train": seen.append, "batches_of": two_batches}
                # The functions of an example do not belong to a module, so pickle cannot send them to a new process.
                # So the workers are forked.
                with mock.patch.object(rueda.data, "workers", fork), contextlib.redirect_stdout(io.StringIO()):
                    exec(textwrap.dedent(examples[0]), names)
                    if names["batches_of"] is not two_batches and "train" not in examples[0]:
                        arguments = ([file],) if function is rueda.data.WorkerInfo else ()
                        with fork(names["batches_of"], 1, args=arguments) as batches:
                            self.assertGreater(len(next(iter(batches))), 0)


def two_batches(worker):
    for number in range(2):
        yield {"x": np.full(3, number)}


if __name__ == "__main__":
    assert _process.NAME == "rueda-data-worker"  # rueda.init() recognises workers by this process name
    unittest.main()
