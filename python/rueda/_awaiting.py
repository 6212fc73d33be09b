# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Implements `await handle`. A thread waits for the operations that asyncio event loops await, and wakes the loops.

The thread first blocks on an operation for a short time, because most operations end within this time. The thread adds
callbacks to operations that take longer, and then sleeps. It still checks these operations from time to time. A check
also accepts messages that other ranks have sent to this rank, so that those ranks can continue (_messages.py).
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

# In seconds: how long the thread blocks on the oldest operation before it checks all other operations.
_SLICE = 0.0005
# In seconds: how long the thread still blocks on operations after the last start or end of one. Then it sleeps.
_HURRY = 0.01
# In seconds: how long the thread sleeps between two checks after it has stopped blocking. A check takes about 50
# microseconds.
_PAUSE = 0.05


class _Awaited(NamedTuple):
    handle: Handle[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]
    has_callback: bool = False


class _Watcher:
    """Waits for the operations that event loops await.

    Threads: any thread may call watch(). The private methods run on the thread that watch() starts. This thread ends
    when the job ends (stop()).
    """

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
        """Ends the thread, which first wakes its event loops. Call this function after shutdown(), when all pending
        operations have ended."""
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
                    # This thread holds the lock until it returns, so watch() cannot add an operation before the return.
                    # Later calls of watch() start a new thread.
                    self._thread = None
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
        """Waits until there is a new operation, until it is time to check the pending operations, or until the thread
        must end.
        """
        if not (has_pending and hurries):
            self._changed.wait_for(lambda: self._new or self._stopping, _PAUSE if has_pending else None)


def _with_callback(awaited: _Awaited) -> _Awaited:
    """Adds a callback that wakes the loop when the operation ends, even if this thread sleeps."""
    if awaited.has_callback:
        return awaited
    # Adding a callback fails if there is no thread for callbacks. In this case this thread's next check finds the end
    # of the operation.
    with contextlib.suppress(RuedaError):
        awaited.handle.add_done_callback(lambda _: _wake(awaited))
    return awaited._replace(has_callback=True)


def _wake_if_ended(awaited: _Awaited) -> bool:
    """Returns True if no task waits for the operation any more."""
    if not awaited.handle.poll():
        return awaited.loop.is_closed() or awaited.future.done()
    _wake(awaited)
    return True


def _wake(awaited: _Awaited) -> None:
    with contextlib.suppress(RuntimeError):  # a closed loop raises this error; no task waits in it
        awaited.loop.call_soon_threadsafe(_set, awaited.future)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():  # the task may have been cancelled while it waited
        future.set_result(None)


_watcher = _Watcher()


def stop() -> None:
    """Ends the thread, which first wakes its event loops. Call this function after shutdown(), when every pending
    operation has ended."""
    _watcher.stop()


def _forget_in_child() -> None:
    global _watcher
    # A forked child does not have the thread, and the lock may have been held during the fork.
    _watcher = _Watcher()


os.register_at_fork(after_in_child=_forget_in_child)


async def _result(handle: Handle[T]) -> T:
    if not handle.poll():
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        _watcher.watch(_Awaited(handle, loop, future))
        try:
            await future
        except asyncio.CancelledError as error:
            raise _cancelled(handle, error) from None
    return handle.result()


def _cancelled(handle: Handle[Any], error: asyncio.CancelledError) -> asyncio.CancelledError:
    """Returns the same error with a text that says for which ranks the operation waits. asyncio.wait_for() and
    asyncio.timeout() show this error as the cause of their TimeoutError.
    """
    account = handle._waits_for()
    if not account:  # the operation has just ended
        return error
    tensor = "an operation without a name" if handle.name is None else f"tensor '{handle.name}'"
    return asyncio.CancelledError(*error.args, f"{tensor}: not completed: {account}; the operation goes on")


def wait_in_loop(handle: Handle[T]) -> Generator[Any, None, T]:
    """Returns the object for `Handle.__await__`. Cancelling the task ends the wait, but not the operation."""
    return _result(handle).__await__()
