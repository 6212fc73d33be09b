# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A sampler that knows which samples of the epoch have been processed, by any number of ranks."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sized
from typing import Any

from torch.utils.data import Sampler

from rueda.torch import _basics

__all__ = ["ElasticSampler"]


class ElasticSampler(Sampler):  # type: ignore[type-arg]
    """Distributes the remaining samples of an epoch among the ranks. The sampler can continue an epoch after a restart,
    or with a different number of ranks.

    Every rank gets the same number of samples. If the samples cannot be divided evenly, some of them are used twice.

    Args:
        dataset: a data set with a length.
        shuffle: if True, every epoch has a different order, which is the same on all ranks.
        seed: the seed for this order.

    Example::

        sampler = hvd.elastic.ElasticSampler(dataset)
        loader = torch.utils.data.DataLoader(dataset, batch_size=32, sampler=sampler)
        state = hvd.elastic.TorchState(model, optimizer, sampler=sampler)
        for batch_idx, batch in enumerate(loader):
            train(batch)
            sampler.record_batch(batch_idx, 32)
            state.commit()
        sampler.set_epoch(sampler.epoch + 1)  # at the end of the epoch
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch with all samples. Call this method at the end of the previous epoch, not at the beginning of
        the new one: code there also runs after a restart in the middle of an epoch. The sampler would then forget which
        samples have already been processed.
        """
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Records that every rank has processed a batch of `batch_size` samples."""
        self.processed_num = min(self.processed_num + batch_size * self.num_replicas, len(self.dataset))

    def state_dict(self) -> dict[str, Any]:
        """Returns the state to save: the epoch, and how many of its samples have been processed."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continues from a state that state_dict() returned."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Distributes the remaining samples among the current ranks."""
        self.num_replicas = _basics.size()
        self.rank = _basics.rank()
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(indices)
        self.remaining_indices = indices[self.processed_num :]
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        again = itertools.islice(itertools.cycle(self.remaining_indices), self.total_size)
        self.indices = list(itertools.islice(again, self.rank, None, self.num_replicas))
        return iter(self.indices)

    def __len__(self) -> int:
        return self.num_samples
