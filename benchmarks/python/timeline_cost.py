# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Measures the cost of a timeline. Steps with and without a timeline alternate in one job, so that other work on the
machine affects both. A step reduces tensors with the sizes of ResNet-50's 161 gradients.

Usage: ruedarun --no-mpi -np 2 python benchmarks/python/timeline_cost.py [--pairs N] [--steps N] [--compute MS]
"""

import argparse
import os
import pathlib
import statistics
import tempfile
import time

import numpy
import rueda


def sizes() -> list[int]:
    """Returns the number of elements of each parameter of ResNet-50."""
    found = [64 * 3 * 49, 64, 64]
    channels = 64
    for blocks, width in ((3, 64), (4, 128), (6, 256), (3, 512)):
        for block in range(blocks):
            found += [
                channels * width,
                width,
                width,
                width * width * 9,
                width,
                width,
                width * width * 4,
                width * 4,
                width * 4,
            ]
            if block == 0:
                found += [channels * width * 4, width * 4, width * 4]
            channels = width * 4
    return [*found, 2048 * 1000, 1000]


def step(tensors: list[numpy.ndarray], compute: float) -> float:
    began = time.monotonic()
    until = began
    waits = []
    for index, tensor in enumerate(tensors):
        waits.append(rueda.allreduce_async_(tensor, f"gradient {index}"))
        until += compute / len(tensors)
        while time.monotonic() < until:
            pass  # simulates the backward pass of a layer
    for wait in waits:
        wait.wait()
    return time.monotonic() - began


def thread_seconds() -> float:
    """Returns the processor time of the thread that writes the timeline, or 0 on ranks without this thread."""
    for task in pathlib.Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().strip() == "rueda-timeline":
            return int((task / "schedstat").read_text().split()[0]) / 1e9
    return 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--steps", type=int, default=10, help="of each kind in a pair")
    parser.add_argument("--compute", type=float, default=0, help="milliseconds of a step's computation")
    given = parser.parse_args()
    rueda.init()
    path = rueda.broadcast_object(os.path.join(tempfile.gettempdir(), f"rueda-cost-{os.getpid()}.json"))
    tensors = [numpy.ones(size, numpy.float32) for size in sizes()]
    for _ in range(5):
        step(tensors, given.compute / 1000)
    without, with_timeline = [], []
    written_for, wrote = 0.0, 0.0  # in seconds
    for _ in range(given.pairs):
        for is_on, times in ((False, without), (True, with_timeline)):
            if is_on:
                rueda.start_timeline(path)
            rueda.barrier()
            times.append(statistics.fmean(step(tensors, given.compute / 1000) for _ in range(given.steps)))
            if is_on:
                wrote += thread_seconds()
                written_for += times[-1] * given.steps
                rueda.stop_timeline()
    if rueda.rank() == 0:
        ratios = [b / a for a, b in zip(without, with_timeline, strict=True)]
        print(
            f"{len(tensors)} tensors, {sum(sizes())} elements; step without: {statistics.median(without) * 1000:.2f} ms, "
            f"with a timeline: {statistics.median(with_timeline) * 1000:.2f} ms; ratio of pairs: median "
            f"{statistics.median(ratios):.4f}, quartiles {statistics.quantiles(ratios)[0]:.4f} to "
            f"{statistics.quantiles(ratios)[2]:.4f}; the writing thread used {wrote / written_for:.2%} of a core"
        )
        os.remove(path)
    rueda.shutdown()


if __name__ == "__main__":
    main()
