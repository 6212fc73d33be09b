# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda.torch as hvd
import torch

hvd.init()
model = torch.nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

model(torch.randn(32, 10) * 100).square().mean().backward()
optimizer.synchronize()  # now the gradients are reduced, and are the same on all ranks
norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
with optimizer.skip_synchronize():
    optimizer.step()
assert len(set(hvd.allgather_object(norm.item()))) == 1
