# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Trains a multi-layer perceptron with PyTorch. It learns the product of two numbers.

The lines that end in "# rueda" are missing in 05_mlp_plain.py.
"""

import rueda.torch as hvd  # rueda
import torch

hvd.init()  # rueda
torch.manual_seed(hvd.rank())  # rueda: every rank has different samples
model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())  # rueda
hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # rueda: all ranks begin with rank 0's weights
for _step in range(500):
    inputs = torch.rand(64, 2) * 2 - 1
    optimizer.zero_grad()
    loss = (model(inputs) - inputs.prod(1, keepdim=True)).square().mean()
    loss.backward()  # each gradient is averaged as soon as it is computed
    optimizer.step()  # waits for the last gradients
loss = hvd.allreduce(loss.detach(), name="loss")  # rueda
if hvd.rank() == 0:  # rueda
    print(f"loss {loss:.4f}: {'learned' if loss < 0.01 else 'not learned'}", flush=True)
