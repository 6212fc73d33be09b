# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Names for groups without a name. The ranks' groups match by these names, so all ranks have to count alike."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rueda.errors import DuplicateName

# The names repeat, so that they keep their place in the negotiation.
_NAMES = 64

# The number of groups without a name that were started in each process set, of all operations, by the number of the set.
# Each set counts by itself, because its members may be in different other sets.
_started: dict[int, int] = {}
# Held from taking a number until it is counted; no operation blocks in between. It is reentrant because a signal handler
# may start a group in between.
_lock = threading.RLock()


@contextmanager
def group_name(given: str | None, process_set_id: int) -> Iterator[str]:
    """The name of the group that is started in this scope.

    If a group fails to start, perhaps on this rank only, the next group gets its number. If the name is still in use after a
    full round, the group is refused: waiting for the pending group could delay an operation that another rank waits for.
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
    """Called before a job begins, because its ranks may have been in different jobs before. Also called when all ranks have
    joined: ranks that were away have counted fewer groups, and no group is pending then.
    """
    _started.clear()


def forget_set(process_set_id: int) -> None:
    """Called when a process set was removed."""
    _started.pop(process_set_id, None)
