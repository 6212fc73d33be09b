# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The operations of the backend in torch.profiler's records, under names like those of PyTorch's own backends.

A call is a range ``rueda:all_reduce``. If the call is asynchronous, ``rueda:all_reduce.pending`` lasts from its return to the completion,
and ``rueda:all_reduce.wait`` is a wait for it. Older versions of PyTorch do not tell the backend that a call is a blocking one: they make an
asynchronous call and wait. This module lies in this package because PyTorch's calls are told from the
package's own by the package of the calling function (``_process_group``).
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import torch

from rueda.torch import _profiling
from rueda.torch.distributed._pending_operation import Operation

P = ParamSpec("P")
R = TypeVar("R")

_is_active = _profiling.is_active
_here = threading.local()


def recorded(kind: str, inputs: int | None = 1) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """For a method that starts operations.

    Args:
        kind: the first word of the operation's description.
        inputs: the position of the argument that has the input tensors, or lists of them; None: there are no inputs.
    """
    name = f"rueda:{kind}"

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(method)
        def call(*arguments: P.args, **options: P.kwargs) -> R:
            if not _is_active():
                return method(*arguments, **options)
            given = arguments[inputs] if inputs is not None and inputs < len(arguments) else ()
            tensors = list(_tensors_of(given))
            _here.pending = None
            try:
                with _profiling.region(name, tensors):
                    result = method(*arguments, **options)
                pending: Operation | None = _here.pending
            finally:
                _here.pending = None  # it keeps tensors alive
            if pending is not None:
                _profiling.follow(f"{name}.pending", pending.handles, tensors)
            return result

        return call

    return decorate


def note_pending(operation: Operation) -> None:
    """Called in such a method if it does not wait for the operation."""
    if _is_active():
        _here.pending = operation


@contextlib.contextmanager
def _waited_for(operation: Operation) -> Iterator[None]:
    with _profiling.region(f"rueda:{operation.kind}.wait"):
        yield


def wait(operation: Operation, timeout: float | None) -> None:
    """Operation.wait() for the program, within a range. There is no range for another wait: PyTorch's functions also wait for ended ones."""
    if not _is_active() or operation.is_concluded():
        operation.wait(timeout)
        return
    with _waited_for(operation):
        operation.wait(timeout)


def wait_for_future(operation: Operation | None, bring_about: Callable[[], None]) -> None:
    """Calls `bring_about`, which waits for the operation of a future, within a range."""
    if operation is None or not _is_active():
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
