# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
weight = np.ones(1000, np.float32)
bias = np.full(10, 2.0)

total_weight, total_bias = rueda.grouped_allreduce([weight, bias], "layer1", rueda.Sum)
assert total_weight[999] == rueda.size() and total_bias[9] == 2 * rueda.size()

handle = rueda.grouped_allreduce_async_([weight, bias], "layer1")  # one handle for all members
handle.wait()
assert weight[0] == 1 and bias[0] == 2

everyones_weight, everyones_bias = rueda.grouped_allgather([weight, bias], "all of layer1")
assert everyones_weight.shape == (1000 * rueda.size(),) and (everyones_bias == 2).all()

my_weight, my_bias = rueda.grouped_reducescatter([weight, bias], "my part of layer1", rueda.Sum)
assert my_weight[0] == rueda.size() and len(my_bias) - 10 // rueda.size() in (0, 1)  # the first ranks: one more
