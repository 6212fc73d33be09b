# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Process sets: subsets of the ranks that do operations among themselves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rueda import _group_names, _native
from rueda.errors import InvalidArgument


@dataclass(frozen=True)
class ProcessSet:
    """A name for a subset of the ranks; add_process_set() makes it.

    In an operation of a set "the ranks" are its members, in ascending order; a root is still named by its rank in the
    job. Each set has its own names and its own order, so one whose members do not come holds up no other.

    Example::

        even = rueda.add_process_set(range(0, rueda.size(), 2))
        if even.included():
            rueda.allreduce_(loss, "loss", process_set=even)
    """

    #: The same on all ranks; 0 is the world.
    process_set_id: int

    @property
    def ranks(self) -> list[int]:
        """Its ranks in the job, ascending.

        Raises:
            InvalidArgument: it was removed.
        """
        return _native.process_set_ranks(self.process_set_id)

    def size(self) -> int:
        """How many members it has."""
        return len(self.ranks)

    def rank(self) -> int:
        """The position of this rank among the members.

        Raises:
            InvalidArgument: it is none of them.
        """
        ranks, mine = self.ranks, _native.rank()
        if mine not in ranks:
            raise InvalidArgument(f"rank {mine} is not a member of process set {self.process_set_id} (ranks {ranks})")
        return ranks.index(mine)

    def included(self) -> bool:
        """Whether this rank is a member."""
        return _native.rank() in self.ranks


#: All ranks.
global_process_set = ProcessSet(0)


def add_process_set(ranks: Iterable[int]) -> ProcessSet:
    """Make a process set. Every rank of the job calls it, members or not, with the same ranks.

    Args:
        ranks: of the job, in any order, each once.

    Raises:
        Mismatch: the ranks ask for different sets; on all of them.
        InvalidArgument: there is no such rank, or one is named twice, or none, or these are a set already; on all ranks.

    Example::

        first_two = rueda.add_process_set([0, 1])
    """
    return ProcessSet(_native.process_set_add([int(rank) for rank in ranks]))


def remove_process_set(process_set: ProcessSet) -> None:
    """Remove a process set. Every rank of the job calls it; what is pending in the set fails.

    Example::

        rueda.remove_process_set(first_two)
    """
    _native.process_set_remove(process_set.process_set_id)
    _group_names.forget_set(process_set.process_set_id)
