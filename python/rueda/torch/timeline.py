# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Writes a timeline of the operations of all ranks, for chrome://tracing and Perfetto.

All ranks of a host write to the same file. If the hosts share the file system, the ranks of all hosts write to the same
file. Each rank adds its events while it holds a lock. Whenever no rank holds the lock, the file is valid JSON. The bar
of an operation reaches from the call that starts it to its completion. The waits and optimizer steps of a rank are on
its track ``trainer``.
"""

from __future__ import annotations

import atexit
import fcntl
import itertools
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rueda import _native
from rueda._native import Handle
from rueda.errors import NotInitialized
from rueda.torch import _basics

__all__ = ["scope", "start_timeline", "stop_timeline"]

#: The time between two writes to the file, in seconds.
_FLUSH_TIME = 0.1
#: stop_timeline() waits for at most this time, in seconds, until the completion of operations has been noticed.
_LAST_ENDS = 2.0
#: Launchers set these variables. Their values are the same on all ranks of a job, and different for every job.
_JOB_VARIABLES = ("PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri", "PMI_JOBID", "RUEDA_RENDEZVOUS", "SLURM_JOB_ID")

_END = b"\n]\n"


def _job() -> str:
    for name in _JOB_VARIABLES:
        if name in os.environ:
            return f"{name}={os.environ[name]} {os.environ.get('SLURM_STEP_ID', '')}"
    return f"parent process {os.getppid()}"


class _Timeline:
    """Threads: any thread may add events. A separate thread writes them to the file. After this thread has ended,
    stop() writes the rest.
    """

    def __init__(self, path: str, number: int) -> None:
        self.path = path
        self._rank = _native.rank()
        self._process = os.getpid()
        self._numbers = itertools.count()
        # Any thread appends events; this is one step under the GIL. The writing thread takes events from the front.
        self._events: list[dict[str, Any]] = []
        # Operations whose end has not been noticed yet.
        self._open: dict[str, Handle[Any]] = {}
        # The clock for all events. It is monotonic within a rank, and nearly the same on all hosts.
        self._offset = time.time_ns() - time.monotonic_ns()
        self._header = {"name": "job", "ph": "M", "pid": 0, "args": {"job": f"{_job()}, timeline {number}"}}
        self._add(name="process_name", ph="M", args={"name": f"rank {self._rank} on {socket.gethostname()}"})
        self._add(name="process_sort_index", ph="M", args={"sort_index": self._rank})
        self._add(name="thread_name", ph="M", tid=1, args={"name": "trainer"})
        self._write()  # raises at once if the path cannot be written
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rueda-timeline", daemon=True)
        self._thread.start()

    def _now(self) -> float:
        return (time.monotonic_ns() + self._offset) / 1000

    def _add(self, **event: Any) -> None:
        event.setdefault("pid", self._rank)
        self._events.append(event)

    def operation(self, kind: str, handle: Handle[Any]) -> None:
        """Adds an operation that was started."""
        name = str(handle.name) if handle.name is not None else f"{kind} without a name"
        number = f"{self._rank}.{next(self._numbers)}"
        shared = {"name": name, "cat": kind, "id": number, "tid": 0}
        self._open[number] = handle
        self._add(ph="b", ts=self._now(), **shared)

        def ended(_handle: Handle[Any]) -> None:
            self._add(ph="e", ts=self._now(), **shared)
            self._open.pop(number)

        handle.add_done_callback(ended)

    def scope(self, name: str, begin: float) -> None:
        """Adds an activity of the trainer, which lasted from `begin` until now."""
        self._add(name=name, ph="X", ts=begin, dur=self._now() - begin, tid=1)

    def _run(self) -> None:
        while not self._stopping.wait(_FLUSH_TIME):
            self._write()

    def _write(self) -> None:
        count = len(self._events)
        if count == 0 or os.getpid() != self._process:
            return
        lines = [json.dumps(event) for event in self._events[:count]]
        del self._events[:count]
        with open(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # holds the lock until the file is closed
            first = json.dumps(self._header).encode()
            if file.read(len(first) + 2) != b"[\n" + first:
                # This rank is the first of its job that writes to this file. So the file contains a timeline of an
                # older job.
                file.seek(0)
                file.truncate()
                file.write(b"[\n" + first + _END)
            file.seek(-len(_END), os.SEEK_END)
            file.write(b",\n" + ",\n".join(lines).encode() + _END)

    def stop(self) -> None:
        self._stopping.set()
        if os.getpid() != self._process:
            return
        self._thread.join()
        # Waits until the callback thread has noticed the operations that have completed. Operations that are still
        # pending stay open in the timeline.
        deadline = time.monotonic() + _LAST_ENDS
        while any(handle.poll() for handle in list(self._open.values())) and time.monotonic() < deadline:
            time.sleep(0.001)
        self._write()


_current: _Timeline | None = None
_started = itertools.count()


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Starts to write a timeline of this rank's operations. Other ranks that call it write to the same timeline.

    Args:
        file_path: the file to write, the same on all ranks. It has the JSON format of Chrome's traces. If the file
            exists from an earlier job, it is replaced. If this rank already writes a timeline to this file, nothing
            changes. If it writes a timeline to another file, that timeline ends.
        mark_cycles: not used, because Rueda has no cycles.

    Raises:
        ValueError: before init().
        OSError: the file cannot be written.

    Example::

        hvd.start_timeline("timeline.json")
        train_some_steps()
        hvd.stop_timeline()
    """
    global _current
    if not _basics.is_initialized():
        raise NotInitialized("start_timeline: Horovod has not been initialized; use hvd.init().")
    path = os.fspath(file_path)
    if _current is not None and _current.path == path:
        return
    _stop()
    _current = _Timeline(path, next(_started))


def stop_timeline() -> None:
    """Ends the timeline of this rank. If there is no timeline, it does nothing. shutdown() calls this function.

    Raises:
        ValueError: before init().

    Example::

        hvd.stop_timeline()
    """
    if not _basics.is_initialized():
        raise NotInitialized("stop_timeline: Horovod has not been initialized; use hvd.init().")
    _stop()


def _stop() -> None:
    global _current
    ending, _current = _current, None
    if ending is not None:
        ending.stop()


_basics._at_end.append(_stop)
atexit.register(_stop)


def _begin_of_job() -> None:
    """Called after init(). Starts a timeline if the environment contains a file for it. The value ``DYNAMIC`` starts
    none; in Horovod it means that the program starts the timeline later.
    """
    wanted = os.environ.get("HOROVOD_TIMELINE", "")
    if wanted not in ("", "DYNAMIC") and _current is None:
        start_timeline(wanted)


_basics._at_begin.append(_begin_of_job)


def started(kind: str, handle: Handle[Any]) -> None:
    """Called when an operation has been started."""
    if _current is not None:
        _current.operation(kind, handle)


@contextmanager
def scope(name: str) -> Iterator[None]:
    """If there is a timeline, records this scope as an activity of the trainer. Horovod has no such function.

    Example::

        with rueda.torch.timeline.scope("backward pass"):
            loss.backward()
    """
    begun = _current
    begin = begun._now() if begun is not None else 0
    try:
        yield
    finally:
        if begun is not None:
            begun.scope(name, begin)
