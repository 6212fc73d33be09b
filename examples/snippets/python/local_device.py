# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda

rueda.init()
try:
    device = f"cuda:{rueda.local_device()}"
except rueda.Unsupported:  # this process cannot use a GPU
    device = "cpu"
print(f"local rank {rueda.local_rank()} uses {device}")
