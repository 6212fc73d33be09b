# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import contextlib

import numpy as np
import rueda

rueda.init()
gradients = {f"layer{i}": np.ones(10_000, np.float32) for i in range(4)}

# Each rank may start its tensors in a different order, because Rueda matches them by their names.
order = sorted(gradients, reverse=rueda.rank() % 2 == 0)
handles = [rueda.allreduce_async_(gradients[name], name, rueda.Sum) for name in order]

while not handles[0].poll():  # does not block
    with contextlib.suppress(rueda.Timeout):  # after a timeout the operation continues
        handles[0].wait(timeout=0.01)
for handle in handles:
    handle.wait()
assert gradients["layer0"][0] == rueda.size()
