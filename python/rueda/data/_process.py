# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Starts and watches a worker process, in the consumer (the process that takes the batches)."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import multiprocessing.process
import multiprocessing.util
import os
import pickle
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.context import BaseContext
from typing import Any, NamedTuple

import numpy.typing as npt

from rueda.data._channel import Acknowledgements, Kind, Report, receive_report
from rueda.data._mapping import Pin
from rueda.data._slots import MappedSlot
from rueda.data._worker import GRACE, Batch, run_worker
from rueda.errors import InvalidArgument, ResourceExhausted, RuedaError

#: rueda.init() refuses to join a job in a process whose name begins with this text.
NAME = "rueda-data-worker"


@dataclasses.dataclass(frozen=True)
class Task:
    """The task of all workers of a pipeline."""

    make_generator: Callable[..., Iterable[Batch]]
    args: tuple[Any, ...]
    count: int
    epochs: int
    ahead: int
    receives: bool = False  # the workers receive batches from producers, and make none


class SlotReturns:
    """Gives a worker's slots (pieces of shared memory) back to the worker when their arrays have died. At this time, a
    GPU may still copy from a pinned slot, by work in its default stream. A pinned slot is therefore given back only
    after the GPU has done the work that this stream then contains.

    Threads: as for Acknowledgements.
    """

    def __init__(self, acknowledgements: Acknowledgements) -> None:
        self._acknowledgements = acknowledgements
        self._busy: deque[MappedSlot] = deque()  # pinned slots that the GPU may still use
        self._failure: RuedaError | None = None

    def release(self, slot: MappedSlot) -> None:
        if not slot.is_pinned:
            self._acknowledgements.release(slot.number)
            return
        try:
            slot.mapping.note_work()
        except RuedaError as error:  # the slot is never used again, because the GPU may still read it
            self._failure = error
            return
        self._busy.append(slot)

    def release_idle(self) -> None:
        """Gives back the pinned slots that the GPU does not use any more. If the GPU's driver has reported an error,
        raises it."""
        if self._failure is not None:
            raise self._failure
        for _ in range(len(self._busy)):  # release() may append others meanwhile
            slot = self._busy.popleft()
            if slot.mapping.is_idle():
                self._acknowledgements.release(slot.number)
            else:
                self._busy.append(slot)


class Arrived(NamedTuple):
    """A report of a worker. The consumer has received it, but the program has not taken it yet."""

    report: Report
    slot: MappedSlot | None
    text: str
    acknowledgements: Acknowledgements
    returns: SlotReturns

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        assert self.slot is not None
        return self.slot.views(self.report.place, self.report.length, self.returns)


class WorkerProcess:
    """Starts a worker process, receives its reports, and notices when it ends. Threads: one at a time."""

    def __init__(
        self, context: BaseContext, task: Task, index: int, epoch: int, first_batch: int, pin: Pin | None = None
    ) -> None:
        self.index = index
        self._pin = pin
        self.epoch = epoch  # the epoch of the next batch that arrives
        # The number of batches of this epoch that arrived. It includes batches from the dead process that this process
        # replaces.
        self.batches = first_batch
        self.handed_over = 0  # the number of batches that arrived from this process
        self.finished = False
        self.lost: str | None = None  # if the worker receives batches from a producer and has lost it: the reason
        self.ended = False  # the process has ended, and all its reports have arrived
        self._how: tuple[str, int | None, int | None] | None = None  # it ended
        self._reaped = False
        self._slots: dict[int, MappedSlot] = {}
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            raise _refusal(index, error) from error
        # The program may have called socket.setdefaulttimeout().
        ours.setblocking(False)
        theirs.settimeout(None)
        self.connection = ours
        # A process that multiprocessing forks gets a copy of this socket, and _forget_connection() closes the copy. If
        # the copy stayed open, the worker would not notice the end of the consumer.
        multiprocessing.util.register_after_fork(self, _forget_connection)
        arguments = (
            theirs,
            index,
            task.count,
            task.make_generator,
            task.args,
            task.epochs,
            epoch,
            first_batch,
            task.ahead,
            os.getpid(),
        )
        try:
            self._process = context.Process(  # type: ignore[attr-defined]
                target=run_worker, args=arguments, name=f"{NAME}-{index}", daemon=False
            )
            self._process.start()
        except BaseException as error:
            ours.close()
            if not isinstance(error, Exception):
                raise
            raise _refusal(index, error) from error
        finally:
            theirs.close()
        self.pid: int = self._process.pid
        self.acknowledgements = Acknowledgements(ours)
        self._returns = SlotReturns(self.acknowledgements)
        self._open = True
        self._death: int | None = _death_descriptor(self.pid)

    def descriptors(self) -> list[tuple[int, int]]:
        """Returns the descriptors and events to wait for."""
        if not self._open:
            return []
        events = select.POLLIN | (select.POLLOUT if self.acknowledgements.waiting() else 0)
        return [(self.connection.fileno(), events), (self._end(), select.POLLIN)]

    def _end(self) -> int:
        return self._process.sentinel if self._death is None else self._death

    def receive(self, into: deque[Arrived]) -> None:
        """Takes the reports that have arrived. Also records whether the process has ended."""
        if not self._open:
            return
        self._returns.release_idle()
        self.acknowledgements.flush()
        poll = select.poll()
        poll.register(self._end(), select.POLLIN)
        # `ended` is determined before the reports are read. So if it is True, the loop below reads all of the reports.
        ended = bool(poll.poll(0))
        while True:
            try:
                received = receive_report(self.connection)
            except BlockingIOError:
                break
            except ConnectionResetError:
                continue  # the process ended without reading all messages; its last reports can still be received
            if received is None:
                ended = True  # the process has closed its socket, which it does only when it ends
                break
            self._note(*received, into)
        if ended:
            self.ended = True
            self._close_connection()

    def _note(self, report: Report, descriptor: int | None, text: str, into: deque[Arrived]) -> None:
        slot = None
        if report.kind is Kind.FORGET:
            self._slots.pop(report.slot, None)
            return
        if report.kind is Kind.BATCH:
            if descriptor is not None:
                self._slots[report.slot] = MappedSlot(report.slot, descriptor, report.capacity, self._pin)
            slot = self._slots[report.slot]
            self.batches += 1
            self.handed_over += 1
        elif report.kind is Kind.END_OF_EPOCH:
            self.epoch, self.batches = self.epoch + 1, 0
        elif report.kind in (Kind.FINISHED, Kind.FAILED):
            self.finished = True
        elif report.kind is Kind.LOST:
            self.lost = text
        if report.kind not in (Kind.FINISHED, Kind.LOST):
            into.append(Arrived(report, slot, text, self.acknowledgements, self._returns))

    def how_it_ended(self) -> tuple[str, int | None, int | None]:
        """Describes how a process has ended. Returns a text, the signal and the exit code."""
        if self._how is None:
            self._how = self._find_how_it_ended()
        return self._how

    def _find_how_it_ended(self) -> tuple[str, int | None, int | None]:
        self._wait_for_the_end(time.monotonic() + GRACE + 1)
        if self._process.exitcode is None:
            self._process.join(GRACE + 1)  # a fork server needs a moment to report the exit code
        code = self._process.exitcode
        if code is None:
            return "ended, and its exit code is not known", None, None
        if code >= 0:
            return f"exited with code {code}", None, code
        name = signal.Signals(-code).name if -code in {int(one) for one in signal.Signals} else "unknown"
        hint = "; the system sends this signal when memory runs out" if -code == signal.SIGKILL else ""
        return f"was killed by signal {-code} ({name}{hint})", -code, None

    def _close_connection(self) -> None:
        self._open = False
        self.connection.close()

    def shut(self) -> None:
        """Tells the process to end."""
        if self._open:
            # A process that was forked from this one may have a copy of the socket, so closing the socket would not
            # end the connection. shutdown() ends the connection. It raises an OSError if the worker has ended.
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            self._close_connection()

    def end_by(self, deadline: float) -> None:
        """Waits until the process has ended, and kills it at the deadline. If an exception interrupts the wait
        (Ctrl-C), kills the process at once. A second call does nothing.
        """
        if self._reaped:
            return
        try:
            self._wait_for_the_end(deadline)
        finally:
            self._kill()
            self._process.join()
            self._reaped = True
            if self._death is not None:
                os.close(self._death)
                self._death = None
            # If another part of the program has collected the exit code, multiprocessing believes that the process
            # still runs, and close() fails.
            with contextlib.suppress(ValueError):
                self._process.close()

    def _wait_for_the_end(self, deadline: float) -> None:
        left = max(0.0, deadline - time.monotonic())
        if self._death is None:
            self._process.join(left)
        else:
            poll = select.poll()
            poll.register(self._death, select.POLLIN)
            poll.poll(math.ceil(1000 * left))

    def _kill(self) -> None:
        """Kills the process, unless it has ended. This function uses the pidfd and not the pid: if another part of the
        program has waited for the process, the pid may belong to a new process.
        """
        with contextlib.suppress(ProcessLookupError):
            if self._death is not None:
                signal.pidfd_send_signal(self._death, signal.SIGKILL)
            elif self._process.exitcode is None:
                self._process.kill()


def _refusal(index: int, error: Exception) -> RuedaError:
    """Returns the error for a process that could not be started."""
    starting = f"starting data worker {index}"
    if isinstance(error, OSError):
        return ResourceExhausted(f"{starting} failed: {error}")
    if isinstance(error, RuntimeError) and getattr(multiprocessing.process.current_process(), "_inheriting", False):
        return InvalidArgument(
            f"{starting}: this process is itself starting, and imports the script. Put the part of the script that calls "
            'rueda.data.workers() under `if __name__ == "__main__":`'
        )
    if isinstance(error, pickle.PicklingError | TypeError | AttributeError):
        return InvalidArgument(
            f"{starting}: pickle cannot send make_generator or args to a new process: {error}; define functions and classes at "
            "the top level of a module, or use start_method='fork'"
        )
    return InvalidArgument(f"{starting} failed: {type(error).__name__}: {error}")


def _forget_connection(process: WorkerProcess) -> None:
    process.connection.close()


def end_all(processes: Sequence[WorkerProcess]) -> None:
    """Ends the processes. Each process gets a short time in which its generator can end its work. If an exception (for
    example by Ctrl-C) interrupts this function, the function kills the remaining processes at once, and then raises the
    first exception.
    """
    failures: list[BaseException] = []
    for process in processes:
        with _noting(failures):
            process.shut()
    deadline = time.monotonic() + GRACE + 1
    for process in processes:
        with _noting(failures):
            process.end_by(time.monotonic() if failures else deadline)
    if failures:
        raise failures[0]


@contextlib.contextmanager
def _noting(failures: list[BaseException]) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        failures.append(error)


def _death_descriptor(pid: int) -> int | None:
    """Returns a descriptor that becomes readable when the process has ended; None if the system has no such
    descriptors. The descriptor of the module multiprocessing is not enough: it is a pipe, and children of the worker
    can keep the pipe open.
    """
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # the kernel is older than 5.3, or the process has ended
        return None
