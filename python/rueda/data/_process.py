# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Starts and watches a worker process, in the consumer (the process that takes the batches)."""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing.util
import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.context import BaseContext
from typing import Any, NamedTuple

import numpy.typing as npt

from rueda.data._channel import Acknowledgements, Kind, Report, receive_report
from rueda.data._slots import MappedSlot
from rueda.data._worker import GRACE, Batch, run_worker
from rueda.errors import InvalidArgument, ResourceExhausted

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


class Arrived(NamedTuple):
    """A report of a worker that the consumer has received, and that the program has not taken yet."""

    report: Report
    slot: MappedSlot | None
    text: str
    acknowledgements: Acknowledgements

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        assert self.slot is not None
        return self.slot.views(self.report.place, self.report.length, self.acknowledgements)


class WorkerProcess:
    """Starts a worker process, receives its reports, and notices its end. Threads: one at a time."""

    def __init__(self, context: BaseContext, task: Task, index: int, epoch: int, first_batch: int) -> None:
        self.index = index
        self.epoch = epoch  # the epoch of the next batch that arrives
        # The batches of this epoch that arrived, with those of the process that this one replaces.
        self.batches = first_batch
        self.handed_over = 0  # the batches of this process that arrived
        self.finished = False
        self._slots: dict[int, MappedSlot] = {}
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        self.connection = ours
        # A process that multiprocessing forks gets a copy of this socket, and closes it here. If it kept the copy
        # open, the worker would not notice the end of the consumer.
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
        )
        try:
            self._process = context.Process(  # type: ignore[attr-defined]
                target=run_worker, args=arguments, name=f"{NAME}-{index}", daemon=False
            )
            self._process.start()
        except OSError as error:
            ours.close()
            raise ResourceExhausted(f"starting data worker {index} failed: {error}") from error
        except Exception as error:  # pickle raises many types
            ours.close()
            raise InvalidArgument(
                f"starting data worker {index}: pickle cannot send make_generator or args to a new process: {error}; define "
                "functions and classes at the top level of a module, or use start_method='fork'"
            ) from error
        finally:
            theirs.close()
        self.pid: int = self._process.pid
        self.acknowledgements = Acknowledgements(ours)
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

    def receive(self, into: deque[Arrived]) -> bool:
        """Appends the reports that have arrived to `into`. Returns True if the process has ended and all of its
        reports have been received.
        """
        if not self._open:
            return False
        self.acknowledgements.flush()
        poll = select.poll()
        poll.register(self._end(), select.POLLIN)
        # This is asked before reading: if the process has ended, the loop below reads all of its reports.
        ended = bool(poll.poll(0))
        while True:
            try:
                received = receive_report(self.connection)
            except BlockingIOError:
                break
            except ConnectionResetError:
                continue  # the process ended before it read all messages; its own last reports can still be received
            if received is None:
                ended = True  # the process has closed its socket, which it does only when it ends
                break
            self._note(*received, into)
        if ended:
            self._close_connection()
        return ended

    def _note(self, report: Report, descriptor: int | None, text: str, into: deque[Arrived]) -> None:
        slot = None
        if report.kind is Kind.FORGET:
            self._slots.pop(report.slot, None)
            return
        if report.kind is Kind.BATCH:
            if descriptor is not None:
                self._slots[report.slot] = MappedSlot(report.slot, descriptor, report.capacity)
            slot = self._slots[report.slot]
            self.batches += 1
            self.handed_over += 1
        elif report.kind is Kind.END_OF_EPOCH:
            self.epoch, self.batches = self.epoch + 1, 0
        elif report.kind in (Kind.FINISHED, Kind.FAILED):
            self.finished = True
        if report.kind is not Kind.FINISHED:
            into.append(Arrived(report, slot, text, self.acknowledgements))

    def how_it_ended(self) -> tuple[str, int | None, int | None]:
        """Returns how the process ended: a text, the number of the signal or None, and the exit code or None."""
        self._process.join(GRACE + 1)
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
        if self._death is not None:
            os.close(self._death)
            self._death = None

    def shut(self) -> None:
        """Tells the process to end."""
        if self._open:
            # A process that was forked from this one may have a copy of the socket. So closing the socket would not
            # be enough. shutdown() fails if the worker has ended.
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            self._close_connection()

    def end_by(self, deadline: float) -> None:
        """Waits until the process has ended. Kills the process if it has not ended at the deadline."""
        self._process.join(max(0.0, deadline - time.monotonic()))
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()
        self._process.close()


def _forget_connection(process: WorkerProcess) -> None:
    process.connection.close()


def end_all(processes: Sequence[WorkerProcess]) -> None:
    """Ends the processes. Each process has GRACE + 1 seconds to end by itself, so that its generator can clean up."""
    for process in processes:
        process.shut()
    deadline = time.monotonic() + GRACE + 1
    for process in processes:
        process.end_by(deadline)


def _death_descriptor(pid: int) -> int | None:
    """Returns a descriptor that becomes readable when the process has ended; None if the system has no such
    descriptors. The descriptor of the module multiprocessing is not enough: it is a pipe, and children of the worker
    can keep the pipe open.
    """
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # a kernel before 5.3, or the process has ended
        return None
