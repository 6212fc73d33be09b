# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Allreduce of PyTorch's sparse tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import torch

from rueda.errors import HorovodInternalError, InvalidArgument, Unsupported
from rueda.torch._tensors import is_float8
from rueda.torch.operations.allgather import allgather_async
from rueda.torch.operations.allreduce import Op
from rueda.torch.operations.handles import synchronize
from rueda.torch.process_sets import ProcessSet, global_process_set
from rueda.types import Average, Sum

T = TypeVar("T")


def sparse_allreduce_async(
    tensor: torch.Tensor, name: str | None, op: Op, process_set: ProcessSet = global_process_set
) -> Callable[[], torch.Tensor]:
    """Computes the sum or the average of sparse tensors (torch.sparse_coo). It uses two allgathers, which are named
    ``<name>.indices`` and ``<name>.values``.

    If several ranks have a value at the same index, the result contains this index several times. ``coalesce()`` adds
    these values.

    Args:
        op: Average (divides by the number of ranks) or Sum.

    Returns:
        A function that waits for the operation and returns the sparse tensor.

    Example::

        total = hvd.sparse_allreduce_async(embedding.weight.grad, "embedding", hvd.Sum)
        gradient = total().coalesce()
    """
    if tensor.layout != torch.sparse_coo:
        raise InvalidArgument(
            f"sparse_allreduce_async: the tensor's layout is {tensor.layout}; expected torch.sparse_coo"
        )
    if op not in (Average, Sum):
        raise InvalidArgument(f"sparse_allreduce_async: op is {op!r}; expected hvd.Average or hvd.Sum")
    if is_float8(tensor):
        raise Unsupported(
            f"sparse_allreduce_async: PyTorch cannot add tensors of {tensor.dtype}; convert the tensor to torch.bfloat16"
        )
    indices_of, values_of = (None, None) if name is None else (f"{name}.indices", f"{name}.values")
    # The allgather of the values is started first. If this start fails, no operation is pending.
    values = allgather_async(tensor._values().contiguous(), values_of, process_set)
    indices = allgather_async(tensor._indices().t().contiguous(), indices_of, process_set)

    def ended() -> torch.Tensor:
        # Waits for both operations, even if the first one has failed.
        try:
            where = synchronize(indices)
        finally:
            what = synchronize(values)
        if op == Average:
            what = what / process_set.size() if what.is_floating_point() else _truncated(what, process_set.size() or 1)
        return torch.sparse_coo_tensor(where.t(), what, tensor.size(), **UNCHECKED)

    return _every_time(ended)


def _every_time(wait: Callable[[], T]) -> Callable[[], T]:
    """Turns ``wait``, which can be called only once, into a function that can be called several times. The new function
    calls ``wait`` the first time. Every call then returns the same result or raises the same error.
    """
    outcome: Future[T] = Future()
    # the thread that has this lock waits for the operation; other threads wait for the lock
    one_waits = threading.Lock()

    def result() -> T:
        with one_waits:
            if not outcome.done():
                try:
                    outcome.set_result(wait())
                except HorovodInternalError as error:
                    outcome.set_exception(error)
        return outcome.result()

    return result


# Arguments of torch.sparse_coo_tensor(). The indices and values come from valid sparse tensors, so PyTorch need not
# check them. Newer versions print a warning unless the caller says so.
UNCHECKED: dict[str, Any] = (
    {"check_invariants": False} if hasattr(torch.sparse, "check_sparse_tensor_invariants") else {}
)


def _truncated(total: torch.Tensor, count: int) -> torch.Tensor:
    return torch.div(total, count, rounding_mode="trunc")
