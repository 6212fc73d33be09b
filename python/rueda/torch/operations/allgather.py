# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Allgather of one tensor or of several tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rueda import _native
from rueda._native import size
from rueda.errors import InvalidArgument
from rueda.torch._deferred import DeferredOperation, check_name, new_number, operation_name
from rueda.torch._tensors import tensor_of, tensors_of
from rueda.torch.operations.allreduce import grouped_allreduce
from rueda.torch.operations.handles import (
    gradient_name,
    needs_gradient,
    number_of,
    plain,
    run,
    start,
    start_group,
    wire_name,
)
from rueda.torch.process_sets import ProcessSet, global_process_set
from rueda.types import Average


def allgather_async(tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> int:
    """Starts an allgather() and returns a handle at once. The result has no gradient.

    Example::

        predictions = hvd.synchronize(hvd.allgather_async(predictions))
    """
    wire = wire_name("allgather", name)
    if getattr(tensor, "is_cuda", False):
        return start("allgather", process_set, _on_device, tensor, wire)
    return start("allgather", process_set, _native.allgather_async, tensor, None, wire, tensor_of)


def allgather_row(row: torch.Tensor, name: str) -> torch.Tensor:
    """Gathers one row of each rank. If the row is on a GPU, this is faster than allgather(): the ranks need not
    exchange their numbers of rows first.
    """
    if not row.is_cuda:
        return allgather(row[None], name=name)
    output = row.new_empty((size(), *row.shape))
    wire = wire_name("allgather", name)
    arguments = row[None], output, wire, output
    return run(start, "allgather", global_process_set, _native.allgather_async, *arguments)  # type: ignore[no-any-return]


def _check_rows(tensor: torch.Tensor) -> None:
    """Refuses a tensor that Rueda cannot gather. This must happen before the exchange of the numbers of rows."""
    if tensor.dim() == 0:
        raise InvalidArgument("an allgather needs tensors with at least one dimension; this one is a scalar")
    _native.check_writable(tensor)


def _output_for(tensor: torch.Tensor, everyones: torch.Tensor) -> torch.Tensor:
    """Returns memory for the rows of all ranks. Column 0 of `everyones` has each rank's number of rows."""
    return tensor.new_empty((int(everyones[:, 0].sum()), *tensor.shape[1:]))


def _on_device(tensor: torch.Tensor, name: str | None, order: int) -> DeferredOperation:
    """Starts an allgather of a tensor on a GPU. The ranks first exchange the numbers of rows. `order` is the number of
    the process set.
    """
    _check_rows(tensor)
    check_name(order, name)

    def start_it(everyones: torch.Tensor) -> tuple[list[_native.Handle[torch.Tensor]], Any]:
        output = _output_for(tensor, everyones)
        own_name = operation_name("allgather", name, int(everyones[:, 1].max()))
        return [_native.allgather_async(tensor, output, own_name, output, order)], output

    mine = torch.tensor([[tensor.shape[0], new_number(order, "allgather", name)]], device="cpu")
    sizes = _native.allgather_of_rows(mine, None, name, tensor_of, order)
    return DeferredOperation(sizes, tensor.get_device(), start_it, None if name is None else (order, name))


def _group_on_device(tensors: Sequence[torch.Tensor], name: str, order: int) -> DeferredOperation:
    """Starts allgathers of tensors on a GPU. Before that, the ranks exchange each tensor's number of rows, which also
    takes one small allgather for each tensor. `order` is the number of the process set.
    """
    for tensor in tensors:
        if not getattr(tensor, "is_cuda", False):
            raise InvalidArgument(
                "grouped_allgather: some tensors are on a GPU, and some are not: use a call for each device"
            )
        _check_rows(tensor)
    check_name(order, name)

    def start_all(exchanged: tuple[torch.Tensor, ...]) -> tuple[list[_native.Handle[torch.Tensor]], Any]:
        outputs = tuple(_output_for(*one) for one in zip(tensors, exchanged, strict=True))
        handles = [
            _native.allgather_async(tensor, output, operation_name("allgather", f"{name}.{index}", 0), output, order)
            for index, (tensor, output) in enumerate(zip(tensors, outputs, strict=True))
        ]
        return handles, outputs

    mine = [torch.tensor([[tensor.shape[0]]], device="cpu") for tensor in tensors]
    sizes = _native.grouped_allgather_of_rows(mine, name, tensors_of, order)
    return DeferredOperation(sizes, tensors[0].get_device(), start_all, (order, name))


class HorovodAllgather(torch.autograd.Function):
    """An allgather with a gradient. The gradients of all ranks are averaged, and this rank's input gets its rows of the
    average.
    """

    @staticmethod
    def forward(ctx, tensor, name, process_set):  # type: ignore[no-untyped-def]
        gathered = run(allgather_async, tensor, name, process_set)
        ctx.arguments = [tensor.shape[0]], name, process_set
        return gathered

    @staticmethod
    def backward(ctx, grad_output):  # type: ignore[no-untyped-def]
        return (*_own_rows([grad_output], *ctx.arguments), None, None)


def _own_rows(
    gradients: Sequence[torch.Tensor], rows: Sequence[int], name: str | None, process_set: ProcessSet
) -> list[torch.Tensor]:
    """Averages each gathered gradient over the ranks, and returns the rows that came from this rank."""
    base = gradient_name(name)
    everyones = allgather(
        torch.tensor([list(rows)], device="cpu"), None if base is None else f"{base}.rows", process_set
    )
    averages = grouped_allreduce(
        [plain(gradient) for gradient in gradients], name=base, op=Average, process_set=process_set
    )
    before = everyones[: process_set.rank()].sum(dim=0).tolist()
    return [average.narrow(0, first, count) for average, first, count in zip(averages, before, rows, strict=True)]


def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Concatenates the tensors of all ranks along the first dimension. The first extent may differ between ranks; the
    other extents must agree.

    Returns:
        A new tensor. Its gradient is the same as in Horovod: this rank's rows of the *average* of the ranks' gradients.

    Example::

        everyones_predictions = hvd.allgather(predictions)
    """
    if needs_gradient(tensor):
        return HorovodAllgather.apply(tensor, name, process_set)  # type: ignore[no-any-return]
    return run(allgather_async, tensor, name, process_set)  # type: ignore[no-any-return]


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts a grouped_allgather() and immediately returns one handle for all tensors. The result has no gradient.

    Example::

        predictions, labels = hvd.synchronize(hvd.grouped_allgather_async([predictions, labels]))
    """

    def call(unique: str) -> _native.Handle[tuple[torch.Tensor, ...]] | DeferredOperation:
        if any(getattr(tensor, "is_cuda", False) for tensor in tensors):
            return _group_on_device(tensors, unique, number_of(process_set))
        return _native.grouped_allgather_async(list(tensors), unique, tensors_of, number_of(process_set))

    return start_group("grouped_allgather", name, tensors, process_set, call)


class HorovodGroupedAllgather(torch.autograd.Function):
    """Like HorovodAllgather, for several tensors."""

    @staticmethod
    def forward(ctx, name, process_set, *tensors):  # type: ignore[no-untyped-def]
        gathered = run(grouped_allgather_async, tensors, name, process_set)
        ctx.arguments = [tensor.shape[0] for tensor in tensors], name, process_set
        return gathered

    @staticmethod
    def backward(ctx, *grad_outputs):  # type: ignore[no-untyped-def]
        return (None, None, *_own_rows(grad_outputs, *ctx.arguments))


def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[torch.Tensor]:
    """Gathers each of the tensors like allgather(). `name` is the name of the whole group. Rueda starts either all
    operations of the group or none. This does not hold for tensors on a GPU.

    Example::

        predictions, labels = hvd.grouped_allgather([predictions, labels])
    """
    if needs_gradient(*tensors):
        return list(HorovodGroupedAllgather.apply(name, process_set, *tensors))
    return list(run(grouped_allgather_async, tensors, name, process_set))
