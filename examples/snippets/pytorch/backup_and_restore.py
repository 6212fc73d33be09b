# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import tempfile

import rueda.torch as hvd
import torch
from rueda import training

hvd.init()
folder = hvd.broadcast_object(tempfile.mkdtemp())  # use a fixed folder instead, so that a restarted job finds it
inputs = torch.randn(1000, 10, generator=torch.Generator().manual_seed(1))
# The number of samples of all ranks together does not depend on hvd.size(). So a step has the same samples on any number
# of ranks, and the job can be resumed with another number.
sampler = training.Sampler(len(inputs), batch=64, seed=5, remainder="drop")
model = torch.nn.Sequential(torch.nn.Linear(10, 1), torch.nn.Dropout(0.1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

# If the job is killed and started again, the loop begins after the newest checkpoint.
for step in training.BackupAndRestore(100, folder, model, {"optimizer": optimizer}, every_steps=20, seed=7):
    share = sampler.at_step(step)
    batch = inputs[share.indices]
    optimizer.zero_grad()
    loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
    (loss * share.weight).backward()  # the shares of the ranks may differ by one sample
    optimizer.step()
