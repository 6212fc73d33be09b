# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The norm of all gradients together, and clipping by it, for NumPy arrays. rueda.torch.training has such functions for
PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from rueda import _collectives
from rueda._process_sets import ProcessSet, global_process_set
from rueda._tensors import Tensor, numpy
from rueda.errors import InvalidArgument
from rueda.types import Sum


def sum_over_ranks(value: float, name: str, process_set: ProcessSet) -> float:
    """Returns the sum of a number over the ranks, computed in float64, with the same bits on all ranks."""
    total = numpy().array([value], "float64")
    _collectives.allreduce_(total, name, Sum, process_set=process_set)
    return float(total[0])


def gradient_norm(
    gradients: Iterable[Tensor], *, sharded: bool = False, process_set: ProcessSet = global_process_set
) -> float:
    """Returns the norm (the root of the sum of all squares) of the gradients, computed in float64.

    After an allreduce all ranks have the same gradients, so no communication is needed.

    Args:
        gradients: the arrays.
        sharded: True if the parameters are divided among the ranks. The squares are then summed over the ranks, and all
            ranks must make the call.
        process_set: the ranks among which the parameters are divided, if ``sharded`` is True.

    Example::

        norm = rueda.training.gradient_norm([weight_gradient, bias_gradient])
    """
    np = numpy()
    squares = sum(float(np.square(each, dtype="float64").sum()) for each in gradients)
    return math.sqrt(sum_over_ranks(squares, "rueda.training.gradient_norm", process_set) if sharded else squares)


def clip_factor(norm: float, max_norm: float) -> float:
    """Returns the factor that clips gradients with the norm ``norm`` to the norm ``max_norm`` (Pascanu et al. 2013).

    Raises:
        InvalidArgument: the norm is not finite, or ``max_norm`` is not above 0.

    Example::

        learning_rate *= rueda.training.clip_factor(norm, max_norm=1.0)
    """
    if not math.isfinite(norm) or norm < 0:
        raise InvalidArgument(
            f"clipping gradients: their norm is {norm:g}; it must be finite and at least 0. Skip a step whose gradients "
            "are not finite"
        )
    if not max_norm > 0:
        raise InvalidArgument(f"clipping gradients: the largest norm is {max_norm:g}; it must be above 0")
    return 1.0 if norm <= max_norm else max_norm / norm


def clip_gradients(
    gradients: Iterable[Tensor],
    max_norm: float,
    *,
    sharded: bool = False,
    process_set: ProcessSet = global_process_set,
) -> float:
    """Multiplies NumPy arrays in place, so that the norm of all of them together is at most ``max_norm``. Returns the
    norm before the clipping. Call it after the allreduce, so that all ranks clip by the same factor.

    Args:
        gradients: writable arrays.
        max_norm: the largest norm.
        sharded: as for gradient_norm().
        process_set: as for gradient_norm().

    Raises:
        InvalidArgument: the norm is not finite, or ``max_norm`` is not above 0. The gradients are then unchanged.

    Example::

        rueda.grouped_allreduce_(gradients, "gradients")
        norm = rueda.training.clip_gradients(gradients, max_norm=1.0)
    """
    arrays = list(gradients)
    norm = gradient_norm(arrays, sharded=sharded, process_set=process_set)
    factor = clip_factor(norm, max_norm)
    if factor != 1:
        for each in arrays:
            each *= factor
    return norm
