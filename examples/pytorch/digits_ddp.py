# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Handwritten digits with DistributedDataParallel on the backend "rueda". Lines for it end in "# rueda"; the rest is any DDP script.

torchrun --nproc-per-node 2 digits_ddp.py --data digits.csv.gz      (or: ruedarun -np 2 python digits_ddp.py …, or mpirun)
"""

import argparse
import gzip

import rueda.torch.distributed  # noqa: F401  # rueda
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


def load(path: str) -> torch.utils.data.TensorDataset:
    """Of 64 pixels (0 to 16) and a label (0 to 9) a line."""
    with gzip.open(path, "rt") as file:
        rows = torch.tensor([[float(value) for value in line.split(",")] for line in file])
    return torch.utils.data.TensorDataset(rows[:, :64].reshape(-1, 1, 8, 8) / 16, rows[:, 64].long())


def network() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(32 * 4 * 4, 10),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="build/cache/digits.csv.gz", help="a CSV file, gzipped")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32, help="of all processes together")
    parser.add_argument("--lr", type=float, default=0.05)
    given = parser.parse_args()

    dist.init_process_group("rueda")  # rueda
    torch.manual_seed(dist.get_rank())
    whole = load(given.data)
    held_out = len(whole) // 5
    train = torch.utils.data.Subset(whole, range(len(whole) - held_out))
    images, labels = (tensor[-held_out:] for tensor in whole.tensors)
    sampler = torch.utils.data.DistributedSampler(train)
    loader = torch.utils.data.DataLoader(train, given.batch_size // dist.get_world_size(), sampler=sampler)

    model = DistributedDataParallel(network())
    optimizer = torch.optim.SGD(model.parameters(), lr=given.lr, momentum=0.9)
    for epoch in range(given.epochs):
        sampler.set_epoch(epoch)
        for batch, targets in loader:
            optimizer.zero_grad()
            loss = cross_entropy(model(batch), targets)
            loss.backward()
            optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            with torch.no_grad():
                accuracy = (model.module(images).argmax(1) == labels).float().mean()
            print(f"epoch {epoch + 1}: loss {total / dist.get_world_size():.4f}, accuracy {accuracy:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
