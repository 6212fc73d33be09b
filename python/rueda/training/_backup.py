# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Lets a job that was killed continue where it stopped, with the random numbers of an uninterrupted job."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rueda import _lifecycle
from rueda.errors import InvalidArgument
from rueda.training import _checkpoints, _random, _trees


def seed_step(seed: int, step: int, rank: int | None = None) -> None:
    """Seeds the global random generators of Python, NumPy and PyTorch from a seed, a step and a rank.

    If a trainer calls this function at the beginning of each step, the random numbers of a step do not depend on
    earlier steps. A resumed job therefore draws the same numbers, and no state needs to be saved. NumPy and PyTorch are
    seeded if the program has imported them.

    Args:
        seed: the same on all ranks.
        step: the number of the step.
        rank: by default rueda.rank(). Ranks draw different numbers.

    Raises:
        NotInitialized: the rank is not given, and rueda.init() was not called.

    Example::

        rueda.training.seed_step(seed=7, step=step)
    """
    rank = _lifecycle.rank() if rank is None else rank
    words = _random.initial_state(seed, (step << 24) ^ rank)
    random.seed(words[0])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(words[1] & 0xFFFF_FFFF)
    torch = _trees.torch_if_loaded()
    if torch is not None:
        torch.manual_seed(words[2] >> 1)


class RandomState:
    """The state of the global random generators of Python, NumPy and PyTorch, as part of a checkpoint's state.

    A checkpoint has the state of rank 0, and a restore gives it to all ranks. If your ranks draw different numbers, use
    seed_step() instead. NumPy and PyTorch are included if the program has imported them; PyTorch's generator of the
    current GPU is included if CUDA was used.

    Example::

        manager.save(step, model, {"optimizer": optimizer, "random": rueda.training.RandomState()})
    """

    def state_dict(self) -> dict[str, Any]:
        """Returns the state of the generators."""
        state: dict[str, Any] = {"python": random.getstate()}
        if "numpy" in sys.modules:
            state["numpy"] = sys.modules["numpy"].random.get_state()
        torch = _trees.torch_if_loaded()
        if torch is not None:
            state["torch"] = torch.get_rng_state()
            if torch.cuda.is_initialized():
                state["cuda"] = torch.cuda.get_rng_state()
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Gives the generators a state that state_dict() returned."""
        random.setstate(state["python"])
        if "numpy" in state and "numpy" in sys.modules:
            sys.modules["numpy"].random.set_state(state["numpy"])
        torch = _trees.torch_if_loaded()
        if torch is not None and "torch" in state:
            torch.set_rng_state(state["torch"])
            if "cuda" in state and torch.cuda.is_available():
                torch.cuda.set_rng_state(state["cuda"])


class BackupAndRestore:
    """The steps that remain of a training run, for a ``for`` loop. A job that was killed continues where it stopped.

    The constructor claims the folder, and restores the newest checkpoint. If there is none, all ranks get rank 0's
    model and state. The loop begins at the first step that the checkpoint does not contain. After each step, a
    checkpoint is saved if one is due. After the last step, a checkpoint is saved in any case, and rank 0 waits until it
    is complete. If the program leaves the loop early, no further checkpoint is saved. All ranks must run the loop, with
    the same arguments.

    A resumed run computes the same values as an uninterrupted run under one condition: everything that a step uses must
    be computed from the step's number, or must be in the model or the state. For random numbers, use ``seed``. For
    data, there are two ways:

    - Use Sampler.at_step() with the same ``batch`` in every run. ``batch`` counts the samples of all ranks, so do not
      multiply it by size().
    - Put a Pipeline into the state. Take each batch only after the loop has given the number of its step, as
      ``zip(backup, batches)`` does. If a batch is taken earlier, the saved position already lies behind it, and a
      resumed job skips it.

    The job may have another number of ranks than before. Sums of gradients are then rounded in another order.

    Args:
        steps: the number of steps of the whole run.
        folder: the folder of the checkpoints.
        model: the model, as for CheckpointManager.
        state: objects with load_state_dict(), tensors and dicts, as for CheckpointManager.restore().
        seed: if given, seed_step() is called with it before each step.
        values: a function that returns texts of the program, to be stored in a checkpoint. Rank 0 calls it when it
            saves a checkpoint. After a restore, ``restored.values`` has these texts.
        options: the options of CheckpointManager: every_steps, every_seconds, max_to_keep, when_busy, warn.

    Attributes:
        manager: the CheckpointManager.
        restored: the CheckpointInfo of the restored checkpoint, or None.
        first_step: the number of the first step that remains.

    Raises:
        InvalidArgument: ``steps`` is negative. In addition, the errors of CheckpointManager and its restore().

    Example::

        state = {"optimizer": optimizer, "scheduler": scheduler}
        for step in rueda.training.BackupAndRestore(1000, "backup", model, state, every_steps=100, seed=7):
            train(sampler.at_step(step))
    """

    def __init__(
        self,
        steps: int,
        folder: str | os.PathLike[str],
        model: Any,
        state: Mapping[str, Any] | None = None,
        *,
        seed: int | None = None,
        values: Callable[[], Mapping[str, str]] | None = None,
        **options: Any,
    ) -> None:
        if steps < 0:
            raise InvalidArgument(f"backup and restore: steps is {steps}; it must be 0 or more")
        self._steps = steps
        self._model = model
        self._state = dict(state or {})
        self._seed = seed
        self._values = values
        self.manager = _checkpoints.CheckpointManager(folder, **options)
        self.manager.claim()
        self.restored = self.manager.restore(model, self._state)
        if self.restored is None:
            _checkpoints.share(model, self._state)
        # If the program was started again with fewer steps, a checkpoint may contain more steps than this run has.
        self.first_step = 0 if self.restored is None else min(self.restored.step, steps)

    def __iter__(self) -> Iterator[int]:
        for step in range(self.first_step, self._steps):
            _lifecycle.begin_step(step)
            if self._seed is not None:
                seed_step(self._seed, step)
            yield step
            self.complete(step)

    def complete(self, step: int) -> None:
        """Tells this object that a step is complete. Call it in a program that has a loop of its own. Saves a
        checkpoint if one is due.
        """
        if _lifecycle.rank() != 0:
            return  # rank 0 alone decides whether a checkpoint is due, and writes the checkpoint
        if step + 1 == self._steps:
            # Other ranks may be waiting for rank 0, so rank 0 reports why it is busy.
            with _lifecycle.busy("writing the last checkpoint"):
                # While an earlier checkpoint is still being written, _save() could skip the last one.
                self.manager.wait()
                self._save(step + 1)
                self.manager.wait()
        elif self.manager.is_due(step + 1):
            self._save(step + 1)

    def _save(self, completed: int) -> None:
        self.manager.save(
            completed, self._model, self._state, values=self._values() if self._values is not None else None
        )
