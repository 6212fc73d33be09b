# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
rank, size = rueda.rank(), rueda.size()

# Rank r contributes r + 1 predictions; rank 0 gets all of them, in the order of the ranks.
mine = np.full((rank + 1, 2), float(rank))
everyones = rueda.gather(mine, root_rank=0, name="predictions")
if rank == 0:
    assert everyones.shape == (size * (size + 1) // 2, 2) and everyones[-1, 0] == size - 1
else:
    assert everyones is None
