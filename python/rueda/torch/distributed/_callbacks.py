# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Futures whose callbacks run in the same order on all ranks, so that callbacks can start collectives.

Collectives are matched by their order, so all ranks must run callbacks in the same order. PyTorch's own futures do not
guarantee this. Such a future runs a callback when the future completes, on any thread. If the future has already
completed, it runs the callback at once on the caller's thread.

In this module, each group has a thread that runs the callbacks of the group's futures, in the order in which the
program called ``then``. This order is the same on all ranks. If a callback adds other callbacks, the added callbacks
run directly after the one that added them. Collectives that callbacks start have their own numbers. Therefore it does
not matter how many collectives the program itself has started when a callback runs.
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
from rueda.torch import _devices
from rueda.torch.distributed import _futures, _ranges
from rueda.torch.distributed._pending_operation import Operation, Order

# The maximum number of pending collectives that were started by callbacks. There is one operation name for each of
# them.
_NAMES = 64
# In seconds: a thread without work ends after this time.
_IDLE_SECONDS = 5.0
# In seconds: the interval in which Python checks for signals.
_SLICE = 0.1

#: The type of a function that runs one callback. The function returns a second function. The second function tells
#: waiting threads that the callback has run.
Call: TypeAlias = Callable[[], Callable[[], None]]

_here = threading.local()


def running() -> Callbacks | None:
    """Returns the group's Callbacks if this thread is running a callback of the group; otherwise None."""
    return getattr(_here, "running", None)


class Callbacks:
    """The callbacks of one group.

    Threads: any thread may call add(). The callbacks run on a separate thread, one at a time. This thread is a daemon
    thread, because it waits only for operations of the job, and these end with the job.
    """

    def __init__(self, order: Order) -> None:
        self.group = order.group
        self._order = order
        self._forget()
        _all.add(self)

    def _forget(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[tuple[OrderedFuture, Call]] = deque()
        self._nested: list[
            tuple[OrderedFuture, Call]
        ] = []  # the callbacks that the running callback has added; only the callback thread uses this list
        self._runs = False
        self._closes: float | None = None  # is set when the process ends; after this time no callback begins
        self._started: list[Handle[Any] | None] = [None] * _NAMES
        self._count = 0

    def add(self, future: OrderedFuture, call: Call) -> None:
        """Calls the function `call` when the future has completed and all earlier callbacks have run. Then calls the
        function that `call` has returned.
        """
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
        """Records that a callback has raised `error`. After a Timeout, the group refuses further operations for
        good, because this rank skips the rest of the callback, which may start more operations on other ranks.
        """
        if isinstance(error, Timeout):
            self._order.break_for_good(str(error))

    def close(self, end: float) -> None:
        """Ends the callbacks before the process ends. Waits until the callbacks of all completed futures have run, but
        not after the time `end`. The wait has two reasons. First, other ranks may run the same callbacks. Second, if
        Python ended while C++ code of PyTorch is on a thread's stack, the process would end by SIGABRT.
        """
        with self._changed:
            self._closes = end
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._runs, max(end - time.monotonic(), 0.0))

    def is_closing(self) -> bool:
        """Returns True if the process is ending. In this case no thread waits for incomplete futures."""
        return self._closes is not None

    def _run(self) -> None:
        # Callbacks that C++ code has added to the group's futures also run on this thread, in no particular order.
        _futures.mark_thread()
        while True:
            following = self._next()
            if following is None:
                return
            self._call(*following)
            del following  # while this thread waits for work, it must not keep the future alive

    def _next(self) -> tuple[OrderedFuture, Call] | None:
        """Returns the next callback to run. Returns None if this thread should end: there is no work, or no time is
        left.
        """
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
        """Runs a callback, and then the callbacks that this callback has added to futures."""
        if not future.wait_until_complete():
            return
        before, self._nested = self._nested, []
        _here.running = self
        try:
            complete = call()
        finally:
            _here.running = None
        complete()  # complete() runs callbacks of C++ code, which may run in any order
        while self._nested:
            self._call(*self._nested.pop(0))
        self._nested = before

    def call_nested_until(self, future: OrderedFuture) -> None:
        """Lets a callback wait for a future: runs the callbacks that this callback has added, until the future is
        complete.
        """
        try:
            while self._nested and not future.done():
                self._call(*self._nested.pop(0))
        finally:
            _here.running = self

    def start(self, group: str, begin: Callable[[str], Handle[Any]], timeout: float | None) -> Handle[Any]:
        """Starts an operation in a callback. The operation's name contains its number among all operations that
        callbacks of this group have started.

        Raises:
            Timeout: an earlier operation with the same name has not ended in time.
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
                # the collective was not started, so this rank now numbers its collectives differently from the other
                # ranks
                self._order.break_for_good(str(error))
                raise error
        handle = begin(f"future.then/{place}")
        self._started[place] = handle
        self._count += 1
        return handle


class OrderedFuture(torch.futures.Future):  # type: ignore[type-arg]
    """A future whose callbacks run on the thread of the group's callbacks.

    If the operation fails, the value of the future is the exception itself. Python code that reads the value raises
    this exception. C++ code that expects a tensor raises "Unable to cast" with the error's text.
    """

    def __init__(
        self,
        callbacks: Callbacks,
        operation: Operation | None = None,
        devices: list[torch.device] | None = None,
    ) -> None:
        if devices is None:
            super().__init__()
        else:
            super().__init__(devices=devices)
        self._devices = devices
        self._callbacks = callbacks
        self._operation = operation  # the operation that completes this future; None if a callback completes it
        self._completing = threading.Lock()

    def then(self, callback: Callable[[Any], Any]) -> Any:
        """Calls the callback with ``self`` after ``self`` has completed. Returns a new future for the callback's
        result."""
        child = OrderedFuture(self._callbacks, None, self._devices)

        def call() -> Callable[[], None]:
            value, failure = None, None
            try:
                with self._on_callback_stream():
                    value = callback(self)
            except Exception as error:
                failure = error
                self._callbacks.note_failure(error)
            except BaseException as error:
                # Catches every error, for example SystemExit. A wait for the child future raises this error, and this
                # thread continues.
                failure = RuntimeError(f"a callback of a future raised {error!r}")
            return lambda: child.complete(value, failure)

        self._callbacks.add(self, call)
        return child

    def _on_callback_stream(self) -> contextlib.AbstractContextManager[Any]:
        """Returns a scope in which the stream for callbacks is the current stream, if the tensors are on a GPU.
        wait_until_complete() has made this stream wait for the future's tensors.
        """
        if self._devices is None:
            return contextlib.nullcontext()
        return _devices.on_stream(_devices.side_stream(self._devices[0].index, "callbacks"))

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Calls the function with this future, when the future has completed. An exception in the function is reported,
        but not raised.
        """

        def call() -> Callable[[], None]:
            try:
                with self._on_callback_stream():
                    callback(self)
            except BaseException as error:
                self._callbacks.note_failure(error)
                thread = threading.current_thread()
                threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))
            return _nothing

        self._callbacks.add(self, call)

    def wait(self) -> Any:
        """Blocks until the future has completed, and makes operations progress during this time. Returns its value, or
        raises the error.
        """
        _ranges.wait_for_future(self._operation, self._bring_about)
        return super().wait()

    def wait_until_complete(self) -> bool:
        """Waits like wait(), but returns no value. The callback thread calls this method. If the tensors are on a GPU,
        this method also makes the stream for callbacks wait for the tensors. Returns False if the process ends before
        the future completes.
        """
        operation = self._operation
        while operation is not None and not (self.done() or operation.wait_a_while(_SLICE) or operation.is_overdue()):
            if self._callbacks.is_closing():
                return False
        self._bring_about()
        # If the process ends and the future is incomplete, the callback that should complete this future was not
        # called.
        if self._callbacks.is_closing() and not self.done():
            return False
        # super().wait() makes the current stream wait for the future's tensors. In this scope, the current stream is
        # the stream for callbacks. Without the scope, it would be the device's default stream, in which the program may
        # compute.
        with contextlib.suppress(Exception), self._on_callback_stream():  # the callback sees the error
            super().wait()
        return True

    def _bring_about(self) -> None:
        """Makes progress on the operation or the callbacks on which the future depends."""
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
        """Completes the future of an operation that has ended or has passed its timeout. Called by the first thread
        that notices the end or the timeout.
        """
        operation = self._operation
        if operation is None or self.done():
            return
        try:
            if operation.has_ended():
                with operation.stream_for_callbacks():
                    operation.conclude()
                    self._complete_here(operation.outputs, operation.error)
            elif operation.is_overdue():
                self.complete(None, operation.overdue())
        except Exception as error:  # CUDA may refuse the stream or an event, for example after a failed kernel
            self._complete_here(None, error)

    @classmethod
    def of_operation(cls, callbacks: Callbacks, operation: Operation) -> OrderedFuture:
        """Returns a future for the operation's outputs. The future completes even if no thread waits for it."""
        future = cls(callbacks, operation, operation.devices())
        if operation.has_ended():
            future.conclude()
        else:
            # This future completes as soon as the operation has ended. It does not wait for its turn among the
            # callbacks, because C++ code may wait for the future.
            _futures.when_ended(operation, future.conclude)
        return future

    def complete(self, value: Any, error: Exception | None) -> None:
        """Completes the future. If it is already complete, does nothing. A value on a GPU must come from a callback."""
        if self._devices is None:
            self._complete_here(value, error)
            return
        try:
            # The future records an event in the current stream. The tensors of the value are ready in the stream for
            # callbacks, so this scope makes that stream the current one.
            with self._on_callback_stream():
                self._complete_here(value, error)
        except Exception as failure:  # CUDA may refuse the stream or an event, for example after a failed kernel
            self._complete_here(None, error or failure)

    def _complete_here(self, value: Any, error: Exception | None) -> None:
        with self._completing, _on_behalf_of_nobody():
            if self.done():
                return
            if error is not None:
                self.set_exception(error)
            else:
                self.set_result(value)


@contextlib.contextmanager
def _on_behalf_of_nobody() -> Iterator[None]:
    """A scope for callbacks of C++ code, which run on the thread that completes the future. These callbacks do not take
    part in the order of the group's callbacks.
    """
    own, _here.running = running(), None
    try:
        with _futures.marked():
            yield
    finally:
        _here.running = own


def _nothing() -> None:
    """Does nothing: no future depends on the callback."""


_all: weakref.WeakSet[Callbacks] = weakref.WeakSet()


@functools.cache
def _close_at_exit() -> None:
    """Registers _close_all() as an exit function. The exit function must run before the job is shut down, and before
    the watch of futures ends, because callbacks may wait for futures. Python runs exit functions in reverse order of
    their registration, so _close_all() is registered after the others.
    """
    _futures.close_at_exit()
    atexit.register(_close_all)


def _close_all() -> None:
    end = time.monotonic() + _futures.CLOSING_SECONDS
    for callbacks in list(_all):
        callbacks.close(end)


def _forget_in_child() -> None:
    for callbacks in list(_all):
        # A forked child does not have these threads, and the lock may have been held during the fork.
        callbacks._forget()


os.register_at_fork(after_in_child=_forget_in_child)
