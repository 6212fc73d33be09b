# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A PyTorch script that uses an installed wheel without importing Rueda by name. Prints the sum of rank + 1 over all
ranks.

Usage: outside_pytorch.py horovod|distributed
"""

import sys

import torch


def as_horovod() -> tuple[int, int, float]:
    """Uses Rueda in place of Horovod, because RUEDA_AS_HOROVOD is set."""
    import horovod.torch as hvd

    hvd.init()
    total = hvd.allreduce(torch.full((3,), hvd.rank() + 1.0), name="total", op=hvd.Sum)
    ended = hvd.rank(), hvd.size(), total[0].item()
    hvd.shutdown()
    return ended


def as_a_backend() -> tuple[int, int, float]:
    """Uses Rueda as a backend, which PyTorch finds through its entry point."""
    import torch.distributed as dist

    assert not any(name.partition(".")[0] == "rueda" for name in sys.modules)
    dist.init_process_group("rueda", init_method="file://" + sys.argv[2], rank=int(sys.argv[3]), world_size=2)
    total = torch.full((3,), dist.get_rank() + 1.0)
    dist.all_reduce(total)
    ended = dist.get_rank(), dist.get_world_size(), total[0].item()
    dist.destroy_process_group()
    return ended


rank, size, total = as_horovod() if sys.argv[1] == "horovod" else as_a_backend()
print(f"rank {rank} of {size}: {total}", flush=True)
