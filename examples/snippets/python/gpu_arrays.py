# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda

rueda.init()
try:
    import cupy as xp

    xp.cuda.Device(rueda.local_device()).use()
except ImportError:  # without CuPy, the arrays are in the CPU's memory
    import numpy as xp

gradient = xp.ones(1000, "float32")
rueda.allreduce_(gradient, "gradient", rueda.Sum)  # waits until the GPU has done the allreduce
assert (gradient == rueda.size()).all()
