# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
rank, size = rueda.rank(), rueda.size()

# Rank r contributes r + 1 rows. The first dimension may differ between ranks; the other dimensions must agree.
everyones = rueda.allgather(np.full((rank + 1, 2), rank), "rows")
assert len(everyones) == size * (size + 1) // 2 and everyones[-1, 0] == size - 1

# You can also pass memory for the result, which saves the allocation.
out = np.empty_like(everyones)
rueda.allgather(np.full((rank + 1, 2), rank), "rows", out=out)
assert (out == everyones).all()
