# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda.torch.distributed  # noqa: F401  ("import rueda.torch" does it as well)
import torch
import torch.distributed as dist

dist.init_process_group("rueda")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(10, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _step in range(10):
    batch = torch.randn(32, 10)
    optimizer.zero_grad()
    (model(batch) - batch.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()

total = torch.ones(1)
dist.all_reduce(total)
assert total.item() == dist.get_world_size()
dist.destroy_process_group()
