# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The same program as 04_linear_model.py in one process, with NumPy only."""

import numpy as np

random = np.random.default_rng(0)
model = random.normal(size=2)  # slope, offset
for _epoch in range(100):
    for batch in random.permutation(64).reshape(4, 16):
        x = batch / 32
        error = model[0] * x + model[1] - (3 * x + 2)
        gradient = np.array([2 * error @ x, 2 * error.sum()]) / len(batch)
        model -= 0.1 * gradient
print(f"rank 0: slope {model[0]:.3f}, offset {model[1]:.3f}", flush=True)
