# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
for _batch in range(10 + rueda.rank()):  # each rank has a different number of batches
    ones = np.ones(1000, "float32")
    # also works while some ranks have no batches left; the sum is still divided by the number of all ranks
    average = rueda.allreduce(ones, "gradient")
    assert 0 < average[0] <= 1
last = rueda.join()  # returns when all ranks have called join()
assert last == rueda.size() - 1
