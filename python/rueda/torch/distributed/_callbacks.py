# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Futures whose callbacks run in one order on all ranks, so that collectives can be started in them.

Collectives match by their order, and PyTorch's own futures call back whenever they complete, on whatever thread that is: at once
on the caller's, where they have completed before. So the callbacks of a group's futures have a thread, which runs them
in the order in which ``then`` was called: in the order of the program, that is, which is the same on all ranks. What a callback hangs
on futures itself follows right after it. The collectives that callbacks start are numbered by themselves, and match by that number: how
far the program is meanwhile does not matter.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch

from rueda._native import Handle
from rueda.errors import Timeout
from rueda.torch.distributed import _futures
from rueda.torch.distributed._pending_operation import Operation, Order

# So many collectives of callbacks may be under way at a time; each is an operation of a name of its own.
_NAMES = 64
# After so many seconds without work a thread ends.
_IDLE_SECONDS = 5.0
# Python looks at signals so often.
_SLICE = 0.1

#: Calls a callback, and returns what tells others that it has been.
Call: TypeAlias = Callable[[], Callable[[], None]]

_here = threading.local()


def running() -> Callbacks | None:
    """Those of which this thread is running one."""
    return getattr(_here, "running", None)


class Callbacks:
    """Of one group.

    Threads: add() by any; the callbacks run on a thread of their own, one at a time. It is a daemon: what it waits for ends with
    the job.
    """

    def __init__(self, order: Order) -> None:
        self.group = order.group
        self._order = order
        self._forget()
        _all.add(self)

    def _forget(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[tuple[OrderedFuture, Call]] = deque()
        self._nested: list[tuple[OrderedFuture, Call]] = []  # of the callback that runs; the thread's own
        self._runs = False
        self._closes: float | None = None  # when nothing is begun any more: the process ends
        self._started: list[Handle[Any] | None] = [None] * _NAMES
        self._count = 0

    def add(self, future: OrderedFuture, call: Call) -> None:
        """`call` is called once the future is complete and all that was added before has been called; then, what it returns."""
        if running() is self:
            self._nested.append((future, call))
            return
        if running() is not None or _futures.is_completing():
            raise RuntimeError(
                f"a callback of a future hangs another one on a future of group '{self.group}', and is none of that group's: the order of "
                "the two would differ between the ranks. Wait for the future instead"
            )
        _close_at_exit()
        with self._changed:
            self._queue.append((future, call))
            if not self._runs and self._closes is None:
                self._runs = True
                threading.Thread(target=self._run, name="rueda-callbacks", daemon=True).start()
            else:
                self._changed.notify()

    def note_failure(self, error: BaseException) -> None:
        """A callback has raised `error`. After a Timeout, which other ranks do not have, they may start more in that callback."""
        if isinstance(error, Timeout):
            self._order.break_for_good(str(error))

    def close(self, end: float) -> None:
        """At the end of the process: waits until all has been called whose futures are complete, or the clock says `end`. Other
        ranks may be in the same callbacks; and a thread on whose stack is C++ code of PyTorch when Python is taken down ends the process by SIGABRT.
        """
        with self._changed:
            self._closes = end
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._runs, max(end - time.monotonic(), 0.0))

    def is_closing(self) -> bool:
        """Whether the process ends: what is not complete is waited for no more."""
        return self._closes is not None

    def _run(self) -> None:
        _futures.mark_thread()  # what hangs on such futures by C++ runs here as well, in no order
        while True:
            following = self._next()
            if following is None:
                return
            self._call(*following)
            del following  # not while this thread is idle

    def _next(self) -> tuple[OrderedFuture, Call] | None:
        """None: this thread ends, as there is nothing to do, or no time for it."""
        with self._changed:
            while not self._queue and self._closes is None:
                if not self._changed.wait(_IDLE_SECONDS):
                    break
            may_begin = self._closes is None or time.monotonic() < self._closes
            if self._queue and may_begin:
                return self._queue.popleft()
            self._runs = False
            self._changed.notify_all()
            return None

    def _call(self, future: OrderedFuture, call: Call) -> None:
        """And what it hangs on futures."""
        if not future.wait_until_complete():
            return
        before, self._nested = self._nested, []
        _here.running = self
        try:
            complete = call()
        finally:
            _here.running = None
        complete()  # what C++ code has hung on the future is none of the group's callbacks
        while self._nested:
            self._call(*self._nested.pop(0))
        self._nested = before

    def call_nested_until(self, future: OrderedFuture) -> None:
        """For a callback that waits for a future: what it has hung on futures, as far as needed."""
        try:
            while self._nested and not future.done():
                self._call(*self._nested.pop(0))
        finally:
            _here.running = self

    def start(self, group: str, begin: Callable[[str], Handle[Any]], timeout: float | None) -> Handle[Any]:
        """Begins an operation of a name by its number among those of this group's callbacks; by a callback.

        Raises:
            Timeout: the operation that had the name before has not ended in time.
        """
        if group != self.group:
            raise RuntimeError(
                f"a callback (future.then) of an operation of group '{self.group}' starts one of group '{group}': callbacks "
                "of several groups run in no common order. Use the group of the future, or wait for it and start that after"
            )
        place = self._count % _NAMES
        last = self._started[place]
        end = None if timeout is None else time.monotonic() + timeout
        while last is not None and not last.poll():
            last._wait_a_while(_SLICE)
            if end is not None and time.monotonic() >= end and not last.poll():
                error = Timeout(
                    f"a callback (future.then) of group '{group}' starts a collective, and the one {_NAMES} before it has not "
                    f"completed after {timeout:g} s: {last._waits_for()}"
                )
                self._order.break_for_good(str(error))  # this collective of the callback is not counted here
                raise error
        handle = begin(f"future.then/{place}")
        self._started[place] = handle
        self._count += 1
        return handle


class OrderedFuture(torch.futures.Future):  # type: ignore[type-arg]
    """What hangs on it runs on the thread of the group's callbacks.

    An error is the exception itself as the value, which Python raises. C++ code that takes a tensor of it says "Unable to
    cast" and the error's text.
    """

    def __init__(self, callbacks: Callbacks, operation: Operation | None = None) -> None:
        super().__init__()
        self._callbacks = callbacks
        self._operation = operation  # that completes it; none: a callback does
        self._completing = threading.Lock()

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """A future of what the callback returns, which is called with this one when it has completed."""
        child = OrderedFuture(self._callbacks)

        def call() -> Callable[[], None]:
            value, failure = None, None
            try:
                value = callback(self)
            except Exception as error:
                failure = error
                self._callbacks.note_failure(error)
            except (
                BaseException
            ) as error:  # SystemExit, for one: whoever waits for the child gets it, and the thread goes on
                failure = RuntimeError(f"a callback of a future raised {error!r}")
            return lambda: child.complete(value, failure)

        self._callbacks.add(self, call)
        return child

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Calls it with this future when that has completed. What it raises is reported, and goes nowhere else."""

        def call() -> Callable[[], None]:
            try:
                callback(self)
            except BaseException as error:
                self._callbacks.note_failure(error)
                thread = threading.current_thread()
                threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))
            return _nothing

        self._callbacks.add(self, call)

    def wait(self) -> Any:
        """Blocks until it has completed, and drives the engine meanwhile; returns its value, or raises the error."""
        self._bring_about()
        return super().wait()

    def wait_until_complete(self) -> bool:
        """The same for the thread of the callbacks, without the value. False: the process ends before."""
        operation = self._operation
        while operation is not None and not (self.done() or operation.wait_a_while(_SLICE) or operation.is_overdue()):
            if self._callbacks.is_closing():
                return False
        self._bring_about()
        if self._callbacks.is_closing() and not self.done():  # the callback that would give it was not called
            return False
        with contextlib.suppress(Exception):  # the error is the callback's to see
            super().wait()
        return True

    def _bring_about(self) -> None:
        """What this thread can do for it."""
        if self._operation is not None:
            while not (self.done() or self._operation.wait_a_while(_SLICE) or self._operation.is_overdue()):
                pass
            self.conclude()
            return
        own = running()
        if own is not None:
            own.call_nested_until(self)
            if own is self._callbacks and not self.done():
                raise RuntimeError(
                    "a callback of a future waits for what a later one gives: the callbacks of a group run one after the other, in the "
                    "order in which they were hung on"
                )

    def conclude(self) -> None:
        """Of an operation that has ended or is overdue: completes the future. By whoever sees it first."""
        operation = self._operation
        if operation is None or self.done():
            return
        if operation.has_ended():
            operation.conclude()
            self.complete(operation.outputs, operation.error)
        elif operation.is_overdue():
            self.complete(None, operation.overdue())

    @classmethod
    def of_operation(cls, callbacks: Callbacks, operation: Operation) -> OrderedFuture:
        """Of its outputs. Completed whoever waits for it, or nobody."""
        future = cls(callbacks, operation)
        if operation.has_ended():
            future.conclude()
        else:  # at once, and not in the order of the callbacks: C++ code may wait for it, or for several
            _futures.when_ended(operation, future.conclude)
        return future

    def complete(self, value: Any, error: Exception | None) -> None:
        """Once; later calls do nothing."""
        with self._completing, _on_behalf_of_nobody():
            if self.done():
                return
            if error is not None:
                self.set_exception(error)
            else:
                self.set_result(value)


@contextlib.contextmanager
def _on_behalf_of_nobody() -> Iterator[None]:
    """What C++ code has hung on a future runs on whatever thread completes it, in no order."""
    own, _here.running = running(), None
    try:
        with _futures.marked():
            yield
    finally:
        _here.running = own


def _nothing() -> None:
    """Of a future that is to be completed."""


_all: weakref.WeakSet[Callbacks] = weakref.WeakSet()


@functools.cache
def _close_at_exit() -> None:
    """Before the watch of other futures, which callbacks may wait for, and before the job is shut down: what is registered last
    comes first.
    """
    _futures.close_at_exit()
    atexit.register(_close_all)


def _close_all() -> None:
    end = time.monotonic() + _futures.CLOSING_SECONDS
    for callbacks in list(_all):
        callbacks.close(end)


def _forget_in_child() -> None:
    for callbacks in list(_all):
        callbacks._forget()  # a forked child has neither the threads nor, perhaps, the lock


os.register_at_fork(after_in_child=_forget_in_child)
