# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares a step of Rueda's optimizers for C++ with PyTorch's, foreach and fused, on one thread.

    python optimizer_bench.py build/bench/bin/optimizer_bench

The candidates take turns in several rounds; the table has the median over the rounds, in ms of CPU
time. One thread does all the work, so CPU time is a fair measure. Other programs disturb CPU time less than elapsed
time.
"""

import json
import statistics
import subprocess
import sys
import time

import torch

SIZES = (4 << 10, 256 << 10, 25 << 20)
ROUNDS = 5
SECONDS = 0.1  # for each candidate and round
RULES = {
    "sgd": (torch.optim.SGD, {}),
    "sgd_momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
    "adagrad": (torch.optim.Adagrad, {}),
    "ftrl": None,
    "lamb": None,
}


def seconds_of_torch(optimizer_class, options, size, **implementation) -> float | None:
    parameter = torch.nn.Parameter(torch.full((size,), 0.5))
    parameter.grad = torch.full((size,), 0.01)
    try:
        optimizer = optimizer_class([parameter], lr=1e-4, **options, **implementation)
        optimizer.step()
    except (RuntimeError, TypeError):
        return None  # this version of PyTorch does not have this implementation of the optimizer for the CPU
    count, begin = 0, time.process_time()
    while (elapsed := time.process_time() - begin) < SECONDS:
        optimizer.step()
        count += 1
    return elapsed / count


def seconds_of_rueda(program, name, size) -> tuple[float, float]:
    """Returns seconds and GB/s."""
    command = [program, f"--benchmark_filter=^{name}/{size}$", "--benchmark_format=json"]
    command.append(f"--benchmark_min_time={SECONDS}")
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    row = json.loads(ran.stdout)["benchmarks"][0]
    return row["cpu_time"] * 1e-9, row["bytes_per_second"] * 1e-9


def main() -> None:
    program = sys.argv[1]
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, one thread, median of {ROUNDS} rounds")
    print("| rule | parameters | Rueda, ms | Rueda, GB/s | memory bound, GB/s | foreach, ms | fused, ms |")
    print("|---|---|---|---|---|---|---|")
    for size in SIZES:
        for name, rule in RULES.items():
            rounds = []
            for _ in range(ROUNDS):
                ours, speed = seconds_of_rueda(program, name, size)
                bound = seconds_of_rueda(program, f"bound_{name}", size)[1]
                foreach = seconds_of_torch(*rule, size, foreach=True) if rule else None
                fused = seconds_of_torch(*rule, size, fused=True) if rule else None
                rounds.append((ours, speed, bound, foreach, fused))
            ours, speed, bound, foreach, fused = (
                None if values[0] is None else statistics.median(values) for values in zip(*rounds, strict=True)
            )
            theirs = [f"{value * 1e3:.4g}" if value else "–" for value in (foreach, fused)]
            print(
                f"| {name} | {size} | {ours * 1e3:.4g} | {speed:.1f} | {bound:.1f} | {' | '.join(theirs)} |", flush=True
            )


if __name__ == "__main__":
    main()
