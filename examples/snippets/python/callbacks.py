# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import queue

import numpy as np
import rueda

rueda.init()
ready: queue.Queue[rueda.Handle[np.ndarray]] = queue.Queue()
for layer in range(4):
    handle = rueda.allreduce_async(np.full(1000, layer), f"layer{layer}", rueda.Sum)
    handle.add_done_callback(ready.put)  # short, and waits for nothing

sums = sorted(ready.get().result()[0] for _ in range(4))  # as they come
assert sums == [layer * rueda.size() for layer in range(4)]
