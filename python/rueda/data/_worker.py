# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The code that runs in a worker process: it calls the generator, and hands the batches over to the consumer (the
process that takes the batches).
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy.typing as npt

from rueda.data._channel import Kind, Report, receive_acknowledgement, send_report
from rueda.data._slots import Packer
from rueda.errors import InvalidArgument

Batch = Mapping[str, npt.ArrayLike]

#: After the consumer has ended, the generator has this number of seconds to end its work.
GRACE = 1.0
#: In seconds: the interval in which this process checks whether the consumer is alive. Usually a pidfd or the socket
#: shows that the consumer has ended. But the system may have no pidfd, and a process that the consumer forked may keep
#: the consumer's end of the socket open. Then only this check notices it.
_LOOK = 1.0
#: The errors of a socket whose other end is closed.
_OTHER_END_CLOSED = (errno.EPIPE, errno.ECONNRESET)


class ConsumerGone(Exception):
    """Raised in the worker if the consumer has closed the pipeline or has died."""


class Reported(Exception):
    """Rueda's own generators raise this exception, to determine what the process reports to the consumer."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class WorkerInfo:
    """Describes the task of a worker's generator.

    Attributes:
        index: the number of this worker, from 0.
        count: the number of workers.
        epoch: the number of the epoch whose batches are made, from 0.

    Example::

        def batches_of(worker, files):
            for name in files[worker.index :: worker.count]:
                yield {"image": np.load(name)}
    """

    def __init__(self, index: int, count: int, epoch: int, first: int, packer: Packer) -> None:
        self.index = index
        self.count = count
        self.epoch = epoch
        self._first = first
        self._packer = packer
        self._begins_later = False

    def first_batch(self) -> int:
        """Returns the number of batches that this worker must leave out at the beginning of this epoch. The number is
        greater than 0 if the worker replaces a dead worker, or if the pipeline resumed in the middle of an epoch.

        A generator that calls this function must leave these batches out. If the generator does not call this
        function, it makes these batches, and the worker drops them.

        Example::

            def batches_of(worker):
                for number in range(worker.first_batch(), 100):
                    yield {"x": np.full(1000, number)}
        """
        self._begins_later = True
        return self._first

    def empty(self, shape: int | tuple[int, ...], dtype: npt.DTypeLike = "float32") -> npt.NDArray[Any]:
        """Returns an array for the next batch, with undefined values. If the generator fills this array and yields it,
        the array is sent to the trainer without a copy. After the yield, the array belongs to the trainer: the
        generator must not change it any more, and yielding it again is an error. So call this function for every batch.

        Example::

            def batches_of(worker):
                for number in range(100):
                    image = worker.empty((64, 3, 224, 224))
                    image[...] = number
                    yield {"image": image}
        """
        return self._packer.empty(shape, dtype)

    def _reserve(self, sizes: Sequence[int], description: int) -> None:
        """Says how large the arrays of the next batch are, before empty() is called for them."""
        self._packer.reserve(sizes, description)

    def _to_drop(self) -> int:
        return 0 if self._begins_later else self._first


class _Outlet:
    """Hands batches over to the consumer. Threads: the worker's main thread."""

    def __init__(self, connection: socket.socket, ahead: int) -> None:
        self.packer = Packer()
        self._connection = connection
        self._ahead = ahead
        self._allowed = ahead  # how many reports may be sent before the consumer must take one

    def hand_over(self, batch: Batch, making: float) -> None:
        waiting = self._wait_until_allowed()
        began = time.perf_counter()
        slot, place, length = self.packer.pack(batch)
        copying = time.perf_counter() - began
        report = Report(Kind.BATCH, slot.number, slot.capacity, place, length, making, copying, waiting)
        self._send(report, slot.descriptor)
        slot.close_descriptor()

    def end_epoch(self) -> None:
        self._wait_until_allowed()
        self._send(Report(Kind.END_OF_EPOCH))

    def finish(self) -> None:
        self._send(Report(Kind.FINISHED))

    def _wait_until_allowed(self) -> float:
        """Waits until one more report may be sent, because the consumer has taken enough of the earlier ones. Returns
        the time of the wait in seconds. The thread sleeps until the consumer sends an acknowledgement or closes the
        socket.
        """
        began = time.perf_counter()
        while self._allowed <= 0:
            self._receive(wait=True)
        while self._receive(wait=False):
            pass
        self._allowed -= 1
        return time.perf_counter() - began

    def _receive(self, wait: bool) -> bool:
        """Reads one message of the consumer. Returns False if there is none."""
        try:
            with _noticing_the_end():
                message = receive_acknowledgement(self._connection, wait)
        except BlockingIOError:
            return False
        if message is None:
            raise ConsumerGone
        taken, slots = message
        self._allowed += taken
        for slot in slots:
            for number in self.packer.release(slot, self._ahead + 1):
                self._send(Report(Kind.FORGET, number))
        return True

    def _send(self, report: Report, descriptor: int | None = None) -> None:
        with _noticing_the_end():
            send_report(self._connection, report, descriptor)


@contextlib.contextmanager
def _noticing_the_end() -> Iterator[None]:
    """Turns the errors of a closed socket into ConsumerGone. Do not run the generator in this scope, because the
    generator's own network connections can fail with the same errors.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _OTHER_END_CLOSED:
            raise
        raise ConsumerGone from error


def run_worker(
    connection: socket.socket,
    index: int,
    count: int,
    make_generator: Callable[..., Iterable[Batch]],
    args: tuple[Any, ...],
    epochs: int,
    first_epoch: int,
    first_batch: int,
    ahead: int,
    consumer: int,
) -> None:
    """Runs in a worker process: makes the batches of all epochs, and hands them over."""
    # Ctrl-C sends SIGINT to all processes of the terminal. The workers ignore it: the consumer ends them when it ends
    # itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    connection.settimeout(None)  # the program may have called socket.setdefaulttimeout()
    threading.Thread(target=_end_with_the_consumer, args=(connection, consumer, os.getppid()), daemon=True).start()
    outlet = _Outlet(connection, ahead)
    try:
        epoch = first_epoch
        while epochs == 0 or epoch < epochs:
            worker = WorkerInfo(index, count, epoch, first_batch if epoch == first_epoch else 0, outlet.packer)
            _run_epoch(worker, make_generator(worker, *args), outlet)
            epoch += 1
        outlet.finish()
    except ConsumerGone:
        pass
    except Reported as error:
        with contextlib.suppress(OSError):
            send_report(connection, Report(error.kind), text=str(error))
    except Exception:
        # If the consumer has ended, sending this text fails, but then nobody needs the text.
        with contextlib.suppress(OSError):
            send_report(connection, Report(Kind.FAILED), text=traceback.format_exc())


def _run_epoch(worker: WorkerInfo, made: Iterable[Batch], outlet: _Outlet) -> None:
    batches: Iterator[Batch] = iter(made)
    number = 0
    try:
        while True:
            began = time.perf_counter()
            try:
                batch = next(batches)
            except StopIteration:
                break
            making = time.perf_counter() - began
            if not isinstance(batch, Mapping):
                raise InvalidArgument(
                    f"the generator of worker {worker.index} yielded a {type(batch).__name__}; expected a dict of arrays"
                )
            if number >= worker._to_drop():
                outlet.hand_over(batch, making)
            else:
                outlet.packer.drop()
            number += 1
    finally:
        close = getattr(batches, "close", None)
        if close is not None:
            close()
    outlet.end_epoch()


def _end_with_the_consumer(connection: socket.socket, consumer: int, parent: int) -> None:
    """Ends this process when the consumer has closed the socket or has died. The generator may be busy for long, or may
    wait for something else, so this function runs in a thread of its own. `parent` is the pid of this process's parent,
    which is the consumer or the fork server of multiprocessing.
    """
    poll = select.poll()
    poll.register(connection, 0)  # even with 0 as flags, poll() reports the end of the other side
    alive = True
    try:
        poll.register(os.pidfd_open(consumer), select.POLLIN)
    except ProcessLookupError:
        alive = False
    except (AttributeError, OSError):  # the kernel is older than 5.3
        pass
    while alive and os.getppid() == parent and not poll.poll(_LOOK * 1000):
        pass
    time.sleep(GRACE)
    os._exit(0)
