# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The same program as 05_mlp.py in one process, with PyTorch only."""

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _step in range(500):
    inputs = torch.rand(64, 2) * 2 - 1
    optimizer.zero_grad()
    loss = (model(inputs) - inputs.prod(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
print(f"loss {loss:.4f}: {'learned' if loss < 0.01 else 'not learned'}", flush=True)
