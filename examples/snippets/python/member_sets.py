# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
first = rueda.rank() // 2 * 2
neighbours = rueda.add_process_set_among(range(first, min(first + 2, rueda.size())))  # all pairs at once
total = rueda.allreduce(np.ones(3), op=rueda.Sum, process_set=neighbours)
assert total[0] == neighbours.size()
rueda.leave_process_set(neighbours)
