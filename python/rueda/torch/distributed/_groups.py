# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Makes a process set of the job for a group of PyTorch. For this, the group's members exchange messages through the
group's store.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import rueda
from rueda._process_sets import add_process_set_among, leave_process_set
from rueda.errors import RuedaError
from rueda.torch.distributed import _joining
from rueda.torch.distributed._pending_operation import Order

#: In seconds: the shortest pause between two queries of the store, the longest such pause, and the interval in which
#: this rank checks whether the job still runs.
_SHORTEST_PAUSE = 0.0005
_LONGEST_PAUSE = 0.05
_LOOK_SECONDS = 0.5


class Rendezvous:
    """Exchanges messages of a group's members through its store, in rounds. In each round every member writes one
    message.

    A store outlives its groups, and names of groups are used again. Each rendezvous (an object of this class) therefore
    has its own keys. The n-th rendezvous of a rank uses the same keys as the n-th rendezvous of the other ranks. A
    rendezvous that failed does not affect the next one.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        self._store = store
        self._rank = rank
        self._size = size
        self._seconds = timeout.total_seconds()
        with self._reaching_store():
            turn = store.add(f"rueda/{size}/arrivals/{rank}", 1)
        self._prefix = f"rueda/{size}/{turn}"
        self._round = 0

    def exchange(self, mine: Any) -> list[Any]:
        """Sends `mine` to all members, and returns the messages of all members, indexed by rank.

        Raises:
            RuntimeError: some members have not called this function in time, and the error names them; or the store
                cannot be reached.
            Aborted: the job of this process has ended.
        """
        self._round += 1
        keys = [f"{self._prefix}/{self._round}/{rank}" for rank in range(self._size)]
        with self._reaching_store():
            self._store.set(keys[self._rank], json.dumps(mine))
            self._store.add(_here(keys[self._rank]), 1)
        self._wait_for_all(keys)
        with self._reaching_store():
            return [json.loads(self._store.get(key)) for key in keys]

    def _wait_for_all(self, keys: list[str]) -> None:
        """Waits until all keys exist, by repeated queries. The store's own wait() is not used, for two reasons. First,
        this wait() does not notice the end of the job. Second, after a wait() of a TCPStore has timed out, the
        connection of the store is broken (PyTorch 1.13).
        """
        now = time.monotonic()
        end, look = now + self._seconds, now + _LOOK_SECONDS
        missing = list(range(self._size))
        pause = _SHORTEST_PAUSE
        while missing:
            with self._reaching_store():
                while missing and self._store.add(_here(keys[missing[0]]), 0) > 0:
                    missing.pop(0)
            now = time.monotonic()
            if not missing:
                return
            if now > end:
                raise RuntimeError(self._who_is_missing(missing, keys))
            if now > look:
                _joining.check_job()
                look = now + _LOOK_SECONDS
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    @contextlib.contextmanager
    def _reaching_store(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            _joining.check_job()  # if the job has ended, this raises the cause
            raise RuntimeError(
                f"backend rueda: the store of a group of {self._size} ranks cannot be used any more: {str(error).splitlines()[0]}; "
                "has the process ended that holds it (the first rank, as a rule)?"
            ) from error

    def _who_is_missing(self, missing: list[int], keys: list[str]) -> str:
        with self._reaching_store():
            missing = [rank for rank in missing if self._store.add(_here(keys[rank]), 0) == 0] or missing
        ranks = f"rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
        return (
            f"backend rueda: {ranks} of the group did not come within {self._seconds:g} s to make a group "
            f"of {self._size} ranks; is init_process_group or new_group called there, with the same ranks and the same "
            "backend?"
        )


def _here(key: str) -> str:
    """Returns the key of a counter which says that a message exists. Every version of every store can read a counter,
    but some stores cannot tell whether a key exists.
    """
    return f"{key}/here"


class Membership:
    """This rank's membership in a group. The group's members form a process set of Rueda.

    Threads: any thread may use an object.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        rendezvous = Rendezvous(store, rank, size, timeout)
        _joining.join_job(rendezvous, rank, size)
        # The members' ranks in the job, in the order of the group.
        self.ranks: list[int] = rendezvous.exchange(rueda.rank())
        if len(set(self.ranks)) < size:
            raise RuntimeError(
                f"backend rueda: the ranks of the group are {self.ranks} of the jobs they are in, so these are several: was "
                f"hvd.init() or rueda.init() called before, without a launcher (a job of {rueda.size()})? Call init_process_group first"
            )
        self._set = add_process_set_among(sorted(self.ranks))
        self.process_set = self._set.process_set_id
        self.name = str(self.process_set)  # the set has the same number on all members
        self.order = Order(self.name)
        self.monitored = itertools.count()  # counts the calls of monitored_barrier
        self._leaving = threading.Lock()
        self._left = False
        self._pid = os.getpid()

    def leave(self) -> None:
        """Ends this rank's membership. Does not wait for other ranks. A second call does nothing."""
        with self._leaving:
            if self._left or self._pid != os.getpid():
                return
            self._left = True
        if rueda.is_initialized():
            # leave_process_set() fails if the job has ended, or if this process is now in another job.
            with contextlib.suppress(RuedaError):
                leave_process_set(self._set)


def backends_of_group() -> set[str] | None:
    """Returns the backends, by device, of the group that PyTorch is making. PyTorch does not pass them to a backend, so
    this function reads a local variable of the calling PyTorch function.

    Returns None if the backends cannot be found.
    """
    frame: Any = sys._getframe(1)
    while frame is not None:
        config = frame.f_locals.get("backend_config")
        if config is not None and hasattr(config, "get_device_backend_map"):
            return {str(backend).lower() for backend in config.get_device_backend_map().values()}
        frame = frame.f_back
    return None
