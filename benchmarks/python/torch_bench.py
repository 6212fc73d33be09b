# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Measures how long calls of rueda.torch take: medians of the slower rank, in microseconds.

Usage: ruedarun --no-mpi -np 2 python benchmarks/python/torch_bench.py [--seconds S] [--json FILE]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import rueda.torch as hvd
import torch

CALLS = 161


def row(name: str, call: Callable[[], float | None], limit: float) -> float:
    """Measures `call` and prints a row. If `call` returns a number of seconds, the row shows this time. Otherwise it
    shows the duration of the whole call. Returns the time in microseconds."""
    for _ in range(50):
        call()
    times = []
    end = time.monotonic() + limit
    while not hvd.allreduce(torch.tensor([float(time.monotonic() > end)]), op=hvd.Max).item():
        for _ in range(20):
            begin = time.perf_counter()
            counted = call()
            times.append(time.perf_counter() - begin if counted is None else counted)
    slowest = hvd.allreduce(torch.tensor([statistics.median(times)]), op=hvd.Max).item()
    if hvd.rank() == 0:
        print(f"{name:<60} {slowest * 1e6:10.1f}")
    return slowest * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row")
    parser.add_argument("--json", metavar="FILE", help="for the rows, on rank 0")
    given = parser.parse_args()
    hvd.init()
    torch.set_num_threads(1)
    if hvd.rank() == 0:
        print(f"PyTorch {torch.__version__}, {hvd.size()} ranks")
    small = torch.ones(1)
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

    calls: dict[str, Callable[[], float | None]] = {
        "allreduce of 4 bytes, by name": lambda: hvd.allreduce(small, name="small") and None,
        "allreduce of 4 bytes, no name": lambda: hvd.allreduce(small) and None,
        "allreduce_ of 4 bytes, by name": lambda: hvd.allreduce_(small, name="small") and None,
        "allreduce_async_ and synchronize, 4 bytes": lambda: hvd.synchronize(hvd.allreduce_async_(small, name="small"))
        and None,
        f"{CALLS} calls of allreduce_async_, 400 bytes each": start,
        f"{CALLS} of them, until the last has completed": start_and_wait,
    }
    rows = {name: row(name, call, given.seconds) for name, call in calls.items()}
    if hvd.rank() == 0 and given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"versions": {"PyTorch": torch.__version__}, "rows": rows}, file)
    hvd.shutdown()


if __name__ == "__main__":
    main()
