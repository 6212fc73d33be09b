# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Shows the operations of the backend in torch.profiler's records, under names like those of PyTorch's own backends.

A call is shown as a range ``rueda:all_reduce``. If the call is asynchronous, there are more ranges:
``rueda:all_reduce.pending`` lasts from the return of the call to the completion of the operation, and
``rueda:all_reduce.wait`` is a wait for the operation. In older versions of PyTorch, blocking calls are shown in the
same way, because PyTorch makes an asynchronous call and waits.

This module must be in the package ``rueda.torch.distributed``. The reason is that ``_process_group`` looks at the
package of the calling function, to distinguish PyTorch's calls from the package's own calls.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

from rueda.torch import _profiling
from rueda.torch.distributed._pending_operation import Operation

R = TypeVar("R")


class _Here(threading.local):
    """The state of this thread."""

    calls_itself = False  # call() sets this flag before it calls a method, and the method's begins() resets the flag
    records = False  # True within call()
    pending: Operation | None = None  # the operation that the method has started


_here = _Here()


def begins() -> bool:
    """Returns True if the calling method must pass itself to call(), which begins a range (a named entry of the
    profile) and calls the method a second time. In this second call, begins() returns False. The method of an operation
    calls begins() first.
    """
    if not _profiling.is_active():
        return False
    if _here.calls_itself:
        _here.calls_itself = False
        return False
    return True


def call(kind: str, inputs: Any, method: Callable[..., R], *arguments: Any) -> R:
    """Calls `method`, which starts operations, within a range.

    Args:
        kind: the first word of the operation's description.
        inputs: the input tensor, a list of them, or a list of lists.
        method: must call begins() before anything else.
    """
    name = f"rueda:{kind}"
    tensors = list(_tensors_of(inputs))
    _here.calls_itself = _here.records = True
    try:
        with _profiling.region(name, tensors):
            result = method(*arguments)
        pending = _here.pending
    finally:
        _here.calls_itself = _here.records = False
        _here.pending = None  # without this line, the attribute would keep the operation and its tensors alive
    if pending is not None:
        _profiling.follow(f"{name}.pending", pending.handles, tensors)
    return result


def note_pending(operation: Operation) -> None:
    """Stores the operation if the profile must show it as pending. Methods that do not wait for the operation call this
    function.
    """
    if _here.records:
        _here.pending = operation
        operation.is_recorded = True


@contextlib.contextmanager
def _waited_for(operation: Operation) -> Iterator[None]:
    if not _profiling.is_active():  # the profiler has stopped, or does not record this thread
        yield
        return
    with _profiling.region(f"rueda:{operation.kind}.wait"):
        yield


def wait(operation: Operation, timeout: float | None) -> None:
    """Waits for an operation like Operation.wait(), and shows the wait in the profile. The program's own waits use this
    function.
    """
    with _waited_for(operation):
        operation.wait(timeout)


def wait_for_future(operation: Operation | None, bring_about: Callable[[], None]) -> None:
    """Calls the function `bring_about`, which waits for a future's operation, and shows the wait in the profile."""
    if operation is None or not operation.is_recorded:
        bring_about()
        return
    with _waited_for(operation):
        bring_about()


def _tensors_of(given: Any) -> Iterator[torch.Tensor]:
    if isinstance(given, torch.Tensor):
        yield given
    elif isinstance(given, list | tuple):
        for one in given:
            yield from _tensors_of(one)
