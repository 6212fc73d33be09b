# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
rank, size = rueda.rank(), rueda.size()

# Rank 0 has the samples: one for itself, and two for every other rank. The other ranks only give the dtype and the
# shape of a row.
splits = [1] + [2] * (size - 1)
samples = np.arange(sum(splits) * 3.0).reshape(-1, 3) if rank == 0 else np.empty((0, 3))
mine = rueda.scatter(samples, splits if rank == 0 else None, root_rank=0, name="samples")
assert mine.shape == (splits[rank], 3)
assert mine[0, 0] == 3 * sum(splits[:rank])
