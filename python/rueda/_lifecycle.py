# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Joining and leaving the job, and the ranks and sizes of this process."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from rueda import _awaiting, _group_names, _native, _process_sets, _tracebacks
from rueda._native import (
    cross_rank,
    cross_size,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    rank,
    size,
)
from rueda._process_sets import ProcessSet, ranks_of
from rueda.errors import InvalidArgument, RuedaError

__all__ = [
    "abort",
    "begin_step",
    "busy",
    "cross_rank",
    "cross_size",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "rank",
    "shutdown",
    "size",
]

_registered = False


def init(
    comm: Iterable[int] | object | None = None,
    process_sets: Iterable[ProcessSet | Iterable[int]] | str | None = None,
) -> None:
    """Joins the other processes of the job. All of them have to call it; it blocks until they have called it.

    Without a launcher, the job is this one process. A second call does nothing. After shutdown() it may be called again,
    unless the job was aborted; process sets have to be made anew then. When the interpreter ends it calls shutdown(); after
    an uncaught exception it calls abort().

    Args:
        comm: the processes of the job. None, or an empty list: all launched processes. A list of ranks of the launch: these
            ranks, which all call it with the same list; the other processes do not call it, or form a job of their own. An
            mpi4py communicator: its processes, in its order; Rueda duplicates it. rank() and size() are those in the job.
        process_sets: sets that all ranks make at once, in this order: ProcessSet objects, or lists of ranks of the job.
            "dynamic" adds no set: it allows sets to be added later, which is always allowed here. A second call uses the
            existing sets and makes none.

    Raises:
        NotInitialized: this process was forked from a process that uses Rueda.
        InvalidArgument: the list is impossible or lacks this rank; or this process is in another job already.
        Mismatch: ranks that meet have given different lists of ranks or of process sets.
        Timeout: not all processes called it within RUEDA_START_TIMEOUT.
        Aborted, Unsupported, ResourceExhausted: the ranks could not meet; the message says why.

    Example::

        rueda.init()
        print(f"rank {rueda.rank()} of {rueda.size()}")
    """
    global _registered, _members
    sets = _sets_to_make(process_sets)
    if not is_initialized():
        _members = None
        _group_names.forget_job()
        _process_sets.forget_job()
    _process_sets.note_numbers(sets, _join(comm, [one._asked for one in sets]))
    _tracebacks.offer()
    if not _registered:
        atexit.register(_leave)  # runs before what _tracebacks has registered
        _registered = True
    _watch_worker()


def _join(comm: Iterable[int] | object | None, process_sets: list[list[int]]) -> list[int]:
    """Joins, and returns the numbers of the process sets. Raises an error if this process is in another job already."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and isinstance(comm, mpi.Comm):
        return _join_communicator(mpi, comm, process_sets)
    if comm is not None and not isinstance(comm, Iterable):
        raise InvalidArgument(f"init: comm is {comm!r}; expected None, a list of ranks or an mpi4py communicator")
    ranks = [] if comm is None else ranks_of(comm)
    return _native.init(ranks or None, process_sets)


# The job's ranks as ranks of the launch, in the order of the job, if a communicator was given.
_members: list[int] | None = None


def _join_communicator(mpi: Any, comm: Any, process_sets: list[list[int]]) -> list[int]:
    """The C interface can compare two communicators, and two lists. The same ranks in the same order are the same job, whether
    they were given as a communicator or as a list.
    """
    global _members
    members = _launch_ranks(mpi, comm)
    if is_initialized() and members is not None:
        if members == _members:
            return _native.init(None, process_sets)
        if members == sorted(members):
            return _native.init(members, process_sets)
    numbers = _native.init_communicator(mpi._addressof(comm), mpi._sizeof(comm), process_sets)
    _members = members
    return numbers


def _launch_ranks(mpi: Any, comm: Any) -> list[int] | None:
    """Returns None if the ranks cannot be a job, or if this process was not launched with the others."""
    if comm == mpi.COMM_NULL or comm.Is_inter():
        return None
    ranks = mpi.Group.Translate_ranks(comm.group, list(range(comm.size)), mpi.COMM_WORLD.group)
    return None if mpi.UNDEFINED in ranks else list(ranks)


def _sets_to_make(given: Iterable[ProcessSet | Iterable[int]] | str | None) -> list[ProcessSet]:
    if given is None or given == "dynamic":
        return []
    if isinstance(given, str):
        raise InvalidArgument(f'init: process_sets is {given!r}; expected a list, or "dynamic"')
    return [one if isinstance(one, ProcessSet) else ProcessSet(one) for one in given]


def shutdown() -> None:
    """Leaves the job; returns when every rank has called it, or a rank has died.

    Pending operations of this rank fail, and so do operations of other ranks that need this rank. The callbacks of handles
    have run when it returns. Without init() it does nothing. If a rank does not call it, stall reports name that rank.

    Ctrl-C raises KeyboardInterrupt while it waits for other ranks. This rank has begun to leave then and can start no more
    operations. Another call of shutdown() continues the wait, and abort() ends the job.

    Raises:
        Aborted: the job ended before all ranks had left it, and no earlier call of this rank reported that. This rank has left.

    Example::

        rueda.shutdown()
    """
    try:
        _native.shutdown()
    finally:
        _awaiting.stop()


def abort(reason: str) -> None:
    """Ends the job because this rank cannot go on. Pending operations of all ranks raise Aborted with ``reason``, and so does
    every later call.

    An uncaught exception does the same. It does not wait for other ranks. This process goes on, and should end with an exit
    status that is not 0. After an abort it does nothing.

    Raises:
        NotInitialized: before init().

    Example::

        if not math.isfinite(loss):
            rueda.abort(f"the loss is {loss}")
            sys.exit(1)
    """
    _native.abort(reason)


def _leave() -> None:
    """Runs at exit. A rank that has failed does not wait for the other ranks to shut down."""
    if (error := _uncaught_exception()) is not None:
        _abort_of(error)
    try:
        shutdown()
    except RuedaError:
        _native.end_with_failure()  # the interpreter prints the error, and would end with status 0
        raise
    except BaseException as interruption:  # Ctrl-C: its sender wants this process to end
        _native.end_with_failure()
        _abort_of(interruption)
        # the error says that the job was aborted, and this rank itself aborted it
        with contextlib.suppress(RuedaError):
            shutdown()
        raise


def _abort_of(error: BaseException) -> None:
    if is_initialized():
        abort(" ".join("".join(traceback.format_exception_only(type(error), error)).split())[:300])


# The worker process that has the hook. Its parent may have been in a job before it forked.
_watched: int | None = None


def _watch_worker() -> None:
    """multiprocessing catches an exception of a worker's function, and then ends the worker as if nothing had happened."""
    global _watched
    if _watched == os.getpid() or "multiprocessing.process" not in sys.modules:
        return
    from multiprocessing import parent_process, util

    if parent_process() is not None:
        util.Finalize(None, _leave_worker, exitpriority=100)
        _watched = os.getpid()


def _leave_worker() -> None:
    """multiprocessing calls it while an exception leaves the worker's function."""
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        if error.code in (None, 0):
            return
        error = error.__context__ or error  # torch.multiprocessing.spawn reports the error to its parent, and exits
    if error is not None:
        _abort_of(error)


def _uncaught_exception() -> BaseException | None:
    if sys.flags.interactive or hasattr(sys, "ps1"):
        return None  # in an interactive session, the last exception was printed and did not end the program
    error = getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) else None


def begin_step(step: int) -> None:
    """Tells Rueda that this rank begins training step ``step``, counted from 0 on through restarts.

    ``ruedarun --max-restarts`` uses it to report how many steps were repeated, and stall reports say in which step a rank is.
    Every rank may call it, or only one.

    Raises:
        InvalidArgument: a negative number.
        NotInitialized: before init().

    Example::

        for step in range(first, last):
            rueda.begin_step(step)
            train(step)
    """
    _native.begin_step(step)


class busy:  # noqa: N801  (reads as the verb it is)
    """Tells Rueda what this rank does in this scope while it takes part in no operation. Stall reports show it. Scopes nest.

    Example::

        with rueda.busy("loading data"):
            data = load()
    """

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> busy:
        _native.busy_begin(self._what)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if is_initialized():  # not after a shutdown inside the scope
            _native.busy_end()
