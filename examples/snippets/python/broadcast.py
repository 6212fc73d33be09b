# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
parameters = np.full(100, 0.25 if rueda.rank() == 0 else 0.0)
rueda.broadcast_(parameters, root_rank=0, name="parameters")
assert parameters[99] == 0.25

last = rueda.size() - 1
seed = rueda.broadcast(np.array(rueda.rank()), root_rank=last, name="seed")
assert seed == last
