# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Rank 1 kills itself. Every other rank writes its error to FOLDER/<rank>. Usage: dying_rank.py FOLDER WHERE"""

import os
import pathlib
import signal
import sys
import time

import rueda.torch as hvd
import torch

folder, where = pathlib.Path(sys.argv[1]), sys.argv[2]
hvd.init()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
rank = hvd.rank()


def die() -> None:
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def steps() -> None:
    for step in range(1000):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).sum()
        if step == 5 and where == "before the backward pass":
            die()
        loss.backward()
        if step == 5 and where == "before the step":
            die()
        optimizer.step()


def collectives() -> None:
    for step in range(1000):
        if step == 5:
            die()
        hvd.allgather(torch.ones(2))
        hvd.broadcast_object({"step": step})


begin = time.monotonic()
try:
    collectives() if where == "in collectives" else steps()
except hvd.HorovodInternalError as error:
    # All further calls must fail with HorovodInternalError, too.
    for call in (lambda: hvd.allreduce(torch.ones(1)), optimizer.zero_grad, hvd.shutdown):
        try:
            call()
        except hvd.HorovodInternalError:
            continue
    (folder / str(rank)).write_text(f"{time.monotonic() - begin:.1f} {type(error).__name__}: {error}")
    sys.exit(3)
