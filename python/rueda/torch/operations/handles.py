# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The handles of pending operations. In Horovod's interface they are numbers, which a program passes to poll() and
synchronize().
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from rueda import _group_names, errors
from rueda._native import Handle, start_to_wait
from rueda.errors import InvalidArgument
from rueda.torch import _basics, _profiling
from rueda.torch._deferred import DeferredOperation
from rueda.torch._errors import NotInitialized, Refused
from rueda.torch._profiling import profilers
from rueda.torch.process_sets import ProcessSet

# The handles of operations that are pending or whose result was not fetched yet. The key is the handle's number.
_handle_map: dict[int, Handle[Any] | DeferredOperation] = {}
_next_handle = itertools.count(1)  # under the GIL, next() cannot be interrupted by another thread, so no lock is needed
_basics._at_end.append(_handle_map.clear)
# The names that operations have in the profile of torch.profiler. The key is the handle's number. Only operations that
# were started while the profiler was recording are listed.
_recorded: dict[int, str] = {}
_basics._at_end.append(_recorded.clear)


@contextmanager
def as_horovod(operation: str, process_set: ProcessSet) -> Iterator[None]:
    """Turns Rueda's errors during a call into errors of the classes in Horovod's interface."""
    try:
        yield
    except errors.NotInitialized as error:
        raise NotInitialized(f"{error}") from None
    except TypeError:
        if process_set.process_set_id is None:
            raise InvalidArgument(
                f"{operation}: {process_set!r} is not known to the job: give it to hvd.init(process_sets=...) or to "
                "hvd.add_process_set()"
            ) from None
        raise


def started(operation: str, handle: Handle[Any] | DeferredOperation, is_recorded: bool = False) -> int:
    """Stores the handle, and returns its number. `is_recorded` says whether torch.profiler records this thread."""
    number = next(_next_handle)
    _handle_map[number] = handle
    if is_recorded:
        _recorded[number] = f"rueda:{operation}"
        _profiling.follow(f"rueda:{operation}.pending", [handle])
    return number


def wire_name(operation: str, name: str | None) -> str | None:
    """Returns the name by which the ranks' operations are matched. The name contains the kind of the operation, so
    operations of different kinds may use the same name at the same time.
    """
    return None if name is None else f"{operation}.{name}"


def number_of(process_set: ProcessSet) -> int:
    return process_set.process_set_id  # type: ignore[return-value]  # the native call refuses None


def start(
    operation: str, process_set: ProcessSet, call: Callable[..., Handle[Any] | DeferredOperation], *arguments: Any
) -> int:
    """Starts an operation with `call`, a function of the native module, and returns the number of the handle. The first
    of the arguments must be the input. The number of the process set is added as the last argument.
    """
    is_recorded = profilers._is_profiler_enabled and _profiling.is_active()
    if is_recorded:
        call = _profiling.recorded(f"rueda:{operation}", call, arguments[:1])
    with as_horovod(operation, process_set):
        return started(operation, call(*arguments, process_set.process_set_id), is_recorded)


def start_group(
    operation: str,
    name: str | None,
    tensors: Sequence[torch.Tensor],
    process_set: ProcessSet,
    call: Callable[[str], Handle[Any] | DeferredOperation],
) -> int:
    """Starts a group of operations with ``call``, a function. Its argument is the group's name, which is the same on
    all ranks.
    """
    if not tensors:
        raise InvalidArgument(f"{operation}: there are no tensors; expected at least one")
    is_recorded = profilers._is_profiler_enabled and _profiling.is_active()
    if is_recorded:
        call = _profiling.recorded(f"rueda:{operation}", call, tensors)
    with (
        as_horovod(operation, process_set),
        _group_names.group_name(wire_name(operation, name), number_of(process_set)) as unique,
    ):
        return started(operation, call(unique), is_recorded)


def poll(handle: int) -> bool:
    """Returns True if the operation has completed. In this case synchronize() does not block.

    Raises:
        ValueError: there is no such operation, or its result was already fetched.

    Example::

        while not hvd.poll(handle):
            do_something_else()
    """
    pending = _handle_map.get(handle)
    if pending is None:
        raise InvalidArgument(f"Handle {handle} was not created or has been cleared.")
    return pending.poll()


def synchronize(handle: int) -> Any:
    """Blocks until the operation has completed, and returns its result. Meanwhile other threads and signal handlers can
    run.

    For tensors on a GPU, blocks until all ranks have called the operation, but not until the GPU has executed it. Work
    that the program puts into the current stream from then on waits for the operation. Use the result in another stream
    only after that stream has waited for the current one.

    Returns:
        The output tensor. For a group, a tuple of the output tensors. For an alltoall, ``(output, received_splits)``.
            None if the handle is unknown or its result was already fetched.

    Raises:
        HorovodInternalError: the operation failed. Rueda no longer uses the tensors.

    Example::

        handle = hvd.allreduce_async(loss)
        loss = hvd.synchronize(handle)
    """
    pending = _handle_map.get(handle)
    if pending is None:
        return None
    try:
        result = (
            pending._torch_result(None) if handle not in _recorded else _recorded_result(_recorded.pop(handle), pending)
        )
    except Exception as error:
        if not pending.poll():  # if the operation is still pending, a signal handler has interrupted the wait
            raise
        _handle_map.pop(handle, None)
        if isinstance(error, InvalidArgument):
            raise Refused(f"{error}") from None
        if isinstance(error, errors.NotInitialized):
            raise NotInitialized(f"{error}") from None
        raise
    _handle_map.pop(handle, None)
    return result


def run(start: Callable[..., int], *arguments: Any) -> Any:
    """Makes the blocking form of an operation: calls ``start``, a function that returns the number of a handle, and
    returns the result.
    """
    if profilers._is_profiler_enabled:  # the profile shows the start and the wait as separate ranges
        return synchronize(start(*arguments))
    return synchronize(start_to_wait(start, arguments, {}))


def _recorded_result(name: str, pending: Handle[Any] | DeferredOperation) -> Any:
    if not _profiling.is_active():
        return pending._torch_result(None)
    with _profiling.region(f"{name}.wait"):
        return pending._torch_result(None)


def needs_gradient(*tensors: torch.Tensor) -> bool:
    """Returns True if autograd must record the operation."""
    try:
        if torch.is_grad_enabled():
            for tensor in tensors:  # any() of a generator takes longer
                if tensor.requires_grad:
                    return True
        return False
    except AttributeError:
        for tensor in tensors:
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(
                    f"{type(tensor).__name__} {tensor!r} is no tensor; expected a torch.Tensor, such as torch.tensor(...) of it"
                ) from None
        raise


def plain(gradient: torch.Tensor) -> torch.Tensor:
    """Returns the gradient in contiguous memory, which operations need. Copies the gradient only if it is not
    contiguous.
    """
    return gradient.contiguous().resolve_neg()


def gradient_name(name: str | None) -> str | None:
    """Returns the name of the operation that computes the gradient of an operation with the given name."""
    return None if name is None else f"{name}.gradient"
