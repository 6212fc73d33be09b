# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Alltoall: every rank sends some of its rows to each rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rueda import _native
from rueda.errors import InvalidArgument
from rueda.torch._deferred import DeferredOperation, check_name, new_number, operation_name
from rueda.torch._tensors import with_received_splits
from rueda.torch.operations.handles import (
    gradient_name,
    needs_gradient,
    plain,
    run,
    start,
    wire_name,
)
from rueda.torch.process_sets import ProcessSet, global_process_set


def _rows_of(splits: torch.Tensor | Sequence[int] | None) -> list[int] | None:
    """Returns the splits as a list of numbers."""
    if splits is None:
        return None
    if not isinstance(splits, torch.Tensor):
        return list(splits)
    if splits.dtype != torch.int32:
        raise InvalidArgument(
            f"alltoall expects a 32-bit integer splits tensor; its dtype is {splits.dtype}: give splits.int(), or a list"
        )
    if splits.dim() != 1:
        raise InvalidArgument(f"alltoall expects a 1D splits tensor; it has {splits.dim()} dimensions")
    return splits.tolist()  # type: ignore[no-any-return]


def alltoall_async(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts an alltoall() and returns a handle at once. The result has no gradient. synchronize() always returns
    ``(output, received_splits)``.

    Example::

        received, counts = hvd.synchronize(hvd.alltoall_async(rows, splits))
    """
    rows = _rows_of(splits)
    # If the splits add up to fewer rows than the tensor has, the remaining rows are not sent.
    if rows is not None and tensor.dim() > 0 and all(count >= 0 for count in rows) and sum(rows) < tensor.shape[0]:
        tensor = tensor[: sum(rows)]
    wire = wire_name("alltoall", name)
    if getattr(tensor, "is_cuda", False):
        return start("alltoall", process_set, _on_device, tensor, rows, wire, process_set)
    return start("alltoall", process_set, _native.alltoall_async, tensor, None, rows, wire, with_received_splits)


def _on_device(
    tensor: torch.Tensor, rows: list[int] | None, name: str | None, process_set: ProcessSet, order: int
) -> DeferredOperation:
    """Starts an alltoall of a tensor on a GPU. The ranks first exchange the numbers of rows. `order` is the number of the
    process set.
    """
    size = process_set.size() or 1
    extent = tensor.shape[0] if tensor.dim() > 0 else 0
    if tensor.dim() == 0:
        raise InvalidArgument("an alltoall needs a tensor with at least one dimension; this one is a scalar")
    if rows is None:
        if extent % size != 0:
            raise InvalidArgument(f"alltoall: {extent} rows cannot be divided evenly among {size} ranks; give splits")
        rows = [extent // size] * size
    if len(rows) != size or min(rows) < 0 or sum(rows) > extent:
        raise InvalidArgument(
            f"alltoall: the splits are {rows}; expected {size} that are not negative and sum to at most {extent}"
        )
    _native.check_writable(tensor)  # refuses an unusable tensor before the exchange of the numbers of rows
    sent = rows
    check_name(order, name)

    def start_it(exchanged: tuple[torch.Tensor, torch.Tensor]) -> tuple[list[_native.Handle[Any]], Any]:
        received, numbers = exchanged[0].unbind(1)
        output = tensor.new_empty((int(received.sum()), *tensor.shape[1:]))
        own_name = operation_name("alltoall", name, int(numbers.max()))
        handle = _native.alltoall_async(tensor, output, sent, own_name, _no_result, order)
        return [handle], (output, received.int())

    number = new_number(order, "alltoall", name)
    counts = torch.tensor([[count, number] for count in rows], device="cpu")
    sizes = _native.alltoall_of_rows(counts, None, [1] * size, name, with_received_splits, order)
    return DeferredOperation(sizes, tensor.get_device(), start_it, None if name is None else (order, name))


def _no_result(*_: Any) -> None:
    """Returns None. An operation calls this function to make its result, but here its output is used instead."""


class HorovodAlltoall(torch.autograd.Function):
    """An alltoall with a gradient: the gradient of each row is sent back to the rank that sent the row."""

    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):  # type: ignore[no-untyped-def]
        ctx.name, ctx.process_set = name, process_set
        output, received = run(alltoall_async, tensor, splits, name, process_set)
        ctx.rows = tensor.shape[0]
        ctx.received = received
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx, grad_output, _no_gradient):  # type: ignore[no-untyped-def]
        gradient, _ = alltoall(plain(grad_output), ctx.received, gradient_name(ctx.name), ctx.process_set)
        unsent = ctx.rows - gradient.shape[0]
        if unsent > 0:
            gradient = torch.cat([gradient, gradient.new_zeros((unsent, *gradient.shape[1:]))])
        return gradient, None, None, None


def alltoall(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Sends some rows of each rank's tensor to each rank. The received rows are in the order of the ranks.

    Args:
        splits: the number of rows that go to each rank of the set, as a list or as an int32 tensor of one dimension.
            If they add up to fewer rows than the tensor has, the remaining rows are not sent. If ``splits`` is None,
            every rank gets the same number of rows.

    Returns:
        The output. If ``splits`` is given, ``(output, received_splits)``; received_splits is an int32 tensor with the
            number of rows from each rank.

    Raises:
        ValueError: the splits are invalid.

    Example::

        received, counts = hvd.alltoall(rows, splits=[1] * hvd.size())
    """
    if needs_gradient(tensor):
        output, received = HorovodAlltoall.apply(tensor, splits, name, process_set)
    else:
        output, received = run(alltoall_async, tensor, splits, name, process_set)
    return output if splits is None else (output, received)
