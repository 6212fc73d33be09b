# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
gradient = np.full(1 << 20, 0.5, np.float32)
rueda.allreduce_(gradient, "layer1.weight", compression="bf16")  # or rueda.Compression.bf16
assert gradient[0] == 0.5
