# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The weights of the ranks if their batches have different numbers of samples."""

from __future__ import annotations

import operator

import numpy as np

from rueda import _collectives, _native
from rueda.errors import InvalidArgument
from rueda.types import Sum


def average_weight(counted: int) -> float:
    """Returns the weight of this rank's mean in the average over the ranks, if the ranks have different numbers of
    samples in this step. Multiply the mean over this rank's samples by the weight, and average the products over the
    ranks: the result is the mean over the samples of all ranks.

    All ranks must call this function in each step. A rank in join() counts as a rank without samples; the weight is
    right with ``average="all"``, the default of join().

    Args:
        counted: the number of this rank's samples, without padding. With ``remainder="pad"`` this is
            ``int(batch["weight"].sum())``.

    Returns:
        counted × size / (sum of ``counted`` over the ranks). It is 0 if this rank has no samples. Such a rank must
        contribute zeros. It must not multiply its mean by 0, because the mean over no samples is NaN.

    Raises:
        InvalidArgument: ``counted`` is negative.
        NotInitialized: rueda.init() was not called.

    Example::

        weight = rueda.data.average_weight(len(batch["label"]))
    """
    if counted < 0:
        raise InvalidArgument(f"average_weight: counted is {counted}; it must not be negative")
    mine = np.array([operator.index(counted)], np.int64)
    total = int(np.asarray(_collectives.allreduce(mine, "rueda.data.average_weight", Sum))[0])
    return 0.0 if total == 0 else int(mine[0]) * _native.size() / total
