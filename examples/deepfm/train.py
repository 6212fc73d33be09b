# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Trains the DeepFM model of this folder with PyTorch. The gradients of the embeddings are sparse: only the rows that a
batch touches travel between the ranks. The input pipeline is that of the program in C++, so each step has the same
samples.

    deepfm_data --folder clicks
    ruedarun -np 2 python train.py --train 'clicks/train-*.libsvm' --test 'clicks/test-*.libsvm'
    ruedarun -np 2 python train.py --device cuda --train …     # a GPU for each process
    ruedarun -np 2 python train.py --train 'a_{epoch}' 'b_{epoch}' --fifo --format libsvm --test 'clicks/test-*.libsvm'
"""

import argparse
import glob
import math
import os
import sys
import time
from collections.abc import Mapping
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
    ids: torch.Tensor  # one id for each field of each sample; the smallest possible id is 0
    values: torch.Tensor


def refuse_input(what: str) -> NoReturn:
    """Ends the program because its input is wrong. All ranks must call this function; rank 0 prints the message
    ``what``."""
    if hvd.rank() == 0:
        print(f"train.py: {what}", file=sys.stderr)
    sys.exit(2)


def format_of(given: argparse.Namespace, patterns: list[str]) -> rueda.data.Libsvm | rueda.data.Examples:
    """Returns the format of files or FIFOs. Without --format, they are TFRecord files if the first file's name contains
    .tfrecord, and otherwise LibSVM files."""
    kind = given.format
    if kind == "auto":
        kind = "tfrecord" if ".tfrecord" in min(glob.glob(patterns[0]), default=patterns[0]) else "libsvm"
    if kind == "libsvm":
        return rueda.data.Libsvm(one_based=True)
    return rueda.data.Examples(
        [
            rueda.data.Feature("label"),
            rueda.data.Feature("numbers", "float32", NUMBERS),
            rueda.data.Feature("ids", "int64", CATEGORIES),
        ]
    )


def open_input(given: argparse.Namespace, patterns: list[str], batch: int, **options) -> rueda.data.Pipeline:
    """Opens files or FIFOs."""
    return rueda.data.Pipeline(
        patterns, format_of(given, patterns), batch, rank=hvd.rank(), size=hvd.size(), threads=given.threads,
        malformed_limit=given.malformed_limit, **options
    )  # fmt: skip


def check_test_files(given: argparse.Namespace) -> None:
    """Reads and checks one sample of each test file, so that a file of another format is noticed before the training."""

    def read_samples() -> int:
        found, format = 0, format_of(given, given.test)
        paths = sorted(path for pattern in given.test for path in glob.glob(pattern))
        for path in paths if hvd.rank() == 0 else ():
            with rueda.data.Pipeline(
                [path], format, 1, rank=0, size=1, threads=1, malformed_limit=given.malformed_limit
            ) as pipeline:
                for batch in pipeline:
                    samples_of(batch, given.features, f"the test file {path}", torch.device("cpu"))
                    found += 1
                    break
        return found if paths else 1  # 1 if no file matches: evaluate() then reports this

    if training.on_all_ranks("checking the test samples", read_samples)[0] == 0:
        refuse_input("--test has no samples; give files that are not empty")


def open_training(given: argparse.Namespace, state: Mapping[str, str] | None) -> rueda.data.Pipeline:
    """Opens the training samples at the position of a checkpoint. Only one process can read a FIFO. Each FIFO is
    therefore a lane of the pipeline, and each rank reads its own lanes."""
    paths, lanes = given.train, given.lanes
    if given.fifo:
        if lanes != 1:
            raise rueda.InvalidArgument(f"--lanes is {lanes}, but with --fifo each FIFO is a lane; leave --lanes out")
        lanes = len(paths)
        if lanes % hvd.size():
            raise rueda.InvalidArgument(f"--fifo with {hvd.size()} ranks needs a multiple of this number of FIFOs, but there "
                                        f"are {lanes}; give one FIFO for each rank")  # fmt: skip
        for path in paths:
            # If the writer opens a FIFO again before the reader has seen its end, the reader sees only one epoch.
            if given.epochs > 1 and "{epoch}" not in path:
                raise rueda.InvalidArgument(f"--fifo with --epochs {given.epochs} needs a FIFO for each epoch, but '{path}' "
                                            "has no {epoch}, which stands for the number of the epoch; add it, or set "
                                            "--epochs 1")  # fmt: skip
        paths = [rueda.data.fifo(path) for path in paths]
    pipeline = open_input(
        given, paths, given.batch, shuffle=given.shuffle, seed=1, epochs=given.epochs, lanes=lanes, state=state
    )
    for warning in pipeline.warnings() if hvd.rank() == 0 else ():
        print(f"warning: {warning}", flush=True)
    if given.batch % hvd.size() and hvd.rank() == 0:
        least = given.batch // hvd.size()
        print(f"batch: {given.batch} samples over {hvd.size()} processes, {least} or {least + 1} on each; every sample has "
              "the same weight", flush=True)  # fmt: skip
    return pipeline


def samples_of(batch: dict | None, features: int, where: str, device: torch.device) -> Samples:
    """Checks a batch, and returns its samples on the device. The error names the first sample that is wrong. If the
    batch is None, the result has no samples."""
    if batch is None:
        return Samples(torch.zeros(0, device=device), torch.zeros((0, FIELDS), dtype=torch.int64, device=device),
                       torch.zeros((0, FIELDS), device=device))  # fmt: skip

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


def evaluate(model: DeepFM, given: argparse.Namespace) -> float:
    """Returns the exact AUC over all test samples. Each rank evaluates some of them."""
    auc, device = training.Auc(), model.table.weight.device

    def add_samples() -> None:
        with open_input(given, given.test, 1024 * hvd.size()) as pipeline, torch.no_grad():
            for batch in pipeline:
                samples = samples_of(batch, given.features, "the test samples", device)
                auc.add(model(samples.ids, samples.values), samples.labels)

    training.on_all_ranks("evaluating", add_samples)
    area = auc.compute()
    if math.isnan(area):
        refuse_input("--test has no sample with the label 1, or none with 0, so that there is no AUC")
    return area


def restore(
    manager: training.CheckpointManager, model: DeepFM, optimizer: torch.optim.Optimizer, course: dict[str, str]
) -> training.CheckpointInfo | None:
    """Restores the newest checkpoint, if there is one. ``course`` has the options that influence the training. The
    checkpoint also restores the optimizer's learning rate. A changed --lr would have no effect, so it is an error.
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
    parser.add_argument("--train", required=True, nargs="+", help="files of training samples (patterns), or FIFOs")
    parser.add_argument("--test", required=True, nargs="+", help="files of test samples (patterns)")
    parser.add_argument("--fifo", action="store_true", help="the paths of --train are FIFOs, one or more for each process; "
                        "{epoch} stands for the number of the epoch, from 0")  # fmt: skip
    parser.add_argument("--format", choices=["auto", "tfrecord", "libsvm"], default="auto",
                        help="auto: TFRecord if the first file's name contains .tfrecord, otherwise LibSVM")  # fmt: skip
    parser.add_argument("--malformed-limit", type=int, default=0, help="malformed records that are left out in each "
                        "epoch, and of the test samples; one more is an error")  # fmt: skip
    parser.add_argument("--features", type=int, default=13 + 26 * 100, help="number of ids; the generator prints it")
    parser.add_argument("--embedding", type=int, default=8, help="elements of an embedding")
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 32], help="sizes of the hidden layers")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=512, help="samples of one step, all processes together")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate of Adagrad")
    parser.add_argument("--shuffle", type=int, default=10000, help="samples that are permuted together")
    parser.add_argument("--lanes", type=int, default=1, help="sequences into which the training files are dealt out; with a "
                        "multiple of the processes, each process reads only its own files")  # fmt: skip
    parser.add_argument("--threads", type=int, default=1, help="threads of each process that parse the input")
    parser.add_argument("--checkpoint-dir", help="if it has a checkpoint, the run continues from it")
    parser.add_argument("--checkpoint-every", type=int, default=200, help="steps between two checkpoints")
    parser.add_argument("--metrics", help="folder for metrics.csv, which has the epoch and the loss of each step")
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
    # On the CPU, the gradients of the dense layers are copied to memory that the ranks of a host share, and are reduced
    # there. The sparse gradients of the embeddings are not copied, and gradients on a GPU need no copies.
    storage = "copied" if device.type == "cpu" else "auto"
    optimizer = hvd.DistributedOptimizer(adagrad, named_parameters=model.named_parameters(), gradient_storage=storage)

    # A run that continues must have these options unchanged. The folder of the files, the number of processes and the
    # number of epochs may change.
    course = {"batch": str(given.batch), "lr": str(given.lr), "shuffle": str(given.shuffle),
              "train": " ".join(os.path.basename(pattern) for pattern in given.train)}  # fmt: skip
    manager, restored, step, first_epoch = None, None, 0, 0
    if given.checkpoint_dir:
        manager = training.CheckpointManager(given.checkpoint_dir, every_steps=given.checkpoint_every, better="higher")
        restored = restore(manager, model, optimizer, course)
    if restored:
        step, first_epoch = restored.step, int(restored.values["epoch"])
        if hvd.rank() == 0:
            print(f"continuing at step {step} from {restored.path}", flush=True)
    else:
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)

    check_test_files(given)
    pipeline = open_training(given, restored and restored.values) if first_epoch < given.epochs else None
    metrics = training.MetricsWriter(given.metrics, first_step=step) if given.metrics else None
    auc = None
    summary = training.JobSummary()
    for epoch in range(first_epoch, given.epochs):
        begin, trained = time.perf_counter(), 0
        batches = summary.data(pipeline)
        while True:
            batch = next(batches, None)
            rueda.begin_step(step)
            samples = samples_of(batch, given.features, f"step {step}, epoch {epoch}", device)
            # This rank may have no samples in this step: the last batch of an epoch is smaller, and lanes may have
            # different lengths. A rank without samples takes part with gradients of zero.
            here = torch.tensor([len(samples.labels), batch is None], dtype=torch.int64)
            rows, ended = hvd.allreduce(here, name="rows", op=hvd.Sum).tolist()
            if ended == hvd.size():
                break
            if rows == 0:
                continue
            optimizer.zero_grad()
            logits = model(samples.ids, samples.values)
            # The optimizer divides the sum of the ranks' gradients by hvd.size(). The factor hvd.size() / rows makes
            # the result the mean over all samples.
            loss = binary_cross_entropy_with_logits(logits, samples.labels, reduction="sum") * hvd.size() / rows
            loss.backward()
            optimizer.step()
            if metrics:
                metrics.write(step, {"epoch": epoch, "loss": hvd.allreduce(loss.detach(), name="loss").item()})
            trained += rows
            summary.step(len(samples.labels))
            step += 1
            # No checkpoint is saved after one rank's samples have ended. From then on the ranks' positions in the input
            # may differ, but a checkpoint has only one position.
            if manager and not ended:
                values = {**course, "epoch": str(epoch), **pipeline.state_dict()}
                manager.save_when_due(step, model, {"optimizer": optimizer}, values=values)
        if device.type == "cuda":
            torch.cuda.synchronize()
        rate = trained / (time.perf_counter() - begin)
        if step == 0:
            refuse_input("--train has no samples; give files that are not empty")
        auc = evaluate(model, given)
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: AUC {auc:.4f}, {rate:.0f} samples/s", flush=True)
        if manager:
            manager.wait()  # without this wait, save() would skip this checkpoint if the last one is still being written
            values = {**course, "epoch": str(epoch + 1), **pipeline.state_dict()}
            manager.save(step, model, {"optimizer": optimizer}, values=values, metric=auc)
    if auc is None:
        auc = evaluate(model, given)  # nothing was left to train
    if metrics:
        metrics.close()
    summary.finish(checkpoints=manager, json_file=given.summary)
    if hvd.rank() == 0:
        print(f"AUC {auc:.6f} after {step} steps with {hvd.size()} processes")


if __name__ == "__main__":
    main()
