# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Makes names for groups that the caller did not name. The ranks' groups are matched by these names, so all ranks must
count their groups in the same way.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rueda.errors import DuplicateName

# After this number of groups, the names repeat. Rueda already knows repeated names, and need not negotiate them again.
_NAMES = 64

# How many groups without a name were started, for each process set. The key is the set's number. One count for all sets
# would not do: two members of a set may also belong to different other sets, so their counts would differ.
_started: dict[int, int] = {}
# A thread holds this lock from the moment it reads a count until it has increased the count. No operation blocks while
# a thread holds the lock. The lock is reentrant, because a signal handler of this thread may start a group, too.
_lock = threading.RLock()


@contextmanager
def group_name(given: str | None, process_set_id: int) -> Iterator[str]:
    """Yields the name for the group that is started in this scope.

    If a group fails to start, the next group gets the same number, because the failure may have occurred only on this
    rank. When all names have been used once, they are used again. If an earlier group with the same name is still
    pending, the new group is refused. This function cannot wait for the earlier group, because this wait could delay an
    operation for which another rank waits.
    """
    if given:
        yield given
        return
    with _lock:
        number = _started.get(process_set_id, 0)
        try:
            yield f"rueda.group.{number % _NAMES}"
        except DuplicateName as error:
            raise DuplicateName(
                f"{_NAMES} groups without a name are pending in this process set: wait for the first of them before "
                f"another one is started, or name them ({error})"
            ) from None
        _started[process_set_id] = number + 1


def forget_job() -> None:
    """Sets all counts to zero, so that they are equal on all ranks. Rueda calls this function in two cases. Before a
    job begins, the counts may differ because the ranks may have been in different jobs. When all ranks have joined, the
    counts may differ because ranks that joined earlier have counted fewer groups; at that time no group is pending.
    """
    _started.clear()


def forget_set(process_set_id: int) -> None:
    """Forgets the count of a process set that was removed."""
    _started.pop(process_set_id, None)
