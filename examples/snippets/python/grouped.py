# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
weight = np.ones(1000, np.float32)
bias = np.full(10, 2.0)

total_weight, total_bias = rueda.grouped_allreduce([weight, bias], "layer1", rueda.Sum)
assert total_weight[999] == rueda.size() and total_bias[9] == 2 * rueda.size()

handle = rueda.grouped_allreduce_async_([weight, bias], "layer1")  # one handle for all of them
handle.wait()
assert weight[0] == 1 and bias[0] == 2
