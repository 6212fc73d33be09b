# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
try:
    rueda.allreduce(np.ones(10 + rueda.rank()), "gradient")
except rueda.Mismatch as error:  # raised on every rank, with each rank's shape
    print(error)
else:
    assert rueda.size() == 1

try:
    rueda.allreduce_(np.ones((4, 4))[:, 1], "column")
except rueda.InvalidArgument as error:  # raised at once, on this rank only; it is also a ValueError
    print(error)

assert rueda.allreduce(np.ones(1), "gradient")[0] == 1  # the next operation works
