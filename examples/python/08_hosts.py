# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs on several hosts. Ranks of one host share memory; hosts exchange messages. Only two things are different for the
program: local_rank() tells it which device of its host to use, and a gradient may be compressed between hosts.
"""

import numpy as np
import rueda

rueda.init()
print(
    f"rank {rueda.rank()} of {rueda.size()}: local rank {rueda.local_rank()} of {rueda.local_size()} "
    f"on host {rueda.cross_rank()} of {rueda.cross_size()}",
    flush=True,
)
gradient = np.full(1 << 20, 0.5, np.float32)
rueda.allreduce_(gradient, "gradient", compression="bf16")  # half the bytes between hosts
print(f"rank {rueda.rank()}: average {gradient[0]:.2f}", flush=True)
