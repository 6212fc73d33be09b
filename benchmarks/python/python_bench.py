# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Measures how long calls from Python take.

Usage: ruedarun -np 2 python benchmarks/python/python_bench.py

The figures are medians of the slower rank. Single operations follow each other directly. If a sample has several
tensors, a barrier precedes it. The rows of one part of the table take turns, so that they are measured under the same
conditions. The rows named `ctypes` call the C interface directly, without the package rueda. They create their
descriptions of tensors once, before the timing begins.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import pathlib
import platform
import time
from collections.abc import Callable

import numpy as np
import rueda

FLOAT32 = 6


class Tensor(ctypes.Structure):
    """The struct rueda_tensor of rueda.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
    ]


def loaded_library() -> ctypes.CDLL:
    """Returns the librueda that this process has loaded."""
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        if "/librueda.so" in line:
            return ctypes.CDLL(line.split()[-1])
    raise SystemExit("librueda.so is not among the libraries of this process")


def by_ctypes(array: np.ndarray) -> Callable[[], None]:
    shape = (ctypes.c_int64 * 1)(array.size)
    tensor = ctypes.byref(Tensor(array.ctypes.data, shape, 1, FLOAT32))
    function = loaded_library().rueda_allreduce

    def call() -> None:
        if function(b"ctypes", tensor, tensor, None) != 0:
            raise SystemExit("rueda_allreduce failed")

    call.keep = shape  # type: ignore[attr-defined]
    return call


def slowest_median(samples: list[float]) -> float:
    return float(rueda.allreduce(np.array([np.median(samples)]), op=rueda.Max)[0])


def single_operations(samples: int) -> dict[str, float]:
    one = np.zeros(1, np.float32)
    slot = rueda.TensorSlot("slot")
    view = rueda.TensorView(one.ctypes.data, (1,), FLOAT32, one)
    rows = {
        "allreduce_, TensorSlot": lambda: rueda.allreduce_(one, slot),
        "allreduce_, TensorSlot and TensorView": lambda: rueda.allreduce_(view, slot),
        "allreduce_, name": lambda: rueda.allreduce_(one, "name"),
        "allreduce_, no name": lambda: rueda.allreduce_(one),
        "allreduce, name (a new array)": lambda: rueda.allreduce(one, "new"),
        "allreduce_async_ and wait, name": lambda: rueda.allreduce_async_(one, "async").wait(),
        "rueda_allreduce by ctypes, name": by_ctypes(one),
    }
    times: dict[str, list[float]] = {row: [] for row in rows}
    block = 200  # The rows take turns. In each turn, a row executes this many operations.
    for _ in range(samples // block):
        for row, call in rows.items():
            rueda.barrier()
            for _ in range(block):
                begin = time.perf_counter()
                call()
                times[row].append(time.perf_counter() - begin)
    return {row: slowest_median(sampled) for row, sampled in times.items()}


def sets_of_tensors(samples: int, count: int) -> dict[str, float]:
    tensors = [np.zeros(100, np.float32) for _ in range(count)]
    names = [f"gradient{i}" for i in range(count)]
    started, completed = [], []
    for _ in range(samples):
        rueda.barrier()
        begin = time.perf_counter()
        handles = [rueda.allreduce_async_(tensor, name) for tensor, name in zip(tensors, names)]
        started.append(time.perf_counter() - begin)
        for handle in handles:
            handle.wait()
        completed.append(time.perf_counter() - begin)
    return {
        f"{count} calls of allreduce_async_, 400 bytes each": slowest_median(started),
        f"{count} of them, until the last has completed": slowest_median(completed),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Times calls of Rueda from Python.")
    parser.add_argument("--samples", type=int, default=10_000, help="of each row (%(default)s)")
    parser.add_argument("--json", metavar="FILE", help="for the rows, on rank 0")
    options = parser.parse_args()
    rueda.init()
    results = single_operations(options.samples)
    results |= sets_of_tensors(max(options.samples // 50, 20), 161)
    if rueda.rank() == 0:
        print(f"| {rueda.size()} ranks, 4 bytes unless said | µs |\n|---|---|")
        for row, seconds in results.items():
            print(f"| {row} | {1e6 * seconds:.2f} |")
    if rueda.rank() == 0 and options.json:
        versions = {"Python": platform.python_version(), "NumPy": np.__version__}
        rows = {row: 1e6 * seconds for row, seconds in results.items()}
        pathlib.Path(options.json).write_text(json.dumps({"versions": versions, "rows": rows}), encoding="utf-8")
    rueda.shutdown()


if __name__ == "__main__":
    main()
