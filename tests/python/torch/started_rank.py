# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""One rank of a job of test_distributed_start.py, which tests several methods of starting ranks. Prints the rank,
and a result that the ranks computed together."""

import os
import sys

import torch
import torch.distributed as dist

if "no import" not in sys.argv:
    import rueda.torch.distributed  # noqa: F401


def run() -> None:
    rank, size = dist.get_rank(), dist.get_world_size()
    for turn in range(2):  # a second group must be possible after the first one
        if turn == 1:
            dist.init_process_group("rueda", **again(rank, size))
        total = torch.full((5,), float(rank + 1))
        dist.all_reduce(total)
        dist.barrier()
        dist.destroy_process_group()
    os.write(1, f"<rank {rank} of {size}: {total[0].item():g}>\n".encode())


def again(rank, size):
    """Returns the arguments that create the second group. If the first group used a port, the second one uses a file,
    because the port may still be in use."""
    if len(sys.argv) > 2:
        return {"init_method": f"file://{sys.argv[2]}.again", "rank": rank, "world_size": size}
    return {}


def spawned(rank: int, size: int, path: str) -> None:
    sys.argv = [sys.argv[0], "spawned", path]
    import rueda.torch.distributed  # noqa: F401

    dist.init_process_group("rueda", init_method=f"file://{path}", rank=rank, world_size=size)
    run()


def fail(rank: int) -> None:
    """Runs some operations, and then rank 1 fails, so that the other ranks get an error inside an operation."""
    for _ in range(3):
        dist.all_reduce(torch.ones(3))
    if rank == 1:
        raise ValueError("my data is missing")
    dist.all_reduce(torch.ones(3))


def failing(rank: int, size: int, path: str) -> None:
    import rueda.torch.distributed  # noqa: F401

    dist.init_process_group("rueda", init_method=f"file://{path}", rank=rank, world_size=size)
    fail(rank)


if __name__ == "__main__":
    how = sys.argv[1]
    if how == "spawn":
        torch.multiprocessing.spawn(spawned, (int(sys.argv[3]), sys.argv[2]), nprocs=int(sys.argv[3]))
    elif how == "failing workers":
        torch.multiprocessing.spawn(failing, (3, sys.argv[2]), nprocs=3)
    elif how == "failing rank":
        dist.init_process_group("rueda")
        fail(dist.get_rank())
    elif how == "url":
        dist.init_process_group(init_method="rueda://", backend="rueda")
        sys.argv[2:] = []
        dist.barrier()
        print(f"<rank {dist.get_rank()} of {dist.get_world_size()}: url>", flush=True)
    else:
        dist.init_process_group("rueda")
        run()
