# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A rank of a job of test_stacks_of_trainers.py. Trains with DistributedDataParallel ("ddp") or with rueda.torch's
DistributedOptimizer ("optimizer"). In step 3, rank 1 waits for its batch until FILE exists.

Usage: waiting_rank.py ddp|optimizer FILE
"""

import os
import sys
import time

import rueda
import rueda.torch as hvd
import torch
import torch.distributed as dist

KIND, FILE = sys.argv[1:]
STEPS = 5
LATE_STEP = 3


def load_batch(step):
    while rueda.rank() == 1 and step == LATE_STEP and not os.path.exists(FILE):
        time.sleep(0.05)
    return torch.ones(2, 4)


def train():
    network = torch.nn.Linear(4, 1)
    if KIND == "ddp":
        network = torch.nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    if KIND == "optimizer":
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=network.named_parameters())
    for step in range(STEPS):
        rueda.begin_step(step)
        optimizer.zero_grad()
        network(load_batch(step)).sum().backward()
        optimizer.step()


if KIND == "ddp":
    dist.init_process_group("rueda")
else:
    hvd.init()
train()
if KIND == "ddp":
    dist.destroy_process_group()
else:
    hvd.shutdown()
