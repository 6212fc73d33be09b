# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Decides which samples a rank trains on. Every rank computes the same permutation and uses its own share of it.

This module computes what ``rueda/training/sampler.hpp`` computes, so each step has the same samples in Python and in
C++. tests/python/test_training_values.py compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rueda import _lifecycle
from rueda.errors import InvalidArgument
from rueda.training import _random


def shard(count: int, rank: int | None = None, size: int | None = None) -> range:
    """Returns the share of a rank if ``count`` items are divided among ``size`` ranks.

    The shares are contiguous and in rank order, and their lengths differ by at most one. Together they contain the
    items 0 to count - 1.

    Args:
        count: the number of items.
        rank: by default rueda.rank().
        size: by default rueda.size().

    Raises:
        InvalidArgument: ``count`` is negative, or the rank is not below the size.
        NotInitialized: the rank or the size is not given, and rueda.init() was not called.

    Example::

        for index in rueda.training.shard(len(test_set)):
            predict(test_set[index])
    """
    rank = _lifecycle.rank() if rank is None else rank
    size = _lifecycle.size() if size is None else size
    if size < 1 or not 0 <= rank < size:
        raise InvalidArgument(f"rank {rank} of {size}: the size must be at least 1 and the rank below it")
    if count < 0:
        raise InvalidArgument(f"shard: count is {count}; it must not be negative")
    each, longer = divmod(count, size)
    begin = each * rank + min(rank, longer)
    return range(begin, begin + each + (1 if rank < longer else 0))


class Share(NamedTuple):
    """This rank's part of a batch.

    ``indices`` has the numbers of the samples. Only the first ``counted`` samples count. The others are padding: their
    weight in loss, gradient and metrics is 0. Multiply this rank's mean by ``weight`` before the means of all ranks are
    averaged. The average is then the mean over all counted samples. ``batch_size`` is the number of counted samples
    over all ranks.

    Example::

        share: rueda.training.Share = sampler.share(batch=0)
    """

    indices: Sequence[int]
    counted: int
    weight: float
    batch_size: int


class Sampler:
    """Divides a data set among the ranks, with a new permutation in each epoch.

    A global batch (the samples of one step on all ranks) has the same samples in the same order for any number of
    ranks. Rank r gets the r-th contiguous piece of the batch. The lengths of the pieces may differ by one sample. If you
    average gradients over the ranks, multiply each rank's mean by Share.weight; otherwise samples in shares of different
    lengths would get different weights.

    Args:
        samples: the number of samples in the data set.
        batch: the number of samples in one step, over all ranks.
        seed: must be the same on every rank.
        remainder: what happens to the last samples of an epoch if they do not fill a batch. "keep": they form a smaller
            batch. "drop": they are not used in this epoch. "pad": they form a full batch, whose other samples do not
            count.
        allow_empty_shares: False refuses a batch with fewer samples than ranks, because batch normalisation would
            compute NaN from an empty share. With True, a rank with an empty share contributes gradients of zero.
        rank: by default rueda.rank().
        size: by default rueda.size().

    Raises:
        InvalidArgument: an argument is out of its range, there would be no batch, or some rank would get an empty
            share.
        NotInitialized: the rank or the size is not given, and rueda.init() was not called.

    Example::

        sampler = rueda.training.Sampler(len(data), batch=256, seed=7)
        for epoch in range(10):
            for share in sampler.epoch(epoch):
                train(data[list(share.indices)], share.weight)
    """

    def __init__(
        self,
        samples: int,
        batch: int,
        *,
        seed: int = 0,
        remainder: str = "keep",
        allow_empty_shares: bool = False,
        rank: int | None = None,
        size: int | None = None,
    ) -> None:
        self._rank = _lifecycle.rank() if rank is None else rank
        self._size = _lifecycle.size() if size is None else size
        shard(0, self._rank, self._size)  # checks the rank
        for option, value in (("samples", samples), ("batch", batch)):
            if value < 1:
                raise InvalidArgument(f"sampler: {option} is {value}; it must be at least 1")
        if remainder not in ("keep", "drop", "pad"):
            raise InvalidArgument(f"sampler: remainder is '{remainder}'; it must be keep, drop or pad")
        if remainder == "drop" and batch > samples:
            raise InvalidArgument(
                f"sampler: batch is {batch} but there are {samples} samples; dropping the remainder would leave no batch"
            )
        self._samples = samples
        self._batch = batch
        self._seed = seed
        self._remainder = remainder
        if not allow_empty_shares:
            self._refuse_empty_shares()
        left_over = samples % batch != 0 and remainder != "drop"
        #: The number of steps in an epoch.
        self.batches = samples // batch + (1 if left_over else 0)
        self._epoch = -1
        self._order: list[int] = []

    def _refuse_empty_shares(self) -> None:
        rest = self._samples % self._batch
        is_last = self._remainder == "keep" and rest != 0
        smallest = rest if is_last else self._batch
        if smallest < self._size:
            which = "the last batch" if is_last else "a batch"
            choose = (
                "remainder='pad', remainder='drop', another batch size"
                if is_last
                else "a batch of at least one sample per rank"
            )
            raise InvalidArgument(
                f"sampler: {which} of {self._samples} samples has {smallest} for {self._size} ranks, so "
                f"{self._size - smallest} would get no sample; choose {choose}, or allow_empty_shares=True"
            )

    def share(self, batch: int, epoch: int = 0) -> Share:
        """Returns this rank's share of a batch. The result depends only on the arguments.

        Raises:
            InvalidArgument: an epoch has no such batch.
        """
        if not 0 <= batch < self.batches:
            raise InvalidArgument(f"sampler: batch {batch} does not exist; an epoch has {self.batches} batches")
        if epoch != self._epoch:
            self._order = _random.permutation(self._samples, self._seed, epoch)
            self._epoch = epoch
        begin = batch * self._batch
        length = min(self._batch, self._samples - begin)
        mine = shard(length, self._rank, self._size)
        indices = self._order[begin + mine.start : begin + mine.stop]
        counted = len(mine)
        if self._remainder == "pad" and length < self._batch:
            # The padding of all ranks together consists of the first samples of the epoch. If the epoch has fewer
            # samples than the padding needs, its samples are repeated.
            full = shard(self._batch, self._rank, self._size)
            places = range(full.start - mine.start, full.stop - mine.stop)
            indices = indices + [self._order[place % self._samples] for place in places]
        return Share(indices, counted, counted * self._size / length, length)

    def at_step(self, step: int) -> Share:
        """Returns this rank's share of the batch of a step, where steps count from 0 over all epochs. A resumed job can
        therefore continue in the middle of an epoch, with any number of ranks. For this, ``batch`` must be the same
        number as before. With another ``batch``, for example one that is multiplied by ``size()``, the same step has
        other samples.

        Raises:
            InvalidArgument: the step is negative.
        """
        if step < 0:
            raise InvalidArgument(f"sampler: step is {step}; it must not be negative")
        epoch, batch = divmod(step, self.batches)
        return self.share(batch, epoch)

    def epoch(self, epoch: int) -> Iterator[Share]:
        """Yields this rank's shares of all batches of an epoch."""
        for batch in range(self.batches):
            yield self.share(batch, epoch)
