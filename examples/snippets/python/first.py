# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
gradient = np.full(1 << 20, rueda.rank(), np.float32)
handle = rueda.allreduce_async_(gradient, "layer1.weight")  # average over all ranks, in place
# … the rest of the backward pass …
handle.wait()
assert gradient[0] == (rueda.size() - 1) / 2
