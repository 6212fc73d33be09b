# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Process sets with Horovod's interface: objects whose attributes can be read before, during and after a job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import rueda
from rueda import _native
from rueda.errors import InvalidArgument


class ProcessSet(rueda.ProcessSet):
    """A subset of the ranks. An operation can use it after ``init(process_sets=...)`` or ``add_process_set()`` has
    registered it in the job.

    Args:
        ranks_or_comm: ranks of the job, or an mpi4py communicator. The processes of this communicator must be part of
            the communicator that was passed to ``init(comm=...)``.

    Attributes:
        process_set_id: the number of the set, 0 for the global set; None while the set is not registered.
        ranks: the members' ranks in the job, ascending; None if the set was made from a communicator and is not
            registered yet.
        mpi_comm: the communicator of the set, or None.

    Example::

        first_two = hvd.ProcessSet([0, 1])
        hvd.init(process_sets=[first_two])
        if first_two.included():
            hvd.allreduce(loss, process_set=first_two)
    """

    # The base class rueda.ProcessSet has properties of these names, which raise an error if there is no value. As in
    # Horovod, they are plain attributes here, which are None if there is no value.
    process_set_id: int | None  # type: ignore[assignment]
    ranks: list[int] | None  # type: ignore[assignment]
    if not TYPE_CHECKING:
        process_set_id = None
        ranks = None

    def __init__(self, ranks_or_comm: Iterable[int] | Any) -> None:
        self.mpi_comm = ranks_or_comm if hasattr(ranks_or_comm, "Get_group") else None
        super().__init__(() if self.mpi_comm is not None else ranks_or_comm)
        self._asked = sorted(self._asked)
        self.process_set_id = None
        self.ranks = None if self.mpi_comm is not None else list(self._asked)

    def __repr__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"

    def _is_known(self) -> bool:
        return self.process_set_id is not None and _native.is_initialized()

    def size(self) -> int | None:  # type: ignore[override]
        """Returns the number of members; None while the set is not registered."""
        return len(_native.process_set_ranks(self.process_set_id)) if self._is_known() else None  # type: ignore[arg-type]

    def rank(self) -> int | None:  # type: ignore[override]
        """Returns this rank's position among the members; None while the set is not registered.

        Raises:
            InvalidArgument: this rank is not a member.
        """
        if not self._is_known():
            return None
        ranks, mine = _native.process_set_ranks(self.process_set_id), _native.rank()  # type: ignore[arg-type]
        if mine not in ranks:
            raise InvalidArgument(
                f"Rank {mine} is not a member of the provided process set {self.process_set_id} (ranks {ranks})"
            )
        return ranks.index(mine)

    def included(self) -> bool | None:  # type: ignore[override]
        """Returns True if this rank is a member; None while the set is not registered."""
        if not self._is_known():
            return None
        return _native.rank() in _native.process_set_ranks(self.process_set_id)  # type: ignore[arg-type]

    def _begin(self, number: int) -> None:
        self.process_set_id = number
        self.ranks = _native.process_set_ranks(number)

    def _end(self) -> None:
        self.process_set_id = None


def _global_set() -> ProcessSet:
    made = ProcessSet(())
    made.process_set_id = 0
    made.ranks = None
    return made


#: The set of all ranks.
global_process_set = _global_set()

# The sets that are registered in the current job, without the global set.
_known: list[ProcessSet] = []
# The argument of init(comm=...), if it was a communicator.
_job_comm: Any = None


def begin_job(comm: Any) -> None:
    """Stores the communicator of the new job. Call it after init()."""
    global _job_comm
    _job_comm = comm if hasattr(comm, "Get_group") else None
    global_process_set._begin(0)


def end_job() -> None:
    """Makes all sets unregistered. Call it after shutdown()."""
    for process_set in _known:
        process_set._end()
    _known.clear()
    global_process_set.ranks = None


def _translate(process_set: ProcessSet) -> None:
    """Computes the ranks of a process set that was given as a communicator."""
    if process_set.mpi_comm is None:
        return
    if _job_comm is None:
        raise NotImplementedError(
            "a process set was given as an mpi4py communicator, and the job was not: call init(comm=MPI.COMM_WORLD), or "
            "give the set as a list of ranks"
        )
    group = process_set.mpi_comm.Get_group()
    everybody = _job_comm.Get_group()
    process_set._asked = sorted(group.Translate_ranks(list(range(group.Get_size())), everybody))


def add_process_set(process_set: ProcessSet | Iterable[int]) -> ProcessSet:
    """Registers a process set in the job. Every rank must call this function with the same ranks, even if it is not a
    member itself. The function blocks until all ranks have called it.

    Args:
        process_set: a ProcessSet that is not registered yet, or a list of ranks.

    Returns:
        The registered set. Operations can use it from now on.

    Raises:
        InvalidArgument: a set of these ranks already exists, or a rank is not in the job.
        Mismatch, on all ranks: the ranks gave different sets.

    Example::

        evens = hvd.add_process_set(range(0, hvd.size(), 2))
    """
    made = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    if made.process_set_id is not None:
        raise InvalidArgument(f"{made!r} has been added already")
    _translate(made)
    made._begin(_native.process_set_add(made._asked))
    _known.append(made)
    return made


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes a set from the job. Every rank must call this function. Pending operations of the set fail.

    Returns:
        True if the set was removed. False for the global set and for a set that is not registered; in these cases the
            call does nothing.

    Example::

        hvd.remove_process_set(evens)
    """
    if process_set.process_set_id in (None, 0):
        return False
    rueda.remove_process_set(process_set)
    process_set._end()
    if process_set in _known:
        _known.remove(process_set)
    return True
