# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda.torch.distributed  # noqa: F401  (makes the backend known)
import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("rueda")  # make the group before the Accelerator, which then uses it
accelerator = Accelerator(cpu=True)
torch.manual_seed(dist.get_rank())  # the ranks begin with different parameters
model = torch.nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
samples = torch.randn(64, 10)
batches = DataLoader(TensorDataset(samples), batch_size=4)
model, optimizer, batches = accelerator.prepare(model, optimizer, batches)
for (batch,) in batches:  # each rank gets its share of the batches
    optimizer.zero_grad()
    loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
    accelerator.backward(loss)
    optimizer.step()

assert dist.get_backend() == "rueda" and accelerator.num_processes == dist.get_world_size()
weights = accelerator.gather(accelerator.unwrap_model(model).weight.detach())
assert (weights == weights[0]).all()  # the same on all ranks
dist.destroy_process_group()
