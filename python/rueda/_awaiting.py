# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""`await handle`: a thread waits for the operations that event loops wait for, and wakes the loops."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar

from rueda._native import Handle

T = TypeVar("T")

# How long the thread waits for the oldest operation before it looks at the others, and at new ones: what completes out
# of order is seen that much later. Doubled while nothing happens.
_SHORTEST_SLICE = 0.0005
_LONGEST_SLICE = 0.004


class _Awaited(NamedTuple):
    handle: Handle[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]


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
            if self._thread is None or not self._thread.is_alive():
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
        length = _SHORTEST_SLICE
        while True:
            with self._changed:
                while not pending and not self._new:
                    if self._stopping:
                        return
                    self._changed.wait()
                if self._new:
                    pending += self._new
                    self._new.clear()
                    length = _SHORTEST_SLICE
            pending[0].handle._wait_a_while(length)
            left = [awaited for awaited in pending if not _wake_if_ended(awaited)]
            length = min(2 * length, _LONGEST_SLICE) if len(left) == len(pending) else _SHORTEST_SLICE
            pending = left


def _wake_if_ended(awaited: _Awaited) -> bool:
    if not awaited.handle.poll() and not awaited.loop.is_closed():
        return False
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits there any more
        awaited.loop.call_soon_threadsafe(_set, awaited.future)
    return True


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
