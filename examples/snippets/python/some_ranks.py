# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()  # all that were launched
launched, size = rueda.rank(), rueda.size()
rueda.shutdown()

rueda.init(comm=range(launched % 2, size, 2))  # the even ranks form one job, and the odd ranks another job
assert rueda.rank() == launched // 2
members = rueda.allgather(np.array([launched]))
assert all(members % 2 == launched % 2)
