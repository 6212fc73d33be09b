# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests rueda.data.serve() and remote(): values, order, deaths, limits of memory, refusals, and hostile bytes."""

import contextlib
import functools
import itertools
import json
import multiprocessing
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import numpy as np
import rueda.data
from rueda.data import _workers
from rueda.data._remote import messages
from rueda.data._remote.receiver import Receiver
from rueda.data._slots import Packer
from test_data_workers import failing, kill_self, kinds, numbers, numbers_of

SECRET = "a secret of sixteen or more characters"
LIMIT = 60  # the maximum number of seconds for a wait; on an idle machine, every wait is much shorter
FUZZ_FACTOR = float(os.environ.get("PROPERTY_FACTOR", "1"))

serve = functools.partial(rueda.data.serve, secret=SECRET, start_method="fork")
remote = functools.partial(rueda.data.remote, secret=SECRET, start_method="fork")
local = functools.partial(rueda.data.workers, start_method="fork")


def large(worker, total, folder):
    """Makes batches of 8 MB, and a file for each."""
    for number in range(total):
        (pathlib.Path(folder) / f"{worker.index}-{number}").touch()
        yield {"x": np.full(1 << 20, number)}


def dying_once(worker, marker):
    """Makes the batches 0 to 9. Worker 1 kills itself before batch 6, unless the file `marker` exists."""
    for number in range(worker.first_batch(), 10):
        if worker.index == 1 and number == 6 and not pathlib.Path(marker).exists():
            pathlib.Path(marker).touch()
            kill_self()
        yield {"number": np.full(4, 100 * worker.index + number)}


def sleepy(worker, seconds):
    """Makes two batches, and sleeps before the second one."""
    yield {"number": np.zeros(3)}
    time.sleep(seconds)
    yield {"number": np.ones(3)}


def many_names(worker):
    yield {f"{number:0100}": np.zeros(0) for number in range(10_000)}


@contextlib.contextmanager
def served(generator, most_workers=64, **options):
    """Serves a generator, and takes its batches. Yields the producer and the batches."""
    with serve(generator, most_workers=most_workers) as producer, remote([producer.address], **options) as batches:
        yield producer, batches


class ProducerProcess:
    """A producer in a process of its own."""

    def __enter__(self):
        script = pathlib.Path(__file__).parent / "producer_process.py"
        self.process = subprocess.Popen(
            [sys.executable, "-B", str(script), "127.0.0.1:0", SECRET],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = self.process.stdout.readline().strip()
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def kill(self):
        self.process.kill()
        self.process.wait()

    @contextlib.contextmanager
    def stopped(self):
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)


def entered(test, context):
    """Enters a context until the test ends. (TestCase.enterContext() needs Python 3.11.)"""
    value = context.__enter__()
    test.addCleanup(context.__exit__, None, None, None)
    return value


def wait_until(is_true, what):
    deadline = time.monotonic() + LIMIT
    while not is_true():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {LIMIT} s")
        time.sleep(0.01)


def contents_of(batches):
    return [
        {name: (array.dtype.str, array.shape, array.tolist()) for name, array in batch.items()} for batch in batches
    ]


class Values(unittest.TestCase):
    def test_arrays_arrive_as_from_a_local_worker(self):
        with serve(kinds) as producer, remote([producer.address]) as batches, local(kinds, 1) as expected:
            self.assertEqual(contents_of(batches), contents_of(expected))

    def test_the_order_is_that_of_local_workers(self):
        with contextlib.ExitStack() as stack:
            addresses = [stack.enter_context(serve(numbers)).address for _ in range(2)]
            expected = stack.enter_context(local(numbers, 4, args=(19,), epochs=2))
            batches = stack.enter_context(remote(addresses, count=4, args=[19], epochs=2))
            for epoch in range(2):
                found = [(batch["number"].tolist(), batch["from"][:2].tolist()) for batch in batches]
                same = [(batch["number"].tolist(), batch["from"][:2].tolist()) for batch in expected]
                self.assertEqual(found, same)
                self.assertEqual([place[1][1] for place in found], [epoch] * 19)

    def test_a_resume_continues_behind_the_last_batch(self):
        with serve(numbers) as producer:
            take = functools.partial(remote, [producer.address], count=3, args=[20], epochs=2)
            with take() as batches:
                before = numbers_of(batches) + numbers_of(itertools.islice(batches, 8))
                state = json.loads(json.dumps(batches.state_dict()))
            with take() as batches:
                batches.load_state_dict(state)
                after = numbers_of(batches)
            self.assertEqual(before + after, list(range(20)) * 2)

    def test_arrays_may_be_changed_and_kept(self):
        with serve(numbers) as producer, remote([producer.address], args=[12, 1000]) as batches:
            kept = []
            for batch in batches:
                batch["number"] += 100
                kept.append(batch["number"])
        self.assertEqual([int(array[-1]) for array in kept], list(range(100, 112)))

    def test_arrays_are_received_into_the_slot_that_the_trainer_maps(self):
        batch = {"x": np.zeros(1 << 20), "y": np.zeros((3, 5), "int8"), "a name of some length": np.zeros(7, "<U3")}
        packer = Packer()
        packer.reserve([array.nbytes for array in batch.values()], len(messages.describe_batch(batch)))
        received = {name: packer.empty(array.shape, array.dtype) for name, array in batch.items()}
        slot, _, _ = packer.pack(received)
        self.assertEqual(slot.number, 0)
        for array in received.values():
            self.assertTrue(np.shares_memory(slot.memory, array))

    def test_a_summary_names_the_producers(self):
        with serve(numbers) as producer, remote([producer.address], args=[4]) as batches:
            numbers_of(batches)
            self.assertIn("receiving from the producers", batches.summary())

    def test_the_default_start_method(self):
        producer = rueda.data.serve(numbers, secret=SECRET)
        with producer, rueda.data.remote([producer.address], secret=SECRET, args=[5]) as batches:
            self.assertEqual(numbers_of(batches), list(range(5)))


class Failures(unittest.TestCase):
    def test_an_exception_of_the_generator_comes_behind_earlier_batches(self):
        with serve(failing) as producer, remote([producer.address]) as batches:
            taken = iter(batches)
            self.assertEqual(next(taken)["number"].tolist(), [0])
            with self.assertRaisesRegex(rueda.data.WorkerFailed, r"row 40 is bad\n\nat the producer 127.0.0.1:\d+:\n"):
                next(taken)

    def test_the_death_of_a_worker_is_named(self):
        marker = f"{entered(self, tempfile.TemporaryDirectory())}/marker"
        producer, batches = entered(self, served(dying_once, count=2, args=[marker]))
        with self.assertRaises(rueda.data.WorkerDied) as caught:
            numbers_of(batches)
        self.assertRegex(
            str(caught.exception),
            rf"^data worker 1 of 2: the producer at {re.escape(producer.address)} was lost: its worker process \(pid \d+\) was "
            r"killed by signal 9 \(SIGKILL; the system sends this signal when memory runs out\), after it had handed over 6",
        )
        self.assertEqual(caught.exception.worker, 1)

    def test_a_dead_worker_is_replaced(self):
        marker = f"{entered(self, tempfile.TemporaryDirectory())}/marker"
        with served(dying_once, count=2, args=[marker], on_death="replace") as (_, batches):
            with self.assertLogs("rueda.data", "WARNING"):
                found = numbers_of(batches)
            self.assertEqual(batches.statistics().replaced, 1)
        self.assertEqual(found, [100 * worker + number for number in range(10) for worker in range(2)])

    def test_a_lost_producer_is_named(self):
        with ProducerProcess() as producer, remote([producer.address], args=[1000, 10, 0.01]) as batches:
            taken = iter(batches)
            next(taken)
            producer.kill()
            with self.assertRaisesRegex(
                rueda.data.WorkerDied, f"data worker 0 of 1: the producer at {re.escape(producer.address)} was lost: "
            ):
                numbers_of(taken)

    def test_another_producer_takes_over(self):
        with ProducerProcess() as first, ProducerProcess() as second:
            addresses = [first.address, second.address]
            with remote(addresses, args=[30, 10, 0.01], on_death="replace") as batches:
                taken = iter(batches)
                found = numbers_of(itertools.islice(taken, 6))
                first.kill()
                with self.assertLogs("rueda.data", "WARNING") as logged:
                    found += numbers_of(taken)
                self.assertIn(f"the producer at {first.address} was lost", logged.output[0])
        self.assertEqual(found, list(range(30)))

    def test_a_producer_that_cannot_be_reached(self):
        with socket.create_server(("127.0.0.1", 0)) as unused:
            address = f"127.0.0.1:{unused.getsockname()[1]}"
        with (
            remote([address], patience=0.1) as batches,
            self.assertRaisesRegex(
                rueda.data.WorkerDied, f"no producer could be reached .*{re.escape(address)}: .*refused"
            ),
        ):
            numbers_of(batches)

    def test_a_producer_that_comes_later_is_waited_for(self):
        with socket.create_server(("127.0.0.1", 0)) as unused:
            address = f"127.0.0.1:{unused.getsockname()[1]}"
        with remote([address], args=[3]) as batches:
            time.sleep(0.3)
            with serve(numbers, address):
                self.assertEqual(numbers_of(batches), [0, 1, 2])

    def test_a_connection_that_ends_without_a_proof_is_tried_again(self):
        with socket.create_server(("127.0.0.1", 0)) as unused:
            where = unused.getsockname()
        # The receiver is forked before the listener exists, so the receiver has no copy of the listener's descriptor.
        with remote([f"127.0.0.1:{where[1]}"], args=[3]) as batches:
            with socket.create_server(where) as listener:
                listener.settimeout(LIMIT)
                listener.accept()[0].close()
            with serve(numbers, f"127.0.0.1:{where[1]}"):
                self.assertEqual(numbers_of(batches), [0, 1, 2])

    def test_another_producer_takes_over_for_one_that_ends_connections_without_a_proof(self):
        with serve(numbers) as producer, socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(LIMIT)
            addresses = [f"127.0.0.1:{listener.getsockname()[1]}", producer.address]
            with remote(addresses, count=1, args=[3], on_death="replace") as batches:
                listener.accept()[0].close()
                self.assertEqual(numbers_of(batches), [0, 1, 2])
                self.assertEqual(batches.statistics().replaced, 0)

    def test_a_producer_that_is_stopped_is_named(self):
        entered(self, mock.patch.object(messages, "SILENCE_SECONDS", 0.5))
        with ProducerProcess() as producer, remote([producer.address], args=[1_000_000, 10, 0.01]) as batches:
            taken = iter(batches)
            next(taken)
            with (
                producer.stopped(),
                self.assertRaisesRegex(
                    rueda.data.WorkerDied,
                    rf"the producer at {re.escape(producer.address)} was lost: it sent nothing for 0.5 s",
                ),
            ):
                numbers_of(taken)

    def test_another_producer_takes_over_for_one_that_is_stopped(self):
        entered(self, mock.patch.object(messages, "SILENCE_SECONDS", 0.5))
        entered(self, mock.patch.object(messages, "FIRST_SECONDS", 0.5))
        first, second = (entered(self, ProducerProcess()) for _ in range(2))
        with remote([first.address, second.address], count=1, args=[30, 10, 0.01], on_death="replace") as batches:
            taken = iter(batches)
            found = numbers_of(itertools.islice(taken, 6))
            with first.stopped(), self.assertLogs("rueda.data", "WARNING"):
                found += numbers_of(taken)
        self.assertEqual(found, list(range(30)))

    def test_a_slow_generator_is_not_a_lost_producer(self):
        entered(self, mock.patch.object(messages, "SILENCE_SECONDS", 0.4))
        entered(self, mock.patch.object(messages, "ALIVE_SECONDS", 0.05))
        entered(self, mock.patch.object(_workers, "_LONG_WAIT", 0.5))
        with served(sleepy, args=[1.2]) as (_, batches), self.assertLogs("rueda.data", "WARNING") as logged:
            self.assertEqual([batch["number"][0] for batch in batches], [0, 1])
        self.assertEqual(len(logged.output), 1)
        self.assertIn("has waited 0.5 s for a batch of data worker 0 of 1 (at its producer)", logged.output[0])

    def test_a_producer_waits_for_a_trainer_that_is_stopped_and_can_be_closed(self):
        folder = entered(self, tempfile.TemporaryDirectory())
        with served(large, args=[1000, folder]) as (producer, batches):
            taken = iter(batches)
            self.assertEqual(next(taken)["x"][0], 0)
            (receiver,) = (process.pid for process in batches._processes)
            os.kill(receiver, signal.SIGSTOP)
            made = 0
            # The producer makes a file for each batch. If no more files appear, TCP's buffers are full, and the
            # producer waits.
            while made != (made := len(os.listdir(folder))):
                time.sleep(0.3)
            os.kill(receiver, signal.SIGCONT)
            self.assertEqual([int(next(taken)["x"][0]) for _ in range(12)], list(range(1, 13)))
            os.kill(receiver, signal.SIGSTOP)
            producer.close()
            self.assertFalse([thread for thread in threading.enumerate() if "producer" in thread.name])
            os.kill(receiver, signal.SIGCONT)
            with self.assertRaisesRegex(rueda.data.WorkerDied, "was lost"):
                for _ in taken:
                    pass

    def test_a_producer_that_has_sent_everything_waits_for_the_end_of_the_receiver(self):
        with served(numbers, args=[10], prefetch=1) as (producer, batches):
            taken = iter(batches)
            found = [int(next(taken)["number"][0])]
            (stream,) = (thread for thread in threading.enumerate() if thread.name == "rueda-producer-stream")
            # The trainer takes no batches, so the receiver stops reading. Nevertheless, the producer's worker has
            # ended, so the producer can serve another worker.
            wait_until(lambda: producer._workers == 0, "the end of the producer's worker")
            stream.join(0.2)
            self.assertTrue(stream.is_alive())
            found += numbers_of(taken)
            self.assertEqual(found, list(range(10)))
            stream.join(LIMIT)
            self.assertFalse(stream.is_alive())

    def test_workers_end_with_the_trainer(self):
        with ProducerProcess() as producer:
            with remote([producer.address], args=[1000, 10]) as batches:
                made_by = int(next(iter(batches))["from"][2])
                self.assertTrue(pathlib.Path(f"/proc/{made_by}").exists())
            wait_until(lambda: not pathlib.Path(f"/proc/{made_by}").exists(), "the worker's end")

    def test_workers_end_with_their_producer(self):
        with serve(numbers) as producer, remote([producer.address], args=[1_000_000]) as batches:
            made_by = int(next(iter(batches))["from"][2])
            producer.close()
            producer.close()
            producer.wait()
            wait_until(lambda: not pathlib.Path(f"/proc/{made_by}").exists(), "the worker's end")
            with self.assertRaisesRegex(rueda.data.WorkerDied, "was lost: the other side closed the connection"):
                numbers_of(batches)

    def test_nothing_is_left_behind(self):
        def left():
            return len(os.listdir("/proc/self/fd")), threading.active_count(), len(multiprocessing.active_children())

        before = None
        for _ in range(3):
            with serve(numbers) as producer, remote([producer.address], args=[5]) as batches:
                self.assertEqual(numbers_of(batches), list(range(5)))
            if before is None:
                before = left()
        self.assertEqual(left(), before)


class Limits(unittest.TestCase):
    def test_a_slow_trainer_limits_the_work_of_the_producer(self):
        folder = entered(self, tempfile.TemporaryDirectory())
        with served(large, args=[1000, folder], prefetch=2) as (_, batches):
            taken = iter(batches)
            next(taken)
            made = 0
            while made != (made := len(os.listdir(folder))):
                time.sleep(0.3)
            # Eight batches are not in the system's buffers: the producer and the receiver each hold 2 finished batches
            # and one that waits, one is being sent, and the trainer has one.
            buffers = sum(int(pathlib.Path(f"/proc/sys/net/ipv4/tcp_{one}mem").read_text().split()[2]) for one in "rw")
            self.assertLessEqual(made, 8 + -(-buffers // (1 << 23)))

    def test_more_workers_than_allowed_are_refused(self):
        _, batches = entered(self, served(numbers, most_workers=1, count=2, args=[1_000_000], patience=0.1))
        with self.assertRaisesRegex(rueda.data.WorkerDied, r"it has 1 workers already \(most_workers of serve"):
            numbers_of(batches)

    def test_a_batch_that_is_larger_than_allowed(self):
        folder = entered(self, tempfile.TemporaryDirectory())
        _, batches = entered(self, served(large, args=[2, folder], largest_batch=1000))
        with self.assertRaisesRegex(rueda.data.WorkerDied, "has 8388608 bytes; expected at most 1000; .*largest_batch"):
            numbers_of(batches)

    def test_a_batch_whose_description_is_too_long(self):
        with served(many_names) as (_, batches), self.assertRaisesRegex(rueda.data.WorkerFailed, "yield fewer arrays"):
            list(batches)

    def test_arguments(self):
        for wrong, text in (
            ({"addresses": []}, "no addresses"),
            ({"addresses": ["host"]}, "expected 'host:port'"),
            ({"addresses": ["::1:70"]}, "expected 'host:port'"),
            ({"addresses": ["host:70000"]}, "expected 'host:port'"),
            ({"addresses": ["host..name:1"]}, "no possible host name"),
            ({"secret": "short"}, "at least 16 characters"),
            ({"secret": "a secret with \0 in the middle"}, "without NUL"),
            ({"count": 0}, "count is 0"),
            ({"args": [object()]}, "cannot be sent"),
            ({"args": ["x" * 2_000_000]}, "from a file"),
            ({"on_death": "ignore"}, "on_death"),
            ({"memory": "magnetic"}, "memory"),
            ({"patience": float("nan")}, "patience"),
        ):
            with self.assertRaisesRegex(rueda.InvalidArgument, text):
                rueda.data.remote(**{"addresses": ["host:1"], "secret": SECRET, **wrong})
        for wrong, text in (
            ({"make_generator": 3}, "make_generator"),
            ({"address": "0.0.0.0"}, "host:port"),
            ({"address": "203.0.113.1:80"}, "an address of this host"),
            ({"address": f"{'a' * 70}:80"}, "no possible host name"),
            ({"secret": None}, "at least 16 characters"),
            ({"most_workers": 0}, "most_workers"),
            ({"start_method": "clone"}, "start_method"),
        ):
            with self.assertRaisesRegex(rueda.InvalidArgument, text):
                rueda.data.serve(**{"make_generator": numbers, "secret": SECRET, **wrong})

    def test_the_address_of_a_producer_that_listens_everywhere(self):
        with serve(numbers, "0.0.0.0:0") as producer:
            self.assertRegex(producer.address, rf"^{re.escape(socket.gethostname())}:\d+$")


class Security(unittest.TestCase):
    def test_a_wrong_secret_is_refused_on_both_sides(self):
        with serve(numbers) as producer:
            batches = entered(self, remote([producer.address], secret="another secret of that length", args=[3]))
            with self.assertRaisesRegex(rueda.data.WorkerDied, "the same secret"):
                numbers_of(batches)
            with remote([producer.address], args=[3]) as batches:
                self.assertEqual(numbers_of(batches), [0, 1, 2])

    def test_a_receiver_does_not_show_the_secret(self):
        self.assertNotIn(SECRET, repr(Receiver(("host:1",), SECRET, 1, 2, False, 30.0, 1000)))

    def test_other_programs_do_not_disturb_a_producer(self):
        entered(self, mock.patch("rueda.data._remote.producer._MOST_UNPROVEN", 8))
        with serve(numbers) as producer:
            where = messages.split_address(producer.address)
            with contextlib.ExitStack() as silent:
                for _ in range(10):  # the producer lets only 8 of these connections wait
                    silent.enter_context(socket.create_connection(where))
                with socket.create_connection(where) as chatty:
                    chatty.sendall(b"GET / HTTP/1.1\r\n\r\n" * 10)
                    with contextlib.suppress(ConnectionResetError):
                        self.assertEqual(chatty.recv(100), b"")
                with remote([producer.address], args=[3]) as batches:
                    self.assertEqual(numbers_of(batches), [0, 1, 2])

    def test_a_receiver_that_asks_for_nonsense(self):
        with serve(numbers) as producer:
            for kind, payload in ((messages.Kind.BATCH, b"[]"), (messages.Kind.TASK, b"{}")):
                connected = socket.create_connection(messages.split_address(producer.address))
                connection = messages.Connection(connected, False, SECRET)
                connection.send(kind, payload)
                with self.assertRaisesRegex(ConnectionResetError, "closed the connection"):
                    connection.receive()
                connection.close()

    def test_a_copy_of_a_socket_does_not_keep_a_connection_open(self):
        with serve(numbers) as producer:
            connected = socket.create_connection(messages.split_address(producer.address))
            connection = messages.Connection(connected, False, SECRET)
            (held,) = producer._open
            with held.dup():  # simulates a worker that was forked while the socket was open, and so has a copy of it
                connection.send(messages.Kind.TASK, b"{}")
                connection.limit_wait(LIMIT)
                with self.assertRaisesRegex(ConnectionResetError, "closed the connection"):
                    connection.receive()
            connection.close()


def proven_pair():
    """Returns both ends of a connection whose ends have proved the secret to each other."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        here = socket.create_connection(listener.getsockname())
        there, _ = listener.accept()
    made = []
    thread = threading.Thread(target=lambda: made.append(messages.Connection(there, True, SECRET)))
    thread.start()
    made.append(messages.Connection(here, False, SECRET))
    thread.join()
    return sorted(made, key=lambda one: one.fileno() == here.fileno())


class Bytes(unittest.TestCase):
    """Hostile and damaged bytes. PROPERTY_FACTOR multiplies the number of random inputs."""

    def test_every_changed_bit_of_a_message_is_noticed(self):
        sender, taker = proven_pair()
        payload = messages.describe_batch({"x": np.zeros((2, 3)), "y": np.zeros(4, "<U3")})
        recorded = []
        real, sender._socket = sender._socket, mock.Mock()
        sender._socket.sendmsg.side_effect = lambda buffers, *_: recorded.append(bytes(buffers[0])) or len(buffers[0])
        sender.send(messages.Kind.BATCH, payload)
        (message,) = recorded
        for place, bit in itertools.product(range(len(message)), range(8)):
            changed = bytearray(message)
            changed[place] ^= 1 << bit
            # With a wrong length in the bytes 4 to 7, the receiver would wait for more bytes until the connection ends.
            if 4 <= place < 8:
                continue
            real.sendall(changed)
            with self.assertRaises(messages.BadMessage):
                taker.receive()
        real.sendall(message)
        self.assertEqual(taker.receive(), (messages.Kind.BATCH, payload))
        real.sendall(message)  # a repeated message
        with self.assertRaises(messages.BadMessage):
            taker.receive()
        real.sendall(message[:4] + (messages.LONGEST_PAYLOAD + 1).to_bytes(4, "little"))
        with self.assertRaisesRegex(messages.BadMessage, "expected at most"):
            taker.receive()
        real.close()
        taker.close()

    def test_the_end_of_a_connection_causes_no_signal(self):
        sender, taker = proven_pair()
        signals = []
        before = signal.signal(signal.SIGPIPE, lambda number, _: signals.append(number))
        self.addCleanup(signal.signal, signal.SIGPIPE, before)
        sender.shut()
        with self.assertRaises(BrokenPipeError):
            sender.send(messages.Kind.ALIVE)
        self.assertEqual(signals, [])
        sender.close()
        taker.close()

    def test_descriptions_that_are_refused(self):
        for entries in (
            {},
            [1],
            [["x", "<f4"]],
            [["x", "<f4", [1], 0]],
            [[3, "<f4", [1]]],
            [["x", "|O", [1]]],
            [["x", "O8", [1]]],
            [["x", "|S0", [1]]],
            [["x", "f4", [1]]],
            [["x", "<f4,<i4", [1]]],
            [["x", "<f3", [1]]],
            [["x", "<U9999999999", [1]]],
            [["x", "<f4", 3]],
            [["x", "<f4", [-1]]],
            [["x", "<f4", [True]]],
            [["x", "<f4", [1.0]]],
            [["x", "<f4", [1] * 33]],
            [["x", "<f4", [1 << 61]]],
            [["x", "<f4", [0, 1 << 61, 1 << 61]]],
            [["x", "<f4", [1 << 70]]],
            [["x", "<f4", [1]], ["x", "<f4", [1]]],
            [["x", "<f4", [251]]],  # 1004 bytes
            [["x", "<f4", [250]], ["y", "<U1", [1]]],
        ):
            with self.subTest(entries=entries), self.assertRaises(messages.BadMessage):
                messages.parse_batch(json.dumps(entries).encode(), 1000)
        for payload in (b"", b"\xff", b"[" * 100_000, b"nan", b'[["x","<f4",[1e400]]]', b"9" * 100_000):
            with self.assertRaises(messages.BadMessage):
                messages.parse_batch(payload, 1000)
        self.assertEqual(messages.parse_batch(b'[["x", "<f4", [250]]]', 1000)[0].size, 1000)

    def test_tasks_that_are_refused(self):
        right = {"index": 1, "count": 2, "epochs": 3, "epoch": 2, "first_batch": 4, "ahead": 2, "args": [1, "x"]}
        self.assertEqual(messages.parse_task(json.dumps(right).encode()), messages.Task(**right))
        for name, value in (
            ("index", 2),
            ("index", -1),
            ("index", True),
            ("count", 0),
            ("count", "2"),
            ("epoch", 3),
            ("epoch", None),
            ("first_batch", 0.5),
            ("first_batch", 1 << 80),
            ("ahead", 0),
            ("args", {}),
            ("more", 1),
        ):
            with self.subTest(name=name, value=value), self.assertRaises(messages.BadMessage):
                messages.parse_task(json.dumps({**right, name: value}).encode())

    def test_random_descriptions(self):
        """Each mutated description is refused, or describes arrays that can be made and that are small enough."""
        chance = random.Random(7)
        seeds = [
            b'[["image", "<f4", [16, 3, 8, 8]], ["label", "<i8", [16]], ["text", "<U12", [2, 2]]]',
            b'[["a", "|b1", []], ["b", "<M8[ns]", [0, 4]], ["c", "|S2", [5]], ["d", "|V3", [1]]]',
        ]
        characters = b'0123456789[]",-.<>|bifcSUVmMOe\\ u\x00\xff'
        accepted = 0
        for _ in range(int(4000 * FUZZ_FACTOR)):
            payload = bytearray(chance.choice(seeds))
            for _ in range(chance.randrange(4)):
                place = chance.randrange(len(payload))
                payload[place : place + chance.randrange(3)] = bytes(chance.choices(characters, k=chance.randrange(3)))
            try:
                arrays = messages.parse_batch(bytes(payload), 1 << 20)
            except messages.BadMessage:
                continue
            accepted += 1
            self.assertLessEqual(sum(array.size for array in arrays), 1 << 20)
            for array in arrays:
                self.assertEqual(np.empty(array.shape, array.dtype).nbytes, array.size)
        self.assertGreater(accepted, 100)

    def test_random_tasks(self):
        chance = random.Random(8)
        seed = messages.Task(1, 2, 3, 0, 4, 2, [1, "x", None]).to_payload()
        for _ in range(int(2000 * FUZZ_FACTOR)):
            payload = bytearray(seed)
            for _ in range(chance.randrange(1, 4)):
                payload[chance.randrange(len(payload))] = chance.randrange(256)
            with contextlib.suppress(messages.BadMessage):
                task = messages.parse_task(bytes(payload))
                self.assertTrue(0 <= task.index < task.count and task.ahead >= 1 and isinstance(task.args, list))


if __name__ == "__main__":
    unittest.main()
