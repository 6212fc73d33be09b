# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda.torch as hvd
import torch

hvd.init()
rank, size = hvd.rank(), hvd.size()

# An operation can be part of a forward pass. The gradient of a sum over the ranks is the sum of the ranks' gradients.
x = torch.full((3,), float(rank), requires_grad=True)
total = hvd.allreduce(x, op=hvd.Sum)
(total * (rank + 1)).sum().backward()
assert x.grad[0] == size * (size + 1) / 2

# Starts the operation; synchronize() waits for its end. Rueda matches the calls of the ranks by the name.
handle = hvd.allreduce_async_(torch.ones(1000), name="ones", op=hvd.Sum)
while not hvd.poll(handle):
    pass  # … something else …
assert hvd.synchronize(handle)[0] == size

# Returns the rows of all ranks, and the number of rows of each rank.
rows, counts = hvd.alltoall(torch.arange(size), splits=[1] * size)
assert (rows == rank).all() and counts.tolist() == [1] * size
