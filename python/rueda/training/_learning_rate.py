# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Learning rates for a job whose global batch grows with the number of workers.

This module computes what ``rueda/training/learning_rate.hpp`` computes, with the same bits, and its messages have the
same texts (tests/python/test_training_values.py compares them). It implements the arithmetic a second time and does not
call the C++ code, because that would need new functions of the C interface, which are more code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat

from rueda import _lifecycle
from rueda.errors import InvalidArgument

_POLICIES = ("none", "linear", "sqrt", "capped", "adasum")
_SCALING = "expected POLICY[:CAP][@WORKERS], for example linear, sqrt@2 or capped:1.5@4"


def _refuse(option: str, found: object, expected: str) -> InvalidArgument:
    return InvalidArgument(f"learning rate: {option} is {found}; it must be {expected}")


@dataclass(frozen=True)
class Scaling:
    """Says by which factor the base rate is multiplied for a number of workers.

    ========== ============================ ===============================================
    policy     factor for n workers         use it if
    ========== ============================ ===============================================
    ``none``   1                            the global batch is the same for any n
    ``linear`` n                            SGD with a batch per worker
    ``sqrt``   the square root of n         adaptive optimizers with a batch per worker
    ``capped`` n, but at most ``cap``       the training diverges with the linear factor
    ``adasum`` 1                            the gradients are reduced with ``rueda.Adasum``
    ========== ============================ ===============================================

    Args:
        policy: one of these names.
        cap: the largest factor of the policy ``capped``.
        scale_from: with fewer workers than this, the factor is 1.

    Raises:
        InvalidArgument: an argument is out of its range.

    Example::

        scaling = rueda.training.Scaling("capped", cap=1.5, scale_from=4)
    """

    policy: str = "none"
    cap: float = 1.5
    scale_from: int = 1

    def __post_init__(self) -> None:
        if self.policy not in _POLICIES:
            raise InvalidArgument(f"learning-rate policy '{self.policy}' is unknown; use one of {', '.join(_POLICIES)}")
        if not math.isfinite(self.cap) or self.cap < 1:
            raise _refuse("cap", f"{self.cap:g}", "a number from 1 on")
        if self.scale_from < 1:
            raise _refuse("scale_from", self.scale_from, "at least 1")

    @staticmethod
    def parse(text: str) -> Scaling:
        """Makes a Scaling from one text, for example from a setting of your program: ``POLICY[:CAP][@WORKERS]``.

        "capped:1.5@4" multiplies the rate by at most 1.5, and only from 4 workers on: 0.001 becomes 0.0015 with 4 or
        more workers, and stays 0.001 with fewer.

        Raises:
            InvalidArgument: the text has another form. The message has the text and the expected form.
        """
        policy, cap, workers = re.fullmatch(r"([^:@]*)(?::([^@]*))?(?:@(.*))?", text, re.DOTALL).groups()  # type: ignore[union-attr]
        if policy not in _POLICIES:
            raise InvalidArgument(f"learning-rate policy '{policy}' is unknown; use one of {', '.join(_POLICIES)}")

        def refuse(reason: str) -> InvalidArgument:
            return InvalidArgument(f"learning-rate scaling '{text}': {reason}; {_SCALING}")

        options: dict[str, Any] = {}
        if cap is not None:
            if policy != "capped":
                raise refuse("only the policy capped has a cap")
            if not re.fullmatch(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", cap, re.ASCII) or not 1 <= float(cap) < math.inf:
                raise refuse(f"the cap is '{cap}' and must be a number from 1 on")
            options["cap"] = float(cap)
        if workers is not None:
            if not re.fullmatch(r"\d+", workers, re.ASCII) or int(workers) < 1:
                raise refuse(f"the number of workers is '{workers}' and must be an integer from 1 on")
            options["scale_from"] = int(workers)
        return Scaling(policy, **options)

    def factor(self, workers: int) -> float:
        """Returns the factor for this number of workers."""
        if self.policy in ("none", "adasum") or workers < self.scale_from:
            return 1.0
        if self.policy == "linear":
            return float(workers)
        return math.sqrt(workers) if self.policy == "sqrt" else min(float(workers), self.cap)

    def reason(self, workers: int) -> str:
        """Returns why the factor has its value, in the words of LearningRate.summary()."""
        if self.policy == "none":
            return "the rate is not scaled"
        if self.policy == "adasum":
            return "Adasum adapts the sum of the gradients itself, so the rate is not scaled"
        if workers < self.scale_from:
            return f"it scales the rate from {self.scale_from} workers on"
        factor = self.factor(workers)
        if self.policy == "linear":
            return f"the factor is {factor:.6g}, the number of workers"
        if self.policy == "sqrt":
            return f"the factor is {factor:.6g}, the square root of the number of workers"
        return f"the factor is {factor:.6g}, the smaller of {workers} workers and the cap {self.cap:.6g}"


@dataclass(frozen=True)
class StepDecay:
    """Multiplies the rate by ``factor`` at each milestone.

    Args:
        milestones: steps in ascending order. The step of a milestone is the first step with the lower rate.
        factor: a number above 0.

    Raises:
        InvalidArgument: an argument is out of its range.

    Example::

        schedule = rueda.training.StepDecay([30_000, 60_000], factor=0.1)
    """

    milestones: Sequence[int]
    factor: float = 0.1

    def __post_init__(self) -> None:
        if not math.isfinite(self.factor) or self.factor <= 0:
            raise _refuse("the factor of the step decay", f"{self.factor:g}", "a number above 0")
        for previous, milestone in zip((0, *self.milestones), self.milestones):
            if milestone < previous:
                raise InvalidArgument(
                    f"learning rate: the step decay has the milestone {milestone} after {previous}; milestones must be "
                    "ascending and not negative"
                )

    def _factor_at(self, step: int, warmup_steps: int) -> float:
        factor = 1.0
        for milestone in self.milestones:
            factor *= self.factor if step >= milestone else 1.0
        return factor

    def _summary(self, scaled: float) -> str:
        return f"; multiplied by {self.factor:.6g} at {len(self.milestones)} milestones"


@dataclass(frozen=True)
class CosineDecay:
    """Lowers the rate along half a cosine wave, from the end of the warm-up to step ``last_step``. From then on, the
    rate stays at ``floor`` times the scaled rate.

    Args:
        last_step: greater than the number of warm-up steps.
        floor: a number from 0 to 1.

    Raises:
        InvalidArgument: an argument is out of its range.

    Example::

        schedule = rueda.training.CosineDecay(last_step=90_000)
    """

    last_step: int
    floor: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.floor <= 1:
            raise _refuse("the floor of the cosine decay", f"{self.floor:g}", "at least 0 and at most 1")

    def _factor_at(self, step: int, warmup_steps: int) -> float:
        if step < warmup_steps:
            return 1.0
        if step >= self.last_step:
            return self.floor
        progress = (step - warmup_steps) / (self.last_step - warmup_steps)
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * progress))

    def _summary(self, scaled: float) -> str:
        return f"; cosine decay to {scaled * self.floor:.6g} until step {self.last_step}"


class LearningRate:
    """Computes the learning rate of every step. The object does not change, so a resumed job has the same rates.

    A policy scales the base rate. The warm-up starts at the base rate, and adds the same amount in each step until it
    reaches the scaled rate. A schedule lowers the rate later. There is no communication.

    Args:
        base: the learning rate for one worker.
        scaling: a Scaling, or a text such as "linear" or "capped:1.5@4" (see Scaling.parse).
        workers: the number of workers; by default rueda.size().
        warmup_steps: the number of steps from the base rate to the scaled rate; 0 means no warm-up.
        schedule: a StepDecay, a CosineDecay, or None.

    Raises:
        InvalidArgument: an argument is out of its range. The message names it.
        NotInitialized: ``workers`` is not given, and rueda.init() was not called.

    Example::

        rate = rueda.training.LearningRate(0.001, "capped:1.5@4", warmup_steps=500)
        if rueda.rank() == 0:
            print(rate.summary())
    """

    def __init__(
        self,
        base: float,
        scaling: Scaling | str = "none",
        *,
        workers: int | None = None,
        warmup_steps: int = 0,
        schedule: StepDecay | CosineDecay | None = None,
    ) -> None:
        if isinstance(base, str) or not isinstance(base, SupportsFloat):
            raise _refuse("base", repr(base), "a number above 0")
        self.base = float(base)
        self.scaling = Scaling.parse(scaling) if isinstance(scaling, str) else scaling
        if not isinstance(self.scaling, Scaling):
            raise _refuse("scaling", repr(scaling), "a Scaling or a text such as 'linear' or 'capped:1.5@4'")
        if not isinstance(schedule, StepDecay | CosineDecay | None):
            raise _refuse("schedule", repr(schedule), "a StepDecay, a CosineDecay or None")
        self.workers = _lifecycle.size() if workers is None else workers
        self.warmup_steps = warmup_steps
        self.schedule = schedule
        if not math.isfinite(self.base) or self.base <= 0:
            raise _refuse("base", f"{self.base:g}", "a number above 0")
        if self.workers < 1:
            raise _refuse("workers", self.workers, "at least 1")
        if warmup_steps < 0:
            raise InvalidArgument(f"learning rate: warmup_steps is {warmup_steps}; it must not be negative")
        if isinstance(schedule, CosineDecay) and schedule.last_step <= warmup_steps:
            raise _refuse(
                "the last step of the cosine decay",
                schedule.last_step,
                f"greater than the number of warm-up steps, {warmup_steps}",
            )
        #: The learning rate after the warm-up: the base rate times the factor of the policy.
        self.scaled = self.base * self.scaling.factor(self.workers)

    def at(self, step: int) -> float:
        """Returns the learning rate of this step. Steps count from 0 over the whole training, not from the last
        resume.
        """
        step = max(step, 0)
        decay = 1.0 if self.schedule is None else self.schedule._factor_at(step, self.warmup_steps)
        if step >= self.warmup_steps:
            return self.scaled * decay
        progress = step / self.warmup_steps
        return (self.base + (self.scaled - self.base) * progress) * decay

    def summary(self) -> str:
        """Returns one line for the log. It contains the base rate, the scaled rate, and why the rate is scaled in this
        way.
        """
        verb = "stays" if self.scaling.factor(self.workers) == 1 else "becomes"
        text = (
            f"learning rate: {self.base:.6g} {verb} {self.scaled:.6g} with {self.workers} "
            f"worker{'' if self.workers == 1 else 's'} (policy {self.scaling.policy}: "
            f"{self.scaling.reason(self.workers)})"
        )
        if self.warmup_steps > 0:
            text += f"; warm-up over {self.warmup_steps} steps"
        return text if self.schedule is None else text + self.schedule._summary(self.scaled)


def momentum_correction(previous_rate: float, rate: float) -> float:
    """Returns the factor by which a trainer must multiply its momentum when the learning rate changes. Only a momentum
    that contains the rate needs this: ``v = m * v + rate * g; w -= v`` (Goyal et al. 2017, section 3). The momentum of
    torch.optim.SGD does not contain the rate.

    Raises:
        InvalidArgument: a rate is not a number above 0.

    Example::

        velocity *= rueda.training.momentum_correction(previous_rate=0.1, rate=0.05)
    """
    for each in (previous_rate, rate):
        if not math.isfinite(each) or each <= 0:
            raise InvalidArgument(
                f"momentum correction from the rate {previous_rate:g} to {rate:g}: both must be numbers above 0"
            )
    return rate / previous_rate


class Plateau:
    """Lowers the rate when a metric stops improving. Multiply the rate by ``factor``.

    A Plateau does what torch.optim.lr_scheduler.ReduceLROnPlateau does with a relative threshold. All ranks must
    observe the same metric, so average it over the ranks first. Otherwise the rates of the ranks would differ.

    Args:
        factor: the rate is multiplied by this number; above 0 and below 1.
        patience: the factor is lowered after more than this number of observations in a row without an improvement.
        threshold: a metric counts as an improvement only if it beats the best earlier metric by more than this fraction
            of the best earlier metric.
        cooldown: after the factor was lowered, this number of observations is not counted.
        least: the smallest factor.
        larger_is_better: True for an accuracy, False for a loss.

    Raises:
        InvalidArgument: an argument is out of its range. The message names it.

    Example::

        plateau = rueda.training.Plateau(factor=0.5, patience=2)
        plateau.observe(validation_loss)
        learning_rate = rate.at(step) * plateau.factor
    """

    def __init__(
        self,
        *,
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        cooldown: int = 0,
        least: float = 0.0,
        larger_is_better: bool = False,
    ) -> None:
        checks: list[tuple[str, float, Callable[[float], bool], str]] = [
            ("factor", factor, lambda value: 0 < value < 1, "above 0 and below 1"),
            ("patience", patience, lambda value: value >= 0, "at least 0"),
            ("threshold", threshold, lambda value: 0 <= value < math.inf, "finite and at least 0"),
            # Before the first observation, the best metric is infinity. With a threshold of 1 or more, no metric would
            # be below infinity * (1 - threshold).
            (
                "threshold",
                threshold,
                lambda value: larger_is_better or value < 1,
                "below 1 if a smaller metric is better",
            ),
            ("cooldown", cooldown, lambda value: value >= 0, "at least 0"),
            ("least", least, lambda value: 0 <= value <= 1, "at least 0 and at most 1"),
        ]
        for option, value, is_right, expected in checks:
            if not is_right(value):
                raise InvalidArgument(f"plateau: {option} is {value:g}; it must be {expected}")
        self._options = (factor, patience, threshold, cooldown, least, larger_is_better)
        #: The number by which to multiply the rate.
        self.factor = 1.0
        self._best = -math.inf if larger_is_better else math.inf
        self._bad = 0.0
        self._resting = 0.0

    def observe(self, metric: float) -> bool:
        """Takes the metric of the newest evaluation. Returns True if this metric caused a lower factor. A NaN is no
        improvement.
        """
        factor, patience, threshold, cooldown, least, larger_is_better = self._options
        # If the best metric is negative, even a slightly worse metric counts as an improvement, as in PyTorch.
        improved = metric > self._best * (1 + threshold) if larger_is_better else metric < self._best * (1 - threshold)
        if improved:
            self._best = float(metric)
            self._bad = 0.0
        else:
            self._bad += 1
        if self._resting > 0:
            self._resting -= 1
            self._bad = 0.0
        if self._bad <= patience:
            return False
        lowered = max(self.factor * factor, least)
        changed = lowered < self.factor
        self.factor = lowered
        self._resting = float(cooldown)
        self._bad = 0.0
        return changed

    def state_dict(self) -> dict[str, float]:
        """Returns the state, for checkpoints."""
        return {"factor": self.factor, "best": self._best, "bad": self._bad, "resting": self._resting}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Continues with a state that state_dict() returned."""
        self.factor, self._best = float(state["factor"]), float(state["best"])
        self._bad, self._resting = float(state["bad"]), float(state["resting"])
