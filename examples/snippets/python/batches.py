# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda
from rueda import training

rueda.init()
numbers = np.arange(100.0)

# Rounds 31 up to a multiple of the number of workers, so that all workers have equally many samples.
batch = training.plan_batch(31, indivisible="up")
if rueda.rank() == 0:
    print(batch.summary)  # with 2 ranks: "batch: 32 samples over 2 workers, 16 on each (rounded up from 31)"

# The last batch of the 100 samples is not full. It is padded with samples that do not count.
sampler = training.Sampler(len(numbers), batch.total, seed=7, remainder="pad")
total = 0.0
for share in sampler.epoch(0):
    assert len(share.indices) == batch.per_worker
    mine = numbers[share.indices[: share.counted]]
    mean = mine.mean() if share.counted else 0.0
    average = rueda.allreduce(np.array([share.weight * mean]), "mean")  # the mean over all samples that count
    total += average[0] * share.batch_size
assert abs(total / 100 - 49.5) < 1e-9

gradient = np.full(4, 10.0)
norm = training.clip_gradients([gradient], max_norm=2.0)  # after the allreduce
assert norm == 20 and gradient[0] == 1
