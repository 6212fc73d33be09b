# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
rank, size = rueda.rank(), rueda.size()

seen = np.array([10 + rank, 1])
total = rueda.reduce(seen, root_rank=0, name="seen", op=rueda.Sum)
if rank == 0:
    assert total.tolist() == [10 * size + size * (size - 1) // 2, size]
else:
    assert total is None
