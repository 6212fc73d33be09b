# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Functions to join and to leave the job, and functions that return this process's ranks and sizes."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from rueda import _awaiting, _group_names, _native, _process_sets, _tracebacks
from rueda._native import (
    blocked_seconds,
    cross_rank,
    cross_size,
    is_homogeneous,
    is_initialized,
    local_device,
    local_rank,
    local_size,
    rank,
    size,
    threads_per_rank,
)
from rueda._process_sets import ProcessSet, ranks_of
from rueda.errors import Aborted, InvalidArgument, NotInitialized, RuedaError

__all__ = [
    "abort",
    "begin_step",
    "blocked_seconds",
    "busy",
    "cross_rank",
    "cross_size",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_device",
    "local_rank",
    "local_size",
    "metrics",
    "rank",
    "shutdown",
    "size",
    "threads_per_rank",
]

_registered = False


def init(
    comm: Iterable[int] | object | None = None,
    process_sets: Iterable[ProcessSet | Iterable[int]] | str | None = None,
) -> None:
    """Joins the other processes of the job. All of them must call this function. The function blocks until all
    processes have called it.

    Without a launcher, the job is this process alone. A second call does nothing. After shutdown(), init() may be
    called again, unless the job was aborted. In an elastic job (``ruedarun --min-np``), init() may be called again even
    after an abort. It then waits until ruedarun has chosen the ranks of the next generation. The new job has none of
    the earlier job's process sets. When the interpreter ends, it calls shutdown(), or abort() after an uncaught
    exception.

    Args:
        comm: the processes of the job. None, or an empty list: all launched processes. A list of ranks: the processes
            with these ranks among the launched processes. All of them must call init() with the same list; the other
            processes do not call init(), or form another job. An mpi4py communicator: the processes of the
            communicator, in its order; Rueda duplicates the communicator. rank() and size() refer to the new job.
        process_sets: the process sets that all ranks make now, in this order, as ProcessSet objects or as lists of
            ranks of the job. Horovod's value "dynamic" makes no set, because Rueda always allows a program to add sets
            later. A second call of init() makes no sets and uses the existing ones.

    Raises:
        NotInitialized: this process was forked from a process that uses Rueda.
        InvalidArgument: the list of ranks is invalid or does not contain this rank, or this process is already in
            another job, or it is a worker of rueda.data.workers().
        Mismatch: the ranks gave different lists of ranks or of process sets.
        Timeout: not all processes called init() within RUEDA_START_TIMEOUT.
        Aborted, Unsupported, ResourceExhausted: the ranks could not form a job; the message says why.

    Example::

        rueda.init()
        print(f"rank {rueda.rank()} of {rueda.size()}")
    """
    global _registered, _members, _jobs
    _refuse_data_workers()
    sets = _sets_to_make(process_sets)
    if not is_initialized():
        _members = None
        _jobs += 1
        _group_names.forget_job()
        _process_sets.forget_job()
    _process_sets.note_numbers(sets, _join(comm, [one._asked for one in sets]))
    _show_place()
    _tracebacks.offer()
    if not _registered:
        atexit.register(_leave)  # exit handlers run in reverse order, so _leave runs before the handler of _tracebacks
        _registered = True
    _watch_worker()


_jobs = 0
#: The numbers of those jobs that this process left after they were aborted.
_aborted_jobs: set[int] = set()


def job_number() -> int:
    """How many jobs this process has joined, or tried to join."""
    return _jobs


#: The variables that ruedarun sets for each rank, and sets anew in each generation of an elastic job.
_PLACE = (
    "RUEDA_RANK",
    "RUEDA_SIZE",
    "RUEDA_LOCAL_RANK",
    "RUEDA_LOCAL_SIZE",
    "RUEDA_RENDEZVOUS",
    "RUEDARUN_GENERATION",
    "RUEDARUN_FIRST_GENERATION",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "NODE_RANK",
    "GROUP_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)


def _show_place() -> None:
    """In an elastic job, init() learns the rank of this process, and changes environment variables. Python filled
    os.environ before that, when it started. This function copies the changed variables to os.environ."""
    if _native.is_elastic():
        for name in _PLACE:
            value = _native.environment_value(name)
            if value is not None and os.environ.get(name) != value:
                os.environ[name] = value


def _refuse_data_workers() -> None:
    """Raises an error in a worker of rueda.data.workers(). If a script calls init() at its top level, a worker that
    imports the script calls init(), too. The worker has the environment of its rank, and would take the rank's place in
    the job.
    """
    module = sys.modules.get("multiprocessing.process")
    if module is not None and module.current_process().name.startswith("rueda-data-worker"):
        raise InvalidArgument(
            "init: this process is a worker of rueda.data.workers(), and is no rank; if the worker has called init() by importing "
            "the script, put the script's main part under if __name__ == '__main__':"
        )


def _join(comm: Iterable[int] | object | None, process_sets: list[list[int]]) -> list[int]:
    """Joins the job, and returns the numbers of the process sets. Raises an error if this process is already in another
    job.
    """
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and isinstance(comm, mpi.Comm):
        return _join_communicator(mpi, comm, process_sets)
    if comm is not None and not isinstance(comm, Iterable):
        raise InvalidArgument(f"init: comm is {comm!r}; expected None, a list of ranks or an mpi4py communicator")
    ranks = [] if comm is None else ranks_of(comm)
    return _native.init(ranks or None, process_sets)


# The rank of each process of the job among the launched processes, in the order of the job. None if the job was not
# made from a communicator.
_members: list[int] | None = None


def _join_communicator(mpi: Any, comm: Any, process_sets: list[list[int]]) -> list[int]:
    """Joins the job of a communicator. If this process is already in a job, this job and the communicator must have the
    same ranks in the same order. The C interface can compare two communicators or two lists, but not a communicator
    with a list, so this function makes that comparison.
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
    """Returns, for each process of the communicator in its order, the rank of the process among the launched processes.
    Returns None if these ranks cannot form a job, or if this process was not launched together with them.
    """
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
    """Leaves the job. Returns when every rank has called it, or when a rank has died.

    Pending operations of this rank fail, and so do operations of other ranks that need this rank. When shutdown()
    returns, the callbacks of handles have run. Without init() it does nothing. If a rank does not call shutdown(),
    stall reports name this rank.

    Ctrl-C during the wait for other ranks raises KeyboardInterrupt. After this exception, this rank has begun to leave,
    and can start no more operations. Another call of shutdown() continues the wait, and abort() ends the job.

    Raises:
        Aborted: the job ended before all ranks had left it, and no earlier call on this rank reported this.
            Nevertheless, this rank has left the job.

    Example::

        rueda.shutdown()
    """
    if _is_aborted():  # shutdown() raises no error if an earlier call has reported the abort
        _aborted_jobs.add(_jobs)
    try:
        _native.shutdown()
    except Aborted:
        _aborted_jobs.add(_jobs)
        raise
    finally:
        _awaiting.stop()


def abort(reason: str) -> None:
    """Ends the job because this rank cannot continue. On all ranks, pending operations and all later calls raise
    Aborted with ``reason``.

    An uncaught exception also calls abort(). abort() does not wait for other ranks. This process continues to run, and
    should end with an exit status that is not 0. If the job has already been aborted, abort() does nothing.

    Raises:
        NotInitialized: before init().

    Example::

        if not math.isfinite(loss):
            rueda.abort(f"the loss is {loss}")
            sys.exit(1)
    """
    _native.abort(reason)


def _leave() -> None:
    """Leaves the job at the end of the interpreter. If this rank has failed, this function does not wait for the other
    ranks.
    """
    if (error := _uncaught_exception()) is not None:
        _abort_of(error)
    try:
        shutdown()
    except RuedaError:
        # The interpreter prints this error. Without end_with_failure(), it would then end with status 0.
        _native.end_with_failure()
        raise
    except BaseException as interruption:  # for example KeyboardInterrupt after Ctrl-C
        _native.end_with_failure()
        _abort_of(interruption)
        # This rank has aborted the job itself. So a RuedaError here only reports this abort.
        with contextlib.suppress(RuedaError):
            shutdown()
        raise


def _abort_of(error: BaseException) -> None:
    if is_initialized():
        abort(" ".join("".join(traceback.format_exception_only(type(error), error)).split())[:300])


# The process id of the worker that installed the hook. A forked worker inherits the value of its parent, so the value
# must be compared with the id of the current process.
_watched: int | None = None


def _watch_worker() -> None:
    """Aborts the job if a multiprocessing worker fails. multiprocessing catches the exception of a worker's function,
    and ends the worker without running Python's exception hook.
    """
    global _watched
    if _watched == os.getpid() or "multiprocessing.process" not in sys.modules:
        return
    from multiprocessing import parent_process, util

    if parent_process() is not None:
        util.Finalize(None, _leave_worker, exitpriority=100)
        _watched = os.getpid()


def _leave_worker() -> None:
    """Aborts the job if an exception leaves the worker's function. multiprocessing calls this function at the end of
    the worker.
    """
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        if error.code in (None, 0):
            return
        # torch.multiprocessing.spawn reports the original error to its parent process. Then it exits by another
        # exception. The original error is the `__context__` of that exception.
        error = error.__context__ or error
    if error is not None:
        _abort_of(error)


def _uncaught_exception() -> BaseException | None:
    if sys.flags.interactive or hasattr(sys, "ps1"):
        # in an interactive session, the last exception did not end the program, because the session only printed it
        return None
    error = getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) else None


def has_failed(job: int) -> bool:
    """Whether the job with this number or a later job of this process was aborted, or an uncaught exception ends the
    program. A later job counts too, because a rank that died in the later job may still have done work of the earlier
    job. The result is False if this process has left the job without an abort. Any thread may call this function.
    """
    if any(each >= job for each in _aborted_jobs.copy()) or (job <= _jobs and _is_aborted()):
        return True
    # When the main thread has ended, the interpreter waits for the other threads before _leave() aborts the job. So
    # during this wait, an uncaught exception is the only sign of the failure.
    return not threading.main_thread().is_alive() and _uncaught_exception() is not None


def begin_step(step: int) -> None:
    """Tells Rueda that this rank begins training step ``step``. Steps count from 0, and restarts do not reset the
    count.

    ``ruedarun --max-restarts`` uses the number to report how many steps were repeated. Stall reports say in which step
    a rank is. It is enough if one rank calls this function.

    Raises:
        InvalidArgument: a negative number.
        NotInitialized: before init().

    Example::

        for step in range(first, last):
            rueda.begin_step(step)
            train(step)
    """
    _native.begin_step(step)


def _is_aborted() -> bool:
    """Whether the current job was aborted. False before init() and after shutdown()."""
    try:
        return bool(metrics()["rueda_job_aborted"] == 1)
    except NotInitialized:
        return False


def metrics() -> dict[str, Any]:
    """Returns counts of what this rank has done. docs/metrics.md explains them.

    The key ``"rank"`` has the number of the rank. The other keys are the names of metrics. A value is a number, or a
    dict with a number for each kind of operation. The call does not communicate, and takes tens of microseconds.

    Raises:
        NotInitialized: before init() and after shutdown().

    Example::

        before = rueda.metrics()["rueda_operations_total"]["allreduce"]
        train(step)
        print(rueda.metrics()["rueda_operations_total"]["allreduce"] - before, "allreduces in this step")
    """
    found: dict[str, Any] = json.loads(_native.metrics())
    return found


class busy:  # noqa: N801  (reads as the verb it is)
    """Describes what this rank does within the scope. Stall reports show the description. Use this scope for work
    during which the rank takes part in no operation. Scopes may nest.

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
        if is_initialized():  # if the scope's body has called shutdown(), there is no scope to end
            _native.busy_end()
