# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The loop around an elastic training. After a failure, it restores the last commit and runs the training again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from rueda.errors import Aborted, HorovodInternalError
from rueda.torch import _basics
from rueda.torch.elastic.exceptions import HostsUpdatedInterrupt
from rueda.torch.elastic.state import State
from rueda.torch.operations.joining import barrier

__all__ = ["run", "run_fn"]

T = TypeVar("T")


def run(func: Callable[..., T]) -> Callable[..., T]:
    """Decorates the training function, so that training continues after failures. The first argument of the function is
    the State.

    When a rank dies, the other ranks end with an error, and the launcher starts the job again (``ruedarun
    --max-restarts``). The new job restores the last commit from ``RUEDA_ELASTIC_DIR``. If an error leaves all ranks
    alive, the ranks reconnect without a restart and continue from the last commit. If errors occur twice without a
    commit in between, the second error is raised.

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
    _basics.shutdown()
    _basics.init()


def run_fn(func: Callable[..., T], reset: Callable[[], None]) -> Callable[..., T]:
    """Implements run(). `reset` is the function by which the ranks reconnect."""

    @functools.wraps(func)
    def attempts(state: State, *args: Any, **kwargs: Any) -> T:
        skip_sync = False
        failed_at = -1
        while True:
            try:
                if not skip_sync:
                    state.sync()
                result = func(state, *args, **kwargs)
                if _basics.is_initialized():
                    # A rank may still fail in its last steps. The commit is removed only when all ranks have finished.
                    barrier()
                state._forget()
                return result
            except HorovodInternalError as failure:
                # After Aborted, the ranks cannot reconnect in this job. A ValueError means that the request is invalid,
                # and the request would be invalid again in the next attempt.
                if isinstance(failure, Aborted | ValueError) or failed_at == state._commits:
                    raise
                failed_at = state._commits
                state.restore()
                skip_sync = False
            except HostsUpdatedInterrupt as interrupt:
                skip_sync = interrupt.skip_sync
            reset()
            state.on_reset()

    return attempts
