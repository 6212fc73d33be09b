# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A rank of a job of test_hvd_faults.py. Rank 1 stops making calls. Rank 0 makes several waiting calls on several
threads at the same time, and prints how each call ends."""

import asyncio
import os
import signal
import threading

import rueda
import rueda.torch as hvd
import torch

hvd.init()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def step():
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()


async def awaited():
    return await rueda.allreduce_async(torch.ones(3), "awaited")


def report(name, wait):
    try:
        wait()
        end = "no error"
    except rueda.RuedaError as error:
        end = f"{type(error).__name__}: {error}"
    os.write(1, f"<{name}: {end}>\n".encode())


step()
if hvd.rank() == 1:
    while True:
        signal.pause()  # this call waits for a signal, and returns when Rueda takes the stack of this rank
handle = hvd.allreduce_async(torch.ones(3), name="synchronized")
waits = {
    "synchronize": lambda: hvd.synchronize(handle),
    "await": lambda: asyncio.run(awaited()),
    "step": step,
}
threads = [threading.Thread(target=report, args=entry) for entry in waits.items()]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
os._exit(3)
