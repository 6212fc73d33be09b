# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Ranges of Rueda's operations in the records of torch.profiler (docs/pytorch-distributed.md).

PyTorch 1.13 and later have the functions that are used here. While no profiler runs, an operation only reads
``profilers._is_profiler_enabled``, or, with older versions, also asks is_active(). It does nothing else of this module.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch.autograd import profiler

from rueda._native import Handle
from rueda.errors import RuedaError

R = TypeVar("R")


class _NotKnown:
    """For versions of PyTorch without such a variable."""

    _is_profiler_enabled = True


#: Its `_is_profiler_enabled` tells whether a profiler runs in this process. Reading it takes a few nanoseconds, and a call of a function
#: ten times as long. So each operation reads it first.
profilers: Any = profiler if hasattr(profiler, "_is_profiler_enabled") else _NotKnown

#: Whether a profiler of PyTorch records this thread.
is_active: Callable[[], bool] = torch.autograd._profiler_enabled

_enter: Callable[..., Any] = torch.autograd._record_function_with_args_enter
_leave: Callable[[Any], None] = torch.autograd._record_function_with_args_exit


@contextlib.contextmanager
def region(name: str, inputs: Sequence[Any] = ()) -> Iterator[None]:
    """Records the time that this thread spends in its scope. The inputs give the shapes of a profile with ``record_shapes=True``."""
    record = _enter(name, *[one for one in inputs if isinstance(one, torch.Tensor)])
    try:
        yield
    finally:
        _leave(record)


def recorded(name: str, call: Callable[..., R], inputs: Sequence[Any]) -> Callable[..., R]:
    """Returns a function that calls `call` within a range."""

    def call_recorded(*arguments: Any) -> R:
        with region(name, inputs):
            return call(*arguments)

    return call_recorded


# Ranges from the start of an operation to its completion.
#
# A thread of Rueda ends them. PyTorch frees the memory of a range when the profiler stops, and ending the range after
# that would write to freed memory. So all open ranges are ended before a profiler stops.


class _Pending:
    """The open ranges.

    Threads: any. The lock is held for a moment, and while a profiler stops.
    """

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._ends: dict[int, Any] = {}  # by identity: futures whose completion ends a range
        self._stopping = 0  # profilers that are being stopped: no range may begin

    def begin(self, name: str, inputs: Sequence[Any]) -> Any:
        """Begins a range. Returns the object that ends it, or None."""
        with self._changing:
            if self._stopping > 0:
                return None
            record = _enter(name, *[one for one in inputs if isinstance(one, torch.Tensor)])
            end: Any = torch.futures.Future()
            # PyTorch ends the range for the profiler of this thread, whatever thread completes the future.
            torch.ops.profiler._call_end_callbacks_on_jit_fut(record, end)
            self._ends[id(end)] = end
            return end

    def end(self, end: Any) -> None:
        """Ends a range, unless it has been ended because a profiler stopped."""
        with self._changing:
            if self._ends.pop(id(end), None) is not None:
                end.set_result(None)

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Ends all ranges. None begins in its scope."""
        with self._changing:
            self._stopping += 1
            ends = list(self._ends.values())
            self._ends.clear()
            for end in ends:
                end.set_result(None)
        try:
            yield
        finally:
            with self._changing:
                self._stopping -= 1


_pending = _Pending()


def follow(name: str, handles: Sequence[Handle[Any]], inputs: Sequence[Any] = ()) -> None:
    """Records from now until all operations have completed. If the profiler stops before, the range ends then.

    The range belongs to this thread, but other ranges of the thread may overlap with it.
    """
    if torch._C._autograd._profiler_type() != torch._C._profiler.ActiveProfilerType.KINETO or not _end_before_stop():
        return  # the other profilers expect that the thread which begins a range also ends it, before its other ranges
    end = _pending.begin(name, inputs)
    if end is None:
        return
    left = list(handles)

    def completed(_handle: Handle[Any]) -> None:
        left.pop()  # one step under the GIL
        if not left:
            _pending.end(end)

    for handle in handles:
        try:
            handle.add_done_callback(completed)
        except RuedaError:  # the job has ended, and has no thread for callbacks
            _pending.end(end)


@functools.cache
def _end_before_stop() -> bool:
    """Makes PyTorch's function that stops a profiler end the open ranges first. PyTorch offers no other way to learn of the stop.

    Returns False if this PyTorch has no such function.
    """
    stop = getattr(profiler, "_disable_profiler", None)
    if stop is None:
        return False

    @functools.wraps(stop)
    def end_ranges_and_stop(*arguments: Any, **options: Any) -> Any:
        with _pending.closed():
            return stop(*arguments, **options)

    profiler._disable_profiler = end_ranges_and_stop
    return True


def _forget_in_child() -> None:
    global _pending
    _pending = _Pending()  # in a forked child no thread ends the ranges, and perhaps the lock is held


os.register_at_fork(after_in_child=_forget_in_child)
