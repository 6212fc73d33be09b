# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The backward pass computes one gradient after another. Each gradient is reduced while the next one is computed."""

import numpy as np
import rueda

rueda.init()
# The ranks of a host reduce memory of rueda.empty() in place, which is faster.
gradients = [rueda.empty(100_000, np.float32) for _ in range(4)]
handles = []
for layer in reversed(range(4)):
    gradients[layer][:] = np.sqrt(layer**2) * (rueda.rank() + 1)  # stands for the computation of a real layer
    handles.append(rueda.allreduce_async_(gradients[layer], f"layer{layer}"))
for handle in handles:
    handle.wait()
print(f"rank {rueda.rank()}: average of layer 3: {gradients[3][0]:.2f}", flush=True)
