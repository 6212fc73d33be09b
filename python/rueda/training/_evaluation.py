# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Metrics of an evaluation that is divided among the ranks. The result does not depend on the number of ranks."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from rueda import _collectives, _objects
from rueda._process_sets import ProcessSet, global_process_set
from rueda._tensors import Tensor, numpy
from rueda.errors import InvalidArgument
from rueda.training import _trees
from rueda.types import Sum

if TYPE_CHECKING:
    from rueda._tensors import Array

# Each float64 is a multiple of 2^-1074. numpy.frexp gives it as m * 2^e with e >= -1073, and m * 2^53 is an integer.
_UNIT_BITS = 1073 + 53
_HALF_BITS = 27


def _array(values: object) -> Array:
    if _trees.is_torch(values):
        values = values.detach().cpu().double().numpy()  # type: ignore[attr-defined]  # NumPy has no bfloat16
    return numpy().asarray(values).astype("float64", copy=False).ravel()  # type: ignore[no-any-return]


class _ExactSum:
    """A sum of float64 numbers without rounding, as an integer multiple of 2^-1126."""

    def __init__(self) -> None:
        self.units = 0

    def add(self, values: Array) -> None:
        np = numpy()
        fractions, exponents = np.frexp(values)
        integers = np.ldexp(fractions, 53).astype(np.int64)  # exact: a float64 has 53 bits
        for exponent in np.unique(exponents):
            these = integers[exponents == exponent]
            # Each integer is split into a high and a low half of at most 27 bits, so sums of 2^35 halves fit into 64
            # bits.
            high = int((these >> _HALF_BITS).sum())
            low = int((these & ((1 << _HALF_BITS) - 1)).sum())
            self.units += ((high << _HALF_BITS) + low) << (int(exponent) + _UNIT_BITS - 53)


class Mean:
    """The mean of numbers over all ranks, for example of the losses or of the right answers of all samples.

    The sums are not rounded. So the result has the same bits for any number of ranks and any division of the samples.
    The result is the mean over all samples, and not the mean of the ranks' means.

    Example::

        accuracy = rueda.training.Mean()
        for batch in batches_of_this_rank:
            accuracy.add(predicted(batch) == labels(batch))
        print(accuracy.compute())
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets all numbers."""
        self._sum = _ExactSum()
        self._weight = _ExactSum()

    def add(self, values: Tensor | float, weights: Tensor | float | None = None) -> None:
        """Adds numbers of this rank.

        Args:
            values: a number, a NumPy array or a PyTorch tensor.
            weights: the weight of each number; by default 1. Padding has the weight 0, and its numbers are ignored.

        Raises:
            InvalidArgument: a number is not finite, a weight is negative, or ``weights`` has neither one element nor as
                many elements as ``values``.
        """
        np = numpy()
        numbers = _array(values)
        factors = np.ones(numbers.shape) if weights is None else _array(weights)
        if factors.size == 1:
            factors = np.broadcast_to(factors, numbers.shape)
        if factors.shape != numbers.shape:
            raise InvalidArgument(f"Mean: {numbers.size} numbers have {factors.size} weights; give one for each number")
        if (factors < 0).any():
            raise InvalidArgument(f"Mean: a weight is {factors.min():g}; weights must not be negative")
        numbers, factors = numbers[factors != 0], factors[factors != 0]
        products = numbers * factors
        if not (np.isfinite(products).all() and np.isfinite(factors).all()):
            raise InvalidArgument(
                "Mean: a number or a weight is not finite; leave out such samples, or end the training"
            )
        self._sum.add(products)
        self._weight.add(factors)

    def compute(self, *, process_set: ProcessSet = global_process_set) -> float:
        """Returns the mean over all ranks; NaN if there are no numbers. All ranks must make the call."""
        everyones = _objects.allgather_object(
            (self._sum.units, self._weight.units), "rueda.training.Mean", process_set=process_set
        )
        total, weight = (sum(units) for units in zip(*everyones))
        return float(Fraction(total, weight)) if weight else math.nan


class Auc:
    """The area under the ROC curve over all ranks: the probability that a positive sample has a higher score than a
    negative one, where equal scores count one half.

    Args:
        bins: With None, the exact value is computed. All scores are then sent to all ranks, so each rank needs 9 bytes
            for each sample. With a number, the range from 0 to 1 is divided into this number of bins of equal width.
            Scores in the same bin then count as equal, and the ranks send only the counts of the bins. error_bound()
            says how far the result may be from the exact value.

    Raises:
        InvalidArgument: ``bins`` is less than 2.

    Example::

        auc = rueda.training.Auc(bins=10_000)
        for batch in batches_of_this_rank:
            auc.add(model(batch), labels(batch))
        print(auc.compute())
    """

    def __init__(self, bins: int | None = None) -> None:
        if bins is not None and bins < 2:
            raise InvalidArgument(f"Auc: bins is {bins}; it must be at least 2, or None")
        self._bins = bins
        self.reset()

    def reset(self) -> None:
        """Forgets all scores."""
        np = numpy()
        self._scores: list[Array] = []
        self._labels: list[Array] = []
        # Row 0 counts negative samples, and row 1 positive ones.
        self._counts = np.zeros((2, self._bins or 1), np.int64)
        self._error_bound = math.nan

    def add(self, scores: Tensor, labels: Tensor) -> None:
        """Adds samples of this rank.

        Args:
            scores: any numbers, or with ``bins`` numbers from 0 to 1, for example probabilities.
            labels: 0 or False for a negative sample, 1 or True for a positive one.

        Raises:
            InvalidArgument: ``labels`` and ``scores`` have different numbers of elements, a label is not 0 or 1, a
                score is NaN, or with ``bins`` a score is not from 0 to 1.
        """
        np = numpy()
        numbers, classes = _array(scores), _array(labels)
        if numbers.shape != classes.shape:
            raise InvalidArgument(f"Auc: {numbers.size} scores have {classes.size} labels; give one for each score")
        if not np.isin(classes, (0, 1)).all():
            raise InvalidArgument("Auc: a label is not 0 or 1")
        positive = classes == 1
        if self._bins is None:
            if np.isnan(numbers).any():
                raise InvalidArgument("Auc: a score is NaN; the model has diverged, or the sample is not valid")
            self._scores.append(numbers.copy())  # copied, because the caller may overwrite its array
            self._labels.append(positive)
            return
        if not ((numbers >= 0) & (numbers <= 1)).all():
            raise InvalidArgument(
                "Auc: a score is not from 0 to 1, which bins need; apply the sigmoid function, or use bins=None"
            )
        places = np.minimum((numbers * self._bins).astype(np.int64), self._bins - 1)
        for row, samples in enumerate((~positive, positive)):
            self._counts[row] += np.bincount(places[samples], minlength=self._bins)

    def compute(self, *, process_set: ProcessSet = global_process_set) -> float:
        """Returns the area over all ranks; NaN if there are no positive or no negative samples. All ranks must make the
        call, and get the same bits.
        """
        np = numpy()
        if self._bins is not None:
            counts = np.empty_like(self._counts)
            counts[:] = self._counts
            _collectives.allreduce_(counts, "rueda.training.Auc.counts", Sum, process_set=process_set)
        else:
            scores = np.concatenate([np.empty(0), *self._scores])
            labels = np.concatenate([np.empty(0, bool), *self._labels])
            scores = _collectives.allgather(scores, "rueda.training.Auc.scores", process_set=process_set)
            labels = _collectives.allgather(labels, "rueda.training.Auc.labels", process_set=process_set)
            _, places = np.unique(scores, return_inverse=True)
            length = int(places.max()) + 1 if places.size else 1
            counts = np.stack([np.bincount(places[labels == label], minlength=length) for label in (False, True)])
        return self._area(counts)

    def _area(self, counts: Array) -> float:
        np = numpy()
        negative, positive = counts
        # Python's integers are used because they do not overflow. There may be 2^63 pairs.
        pairs = int(negative.sum()) * int(positive.sum())
        if pairs == 0:
            self._error_bound = math.nan
            return math.nan
        below = np.cumsum(negative) - negative
        wins = sum(int(p) * int(b) for p, b in zip(positive, below) if p)
        ties = sum(int(p) * int(n) for p, n in zip(positive, negative) if p)
        self._error_bound = float(Fraction(ties, 2 * pairs)) if self._bins is not None else 0.0
        return float(Fraction(2 * wins + ties, 2 * pairs))

    def error_bound(self) -> float:
        """Returns how far the last result of compute() may be from the exact value; 0 without bins. Consider all pairs
        of a positive and a negative sample. The bound is half of the fraction of these pairs whose two samples are in
        the same bin.
        """
        return self._error_bound
