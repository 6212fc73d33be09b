# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Reduce-scatter of one tensor or of several tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from rueda import _native
from rueda.torch._tensors import tensor_of, tensors_of
from rueda.torch.compression import Compression
from rueda.torch.operations.allgather import allgather, grouped_allgather
from rueda.torch.operations.allreduce import Op
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
from rueda.types import Average, Sum


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts a reducescatter() and returns a handle at once. The result has no gradient.

    Example::

        mine = hvd.synchronize(hvd.reducescatter_async(gradient, op=hvd.Sum))
    """
    reduction = wire_name("reducescatter", name), op, prescale_factor, postscale_factor
    output = _own_output(tensor, process_set) if getattr(tensor, "is_cuda", False) else None
    result = tensor_of if output is None else output
    return start("reducescatter", process_set, _native.reducescatter_async, tensor, output, *reduction, result)


def _own_output(tensor: torch.Tensor, process_set: ProcessSet) -> torch.Tensor:
    """Returns new memory on the GPU for this rank's rows of the result. If the rows cannot be divided evenly, each of
    the first ranks gets one row more than the other ranks.
    """
    size, rank = process_set.size() or 1, process_set.rank() or 0
    if tensor.dim() == 0:
        return tensor.new_empty((1,))  # the operation refuses the scalar
    count, more = divmod(tensor.shape[0], size)
    rows = count + (1 if rank < more else 0)
    return tensor.new_empty((rows, *tensor.shape[1:]))


class HorovodReducescatter(torch.autograd.Function):
    """A reducescatter with a gradient. To compute it, the gradients of all ranks are multiplied by the same factor as
    in Horovod, and then gathered by an allgather.
    """

    @staticmethod
    def forward(ctx, tensor, name, op, process_set, prescale_factor, postscale_factor):  # type: ignore[no-untyped-def]
        ctx.arguments = gradient_name(name), process_set
        ctx.factor = _gradient_factor(op, process_set, prescale_factor, postscale_factor)
        return run(reducescatter_async, tensor, name, op, process_set, prescale_factor, postscale_factor)

    @staticmethod
    def backward(ctx, grad_output):  # type: ignore[no-untyped-def]
        return (allgather(plain(grad_output * ctx.factor), *ctx.arguments), *[None] * 5)


def _gradient_factor(op: Op, process_set: ProcessSet, prescale_factor: float, postscale_factor: float) -> float:
    """Returns the factor for the gradient of a reducescatter. As in Horovod, the gradient of a sum is multiplied by the
    number of ranks.
    """
    return (process_set.size() or 1 if op == Sum else 1) * prescale_factor * postscale_factor


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: Any = Compression.none,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Reduces the tensors of all ranks like allreduce(), and divides the result along the first dimension: every rank
    gets its own rows.

    If the rows cannot be divided evenly, each of the first ranks gets one row more than the other ranks.

    Args:
        op: Average (default), Sum, Min, Max or Product.

    Example::

        mine = hvd.reducescatter(gradient, op=hvd.Sum)
    """
    compressed, context = compression.compress(tensor)
    arguments = name, op, process_set, prescale_factor, postscale_factor
    if needs_gradient(compressed):
        reduced = HorovodReducescatter.apply(compressed, *arguments)
    else:
        reduced = run(reducescatter_async, compressed, *arguments)
    return compression.decompress(reduced, context)  # type: ignore[no-any-return]


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts a grouped_reducescatter() and immediately returns one handle for all tensors. The result has no gradient.

    Example::

        weight, bias = hvd.synchronize(hvd.grouped_reducescatter_async([weight, bias]))
    """

    def call(unique: str) -> _native.Handle[tuple[torch.Tensor, ...]]:
        reduction = unique, op, prescale_factor, postscale_factor
        order = number_of(process_set)
        if all(getattr(tensor, "is_cuda", False) for tensor in tensors):
            outputs = [_own_output(tensor, process_set) for tensor in tensors]
            return _native.grouped_reducescatter_async(list(tensors), *reduction, tuple(outputs), order, outputs)
        return _native.grouped_reducescatter_async(list(tensors), *reduction, tensors_of, order)

    return start_group("grouped_reducescatter", name, tensors, process_set, call)


class HorovodGroupedReducescatter(torch.autograd.Function):
    """Like HorovodReducescatter, for several tensors."""

    @staticmethod
    def forward(ctx, name, op, process_set, prescale_factor, postscale_factor, *tensors):  # type: ignore[no-untyped-def]
        ctx.arguments = gradient_name(name), process_set
        ctx.factor = _gradient_factor(op, process_set, prescale_factor, postscale_factor)
        return run(grouped_reducescatter_async, tensors, name, op, process_set, prescale_factor, postscale_factor)

    @staticmethod
    def backward(ctx, *grad_outputs):  # type: ignore[no-untyped-def]
        gradients = [plain(gradient * ctx.factor) for gradient in grad_outputs]
        return (*[None] * 5, *grouped_allgather(gradients, *ctx.arguments))


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    compression: Any = Compression.none,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """Reduces and divides each of the tensors like reducescatter(), with one name for the group. Rueda starts either
    all operations of the group or none.

    Example::

        weight, bias = hvd.grouped_reducescatter([weight, bias])
    """
    compressed, contexts = zip(*map(compression.compress, tensors), strict=True) if tensors else ((), ())
    arguments = name, op, process_set, prescale_factor, postscale_factor
    if needs_gradient(*compressed):
        reduced = HorovodGroupedReducescatter.apply(*arguments, *compressed)
    else:
        reduced = run(grouped_reducescatter_async, compressed, *arguments)
    return [compression.decompress(tensor, context) for tensor, context in zip(reduced, contexts, strict=True)]
