# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A producer: it listens, and starts a worker process for each receiver that asks for batches."""

from __future__ import annotations

import logging
import multiprocessing
import multiprocessing.util
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType

from rueda.data import _channel
from rueda.data._process import Arrived, Task, WorkerProcess, end_all
from rueda.data._remote import messages
from rueda.data._remote.messages import (
    FIRST_SECONDS,
    BadMessage,
    Connection,
    Kind,
    check_secret,
    describe_batch,
    parse_task,
    shut,
    split_address,
)
from rueda.data._worker import GRACE, Batch
from rueda.errors import InvalidArgument, ResourceExhausted, RuedaError

_logger = logging.getLogger("rueda.data")

#: The maximum number of connections whose receiver has not proved the secret yet. If another connection arrives, the
#: oldest of them is closed, and its receiver tries again. The number is limited because each connection needs a thread
#: and two descriptors. Many systems allow 1024 descriptors by default, and the workers need some of them.
_MOST_UNPROVEN = 256
#: In seconds: the pause after the system refused a connection, for example because there are too many open files.
_PAUSE = 0.1


class Producer:
    """A producer of batches for trainers on other hosts. serve() returns such an object and describes it.

    Attributes:
        address: where trainers reach the producer, as "host:port". If the producer listens at all addresses, `host` is
            the name of this host.

    Threads: any thread may call close() and wait().
    """

    def __init__(
        self, make_generator: Callable[..., Iterable[Batch]], address: str, secret: str, most: int, start_method: str
    ) -> None:
        self._make_generator = make_generator
        self._secret = secret
        self._most = most
        self._context = multiprocessing.get_context(start_method)
        host, port = split_address(address)
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
            self._listener = socket.create_server((host, port), family=family, backlog=socket.SOMAXCONN)
        except OSError as error:
            raise InvalidArgument(
                f"serve: listening at {address} failed: {error}; give an address of this host"
            ) from error
        self._listener.settimeout(None)
        shown = socket.gethostname() if host in ("0.0.0.0", "::") else host
        self.address = f"[{shown}]:{self._port()}" if ":" in shown else f"{shown}:{self._port()}"
        self._lock = threading.Lock()  # guards the next four members
        self._closed = False
        self._unproven: dict[socket.socket, None] = {}  # the connections whose secret is not proven, the oldest first
        self._open: set[socket.socket] = set()  # all connections, including those whose secret is not proven
        self._workers = 0  # the number of worker processes that run or start
        self._threads: list[threading.Thread] = []  # used only by close() and by the thread that accepts connections
        # A thread holds this lock while it starts a process, because the module multiprocessing can start only one at a
        # time.
        self._starting = threading.Lock()
        self._end = threading.Event()
        multiprocessing.util.register_after_fork(self, Producer._forget)
        self._finalizer = multiprocessing.util.Finalize(self, self._close_all, exitpriority=100)
        self._accepting = threading.Thread(target=self._accept, name="rueda-producer", daemon=True)
        self._accepting.start()

    def _port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def _forget(self) -> None:
        """Closes the copies of the sockets. Runs in each process that multiprocessing forks from this one."""
        self._listener.close()
        for connected in self._open:
            connected.close()

    def _accept(self) -> None:
        while not self._end.is_set():
            try:
                connected, peer = self._listener.accept()
            except OSError as error:
                if not self._end.is_set():
                    _logger.warning("producer at %s: taking a connection failed: %s", self.address, error)
                    self._end.wait(_PAUSE)
                continue
            with self._lock:
                if self._closed:
                    connected.close()
                    return
                if len(self._unproven) >= _MOST_UNPROVEN:
                    oldest = next(iter(self._unproven))
                    del self._unproven[oldest]
                    shut(oldest)
                self._unproven[connected] = None
                self._open.add(connected)
            # The list has only threads that still run, so it does not grow without limit.
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            thread = threading.Thread(
                target=self._serve, args=(connected, f"{peer[0]}:{peer[1]}"), name="rueda-producer-stream", daemon=True
            )
            try:
                thread.start()
            except RuntimeError as error:  # the system refuses another thread
                _logger.warning("producer at %s: serving a connection failed: %s", self.address, error)
                self._drop(connected)
                self._end.wait(_PAUSE)
                continue
            self._threads.append(thread)

    def _drop(self, connected: socket.socket) -> None:
        """Ends and closes a connection. A worker that was forked just after accept() may have a copy of the socket, so
        closing it would not end the connection. The lock ensures that no thread shuts the connection down after its
        descriptor was closed and reused for another file.
        """
        with self._lock:
            self._unproven.pop(connected, None)
            self._open.discard(connected)
            shut(connected)
            connected.close()

    def _serve(self, connected: socket.socket, peer: str) -> None:
        """Serves one receiver. Runs in a thread of its own."""
        try:
            connection = Connection(connected, True, self._secret)
            connection.limit_wait(FIRST_SECONDS)
            kind, payload = connection.receive()
            if kind is not Kind.TASK:
                raise BadMessage(f"the first message is {kind.name}; expected TASK")
            task = parse_task(payload)
            connection.limit_wait(None)
            with self._lock:
                self._unproven.pop(connected, None)
                full = self._workers >= self._most
                self._workers += not full
            if full:
                connection.send(Kind.REFUSED, f"it has {self._most} workers already (most_workers of serve())".encode())
            else:
                self._accept_task(connection, task)
            connection.wait_for_end()
        except (OSError, BadMessage, RuedaError) as error:
            if not self._end.is_set():
                _logger.info("producer at %s: the connection of %s has ended: %s", self.address, peer, error)
        finally:
            self._drop(connected)

    def _accept_task(self, connection: Connection, task: messages.Task) -> None:
        """Does what a task asks for. The caller has added the task's worker to the number of workers; this function
        subtracts it at the end."""
        try:
            connection.send(Kind.ACCEPTED)
            self._stream(
                connection,
                Task(self._make_generator, tuple(task.args), task.count, task.epochs, task.ahead),
                task.index,
                task.epoch,
                task.first_batch,
            )
        finally:
            with self._lock:
                self._workers -= 1

    def _stream(self, connection: Connection, task: Task, index: int, epoch: int, first_batch: int) -> None:
        try:
            with self._starting:
                if self._end.is_set():
                    return
                process = WorkerProcess(self._context, task, index, epoch, first_batch)
        except RuedaError as error:
            connection.send(Kind.DIED, str(error).encode())
            return
        try:
            _forward(connection, process)
        except ResourceExhausted as error:  # a batch could not be mapped
            connection.send(Kind.DIED, str(error).encode())
        except InvalidArgument as error:  # a batch cannot be described
            connection.send(Kind.FAILED, str(error).encode())
        finally:
            end_all([process])

    def wait(self) -> None:
        """Waits until close() is called in another thread. Ctrl-C interrupts the wait.

        Example::

            rueda.data.serve(batches_of, "0.0.0.0:7400", secret=secret).wait()
        """
        # Without a time limit, Python would not handle signals in some systems.
        while not self._end.wait(3600):
            pass

    def close(self) -> None:
        """Ends the producer and its worker processes. Trainers that still need batches lose the producer. The end of a
        ``with`` block calls this function, and the end of the program does, too.

        Example::

            producer = rueda.data.serve(batches_of, secret=secret)
            producer.close()
        """
        self._finalizer()

    def _close_all(self) -> None:
        self._end.set()
        with self._lock:
            self._closed = True
            for connected in self._open:
                shut(connected)
        shut(self._listener)  # wakes the accepting thread
        self._accepting.join()
        self._listener.close()
        deadline = time.monotonic() + 2 * GRACE + 2  # more than end_all() needs
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def __enter__(self) -> Producer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _forward(connection: Connection, process: WorkerProcess) -> None:
    """Sends the batches of the worker process, until the process has ended. While the network is busy, this function
    waits in send(). The worker then continues only until it has made the number of batches that it may make in advance.
    Raises OSError if the receiver has ended.
    """
    arrived: deque[Arrived] = deque()
    while True:
        process.receive(arrived)
        while arrived:
            if not _send(connection, arrived.popleft()):
                return
        # The receiver knows the number of epochs, and ends when it has received everything. So the producer sends no
        # message at the end.
        if process.finished:
            return
        if process.ended:
            connection.send(Kind.DIED, f"its worker process (pid {process.pid}) {process.how_it_ended()[0]}".encode())
            return
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        for descriptor, events in process.descriptors():
            poll.register(descriptor, events)
        ready = poll.poll(1000 * messages.ALIVE_SECONDS)
        if not ready:
            connection.send(Kind.ALIVE)
        if any(descriptor == connection.fileno() for descriptor, _ in ready):
            # A receiver sends nothing after its task. So a socket that can be read means the end of the connection.
            raise ConnectionResetError("the receiver closed the connection")


def _send(connection: Connection, report: Arrived) -> bool:
    """Sends a report of the worker. Returns false if the worker sends no further report."""
    kind = report.report.kind
    if kind is _channel.Kind.FAILED:
        connection.send(Kind.FAILED, report.text.encode())
        return False
    if kind is _channel.Kind.BATCH:
        batch = report.arrays()
        report.acknowledgements.take()
        connection.send(Kind.BATCH, describe_batch(batch), batch.values())
    else:
        report.acknowledgements.take()
        connection.send(Kind.END_OF_EPOCH)
    return True


def serve(
    make_generator: Callable[..., Iterable[Batch]],
    address: str = "127.0.0.1:0",
    *,
    secret: str,
    most_workers: int = 64,
    start_method: str = "spawn",
) -> Producer:
    """Makes batches for trainers on other hosts, which take them with remote(). This function returns at once: threads
    of this process wait for the trainers. For each worker that a trainer asks for, this process starts a worker process,
    which calls ``make_generator(worker, *args)`` in each epoch, as with workers(). The args come from the trainer.

    If a trainer takes batches slowly, the workers wait. A worker that has ``prefetch`` unsent batches (an argument of
    remote()) makes one more, and then waits.

    Args:
        make_generator: returns an iterable of dicts of arrays, as for workers().
        address: where to listen, as "host:port". By default only processes of this host can connect. "0.0.0.0:7400"
            listens at all IPv4 addresses of the host. With port 0 the system chooses a port, see Producer.address.
        secret: a text of at least 16 characters. Trainer and producer prove to each other that they know the secret,
            without sending it. Anyone who knows the secret can make this process produce batches, but cannot run other
            code in it.
        most_workers: the maximum number of worker processes at the same time. Further workers are refused.
        start_method: "spawn", "fork" or "forkserver", as in the module multiprocessing. With "spawn" the script must protect
            its main part with ``if __name__ == "__main__":``. With "fork" a worker can wait without end for a lock that another
            thread of this process held at the fork, for example in ``sys.stdin.read()``.

    Raises:
        InvalidArgument: an argument cannot be used, or the address is not one of this host, or it is in use.

    Example::

        def batches_of(worker, names):
            for name in names[worker.index :: worker.count]:
                yield {"image": np.load(name)}

        if __name__ == "__main__":
            rueda.data.serve(batches_of, "0.0.0.0:7400", secret=pathlib.Path("secret").read_text()).wait()
    """
    if not callable(make_generator):
        raise InvalidArgument(f"serve: make_generator is {make_generator!r}; expected a function")
    if not isinstance(most_workers, int) or most_workers < 1:
        raise InvalidArgument(f"serve: most_workers is {most_workers!r}; expected a whole number of at least 1")
    if start_method not in multiprocessing.get_all_start_methods():
        raise InvalidArgument(f"serve: start_method is {start_method!r}; expected 'spawn', 'fork' or 'forkserver'")
    check_secret(secret)
    return Producer(make_generator, address, secret, most_workers, start_method)
