# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Broadcast: every rank gets the root's tensor."""

from __future__ import annotations

import torch

from rueda import _native
from rueda.torch._basics import rank
from rueda.torch.operations.allreduce import allreduce
from rueda.torch.operations.handles import gradient_name, needs_gradient, plain, run, start, wire_name
from rueda.torch.process_sets import ProcessSet, global_process_set
from rueda.types import Average


def _broadcast_into(
    tensor: torch.Tensor, output: torch.Tensor, root_rank: int, name: str | None, process_set: ProcessSet
) -> int:
    wire = wire_name("broadcast", name)
    return start("broadcast", process_set, _native.broadcast_async, tensor, output, root_rank, wire, output)


def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts a broadcast() and returns a handle at once. The result has no gradient.

    Example::

        weights = hvd.synchronize(hvd.broadcast_async(weights, 0))
    """
    return _broadcast_into(tensor, torch.empty_like(tensor), root_rank, name, process_set)


def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Starts a broadcast_() and returns a handle at once.

    Example::

        hvd.synchronize(hvd.broadcast_async_(weights, 0))
    """
    return _broadcast_into(tensor, tensor, root_rank, name, process_set)


class HorovodBroadcast(torch.autograd.Function):
    """A broadcast with a gradient. On the root, the gradient is the average of the ranks' gradients. On other ranks it
    is zero.
    """

    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):  # type: ignore[no-untyped-def]
        ctx.name, ctx.process_set, ctx.root_rank = name, process_set, root_rank
        return run(broadcast_async, tensor, root_rank, name, process_set)

    @staticmethod
    def backward(ctx, grad_output):  # type: ignore[no-untyped-def]
        gradient = allreduce(plain(grad_output), name=gradient_name(ctx.name), op=Average, process_set=ctx.process_set)
        if rank() != ctx.root_rank:
            gradient.zero_()
        return gradient, None, None, None


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Gives every rank the root's tensor.

    Args:
        tensor: must have the same shape and dtype on every rank. Only the root's elements are read.
        root_rank: the root's rank in the job, also for a process set.

    Returns:
        A new tensor. Its gradient is the average of the ranks' gradients on the root, and zero on other ranks.

    Example::

        weights = hvd.broadcast(weights, root_rank=0)
    """
    if needs_gradient(tensor):
        return HorovodBroadcast.apply(tensor, root_rank, name, process_set)  # type: ignore[no-any-return]
    return run(broadcast_async, tensor, root_rank, name, process_set)  # type: ignore[no-any-return]


def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Like broadcast(), but in place: the tensor gets the root's values. There is no gradient. Returns the tensor.

    Example::

        hvd.broadcast_(weights, root_rank=0)
    """
    return run(broadcast_async_, tensor, root_rank, name, process_set)  # type: ignore[no-any-return]
