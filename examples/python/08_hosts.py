# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs on several hosts. The ranks of a host share memory, and hosts exchange messages. This program shows what is
useful there: local_rank() tells which device of the host to use, and `compression` makes the messages between hosts
smaller."""

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
