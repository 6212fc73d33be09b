# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs long work that is not part of a training step, on rank 0 alone or on all ranks."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from rueda import _lifecycle, _objects
from rueda.errors import Internal, RuedaError

T = TypeVar("T")

_logger = logging.getLogger("rueda.training")
#: Once in this number of seconds, a _Watch reads the counts of this rank's operations. Reading them takes tens of
#: microseconds.
_PAUSE = 0.1


def on_rank_zero(
    what: str,
    body: Callable[[], T],
    *,
    share: bool = False,
    warn_after: float = 1.0,
    warn: Callable[[str], None] | None = None,
) -> T | None:
    """Runs long work on rank 0, for example an evaluation. All ranks must make the call.

    The other ranks go on at once. When their next operation needs rank 0, they wait for rank 0. While rank 0 works,
    stall reports and ``rueda top`` say that rank 0 is busy with ``what`` and for how long. Meanwhile a thread of rank 1
    measures how long the operations of rank 1 wait. If they wait long, rank 1 prints one line when rank 0 takes part
    again.

    Args:
        what: what the work is, in a few words, for example "evaluate".
        body: is called on rank 0, and must not call operations of Rueda.
        share: with True, all ranks wait for the result and get it. The result must be an object that pickle can send.
        warn_after: rank 1 prints the line if its operations have waited for at least this number of seconds.
        warn: is called with the line, in the thread of rank 1; by default the logger "rueda.training" gets a warning.

    Returns:
        The result of ``body`` on rank 0. With ``share``, all other ranks get it, too; without, they get None.

    Raises:
        The exception of ``body``, on rank 0. With ``share``, the other ranks raise the same exception, or
        InvalidArgument if pickle cannot send it.

    Example::

        accuracy = rueda.training.on_rank_zero("evaluate", lambda: evaluate(model), share=True)
    """
    result: Any = None
    failure: Exception | None = None
    if _lifecycle.rank() == 0:
        began = time.monotonic()
        try:
            with _lifecycle.busy(what):
                result = body()
        except Exception as error:
            if not share:
                raise
            failure = error  # the other ranks wait for the result, so they must get the error
        _logger.info("Rank 0 worked on '%s' for %.1f s", what, time.monotonic() - began)
    elif _lifecycle.rank() == 1:
        _Watch.replace(what, warn_after, warn or _logger.warning)
    if share:
        try:
            result, failure = _objects.broadcast_object((result, failure), 0, "rueda.training.on_rank_zero")
        except Exception as error:  # for example, `body` raised an exception that pickle cannot send
            if failure is None:
                raise
            raise failure from error
        if failure is not None:
            raise failure
    return result  # type: ignore[no-any-return]


class _Counts:
    """Counts of this rank's operations: how many have ended, how long these have waited for other ranks, and how long
    the oldest pending operation has waited.
    """

    def __init__(self) -> None:
        counts = _lifecycle.metrics()
        self.ended = sum(counts["rueda_operations_total"].values())
        self.waited = sum(counts["rueda_operation_waiting_seconds_total"].values())
        self.oldest = float(counts["rueda_oldest_pending_operation_seconds"])


class _Watch:
    """Measures, in a thread, how long operations of this rank wait for rank 0. The watch stops when the first of these
    operations has ended. At that time rank 0 has ended its work, because the operation needed rank 0. The watch itself
    starts no operation.
    """

    current: _Watch | None = None

    def __init__(self, what: str, warn_after: float, warn: Callable[[str], None]) -> None:
        self._what = what
        self._warn_after = warn_after
        self._warn = warn
        self._began = time.monotonic()
        self._before = _Counts()
        self._longest = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rueda-watch", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # rank 1 must not raise this error alone, because the other ranks go on
            warn(
                f"Nobody watches how long rank 1 waits for rank 0's work on '{what}', because starting a thread failed: "
                f"{error}. Allow this user more threads"
            )

    @classmethod
    def replace(cls, what: str, warn_after: float, warn: Callable[[str], None]) -> None:
        """Starts a new _Watch. If the one for the previous work still runs, ends it first."""
        cls.finish()
        # The watch's thread is a daemon thread. It could not write its warning while the process ends, so finish() must
        # end it earlier, even before rueda.shutdown(). atexit calls the function that was registered last first.
        atexit.unregister(cls.finish)
        atexit.register(cls.finish)
        cls.current = cls(what, warn_after, warn)

    @classmethod
    def finish(cls) -> None:
        """Makes the watch read the counts once more, and waits until its thread has ended."""
        if cls.current is not None:
            cls.current._stop.set()
            if cls.current._thread.ident is not None:  # it was started
                cls.current._thread.join()
            cls.current = None

    def _run(self) -> None:
        try:
            while not self._look():
                if self._stop.wait(_PAUSE):
                    self._look()
                    break
        except RuedaError:
            pass  # the job has ended, so use the counts that were read before
        if self._longest >= self._warn_after:
            self._warn(
                f"Rank 1 waited for rank 0 for {self._longest:.1f} s, because rank 0 worked on '{self._what}'. Divide the "
                "work with on_all_ranks(), do it less often, or do it in another program"
            )

    def _look(self) -> bool:
        """Returns True if an operation has ended since the work began."""
        now = _Counts()
        self._longest = max(self._longest, min(now.oldest, time.monotonic() - self._began))
        ended: int = now.ended - self._before.ended
        if ended > 0:
            # An operation may have waited and ended since this thread last read the counts. So the mean wait of the
            # operations that have ended is considered, too.
            self._longest = max(self._longest, (now.waited - self._before.waited) / ended)
        return ended > 0


def on_all_ranks(what: str, body: Callable[[], T]) -> list[T]:
    """Runs work on every rank, for example the evaluation of this rank's share, and gives all results to all ranks. All
    ranks must make the call.

    While a rank works, stall reports and ``rueda top`` say that it is busy with ``what``.

    Args:
        what: what the work is, in a few words.
        body: is called on every rank. It may call operations of Rueda if it calls the same ones on all ranks.

    Returns:
        The results of all ranks, in the order of the ranks. They must be objects that pickle can send.

    Raises:
        If ``body`` fails on some ranks, these ranks raise its exception. The other ranks raise Internal, which names
        the first rank that failed and its error.

    Example::

        correct = sum(rueda.training.on_all_ranks("evaluate", lambda: count_correct(rueda.training.shard(len(test)))))
    """
    result: Any = None
    failure: Exception | None = None
    try:
        with _lifecycle.busy(what):
            result = body()
    except Exception as error:  # catches every exception, because the other ranks must be told
        failure = error
    text = None if failure is None else f"{type(failure).__name__}: {failure}"
    everyones = _objects.allgather_object((result, text), "rueda.training.on_all_ranks")
    if failure is not None:
        raise failure
    for rank, (_, problem) in enumerate(everyones):
        if problem is not None:
            raise Internal(f"'{what}' failed on rank {rank}: {problem}")
    return [each for each, _ in everyones]
