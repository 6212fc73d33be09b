# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Helpers of rueda.training for PyTorch's optimizers and gradients.

Example::

    from rueda.torch.training import LearningRateScheduler, clip_grad_norm_
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from rueda import training
from rueda.errors import InvalidArgument
from rueda.torch.process_sets import ProcessSet, global_process_set
from rueda.training._gradients import sum_over_ranks

__all__ = ["LearningRateScheduler", "clip_grad_norm_"]

# The base class of schedulers. Old versions of PyTorch call it _LRScheduler; newer versions deprecate this name.
_Scheduler: Any = getattr(torch.optim.lr_scheduler, "LRScheduler", None) or torch.optim.lr_scheduler._LRScheduler


class LearningRateScheduler(_Scheduler):  # type: ignore[misc]
    """Sets the learning rate of a PyTorch optimizer from a rueda.training.LearningRate.

    Call ``step()`` once after each step of the optimizer. A parameter group may have another rate than ``rate.base``
    when the scheduler is made, for example half of it. This group then always gets half of each step's rate. The
    momentum of PyTorch's optimizers does not contain the rate, so it needs no correction.

    Args:
        optimizer: an optimizer of PyTorch, also one of rueda.torch.DistributedOptimizer. Give it the rate for one worker,
            ``rate.base``: do not multiply it by ``size()``. At least one parameter group must have this rate.
        rate: the learning rate of each step.
        plateau: None, or a rueda.training.Plateau, by whose factor the rate is multiplied. The state of the Plateau is
            not part of the scheduler's state_dict().
        last_epoch: the number of the last step, if an earlier training is continued. The scheduler's state_dict() has
            this number.

    Raises:
        InvalidArgument: ``rate`` is no LearningRate, ``plateau`` is no Plateau, or no parameter group has the rate
            ``rate.base``. The message names both rates, and the optimizer is unchanged.

    Example::

        rate = rueda.training.LearningRate(0.001, "capped:1.5@4", warmup_steps=500)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate.base)
        scheduler = rueda.torch.training.LearningRateScheduler(optimizer, rate)
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        rate: training.LearningRate,
        plateau: training.Plateau | None = None,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(rate, training.LearningRate):
            raise InvalidArgument(
                f"LearningRateScheduler: rate is {rate!r}; it must be a rueda.training.LearningRate, for example "
                "LearningRate(0.001, 'linear')"
            )
        if plateau is not None and not isinstance(plateau, training.Plateau):
            raise InvalidArgument(
                f"LearningRateScheduler: plateau is {plateau!r}; it must be None or a rueda.training.Plateau"
            )
        # An earlier scheduler may have changed the group's rate. It has stored the original rate as initial_lr.
        found = [float(group.get("initial_lr", group["lr"])) for group in optimizer.param_groups]
        # The rate of a group may be a multiple of the optimizer's own rate. For example, some layers may have a smaller
        # rate.
        own = optimizer.defaults.get("lr", rate.base)
        if not any(math.isclose(float(each), rate.base, rel_tol=1e-6) for each in (own, *found)):
            raise InvalidArgument(
                f"LearningRateScheduler: the base of the LearningRate is {rate.base:g}, but the optimizer has the learning "
                f"rate {', '.join(f'{each:g}' for each in sorted(set(found)))}; give the optimizer lr=rate.base, the rate "
                "for one worker"
            )
        self._rate = rate
        self._plateau = plateau
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """Returns the rate of each parameter group. PyTorch calls this function."""
        rate = self._rate.at(self.last_epoch) * (1.0 if self._plateau is None else self._plateau.factor)
        return [rate * (base / self._rate.base) for base in self.base_lrs]

    def state_dict(self) -> dict[str, Any]:
        """Returns the scheduler's position, for checkpoints."""
        state = super().state_dict()
        return {key: value for key, value in state.items() if key not in ("_rate", "_plateau")}


def clip_grad_norm_(
    parameters: torch.Tensor | Iterable[torch.Tensor],
    max_norm: float,
    *,
    sharded: bool = False,
    process_set: ProcessSet = global_process_set,
) -> float:
    """Multiplies gradients in place, so that the norm of all of them together is at most ``max_norm``. Returns the norm
    before the clipping, computed in float64.

    Call this function after the gradients were reduced. With rueda.torch.DistributedOptimizer, this is after
    ``optimizer.synchronize()``. All ranks then have the same gradients, and no communication is needed. (You can also
    use torch.nn.utils.clip_grad_norm_, which has no argument ``sharded``.)

    Args:
        parameters: tensors. Those without a gradient are left out.
        max_norm: the largest norm.
        sharded: True if the parameters are divided among the ranks. The squares are then summed over the ranks, and all
            ranks must make the call.
        process_set: the ranks among which the parameters are divided, if ``sharded`` is True.

    Raises:
        InvalidArgument: the norm is not finite, or ``max_norm`` is not above 0. The gradients are then unchanged.

    Example::

        loss.backward()
        optimizer.synchronize()
        norm = rueda.torch.training.clip_grad_norm_(model.parameters(), max_norm=1.0)
        with optimizer.skip_synchronize():
            optimizer.step()
    """
    tensors = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    gradients = [tensor.grad.detach() for tensor in tensors if tensor.grad is not None]
    # Adding the squares on the device needs one copy to the host, and not one for each gradient.
    norms = [torch.linalg.vector_norm(each, dtype=torch.float64).to(gradients[0].device) for each in gradients]
    squares = torch.stack(norms).square().sum().item() if norms else 0.0
    if sharded:
        squares = sum_over_ranks(squares, "rueda.torch.training.clip_grad_norm", process_set)
    norm = math.sqrt(squares)
    factor = training.clip_factor(norm, max_norm)
    if factor != 1:
        for each in gradients:
            each.mul_(factor)
    return norm
