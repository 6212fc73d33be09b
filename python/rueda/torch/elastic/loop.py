# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The loop around an elastic training. After a failure, it restores the last commit and runs the training again."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from rueda import _native
from rueda.errors import Aborted, HorovodInternalError
from rueda.torch import _basics
from rueda.torch.elastic.exceptions import HostsUpdatedInterrupt
from rueda.torch.elastic.state import State
from rueda.torch.operations.allreduce import allreduce
from rueda.torch.operations.joining import barrier
from rueda.types import Max

__all__ = ["run", "run_fn"]

T = TypeVar("T")


def run(func: Callable[..., T]) -> Callable[..., T]:
    """Decorates the training function, so that training continues after failures. The first argument of the function is
    the State.

    In an elastic job (``ruedarun --no-mpi --min-np N``), the training continues if a rank dies. The other ranks restore
    the last commit and continue in the same processes, with a new number of ranks. New ranks join them at a commit. The
    function is then called again.

    In any other job, the other ranks end with an error when a rank dies, and the launcher starts the job again
    (``ruedarun --max-restarts``). The new job restores the last commit from ``RUEDA_ELASTIC_DIR``.

    If an error leaves all ranks alive, the ranks reconnect and continue from the last commit. If such errors occur
    twice without a commit in between, the second error is raised.

    Example::

        @hvd.elastic.run
        def train(state):
            for state.epoch in range(state.epoch, 10):
                train_one_epoch(state)
                state.commit()


        train(state)
    """
    return run_fn(func, _meet_again)


def _meet_again() -> None:
    try:
        _basics.shutdown()
    except Aborted:  # another rank has died; the surviving ranks connect again without that rank
        if not _native.is_elastic():
            raise
    _basics.init()


def run_fn(func: Callable[..., T], reset: Callable[[], None]) -> Callable[..., T]:
    """Implements run(). `reset` is the function by which the ranks reconnect."""

    @functools.wraps(func)
    def attempts(state: State, *args: Any, **kwargs: Any) -> T:
        skip_sync = is_reset = needs_restore = False
        failed_at = -1
        while True:
            if is_reset:
                reset()
            if needs_restore:
                # restore() must come after reset(): until the ranks have connected again, a slow rank may still write
                # to the tensors.
                state.restore()
                needs_restore = False
            _check_values()
            try:
                if is_reset:
                    state.on_reset()
                is_reset = True
                if not _all_skip(skip_sync):
                    state.sync()
                _note_values()
                result = func(state, *args, **kwargs)
                if _basics.is_initialized():
                    # Another rank may still fail in its last steps. Therefore the commit is removed only when all ranks
                    # have finished.
                    barrier()
                state._forget()
                return result
            except HorovodInternalError as failure:
                if not _may_go_on(failure, state._commits != failed_at):
                    raise
                failed_at = state._commits
                needs_restore = True
                skip_sync = False
            except HostsUpdatedInterrupt as interrupt:
                skip_sync = interrupt.skip_sync

    return attempts


#: True if this process has synced a state with the other ranks.
_has_values = False


def _note_values() -> None:
    global _has_values
    _has_values = True


def _check_values() -> None:
    """Raises an error if all ranks that had the values of the training have died. Without this error, the training
    would silently begin from the start.

    A process that was there from the beginning has the values; a process that joined later gets them in its first sync.
    After a failure, the surviving processes get the lowest ranks. So if rank 0 has no values, no other rank has them.
    """
    joined_later = os.environ.get("RUEDARUN_FIRST_GENERATION", "0") != "0"
    if joined_later and not _has_values and _basics.rank() == 0:
        raise Aborted(
            "elastic.run: all ranks that had the values of the training have died before this new rank got the values; "
            "start the job again: if RUEDA_ELASTIC_DIR is set, it continues from the last commit"
        )


def _may_go_on(failure: HorovodInternalError, has_committed: bool) -> bool:
    """Returns True if the ranks can try again from the last commit."""
    if isinstance(failure, ValueError):
        return False  # if an argument was invalid, it would be invalid again at the next attempt
    if isinstance(failure, Aborted):
        # Only ruedarun can give the survivors a new job. ruedarun limits how often it does this (--reset-limit,
        # --min-np).
        return _native.is_elastic()
    return has_committed


def _all_skip(skip_sync: bool) -> bool:
    """Returns True if all ranks can skip sync(), which means that no rank needs the state of another rank. All ranks
    get the same answer, because either all ranks or none must call sync().
    """
    if not _basics.is_initialized() or _basics.size() == 1:
        return skip_sync
    asks = torch.tensor([0 if skip_sync else 1], dtype=torch.int32)
    return int(allreduce(asks, op=Max, name="rueda.elastic.asks_for_sync")[0]) == 0
