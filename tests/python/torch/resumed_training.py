# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Trains a small network with dropout, and appends the loss of each step to a file. If it is killed and started again, it
continues after the newest checkpoint. One rank may kill itself in a step.

Usage: resumed_training.py FOLDER LOSSES STEPS [RANK STEP WHEN]

WHEN is "forward", "backward" or "step": the part of the step in which the rank kills itself.
"""

import os
import signal
import sys

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

state = {"optimizer": optimizer, "scheduler": scheduler}
# With "wait", a job that is killed after step 10 has a checkpoint, even if the thread that writes it is slow.
backup = training.BackupAndRestore(int(steps), folder, model, state, every_steps=5, seed=11, when_busy="wait")
print(f"begins at step {backup.first_step}", flush=True)
for step in backup:
    share = sampler.at_step(step)
    optimizer.zero_grad()
    may_die(step, "forward")
    weights = torch.zeros(len(share.indices), 1)
    weights[: share.counted] = hvd.size() / share.batch_size  # padding has the weight 0
    errors = (model(inputs[share.indices]) - targets[share.indices]).square()
    loss = (weights * errors).sum()
    loss.backward()
    may_die(step, "backward")
    optimizer.step()
    scheduler.step()
    may_die(step, "step")
    mean = hvd.allreduce(loss.detach(), name="loss").item()
    if hvd.rank() == 0:
        with open(losses, "a", encoding="utf-8") as file:
            print(step, mean.hex(), file=file)
hvd.shutdown()
