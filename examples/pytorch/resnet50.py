# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Trains ResNet-50 on ImageNet, or on noise of the same shape (--synthetic). The learning rate is proportional to the
number of ranks, after a warm-up. The ranks' validation results are averaged. Rank 0 writes checkpoints, and a restarted
run continues from the last one.

    ruedarun -np 2 python resnet50.py --synthetic --batches 4 --image-size 64
    ruedarun -np 8 -H a:4,b:4 python resnet50.py --data /imagenet      # needs torchvision, for the images
"""

import argparse
import math
import pathlib
import time

import rueda.torch as hvd
import torch
from torch import nn
from torch.nn.functional import cross_entropy


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions, with a skip connection from the input."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.way = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.around = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.around = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.way(x) + self.around(x))


def resnet50(classes: int) -> nn.Module:
    """Returns ResNet-50: 161 parameters with 25.6 million numbers (1,000 classes)."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
    ]  # fmt: skip
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if block == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


class Synthetic(torch.utils.data.Dataset):
    """A dataset of noise, which is the same on every rank."""

    def __init__(self, count: int, size: int, classes: int) -> None:
        self.count, self.size, self.classes = count, size, classes

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(index)
        return torch.randn(3, self.size, self.size, generator=generator), index % self.classes


def images(given: argparse.Namespace, part: str) -> torch.utils.data.Dataset:
    if given.synthetic:
        return Synthetic(given.batches * given.batch_size * hvd.size(), given.image_size, given.classes)
    from torchvision import datasets, transforms

    enlarge = [transforms.RandomResizedCrop(given.image_size), transforms.RandomHorizontalFlip()]
    crop = [transforms.Resize(given.image_size * 8 // 7), transforms.CenterCrop(given.image_size)]
    scale = [transforms.ToTensor(), transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
    return datasets.ImageFolder(
        str(pathlib.Path(given.data) / part), transforms.Compose((enlarge if part == "train" else crop) + scale)
    )


def learning_rate(given: argparse.Namespace, epoch: float) -> float:
    """Returns the learning rate for the global batch. The rate rises during the warm-up, and then falls along a cosine
    curve."""
    whole = given.lr * hvd.size() * given.accumulate
    if epoch < given.warmup:
        return given.lr + (whole - given.lr) * epoch / given.warmup
    return whole * 0.5 * (1 + math.cos(math.pi * (epoch - given.warmup) / max(given.epochs - given.warmup, 1)))


def validate(model: nn.Module, loader: torch.utils.data.DataLoader) -> tuple[float, float]:
    """Returns the loss and the accuracy over all ranks' images."""
    model.eval()
    sums = torch.zeros(3)
    with torch.no_grad():
        for batch, targets in loader:
            outputs = model(batch)
            right = (outputs.argmax(1) == targets).sum()
            sums += torch.tensor([cross_entropy(outputs, targets, reduction="sum"), right, len(targets)])
    loss, right, count = hvd.allreduce(sums, op=hvd.Sum, name="validation").tolist()
    return loss / count, right / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="a folder with the folders train and val, each with a folder a class")
    parser.add_argument("--synthetic", action="store_true", help="images of noise, instead of --data")
    parser.add_argument("--batches", type=int, default=10, help="of an epoch and rank, with --synthetic")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=4, help="of a rank")
    parser.add_argument("--accumulate", type=int, default=1, help="batches of a step")
    parser.add_argument("--lr", type=float, default=0.0125, help="of one rank")
    parser.add_argument("--warmup", type=float, default=5, help="epochs")
    parser.add_argument("--workers", type=int, default=0, help="processes that load images, of a rank")
    parser.add_argument("--fp16", action="store_true", help="gradients travel as float16")
    parser.add_argument("--checkpoint", default="resnet50.pt", help="a file; empty: none")
    given = parser.parse_args()
    if not given.synthetic and given.data is None:
        parser.error("give --data, or --synthetic")

    hvd.init()
    torch.manual_seed(1)
    train, held_out = images(given, "train"), images(given, "val")
    sampler = torch.utils.data.DistributedSampler(train, hvd.size(), hvd.rank())
    loader = torch.utils.data.DataLoader(train, given.batch_size, sampler=sampler, num_workers=given.workers)
    part = torch.utils.data.Subset(held_out, range(hvd.rank(), len(held_out), hvd.size()))
    validation = torch.utils.data.DataLoader(part, given.batch_size, num_workers=given.workers)

    model = resnet50(given.classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=given.lr, momentum=0.9, weight_decay=5e-5)
    first_epoch = 0
    if hvd.rank() == 0 and given.checkpoint and pathlib.Path(given.checkpoint).exists():
        saved = torch.load(given.checkpoint, map_location="cpu")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first_epoch = saved["epoch"]
    first_epoch = hvd.broadcast_object(first_epoch, root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if given.fp16 else hvd.Compression.none,
        backward_passes_per_step=given.accumulate,
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    for epoch in range(first_epoch, given.epochs):
        model.train()
        sampler.set_epoch(epoch)
        begin = time.perf_counter()
        for index, (batch, targets) in enumerate(loader):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(given, epoch + index / len(loader))
            if index % given.accumulate == 0:
                optimizer.zero_grad()
            (cross_entropy(model(batch), targets) / given.accumulate).backward()
            if (index + 1) % given.accumulate == 0 or index + 1 == len(loader):
                optimizer.step()
        seconds = time.perf_counter() - begin
        loss, accuracy = validate(model, validation)
        if hvd.rank() == 0:
            rate = len(loader) * given.batch_size * hvd.size() / seconds
            print(f"epoch {epoch + 1}: {rate:.1f} images/s, loss {loss:.3f}, accuracy {accuracy:.3f}", flush=True)
        if hvd.rank() == 0 and given.checkpoint:
            saved = {"epoch": epoch + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            new = pathlib.Path(f"{given.checkpoint}.new")
            torch.save(saved, new)
            new.replace(given.checkpoint)


if __name__ == "__main__":
    main()
