# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Handwritten digits with rueda.torch. The lines that make it run on several processes end in "# rueda".

ruedarun -np 2 python digits.py --data digits.csv.gz
"""

import argparse
import gzip

import rueda.torch as hvd  # rueda
import torch
from torch.nn.functional import cross_entropy


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


def accuracy(model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="build/cache/digits.csv.gz", help="a CSV file, gzipped")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32, help="of all processes together")
    parser.add_argument("--lr", type=float, default=0.05)
    given = parser.parse_args()

    hvd.init()  # rueda
    torch.manual_seed(hvd.rank())  # rueda
    whole = load(given.data)
    held_out = len(whole) // 5
    train = torch.utils.data.Subset(whole, range(len(whole) - held_out))
    images, labels = (tensor[-held_out:] for tensor in whole.tensors)
    sampler = torch.utils.data.DistributedSampler(train, hvd.size(), hvd.rank())  # rueda
    loader = torch.utils.data.DataLoader(train, given.batch_size // hvd.size(), sampler=sampler)  # rueda

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=given.lr, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())  # rueda
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # rueda

    for epoch in range(given.epochs):
        sampler.set_epoch(epoch)  # rueda
        for batch, targets in loader:
            optimizer.zero_grad()
            loss = cross_entropy(model(batch), targets)
            loss.backward()
            optimizer.step()
        loss = hvd.allreduce(loss.detach())  # rueda
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {loss:.4f}, accuracy {accuracy(model, images, labels):.4f}", flush=True)


if __name__ == "__main__":
    main()
