# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""`await handle`: a thread waits for the operations that event loops wait for, and wakes the loops.

It blocks on them for a moment only, as most have ended by then; after that they have callbacks, and it sleeps. Now and
then it looks all the same, since a rank that waits is one whose peers may go on with what they sent it (_messages.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar

from rueda._native import Handle
from rueda.errors import RuedaError

T = TypeVar("T")

# How long the thread blocks on the oldest operation before it looks at the others, and at new ones.
_SLICE = 0.0005
# Since something new came or something has ended, how long it goes on with that.
_HURRY = 0.01
# Between two looks afterwards; one takes about 50 microseconds.
_PAUSE = 0.05


class _Awaited(NamedTuple):
    handle: Handle[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]
    has_callback: bool = False


class _Watcher:
    """Threads: watch() by any; the rest by the thread it starts, which ends when the job does (stop())."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._new: list[_Awaited] = []
        self._thread: threading.Thread | None = None
        self._stopping = False

    def watch(self, awaited: _Awaited) -> None:
        with self._changed:
            self._new.append(awaited)
            if self._thread is None:
                self._stopping = False
                self._thread = threading.Thread(target=self._run, name="rueda-await", daemon=True)
                self._thread.start()
            self._changed.notify()

    def stop(self) -> None:
        """After shutdown(), when everything pending has ended: lets the thread wake its loops and end."""
        with self._changed:
            thread = self._thread
            self._stopping = True
            self._changed.notify()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        pending: list[_Awaited] = []
        hurries_until = 0.0
        while True:
            hurries = time.monotonic() < hurries_until
            with self._changed:
                self._wait_for_work(bool(pending), hurries)
                if self._new:
                    pending += self._new
                    self._new.clear()
                    hurries = True
                    hurries_until = time.monotonic() + _HURRY
                if not pending:
                    self._thread = None  # with the lock held: who watches next starts another
                    return
                hurries = hurries or self._stopping
            pending[0].handle._wait_a_while(_SLICE if hurries else 0)
            left = [awaited for awaited in pending if not _wake_if_ended(awaited)]
            if len(left) < len(pending):
                hurries_until = time.monotonic() + _HURRY
            elif not hurries:
                left = [_with_callback(awaited) for awaited in left]
            pending = left

    def _wait_for_work(self, has_pending: bool, hurries: bool) -> None:
        """Until something is new, or it is time to look at what is pending, or to end."""
        if not (has_pending and hurries):
            self._changed.wait_for(lambda: self._new or self._stopping, _PAUSE if has_pending else None)


def _with_callback(awaited: _Awaited) -> _Awaited:
    """Its end wakes the loop from now on, whatever this thread does."""
    if awaited.has_callback:
        return awaited
    with contextlib.suppress(RuedaError):  # there can be no thread for callbacks: the next look sees it
        awaited.handle.add_done_callback(lambda _: _wake(awaited))
    return awaited._replace(has_callback=True)


def _wake_if_ended(awaited: _Awaited) -> bool:
    """Whether nobody waits for it any more."""
    if not awaited.handle.poll():
        return awaited.loop.is_closed() or awaited.future.done()
    _wake(awaited)
    return True


def _wake(awaited: _Awaited) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there any more
        awaited.loop.call_soon_threadsafe(_set, awaited.future)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():  # its task may have been cancelled
        future.set_result(None)


_watcher = _Watcher()


def stop() -> None:
    """Ends the thread, if there is one."""
    _watcher.stop()


def _forget_in_child() -> None:
    global _watcher
    _watcher = _Watcher()  # a forked child has neither the thread nor, perhaps, its lock


os.register_at_fork(after_in_child=_forget_in_child)


async def _result(handle: Handle[T]) -> T:
    if not handle.poll():
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        _watcher.watch(_Awaited(handle, loop, future))
        await future
    return handle.result()


def wait_in_loop(handle: Handle[T]) -> Generator[Any, None, T]:
    """What `Handle.__await__` returns. Cancelling the task ends the wait, not the operation."""
    return _result(handle).__await__()
