# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
rank, size = rueda.rank(), rueda.size()

# Rank r has r + 1 rows for the last rank, and one row for every other rank.
splits = [1] * (size - 1) + [rank + 1]
received, counts = rueda.alltoall(np.full(sum(splits), rank), splits, "rows")
if rank == size - 1:
    assert counts.tolist() == list(range(1, size + 1))
    assert received.tolist() == [r for r in range(size) for _ in range(r + 1)]

# Without splits every rank gets the same number of rows.
received, counts = rueda.alltoall(np.full(3 * size, rank), name="even")
assert counts.tolist() == [3] * size
