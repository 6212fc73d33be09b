# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
# There are two rows for every rank, and one more row, which the first rank gets.
gradient = np.ones((2 * rueda.size() + 1, 4))
mine = rueda.reducescatter(gradient, "gradient", rueda.Sum)
assert mine.shape == (3 if rueda.rank() == 0 else 2, 4)
assert (mine == rueda.size()).all()
