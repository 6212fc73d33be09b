# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Trains the DeepFM model of this folder with PyTorch. The gradients of the embeddings are sparse: only the rows that a
batch touches travel between the ranks. The input pipeline is that of the program in C++, so each step has the same
samples.

    deepfm_data --folder clicks
    ruedarun -np 2 python train.py --train 'clicks/train-*.libsvm' --test 'clicks/test-*.libsvm'
    ruedarun -np 2 python train.py --device cuda --train …     # a GPU for each process
"""

import argparse
import glob
import os
import sys
import time
from typing import NamedTuple, NoReturn

import numpy as np
import rueda.data
import rueda.torch as hvd
import torch
from model import CATEGORIES, FIELDS, NUMBERS, DeepFM
from rueda import training
from torch.nn.functional import binary_cross_entropy_with_logits


def choose_device(name: str) -> torch.device:
    """Returns the device that Rueda chose for this rank, and makes it the current one. Call this after hvd.init()."""
    if name == "cpu":
        return torch.device("cpu")
    torch.cuda.set_device(hvd.local_device())
    return torch.device("cuda", torch.cuda.current_device())


class Samples(NamedTuple):
    labels: torch.Tensor
    ids: torch.Tensor  # one id for each field, from 0
    values: torch.Tensor


def open_input(patterns: list[str], batch: int, **options) -> rueda.data.Pipeline:
    """Opens TFRecord files if the first file's name contains .tfrecord, otherwise LibSVM files."""
    format = rueda.data.Libsvm(one_based=True)
    if ".tfrecord" in min(glob.glob(patterns[0]), default=""):
        format = rueda.data.Examples(
            [
                rueda.data.Feature("label"),
                rueda.data.Feature("numbers", "float32", NUMBERS),
                rueda.data.Feature("ids", "int64", CATEGORIES),
            ]
        )
    return rueda.data.Pipeline(patterns, format, batch, rank=hvd.rank(), size=hvd.size(), threads=1, **options)


def samples_of(batch: dict, features: int, where: str, device: torch.device) -> Samples:
    """Checks a batch, and returns its samples on the device. The error names the first sample that is wrong."""

    def refuse(row: int, what: str) -> NoReturn:
        raise rueda.InvalidArgument(f"reading sample {row} of this rank's part of {where}: {what}")

    labels = batch["label"]
    if "index" in batch:
        counts = np.diff(batch["index"].offsets)
        for row in np.flatnonzero(counts != FIELDS)[:1]:
            refuse(row, f"it has {counts[row]} pairs of an id and a value, but {FIELDS} were expected; write a pair "
                        "for each field, also with the value 0")  # fmt: skip
        ids, values = (batch[name].values.reshape(-1, FIELDS) for name in ("index", "value"))
    else:
        ids = np.empty((len(labels), FIELDS), np.int64)
        ids[:, :NUMBERS], ids[:, NUMBERS:] = np.arange(NUMBERS), batch["ids"]
        values = np.ones((len(labels), FIELDS), np.float32)
        values[:, :NUMBERS] = batch["numbers"]
    for row in np.flatnonzero((labels != 0) & (labels != 1))[:1]:
        refuse(row, f"the label is {labels[row]}, but must be 0 or 1; correct the file")
    for row, field in np.argwhere((ids < 0) | (ids >= features))[:1]:
        refuse(row, f"the id is {ids[row, field]}, counted from 0, but --features is {features}; set --features to a "
                    "number above the largest id")  # fmt: skip
    for row in np.flatnonzero(~np.isfinite(values).all(1))[:1]:
        refuse(row, "a value is not a finite number; correct the file")
    return Samples(*(torch.from_numpy(column).to(device) for column in (labels, ids, values)))


def evaluate(model: DeepFM, patterns: list[str], features: int) -> float:
    """Returns the exact AUC over all test samples. Each rank evaluates some of them."""
    auc, device = training.Auc(), model.table.weight.device

    def add_samples() -> None:
        with open_input(patterns, 1024 * hvd.size()) as pipeline, torch.no_grad():
            for batch in pipeline:
                samples = samples_of(batch, features, "the test samples", device)
                auc.add(model(samples.ids, samples.values), samples.labels)

    training.on_all_ranks("evaluating", add_samples)
    return auc.compute()


def restore(
    manager: training.CheckpointManager, model: DeepFM, optimizer: torch.optim.Optimizer, course: dict[str, str]
) -> training.CheckpointInfo | None:
    """Restores the newest checkpoint, if there is one. ``course`` has the options that influence the training. The
    optimizer takes its learning rate from the checkpoint, and would ignore another --lr.
    """
    restored = manager.restore(model, {"optimizer": optimizer})
    for name, value in course.items() if restored else ():
        saved = restored.values.get(name, "an unknown value")
        if saved != value:
            raise rueda.InvalidArgument(
                f"checkpoint {restored.path} was trained with --{name} '{saved}', but now it is '{value}'; continue with "
                "the same, or give another --checkpoint-dir"
            )
    return restored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", required=True, nargs="+", help="files of training samples (patterns)")
    parser.add_argument("--test", required=True, nargs="+", help="files of test samples (patterns)")
    parser.add_argument("--features", type=int, default=13 + 26 * 100, help="number of ids; the generator prints it")
    parser.add_argument("--embedding", type=int, default=8, help="elements of an embedding")
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 32], help="sizes of the hidden layers")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=512, help="samples of one step, all processes together")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate of Adagrad")
    parser.add_argument("--shuffle", type=int, default=10000, help="samples that are permuted together")
    parser.add_argument("--checkpoint-dir", help="if it has a checkpoint, the run continues from it")
    parser.add_argument("--checkpoint-every", type=int, default=200, help="steps between two checkpoints")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where the model is")
    parser.add_argument("--summary", help="file for the numbers of the summary, as JSON")
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        print("train.py: --device cuda needs a GPU, but PyTorch finds none that this process can use; look at nvidia-smi and "
              "CUDA_VISIBLE_DEVICES, or use --device cpu", file=sys.stderr)  # fmt: skip
        sys.exit(2)

    hvd.init()
    device = choose_device(given.device)
    torch.set_num_threads(1)  # one core for each process
    torch.manual_seed(1)
    model = DeepFM(given.features, given.embedding, given.hidden).to(device)
    # Adagrad divides by the root of a sum of squares. With an initial value of 0, the first step of a rare id would
    # have the length of the learning rate, however small the gradient is.
    adagrad = torch.optim.Adagrad(model.parameters(), lr=given.lr, initial_accumulator_value=1e-3)
    optimizer = hvd.DistributedOptimizer(adagrad, named_parameters=model.named_parameters())
    pipeline = open_input(given.train, given.batch, shuffle=given.shuffle, seed=1, epochs=given.epochs)

    # The folder of the files may change, and the number of processes and epochs, too.
    course = {"batch": str(given.batch), "lr": str(given.lr), "shuffle": str(given.shuffle),
              "train": " ".join(os.path.basename(pattern) for pattern in given.train)}  # fmt: skip
    manager, restored, step, first_epoch = None, None, 0, 0
    if given.checkpoint_dir:
        manager = training.CheckpointManager(given.checkpoint_dir, every_steps=given.checkpoint_every, better="higher")
        restored = restore(manager, model, optimizer, course)
    if restored:
        step, first_epoch = restored.step, int(restored.values["epoch"])
        if first_epoch < given.epochs:
            pipeline.load_state_dict({"position": restored.values["position"]})
        if hvd.rank() == 0:
            print(f"continuing at step {step} from {restored.path}", flush=True)
    else:
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)

    auc = None
    summary = training.JobSummary()
    for epoch in range(first_epoch, given.epochs):
        begin, trained = time.perf_counter(), 0
        for batch in summary.data(pipeline):
            rueda.begin_step(step)
            samples = samples_of(batch, given.features, f"step {step}, epoch {epoch}", device)
            # The last batch of an epoch is smaller, and may have no samples for this rank.
            rows = hvd.allreduce(torch.tensor([len(samples.labels)]), name="rows", op=hvd.Sum).item()
            optimizer.zero_grad()
            logits = model(samples.ids, samples.values)
            # The ranks' gradients are averaged. Each rank therefore divides its sum by its part of the average.
            loss = binary_cross_entropy_with_logits(logits, samples.labels, reduction="sum") * hvd.size() / rows
            loss.backward()
            optimizer.step()
            trained += rows
            summary.step(len(samples.labels))
            step += 1
            if manager:
                values = {**course, "epoch": str(epoch), **pipeline.state_dict()}
                manager.save_when_due(step, model, {"optimizer": optimizer}, values=values)
        if device.type == "cuda":
            torch.cuda.synchronize()
        rate = trained / (time.perf_counter() - begin)
        auc = evaluate(model, given.test, given.features)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: AUC {auc:.4f}, {rate:.0f} samples/s", flush=True)
        if manager:
            manager.wait()  # save() would otherwise skip this checkpoint if the last one is not complete
            values = {**course, "epoch": str(epoch + 1), **pipeline.state_dict()}
            manager.save(step, model, {"optimizer": optimizer}, values=values, metric=auc)
    if auc is None:
        auc = evaluate(model, given.test, given.features)  # nothing was left to train
    summary.finish(checkpoints=manager, json_file=given.summary)
    if hvd.rank() == 0:
        print(f"AUC {auc:.6f} after {step} steps with {hvd.size()} processes")


if __name__ == "__main__":
    main()
