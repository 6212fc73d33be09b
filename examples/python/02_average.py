# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Averages a vector over all ranks, in place. Rueda matches the calls of the ranks by the tensor's name."""

import numpy as np
import rueda

rueda.init()
gradient = np.full(1000, rueda.rank(), np.float32)
rueda.allreduce_(gradient, "gradient")  # the default is op=rueda.Average
print(f"rank {rueda.rank()}: average {gradient[0]:.2f}", flush=True)
