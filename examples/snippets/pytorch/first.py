# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda.torch as hvd
import torch

hvd.init()
torch.manual_seed(hvd.rank())  # the ranks begin with different parameters
model = torch.nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # now all ranks have the parameters of rank 0
hvd.broadcast_optimizer_state(optimizer, root_rank=0)

for _step in range(10):
    batch = torch.randn(32, 10)  # of this rank
    optimizer.zero_grad()
    loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
    loss.backward()  # each gradient is reduced as soon as it is computed
    optimizer.step()  # waits for the last ones

weights = hvd.allgather(model.weight.detach())
assert (weights == weights[0]).all()
