# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Batch normalisation over the samples of all ranks. It needs one small allgather in the forward pass, and one small
allreduce in the backward pass.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from rueda._lifecycle import job_number
from rueda.torch import _basics
from rueda.torch.operations.allgather import allgather_row
from rueda.torch.operations.allreduce import allreduce
from rueda.types import Sum

__all__ = ["SyncBatchNorm"]

# The operations of each layer need names, because several layers may communicate at the same time. The names contain
# the number of the layer. Layers are numbered in the order of their first use in training, because this order is the
# same on all ranks. The order of construction may differ: for example, one rank may construct an additional model for
# evaluation. Each job begins with number 0, because a rank that joins an elastic job has used no layer yet.
_numbers = itertools.count()
_numbered_job = -1


def _next_number(job: int) -> int:
    global _numbers, _numbered_job
    if job != _numbered_job:
        _numbers, _numbered_job = itertools.count(), job
    return next(_numbers)


class SyncBatchNorm(_BatchNorm):
    """Like torch.nn.BatchNorm1d, 2d and 3d, but with the mean and variance of the samples of all ranks.

    Ranks may have different numbers of samples, and a rank may have none. Means and variances are exchanged in float64.
    For 16-bit inputs, the computation uses float32. In evaluation, and in a job of one rank, the layer uses PyTorch's
    own batch normalisation.

    Args:
        num_features: the number of channels. This is the second extent of the input.
        eps, momentum, affine, track_running_stats: as for torch.nn.BatchNorm2d.

    Example::

        model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), hvd.SyncBatchNorm(16), torch.nn.ReLU())
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self._name = ""
        self._named_in = -1  # the job in which the layer got its name; -1 until the layer is used

    def __getstate__(self) -> dict[str, Any]:
        # A layer that was copied, or loaded from a file, gets its own number.
        return {**self.__dict__, "_named_in": -1}

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.size(1) != self.num_features:
            raise ValueError(f"expected input with {self.num_features} channels (got {input.size(1)} channels)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        by_batch = self.training or self.running_mean is None
        if not by_batch or _basics.size() == 1:
            return super().forward(input)
        if self._named_in != (job := job_number()):
            self._name, self._named_in = f"sync_batch_norm.{_next_number(job)}", job
        weight, bias = self.weight, self.bias
        output, mean, variance, count = _Normalized.apply(input, weight, bias, self.eps, self._name)
        if self.training and self.track_running_stats and self.running_mean is not None:
            self._remember(mean, variance, count)
        return output  # type: ignore[no-any-return]

    def _remember(self, mean: torch.Tensor, variance: torch.Tensor, count: float) -> None:
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            factor = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
            unbiased = variance * (count / (count - 1))
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), factor)


def _by_channel(vector: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Returns the vector in a shape and a dtype in which it can be combined with the input."""
    return vector.to(like.dtype).reshape(1, -1, *[1] * (like.dim() - 2))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()


class _Normalized(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: torch.Tensor, weight: Any, bias: Any, eps: float, name: str) -> Any:
        x = _wide(input)
        mean, variance, count = _of_all_ranks(x, name)
        inverse = torch.rsqrt(variance + eps)
        scale = inverse if weight is None else inverse * weight.detach().double()
        ctx.save_for_backward(input, weight, mean, inverse)
        ctx.count, ctx.name, ctx.bias_dtype = count, name, None if bias is None else bias.dtype
        ctx.mark_non_differentiable(mean, variance)
        # The mean is subtracted first. Otherwise, if the mean is large, x * scale + offset would lose significant
        # digits.
        output = (x - _by_channel(mean, x)) * _by_channel(scale, x)
        if bias is not None:
            output += _by_channel(bias.detach(), x)
        return output.to(input.dtype), mean, variance, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: torch.Tensor, *_others: Any) -> Any:
        input, weight, mean, inverse = ctx.saved_tensors
        gradient = _wide(grad_output)
        centred = _wide(input) - _by_channel(mean, gradient)
        along = [0, *range(2, input.dim())]
        sums = torch.stack([gradient.sum(along), (gradient * centred).sum(along)]).double()
        grad_weight = (sums[1] * inverse).to(weight.dtype) if weight is not None and ctx.needs_input_grad[1] else None
        grad_bias = sums[0].to(ctx.bias_dtype) if ctx.bias_dtype is not None and ctx.needs_input_grad[2] else None
        grad_input = None
        # All ranks must take part, even a rank that needs no gradient itself.
        total = allreduce(sums.detach().clone(), name=f"{ctx.name}.gradient", op=Sum) / ctx.count
        if ctx.needs_input_grad[0]:
            scale = inverse if weight is None else inverse * weight.double()
            grad_input = gradient - _by_channel(total[0], gradient)
            grad_input -= centred * _by_channel(total[1] * inverse * inverse, gradient)
            grad_input *= _by_channel(scale, gradient)
            grad_input = grad_input.to(input.dtype)
        return grad_input, grad_weight, grad_bias, None, None


def _of_all_ranks(x: torch.Tensor, name: str) -> tuple[torch.Tensor, torch.Tensor, float]:
    """Returns (mean, variance, number of samples per channel) over all ranks, in float64."""
    along = [0, *range(2, x.dim())]
    channels = x.size(1)
    count = x.numel() // channels if channels else 0
    mine = torch.zeros(2 * channels + 1, dtype=torch.float64, device=x.device)
    if count > 0:
        variance, mean = torch.var_mean(x.detach(), along, unbiased=False)
        mine = torch.cat([mean.double(), variance.double() * count, mine.new_tensor([float(count)])])
    everyones = allgather_row(mine, name)
    means, spreads, counts = everyones[:, :channels], everyones[:, channels:-1], everyones[:, -1:]
    total = float(counts.sum())
    if total <= 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, over all ranks; got input size {tuple(x.size())} here"
        )
    mean = (counts * means).sum(0) / total
    spread = (spreads + counts * (means - mean).square()).sum(0)
    return mean, spread / total, total
