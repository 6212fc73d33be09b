# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The size of a batch on one worker and over all workers.

This module computes what ``rueda/training/batch.hpp`` computes, and its messages have the same texts
(tests/python/test_training_values.py compares them).
"""

from __future__ import annotations

from dataclasses import dataclass

from rueda import _lifecycle
from rueda.errors import InvalidArgument


@dataclass(frozen=True)
class Batch:
    """The sizes of a batch, as plan_batch() computes them. ``total`` is the number of samples over all workers.
    ``summary`` is one line for the log.

    Example::

        batch: rueda.training.Batch = rueda.training.plan_batch(256)
    """

    total: int
    per_worker: int
    summary: str


def plan_batch(
    total: int | None = None,
    *,
    per_worker: int | None = None,
    workers: int | None = None,
    indivisible: str = "refuse",
) -> Batch:
    """Computes the size of a batch over all workers and the size on one worker. One of these two sizes is given. All
    workers get equally many samples.

    Args:
        total: the number of samples of one step over all workers.
        per_worker: the number of samples of one step on each worker. Give either this or ``total``.
        workers: the number of workers; by default rueda.size().
        indivisible: what happens if ``total`` is no multiple of the workers. "refuse" raises an error, "down" takes the
            next smaller multiple, and "up" the next larger one. If the number was rounded, the summary says so.

    Raises:
        InvalidArgument: an argument is out of its range, or ``total`` is no multiple of the workers and must not be
            rounded. The message names the nearest multiples.
        NotInitialized: ``workers`` is not given, and rueda.init() was not called.

    Example::

        batch = rueda.training.plan_batch(250, indivisible="up")
        print(batch.summary)  # with 4 ranks: batch: 252 samples over 4 workers, 63 on each (rounded up from 250)
    """
    if (total is None) == (per_worker is None):
        raise InvalidArgument("batch: give either total or per_worker, not both and not neither")
    if indivisible not in ("refuse", "down", "up"):
        raise InvalidArgument(f"batch: indivisible is '{indivisible}'; it must be refuse, down or up")
    workers = _lifecycle.size() if workers is None else workers
    size = per_worker if total is None else total
    assert size is not None
    if size < 1:
        raise InvalidArgument(f"batch: size is {size}; it must be at least 1")
    if workers < 1:
        raise InvalidArgument(f"batch: workers is {workers}; it must be at least 1")
    each = size
    if total is not None:
        each = total // workers + (1 if indivisible == "up" and total % workers else 0)
        if total % workers and (indivisible == "refuse" or each == 0):
            below = total // workers
            near = (
                f"the smallest is {workers}"
                if below == 0
                else f"next to it are {below} × {workers} and {below + 1} × {workers}"
            )
            raise InvalidArgument(
                f"batch: {total} samples cannot be divided equally among {workers} workers; choose a multiple of "
                f"{workers}: {near}"
            )
    whole = each * workers
    summary = f"batch: {whole} samples over {workers} worker{'' if workers == 1 else 's'}, {each} on each"
    if total is not None and whole != total:
        summary += f" (rounded {'down' if whole < total else 'up'} from {total})"
    return Batch(whole, each, summary)
