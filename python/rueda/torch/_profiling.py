# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Shows Rueda's operations as ranges in the records of torch.profiler (docs/pytorch-distributed.md).

PyTorch 1.13 and later have the functions that this module uses. While no profiler runs, an operation only reads
``profilers._is_profiler_enabled``. If this PyTorch does not have that variable, the operation also calls is_active().
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
from rueda.torch._deferred import DeferredOperation

R = TypeVar("R")


class _NotKnown:
    """Replaces the module ``torch.autograd.profiler`` if it has no variable ``_is_profiler_enabled`` (in older versions
    of PyTorch)."""

    _is_profiler_enabled = True


#: The attribute `_is_profiler_enabled` says whether a profiler runs in this process. Each operation reads it first,
#: because reading it takes a few nanoseconds, and calling a function takes ten times as long.
profilers: Any = profiler if hasattr(profiler, "_is_profiler_enabled") else _NotKnown

#: Whether a profiler of PyTorch records this thread.
is_active: Callable[[], bool] = torch.autograd._profiler_enabled

_leave: Callable[[Any], None] = torch.autograd._record_function_with_args_exit


def _enter(name: str, inputs: Sequence[Any]) -> Any:
    """Begins a range. Passes on only those inputs that are tensors, because only tensors have shapes."""
    tensors = [one for one in inputs if isinstance(one, torch.Tensor)]
    return torch.autograd._record_function_with_args_enter(name, *tensors)


@contextlib.contextmanager
def region(name: str, inputs: Sequence[Any] = ()) -> Iterator[None]:
    """Records the time that this thread spends in the scope. A profile with ``record_shapes=True`` shows the shapes of
    the inputs.
    """
    record = _enter(name, inputs)
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


# The rest of this file is about ranges from the start of an operation to its completion.
#
# A thread of Rueda ends these ranges. PyTorch frees the memory of a range when the profiler stops. Ending the range
# afterwards would write to freed memory. All open ranges are therefore ended before a profiler stops.


class _Pending:
    """The ranges that have not ended.

    Threads: any thread may call the methods. The lock is held only for a moment, or while a profiler stops.
    """

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._ends: dict[int, Any] = {}  # the futures whose completion ends a range, indexed by their identity
        # The number of calls that are just stopping a profiler. While it is not 0, no range may begin.
        self._stopping = 0

    def begin(self, name: str, inputs: Sequence[Any]) -> Any:
        """Begins a range. Returns the object by which end() ends it, or None."""
        with self._changing:
            if self._stopping > 0:
                return None
            record = _enter(name, inputs)
            end: Any = torch.futures.Future()
            # PyTorch ends the range for the profiler of this thread, even if another thread completes the future.
            torch.ops.profiler._call_end_callbacks_on_jit_fut(record, end)
            self._ends[id(end)] = end
            return end

    def end(self, end: Any) -> None:
        """Ends a range, unless it was already ended because a profiler stopped."""
        with self._changing:
            if self._ends.pop(id(end), None) is not None:
                end.set_result(None)

    @contextlib.contextmanager
    def closed(self) -> Iterator[None]:
        """Ends all ranges. No range begins within the scope."""
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


def follow(name: str, handles: Sequence[Handle[Any] | DeferredOperation], inputs: Sequence[Any] = ()) -> None:
    """Records a range from now until all operations have completed. If the profiler stops earlier, the range ends at
    that time.

    The range belongs to this thread, but may overlap with other ranges of this thread.
    """
    if torch._C._autograd._profiler_type() != torch._C._profiler.ActiveProfilerType.KINETO or not _end_before_stop():
        return  # other profilers expect that the same thread begins and ends a range, and that ranges are nested
    end = _pending.begin(name, inputs)
    if end is None:
        return
    left = list(handles)

    def completed(_handle: Any) -> None:
        left.pop()  # pop() takes one element in one step under the GIL, so no other thread can take the same element
        if not left:
            _pending.end(end)

    for handle in handles:
        try:
            handle.add_done_callback(completed)
        except RuedaError:  # raised if the job has ended: the job then has no thread for callbacks any more
            _pending.end(end)


@functools.cache
def _end_before_stop() -> bool:
    """Replaces PyTorch's function that stops a profiler by one that first ends the open ranges. PyTorch does not report
    in any other way that a profiler stops.

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
    # a forked child begins without ranges: it has no thread that would end them, and the old lock may be held
    _pending = _Pending()


os.register_at_fork(after_in_child=_forget_in_child)
