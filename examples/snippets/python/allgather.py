# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
rank, size = rueda.rank(), rueda.size()

# Rank r brings r + 1 rows: the first dimension may differ, the others must agree.
everyones = rueda.allgather(np.full((rank + 1, 2), rank), "rows")
assert len(everyones) == size * (size + 1) // 2 and everyones[-1, 0] == size - 1

# The result can also go into memory of your own, which saves the allocation.
out = np.empty_like(everyones)
rueda.allgather(np.full((rank + 1, 2), rank), "rows", out=out)
assert (out == everyones).all()
