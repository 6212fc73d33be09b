# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Measures how long calls of rueda.torch take: medians of the slower rank, in microseconds.

Usage: ruedarun --no-mpi -np 2 python benchmarks/python/torch_bench.py [seconds a row]
"""

import statistics
import sys
import time
from collections.abc import Callable

import rueda.torch as hvd
import torch

LIMIT = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
CALLS = 161


def row(name: str, call: Callable[[], float | None]) -> None:
    """Measures `call` and prints a row. If `call` returns a number of seconds, the row shows this time. Otherwise it
    shows the duration of the whole call."""
    for _ in range(50):
        call()
    times = []
    end = time.monotonic() + LIMIT
    while not hvd.allreduce(torch.tensor([float(time.monotonic() > end)]), op=hvd.Max).item():
        for _ in range(20):
            begin = time.perf_counter()
            counted = call()
            times.append(time.perf_counter() - begin if counted is None else counted)
    slowest = hvd.allreduce(torch.tensor([statistics.median(times)]), op=hvd.Max).item()
    if hvd.rank() == 0:
        print(f"{name:<60} {slowest * 1e6:10.1f}")


def main() -> None:
    hvd.init()
    torch.set_num_threads(1)
    if hvd.rank() == 0:
        print(f"PyTorch {torch.__version__}, {hvd.size()} ranks")
    small = torch.ones(1)
    row("allreduce of 4 bytes, by name", lambda: hvd.allreduce(small, name="small") and None)
    row("allreduce of 4 bytes, no name", lambda: hvd.allreduce(small) and None)
    row("allreduce_ of 4 bytes, by name", lambda: hvd.allreduce_(small, name="small") and None)
    row(
        "allreduce_async_ and synchronize, 4 bytes",
        lambda: hvd.synchronize(hvd.allreduce_async_(small, name="small")) and None,
    )
    tensors = [torch.ones(100) for _ in range(CALLS)]
    names = [f"tensor.{index}" for index in range(CALLS)]

    def start() -> float:
        begin = time.perf_counter()
        handles = [hvd.allreduce_async_(tensor, name=name) for tensor, name in zip(tensors, names, strict=True)]
        started = time.perf_counter() - begin
        for handle in handles:
            hvd.synchronize(handle)
        return started

    def start_and_wait() -> None:
        start()

    row(f"{CALLS} calls of allreduce_async_, 400 bytes each", start)
    row(f"{CALLS} of them, until the last has completed", start_and_wait)
    hvd.shutdown()


if __name__ == "__main__":
    main()
