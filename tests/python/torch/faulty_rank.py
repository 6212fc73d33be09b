# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""One rank of a job of test_distributed_faults.py. The last rank is killed while every other rank is in a call. These
ranks print the errors of their calls."""

import datetime
import os
import signal
import sys
import time

import rueda.torch.distributed  # noqa: F401
import torch
import torch.distributed as dist


def network():
    torch.manual_seed(0)
    return torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))


dist.init_process_group("rueda", timeout=datetime.timedelta(seconds=30))
rank, size = dist.get_rank(), dist.get_world_size()
trained = network()
dist.barrier()
if rank == size - 1:
    os.kill(os.getpid(), signal.SIGKILL)
began = time.monotonic()
ends = []
for call in (
    lambda: dist.all_reduce(torch.ones(1000)),
    lambda: dist.all_reduce(torch.ones(3), async_op=True).get_future().wait(),
    lambda: dist.recv(torch.ones(3), size - 1),
    lambda: trained(torch.ones(2, 4)).sum().backward(),
    lambda: dist.new_group(),  # new_group() fails without waiting for the group's timeout
):
    try:
        call()
        ends.append("no error")
    except RuntimeError as error:
        ends.append("named" if f"rank {size - 1}" in str(error) else f"unnamed: {error}")
seconds = time.monotonic() - began
dist.destroy_process_group()
os.write(1, f"<{rank}: {'; '.join(ends)}; {'in time' if seconds < 12 else f'after {seconds:.1f} s'}>\n".encode())
sys.stdout.flush()
