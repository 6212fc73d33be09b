# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda.torch as hvd
import torch

hvd.init()
rank, size = hvd.rank(), hvd.size()
model = torch.nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

for _step in range(3 + rank):  # each rank has one batch more than the previous rank
    optimizer.zero_grad()
    model(torch.randn(32, 10)).square().mean().backward()
    optimizer.step()
last = hvd.join()  # a rank without further batches waits here while the other ranks make more steps

weights = hvd.allgather(model.weight.detach())
assert size == 1 or not (weights == weights[0]).all()  # the ranks have different parameters
hvd.broadcast_parameters(model.state_dict(), root_rank=last)  # the rank that joined last made the most steps
hvd.broadcast_optimizer_state(optimizer, root_rank=last)
weights = hvd.allgather(model.weight.detach())
assert last == size - 1 and (weights == weights[0]).all()
