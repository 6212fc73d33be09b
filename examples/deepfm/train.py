# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Trains the DeepFM model of this folder with PyTorch. The gradients of the embeddings are sparse: the ranks exchange
only the rows that a batch uses. Each rank reads all LibSVM files into its memory.

    deepfm_data --folder clicks --format libsvm
    ruedarun -np 2 python train.py --train 'clicks/train-*.libsvm' --test 'clicks/test-*.libsvm'
"""

import argparse
import glob
import time
from typing import NamedTuple

import numpy as np
import rueda.torch as hvd
import torch
from rueda import training
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

FIELDS = 39


class Samples(NamedTuple):
    labels: torch.Tensor
    ids: torch.Tensor  # one id for each field, from 0
    values: torch.Tensor

    def take(self, indices) -> "Samples":
        return Samples(*(column[indices] for column in self))


def read_libsvm(pattern: str) -> Samples:
    """Reads lines ``label id:value id:value …``. Each line has a pair for each field, and ids begin with 1."""
    paths = sorted(glob.glob(pattern))
    if not paths:
        raise FileNotFoundError(f"no file matches '{pattern}'")
    tables = []
    for path in paths:
        with open(path, encoding="ascii") as file:
            numbers = np.fromstring(file.read().replace(":", " "), sep=" ")
        if len(numbers) % (1 + 2 * FIELDS) != 0:
            raise ValueError(f"{path} has {len(numbers)} numbers, which is no multiple of {1 + 2 * FIELDS}")
        tables.append(numbers.reshape(-1, 1 + 2 * FIELDS))
    table = torch.from_numpy(np.concatenate(tables))
    return Samples(table[:, 0].float(), table[:, 1::2].long() - 1, table[:, 2::2].float())


class DeepFM(nn.Module):
    """DeepFM (Guo et al. 2017). A row of the table has an id's weight in the linear part, and then the id's embedding."""

    def __init__(self, features: int, embedding: int, hidden: list[int]) -> None:
        super().__init__()
        self.table = nn.Embedding(features, 1 + embedding, sparse=True)
        nn.init.uniform_(self.table.weight, -0.03, 0.03)
        with torch.no_grad():
            self.table.weight[:, 0] = 0
        layers: list[nn.Module] = []
        inputs = FIELDS * embedding
        for outputs in hidden:
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
            inputs = outputs
        self.deep = nn.Sequential(*layers, nn.Linear(inputs, 1))

    def forward(self, ids: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        rows = self.table(ids) * values[:, :, None]
        linear, embeddings = rows[:, :, 0].sum(1), rows[:, :, 1:]
        # The sum of the products of all pairs (Rendle 2010, lemma 3.1).
        pairs = 0.5 * (embeddings.sum(1).square() - embeddings.square().sum(1)).sum(1)
        return linear + pairs + self.deep(embeddings.flatten(1)).squeeze(1)


def evaluate(model: DeepFM, test: Samples) -> float:
    """Returns the exact AUC over all test samples. Each rank evaluates a part of the samples."""
    auc = training.Auc()
    mine = training.shard(len(test.labels))
    with torch.no_grad():
        for begin in range(mine.start, mine.stop, 1024):
            part = test.take(slice(begin, min(begin + 1024, mine.stop)))
            auc.add(model(part.ids, part.values), part.labels == 1)
    return auc.compute()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True, help="pattern of LibSVM files")
    parser.add_argument("--test", required=True, help="pattern of LibSVM files")
    parser.add_argument("--features", type=int, default=13 + 26 * 100, help="number of ids; the generator prints it")
    parser.add_argument("--embedding", type=int, default=8, help="elements of an embedding")
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 32], help="sizes of the hidden layers")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=512, help="samples of one step, all processes together")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate of Adagrad")
    parser.add_argument("--checkpoint-dir", help="if it has a checkpoint, the run continues from it")
    given = parser.parse_args()

    hvd.init()
    torch.set_num_threads(1)  # one core for each process
    torch.manual_seed(1)
    train, test = read_libsvm(given.train), read_libsvm(given.test)
    model = DeepFM(given.features, given.embedding, given.hidden)
    # Adagrad divides by the root of a sum of squares. With an initial value of 0, the first step of a rare id would
    # have the length of the learning rate, however small the gradient is.
    adagrad = torch.optim.Adagrad(model.parameters(), lr=given.lr, initial_accumulator_value=1e-3)
    optimizer = hvd.DistributedOptimizer(adagrad, named_parameters=model.named_parameters())

    sampler = training.Sampler(len(train.labels), given.batch, seed=1, allow_empty_shares=True)
    steps: training.BackupAndRestore | range = range(given.epochs * sampler.batches)
    if given.checkpoint_dir:
        steps = training.BackupAndRestore(
            len(steps), given.checkpoint_dir, model, {"optimizer": optimizer}, every_steps=200
        )
    else:
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    begin, samples, auc = time.perf_counter(), 0, None
    for step in steps:
        share = sampler.at_step(step)
        batch = train.take(share.indices)
        optimizer.zero_grad()
        logits = model(batch.ids, batch.values)
        # The optimizer averages the gradients of the ranks. So the sum of the losses is multiplied by the number of
        # ranks and divided by the size of the global batch.
        loss = binary_cross_entropy_with_logits(logits, batch.labels, reduction="sum") * hvd.size() / share.batch_size
        loss.backward()
        optimizer.step()
        samples += share.batch_size
        if (step + 1) % sampler.batches == 0:
            rate = samples / (time.perf_counter() - begin)
            auc = evaluate(model, test)
            if hvd.rank() == 0:
                print(f"epoch {(step + 1) // sampler.batches}: AUC {auc:.4f}, {rate:.0f} samples/s", flush=True)
            begin, samples = time.perf_counter(), 0
    if auc is None:
        auc = evaluate(model, test)  # no epoch was trained, so the model was not evaluated yet
    if hvd.rank() == 0:
        print(f"AUC {auc:.6f} after {given.epochs * sampler.batches} steps with {hvd.size()} processes")


if __name__ == "__main__":
    main()
