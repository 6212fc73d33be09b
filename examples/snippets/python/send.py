# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
rank, size = rueda.rank(), rueda.size()

# The ranks form a ring: each rank sends to the next rank and receives from the previous rank.
sent = rueda.send_async(np.full(3, rank), peer=(rank + 1) % size, tag=7)
theirs = np.empty(3, int)
rueda.receive(theirs, peer=(rank - 1) % size, tag=7)
sent.wait()
assert theirs.tolist() == [(rank - 1) % size] * 3

# Receives from any rank that sends with this tag, and returns the rank of the sender.
results = rueda.send_async(np.full(3, 10 * rank), peer=0, tag=8)
if rank == 0:
    for _ in range(size):
        sender = rueda.receive(theirs, tag=8)
        assert theirs[0] == 10 * sender
results.wait()
