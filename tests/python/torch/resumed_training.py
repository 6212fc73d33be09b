# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Trains a small network with dropout. Appends the step, the loss and the rows of the input pipeline to a file. If the
job is killed and started again, it continues after the newest checkpoint, even in the middle of an epoch. The samples
are in rows.csv, beside the file with the losses. One rank may kill itself in a step.

Usage: resumed_training.py FOLDER LOSSES STEPS [RANK STEP WHEN]

WHEN is "forward", "backward" or "step": the part of the step in which the rank kills itself.
"""

import os
import pathlib
import signal
import sys

import rueda.data
import rueda.torch as hvd
import torch
from rueda import training
from rueda.torch.training import LearningRateScheduler

folder, losses, steps, *killed = sys.argv[1:]


def may_die(step: int, when: str) -> None:
    if killed and [str(hvd.rank()), str(step), when] == killed:
        os.kill(os.getpid(), signal.SIGKILL)


hvd.init()
torch.set_num_threads(1)
torch.manual_seed(hvd.rank())  # the ranks begin with different parameters, and get those of rank 0
model = torch.nn.Sequential(
    torch.nn.Linear(6, 16), torch.nn.BatchNorm1d(16), torch.nn.Tanh(), torch.nn.Dropout(0.25), torch.nn.Linear(16, 1)
)
rate = training.LearningRate(0.02, "sqrt", warmup_steps=5, schedule=training.CosineDecay(int(steps), floor=0.1))
optimizer = torch.optim.AdamW(model.parameters(), lr=rate.base)
scheduler = LearningRateScheduler(optimizer, rate)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
numbers = torch.Generator().manual_seed(1)
inputs = torch.randn(203, 6, generator=numbers)
targets = inputs.square().sum(1, keepdim=True).sqrt()
sampler = training.Sampler(len(inputs), 16 * hvd.size(), seed=5, remainder="pad")
file = pathlib.Path(losses).with_name("rows.csv")
if hvd.rank() == 0:
    file.write_text("row\n" + "".join(f"{row}\n" for row in range(len(inputs))))
hvd.barrier()
BATCH = 32  # the size of a batch of the pipeline; each rank gets a part of it
columns = rueda.data.Csv([rueda.data.CsvColumn("row", "int64")])
pipeline = rueda.data.Pipeline(file, columns, BATCH, rank=hvd.rank(), size=hvd.size(), shuffle=100, seed=3, epochs=0)


def rows():
    while True:
        for batch in pipeline:
            yield torch.from_numpy(batch["row"])


state = {"optimizer": optimizer, "scheduler": scheduler, "input": pipeline}
# With "wait", a job that is killed after step 10 has a checkpoint, even if the thread that writes it is slow.
backup = training.BackupAndRestore(int(steps), folder, model, state, every_steps=5, seed=11, when_busy="wait")
print(f"begins at step {backup.first_step}", flush=True)
for step, more in zip(backup, rows()):
    share = sampler.at_step(step)
    optimizer.zero_grad()
    may_die(step, "forward")
    weights = torch.zeros(len(share.indices), 1)
    weights[: share.counted] = hvd.size() / share.batch_size  # padding has the weight 0
    errors = (model(inputs[share.indices]) - targets[share.indices]).square()
    others = (model(inputs[more]) - targets[more]).square().sum() * hvd.size() / BATCH
    loss = ((weights * errors).sum() + others) / 2
    loss.backward()
    may_die(step, "backward")
    optimizer.step()
    scheduler.step()
    may_die(step, "step")
    mean = hvd.allreduce(loss.detach(), name="loss").item()
    taken = ",".join(str(row) for row in sorted(hvd.allgather(more, name="rows").tolist()))
    if hvd.rank() == 0:
        with open(losses, "a", encoding="utf-8") as file:
            print(step, mean.hex(), taken, file=file)
hvd.shutdown()
