# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda.torch as hvd
import torch
from rueda import training
from rueda.torch.training import LearningRateScheduler, clip_grad_norm_

hvd.init()
model = torch.nn.Linear(10, 1)
rate = training.LearningRate(0.01, "linear", warmup_steps=5)
optimizer = torch.optim.SGD(model.parameters(), lr=rate.base)  # the rate for one worker
scheduler = LearningRateScheduler(optimizer, rate)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

for _step in range(10):
    optimizer.zero_grad()
    model(torch.randn(32, 10)).square().mean().backward()
    optimizer.synchronize()  # now the gradients are reduced
    clip_grad_norm_(model.parameters(), max_norm=1.0)
    with optimizer.skip_synchronize():
        optimizer.step()
    scheduler.step()
assert optimizer.param_groups[0]["lr"] == 0.01 * hvd.size()
