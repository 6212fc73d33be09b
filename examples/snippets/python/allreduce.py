# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
rank, size = rueda.rank(), rueda.size()

# The result is a new array. The default operation is the average.
loss = rueda.allreduce(np.array([float(rank)]), "loss")
assert loss[0] == (size - 1) / 2

# Reduces in place, without allocating memory.
seen = np.array([100 + rank, -rank])
rueda.allreduce_(seen, "seen", rueda.Max)
assert seen.tolist() == [100 + size - 1, 0]

# Factors cost nothing extra.
weights = np.ones((3, 2))
rueda.allreduce_(weights, "weights", rueda.Sum, prescale_factor=0.5, postscale_factor=4)
assert (weights == 0.5 * size * 4).all()
