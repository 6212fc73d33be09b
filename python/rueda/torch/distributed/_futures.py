# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Threads that wait for operations and complete their futures (docs/design/0013-torch-distributed.md).

One of these threads watches the operations: this thread waits for the oldest operation in short intervals, and checks
the other operations between the intervals. When an operation has ended or its timeout has passed, this thread lets
another thread watch, and then runs the callbacks of the operation's future. Callbacks may block for any time, also on
other futures. If no thread is idle, a new thread is started to watch.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

# In seconds: how long the watching thread waits for the oldest operation before it checks the others. The time doubles
# as long as nothing happens.
_SHORTEST_SLICE = 0.0005
_LONGEST_SLICE = 0.004
# In seconds: a thread without work ends after this time. The next operation starts a new thread.
_IDLE_SECONDS = 5.0
#: In seconds: how long the process waits for callbacks when the process ends.
CLOSING_SECONDS = 5.0


class Watched(Protocol):
    """An operation to wait for."""

    def wait_a_while(self, seconds: float) -> bool:
        """Blocks for at most `seconds`, and drives operations forward during this time. Returns True if the operation
        has ended.
        """

    def has_ended(self) -> bool: ...

    def is_overdue(self) -> bool:
        """Returns True if the operation's timeout has passed."""


class _Watch:
    """Waits for operations, and completes their futures.

    Threads: any thread may call add(). The threads that add() starts do the rest. They are daemon threads, because
    their operations end with the job.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pending: deque[tuple[Watched, Callable[[], None]]] = deque()
        self._ended: deque[Callable[[], None]] = deque()
        self._watching = False
        self._idle = 0
        self._threads = 0
        self._is_closing = False

    def add(self, watched: Watched, conclude: Callable[[], None]) -> None:
        """Calls the function `conclude` when the operation `watched` has ended or has passed its timeout. The call
        happens on a thread that may block.
        """
        with self._changed:
            self._pending.append((watched, conclude))
            if not self._watching:
                self._need_somebody()

    def close(self, seconds: float) -> None:
        """Ends the threads before the process ends. They begin no new work, and this method waits for them. If Python
        ended while a thread runs a callback, C++ code of PyTorch would be on the thread's stack, and the process would
        end by SIGABRT.
        """
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._threads == 0, seconds)

    def _need_somebody(self) -> None:
        if self._is_closing:
            return
        if self._idle > 0:
            self._changed.notify()
        else:
            threading.Thread(target=self._run, name="rueda-future", daemon=True).start()
            self._threads += 1

    def _run(self) -> None:
        while True:
            conclude = self._next()
            if conclude is None:
                with self._changed:
                    self._threads -= 1
                    self._changed.notify_all()
                return
            try:
                mark_thread()
                conclude()
            # a failure of conclude() itself; an operation's error is stored in its future
            except BaseException as error:
                _report(error)

    def _next(self) -> Callable[[], None] | None:
        """Returns the function `conclude` of an operation that has ended. Either this thread watched the operation and
        noticed its end, or another thread noticed the end and left the function for this thread. Returns None if there
        is no work.
        """
        with self._changed:
            while True:
                if self._is_closing:
                    return None
                if self._ended:
                    return self._ended.popleft()
                if self._pending and not self._watching:
                    self._watching = True
                    break
                self._idle += 1
                woken = self._changed.wait(_IDLE_SECONDS)
                self._idle -= 1
                if not woken and not self._ended and not (self._pending and not self._watching):
                    return None
        length = _SHORTEST_SLICE
        while True:
            # this wait may ignore the operation's error, because has_ended(), which is called below, raises it again
            with contextlib.suppress(Exception):
                self._pending[0][0].wait_a_while(length)
            with self._changed:
                if self._is_closing:
                    return None
                before = len(self._pending)
                left = deque(entry for entry in self._pending if not self._take_if_ended(entry))
                if len(left) < before:
                    self._pending = left
                    self._watching = False
                    mine = self._ended.popleft()
                    if self._pending or self._ended:
                        self._need_somebody()
                    return mine
            length = min(2 * length, _LONGEST_SLICE)

    def _take_if_ended(self, entry: tuple[Watched, Callable[[], None]]) -> bool:
        try:
            if not entry[0].has_ended() and not entry[0].is_overdue():
                return False
        except Exception:
            # The operation cannot be watched. Its function `conclude` will get the same error, and complete the
            # future with this error. This thread must continue to watch the other operations.
            pass
        self._ended.append(entry[1])
        return True


def _report(error: BaseException) -> None:
    threading.excepthook(
        threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
    )


_here = threading.local()
_watch = _Watch()


def mark_thread() -> None:
    """Marks this thread as one that completes futures."""
    _here.is_completing = True


@contextlib.contextmanager
def marked() -> Iterator[None]:
    """Marks this thread, within the scope, as one that completes a future."""
    before, _here.is_completing = is_completing(), True
    try:
        yield
    finally:
        _here.is_completing = before


def is_completing() -> bool:
    """Returns True if this thread completes a future. In this case the code that runs on the thread is a callback."""
    return getattr(_here, "is_completing", False)


def _forget_in_child() -> None:
    global _watch
    # A forked child does not have these threads, and the lock may have been held during the fork.
    _watch = _Watch()


os.register_at_fork(after_in_child=_forget_in_child)


@functools.cache
def close_at_exit() -> None:
    """Registers an exit function. It must run before the job is shut down, because the shutdown ends pending
    operations. Python runs exit functions in reverse order, so this function must be registered later than the function
    that shuts down the job. It is therefore registered at the first use of this module.
    """
    atexit.register(lambda: _watch.close(CLOSING_SECONDS))


def when_ended(watched: Watched, conclude: Callable[[], Any]) -> None:
    """Calls the function `conclude` once, when the operation `watched` has ended or has passed its timeout. The call
    happens on a thread of this module.
    """
    close_at_exit()
    _watch.add(watched, conclude)
