# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()  # all that were launched
launched, size = rueda.rank(), rueda.size()
rueda.shutdown()

rueda.init(comm=range(launched % 2, size, 2))  # the even and the odd ranks are two jobs at the same time
assert rueda.rank() == launched // 2
members = rueda.allgather(np.array([launched]))
assert all(members % 2 == launched % 2)
