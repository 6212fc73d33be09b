# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Allreduce of one tensor or of several tensors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch

from rueda import _native, errors
from rueda.torch import _profiling
from rueda.torch._profiling import profilers
from rueda.torch.compression import Compression
from rueda.torch.operations.handles import (
    as_horovod,
    gradient_name,
    needs_gradient,
    number_of,
    plain,
    run,
    start_group,
    started,
)
from rueda.torch.process_sets import ProcessSet, global_process_set
from rueda.types import Average, Sum

#: A kind of reduction, such as Sum. In Horovod's interface it is a number.
Op: TypeAlias = int


def _op_of(op: Op | None, average: bool | None) -> Op:
    if op is not None:
        if average is not None:
            raise ValueError("The op parameter supersedes average. Please provide only one of them.")
        return op
    if average is None:
        return Average
    warnings.warn(
        "Parameter `average` has been replaced with `op` and will be removed in v1.0", DeprecationWarning, stacklevel=3
    )
    return Average if average else Sum


def allreduce_into(
    tensor: torch.Tensor,
    output: torch.Tensor,
    name: str | None,
    op: Op,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
) -> int:
    """Starts an allreduce. This function runs for every gradient of every step. It does not use start(), because the
    context manager of start() takes longer.
    """
    call = _native.allreduce_async
    is_recorded = profilers._is_profiler_enabled and _profiling.is_active()
    if is_recorded:
        call = _profiling.recorded("rueda:allreduce", call, (tensor,))
    try:
        handle = call(
            tensor,
            output,
            None if name is None else f"allreduce.{name}",
            op,
            prescale_factor,
            postscale_factor,
            output,
            process_set.process_set_id,  # type: ignore[arg-type]
            0,
        )
    except (errors.NotInitialized, TypeError):
        with as_horovod("allreduce", process_set):
            raise
    return started("allreduce", handle, is_recorded)


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts an allreduce() and returns a handle at once. The result has no gradient.

    Example::

        handle = hvd.allreduce_async(loss, name="loss")
        loss = hvd.synchronize(handle)
    """
    op = _op_of(op, average)
    output = torch.empty_like(tensor)
    return allreduce_into(tensor, output, name, op, prescale_factor, postscale_factor, process_set)


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts an allreduce_() and returns a handle at once.

    Example::

        handles = [hvd.allreduce_async_(p.grad, name=name) for name, p in model.named_parameters()]
        for handle in handles:
            hvd.synchronize(handle)
    """
    op = _op_of(op, average)
    return allreduce_into(tensor, tensor, name, op, prescale_factor, postscale_factor, process_set)


class HorovodAllreduce(torch.autograd.Function):
    """An allreduce with a gradient. The gradient is computed by the same allreduce of the ranks' gradients."""

    @staticmethod
    def forward(ctx, tensor, average, name, op, prescale_factor, postscale_factor, process_set):  # type: ignore[no-untyped-def]
        op = _op_of(op, average)
        ctx.arguments = None, gradient_name(name), Compression.none, op, prescale_factor, postscale_factor, process_set
        return run(allreduce_async, tensor, None, name, op, prescale_factor, postscale_factor, process_set)

    @staticmethod
    def backward(ctx, grad_output):  # type: ignore[no-untyped-def]
        return (allreduce(plain(grad_output), *ctx.arguments), *[None] * 6)


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Reduces the tensors of all ranks. Element i of the result is the reduction of the elements i of all ranks'
    tensors, in the order of the ranks.

    Args:
        tensor: must have the same shape and dtype on every rank.
        average: deprecated; use ``op``.
        compression: a Compressor. The tensor is compressed before the reduction, and the result is decompressed
            afterwards.
        op: Average (default), Sum, Min, Max, Product or Adasum. Averages of integers truncate toward zero; 16-bit floats are
            accumulated in float32.
        prescale_factor: every rank's tensor is multiplied by this factor before the reduction.
        postscale_factor: the result is multiplied by this factor after the reduction.

    Returns: A new tensor of the same shape and dtype. Its gradient is the result of the same allreduce, applied to the
        ranks' gradients. For Average and Sum, this is the mathematical gradient. For other operations it is only what
        Horovod defines.

    Example::

        mean_loss = hvd.allreduce(loss, name="loss")
    """
    compressed, context = compression.compress(tensor)
    arguments = None, name, _op_of(op, average), prescale_factor, postscale_factor, process_set
    if needs_gradient(compressed):
        reduced = HorovodAllreduce.apply(compressed, *arguments)
    else:
        reduced = run(allreduce_async, compressed, *arguments)
    return compression.decompress(reduced, context)  # type: ignore[no-any-return]


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Like allreduce(), but the result replaces the tensor, and there is no gradient. Returns the tensor.

    Example::

        hvd.allreduce_(counts, op=hvd.Sum, name="counts")
    """
    op = _op_of(op, average)
    arguments = name, op, prescale_factor, postscale_factor, process_set
    return run(allreduce_into, tensor, tensor, *arguments)  # type: ignore[no-any-return]


# --- groups -----------------------------------------------------------------------------------------------------------


def _grouped_allreduce_into(
    inputs: list[torch.Tensor],
    outputs: list[torch.Tensor],
    name: str | None,
    op: Op,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
) -> int:
    def call(unique: str) -> _native.Handle[Any]:
        return _native.grouped_allreduce_async(
            inputs, outputs, unique, op, prescale_factor, postscale_factor, tuple(outputs), number_of(process_set), 0
        )

    return start_group("grouped_allreduce", name, inputs, process_set, call)


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts a grouped_allreduce() and immediately returns one handle for all tensors. The result has no gradient.

    Example::

        handle = hvd.grouped_allreduce_async([weight, bias], name="layer1")
        weight, bias = hvd.synchronize(handle)
    """
    op = _op_of(op, average)
    outputs = [torch.empty_like(tensor) for tensor in tensors]
    return _grouped_allreduce_into(list(tensors), outputs, name, op, prescale_factor, postscale_factor, process_set)


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Starts a grouped_allreduce_() and immediately returns one handle for all tensors.

    Example::

        hvd.synchronize(hvd.grouped_allreduce_async_([weight, bias], name="layer1"))
    """
    op = _op_of(op, average)
    own = list(tensors)
    return _grouped_allreduce_into(own, own, name, op, prescale_factor, postscale_factor, process_set)


class HorovodGroupedAllreduce(torch.autograd.Function):
    """Like HorovodAllreduce, for several tensors."""

    @staticmethod
    def forward(ctx, average, name, op, prescale_factor, postscale_factor, process_set, *tensors):  # type: ignore[no-untyped-def]
        op = _op_of(op, average)
        ctx.arguments = None, gradient_name(name), Compression.none, op, prescale_factor, postscale_factor, process_set
        return run(grouped_allreduce_async, tensors, None, name, op, prescale_factor, postscale_factor, process_set)

    @staticmethod
    def backward(ctx, *grad_outputs):  # type: ignore[no-untyped-def]
        return (*[None] * 6, *grouped_allreduce([plain(gradient) for gradient in grad_outputs], *ctx.arguments))


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Reduces each of the tensors like allreduce(), with one name for the group. Rueda starts either all operations of
    the group or none.

    Args:
        tensors: a list with at least one tensor. The list must have the same length on every rank. Shapes and dtypes
            may differ within the group.
        name: the operations of the group are named ``<name>_<i>of<count>``.

    Returns:
        A new tensor for each of the tensors, with a gradient like that of allreduce().

    Example::

        weight, bias = hvd.grouped_allreduce([weight, bias], name="layer1")
    """
    compressed, contexts = zip(*map(compression.compress, tensors), strict=True) if tensors else ((), ())
    arguments = None, name, _op_of(op, average), prescale_factor, postscale_factor, process_set
    if needs_gradient(*compressed):
        reduced = HorovodGroupedAllreduce.apply(*arguments, *compressed)
    else:
        reduced = run(grouped_allreduce_async, compressed, *arguments)
    return [compression.decompress(tensor, context) for tensor, context in zip(reduced, contexts, strict=True)]


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Like grouped_allreduce(), but the results replace the tensors, and there is no gradient. Returns the tensors.

    Example::

        hvd.grouped_allreduce_([weight, bias], name="layer1")
    """
    own, op = list(tensors), _op_of(op, average)
    return list(run(_grouped_allreduce_into, own, own, name, op, prescale_factor, postscale_factor, process_set))
