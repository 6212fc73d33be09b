# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Process sets: subsets of the ranks that run operations among themselves."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rueda import _group_names, _native
from rueda.errors import InvalidArgument


class ProcessSet:
    """A subset of the ranks. An operation can use it after init(process_sets=...) or add_process_set() has registered
    it in the job.

    In an operation of a set, "the ranks" are the set's members, in ascending order. The root is still given by its rank
    in the job. Each set has its own names and its own order of operations. If members of one set are late, operations
    of other sets are not delayed.

    Args:
        ranks: ranks of the job, in any order, each once.

    Example::

        even = rueda.ProcessSet(range(0, 4, 2))
        rueda.init(process_sets=[even])
        if even.included():
            rueda.allreduce_(loss, "loss", process_set=even)
    """

    #: The number of the set, the same on all ranks; 0 is the world. The attribute does not exist before the set is
    #: registered in a job. In each later job, the set must be registered again before the attribute exists.
    process_set_id: int

    def __init__(self, ranks: Iterable[int]) -> None:
        self._asked = ranks_of(ranks)

    @classmethod
    def _of(cls, process_set_id: int) -> ProcessSet:
        made = cls(())
        made.process_set_id = process_set_id
        return made

    if not TYPE_CHECKING:
        # Python calls this method only for missing attributes. Reading an existing number therefore stays fast, which
        # is important because every operation reads the number.
        def __getattr__(self, name: str) -> int:
            if name == "process_set_id":
                raise InvalidArgument(
                    f"{self!r} is not known to the job: give it to init(process_sets=...) or to add_process_set()"
                )
            raise AttributeError(f"a ProcessSet has no {name}")

    def __repr__(self) -> str:
        known = self.__dict__.get("process_set_id")
        return f"ProcessSet({self._asked})" if known is None else f"<rueda.ProcessSet {known}>"

    def _is_known(self) -> bool:
        """Returns True if the set is registered in the current job. A set that was removed still has its number, but
        the result for such a set is False.
        """
        try:
            return bool(self.ranks)
        except InvalidArgument:
            return False

    @property
    def ranks(self) -> list[int]:
        """The members' ranks in the job, in ascending order.

        Raises:
            InvalidArgument: the set has been removed.
        """
        return _native.process_set_ranks(self.process_set_id)

    def size(self) -> int:
        """The number of members."""
        return len(self.ranks)

    def rank(self) -> int:
        """This rank's position among the members.

        Raises:
            InvalidArgument: this rank is not a member.
        """
        ranks, mine = self.ranks, _native.rank()
        if mine not in ranks:
            raise InvalidArgument(f"rank {mine} is not a member of process set {self.process_set_id} (ranks {ranks})")
        return ranks.index(mine)

    def included(self) -> bool:
        """Returns True if this rank is a member."""
        return _native.rank() in self.ranks


def ranks_of(ranks: Iterable[int]) -> list[int]:
    """Returns the ranks that a caller gave, as a list. The C interface makes all further checks."""
    try:
        return [operator.index(rank) for rank in ranks]
    except TypeError:
        raise InvalidArgument(f"the ranks are {ranks!r}; expected integers, such as [0, 2]") from None


# The sets that have a number in the current job. (The world has the same number in every job.)
_of_this_job: weakref.WeakSet[ProcessSet] = weakref.WeakSet()

#: All ranks.
global_process_set = ProcessSet._of(0)


def add_process_set(ranks: Iterable[int] | ProcessSet) -> ProcessSet:
    """Makes a process set. Every rank of the job must call this function with the same ``ranks``, even if it is not a
    member.

    Args:
        ranks: ranks of the job, in any order, each once. A ProcessSet that is not registered in a job is also allowed;
            in this case the function returns this object.

    Raises:
        Mismatch, on all ranks: the ranks gave different lists.
        InvalidArgument, on all ranks: a rank does not exist or is named twice, the list is empty, or a set of these
            ranks already exists.

    Example::

        first_two = rueda.add_process_set([0, 1])
    """
    process_set = ranks if isinstance(ranks, ProcessSet) else ProcessSet(ranks)
    process_set.process_set_id = _native.process_set_add(process_set._asked)
    _of_this_job.add(process_set)
    return process_set


def note_numbers(process_sets: list[ProcessSet], numbers: list[int]) -> None:
    """Stores the numbers of the sets that were made when the job began."""
    for process_set, number in zip(process_sets, numbers, strict=True):
        process_set.process_set_id = number
        _of_this_job.add(process_set)


def forget_job() -> None:
    """Removes the numbers of the earlier job's process sets, because these sets do not exist in the new job. Call it
    before a job begins.
    """
    for process_set in _of_this_job:
        del process_set.process_set_id
    _of_this_job.clear()


def remove_process_set(process_set: ProcessSet) -> None:
    """Removes a process set. Every rank of the job must call this function. Pending operations of the set fail.

    Example::

        rueda.remove_process_set(first_two)
    """
    _native.process_set_remove(process_set.process_set_id)
    _group_names.forget_set(process_set.process_set_id)


def add_process_set_among(ranks: Iterable[int] | ProcessSet) -> ProcessSet:
    """Makes a process set. Only its members call this function.

    Several such sets may have the same ranks, even all ranks. Each set has its own order of operations.

    Args:
        ranks: ranks of the job, in any order, each once, including this rank. A ProcessSet that is not registered in a
            job is also allowed; in this case the function returns this object.

    Raises:
        Mismatch: the members gave different ranks.
        InvalidArgument: a rank does not exist or is named twice, or this rank is not in the list.

    Example::

        neighbours = rueda.add_process_set_among([0, 1] if rueda.rank() < 2 else [2, 3])
    """
    process_set = ranks if isinstance(ranks, ProcessSet) else ProcessSet(ranks)
    if process_set._is_known():
        raise InvalidArgument(
            f"{process_set!r} is known to the job: give its ranks, or ProcessSet(ranks), for another one of them"
        )
    process_set.process_set_id = _native.process_set_add_among(process_set._asked)
    _of_this_job.add(process_set)
    return process_set


def leave_process_set(process_set: ProcessSet) -> None:
    """Makes this rank leave a set that add_process_set_among() made. Does not wait for other ranks.

    Pending operations of this rank fail. Operations of the remaining members fail if these operations need this rank.
    Messages that this rank has sent are still delivered if the receiver accepts them.

    Example::

        rueda.leave_process_set(neighbours)
    """
    _native.process_set_leave(process_set.process_set_id)
    _group_names.forget_set(process_set.process_set_id)
