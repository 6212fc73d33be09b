# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Trains a convolutional network with DistributedDataParallel on the backend "rueda" of torch.distributed.

The lines that end in "# rueda" select this backend. The script 06_cnn_plain.py does the same without these lines, on
the backend "gloo". This program can be started with ruedarun, torchrun or mpirun.
"""

import rueda.torch.distributed  # noqa: F401  # rueda
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("rueda")  # rueda
torch.manual_seed(0)
# Makes noisy images of ten random patterns.
labels = torch.arange(640) % 10
images = torch.rand(10, 1, 8, 8).round()[labels] + 0.3 * torch.randn(640, 1, 8, 8)
dataset = torch.utils.data.TensorDataset(images, labels)
sampler = torch.utils.data.DistributedSampler(dataset)
loader = torch.utils.data.DataLoader(dataset, 64 // dist.get_world_size(), sampler=sampler)

network = torch.nn.Sequential(
    torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
    torch.nn.Linear(32 * 4 * 4, 10),
)  # fmt: skip
model = DistributedDataParallel(network)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for epoch in range(4):
    sampler.set_epoch(epoch)
    for batch, targets in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch), targets).backward()
        optimizer.step()
with torch.no_grad():
    accuracy = (network(images).argmax(1) == labels).float().mean()
print(f"rank {dist.get_rank()}: {'learned' if accuracy > 0.9 else 'not learned'}", flush=True)
dist.destroy_process_group()
