# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Fits y = 3x + 2 by gradient descent. Each rank computes the gradient for its share of every batch.

The lines that end in "# rueda" are missing in 04_linear_model_numpy.py.
"""

import numpy as np
import rueda  # rueda

rueda.init()  # rueda
rank, size = rueda.rank(), rueda.size()  # rueda
random = np.random.default_rng(0)  # with the same seed, all ranks get the same order
model = random.normal(size=2)  # slope, offset
rueda.broadcast_(model, root_rank=0, name="model")  # rueda
for _epoch in range(100):
    for batch in random.permutation(64).reshape(4, 16):
        x = batch[rank::size] / 32  # rueda
        error = model[0] * x + model[1] - (3 * x + 2)
        gradient = np.array([2 * error @ x, 2 * error.sum()]) / len(batch)
        rueda.allreduce_(gradient, "gradient", rueda.Sum)  # rueda
        model -= 0.1 * gradient
print(f"rank {rank}: slope {model[0]:.3f}, offset {model[1]:.3f}", flush=True)
