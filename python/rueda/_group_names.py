# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Names for groups that were given none. The ranks' groups meet by them, so all ranks have to count alike."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rueda.errors import DuplicateName

# Names that come again keep their place in the negotiation.
_NAMES = 64

# By the number of a process set, how many groups without a name were started in it, of whatever operation. Each set
# counts by itself, as its members need not be in the same other sets.
_started: dict[int, int] = {}
# Held from taking a number to counting it, which no operation blocks in. A signal's handler may come in between.
_lock = threading.RLock()


@contextmanager
def group_name(given: str | None, process_set_id: int) -> Iterator[str]:
    """The name of the group that is started in this scope.

    One that fails to start, on this rank only perhaps, leaves its number to the next. Where the names have come round
    it is refused: to wait for the one that is pending could hold up what another rank waits for first.
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
    """Before a job begins, whose ranks may have been in different ones before. And when all ranks have joined: those that were away
    have counted fewer, and nothing is open."""
    _started.clear()


def forget_set(process_set_id: int) -> None:
    """Of a process set that was removed."""
    _started.pop(process_set_id, None)
