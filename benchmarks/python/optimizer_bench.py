# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares a step of Rueda's optimizers for C++ with PyTorch's, foreach and fused, on one thread.

    python optimizer_bench.py build/bench/bin/optimizer_bench [--rounds N] [--seconds S] [--sizes N ...] [--json FILE]

The candidates take turns in several rounds; the table has the median over the rounds, in ms of CPU
time. One thread does all the work, so CPU time is a fair measure. Other programs disturb CPU time less than elapsed
time.
"""

import argparse
import json
import statistics
import subprocess
import time

import torch

SIZES = (4 << 10, 256 << 10, 25 << 20)
RULES = {
    "sgd": (torch.optim.SGD, {}),
    "sgd_momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "adam": (torch.optim.Adam, {}),
    "adamw": (torch.optim.AdamW, {}),
    "adagrad": (torch.optim.Adagrad, {}),
    "ftrl": None,
    "lamb": None,
}


def seconds_of_torch(optimizer_class, options, size, seconds, **implementation) -> float | None:
    parameter = torch.nn.Parameter(torch.full((size,), 0.5))
    parameter.grad = torch.full((size,), 0.01)
    try:
        optimizer = optimizer_class([parameter], lr=1e-4, **options, **implementation)
        optimizer.step()
    except (RuntimeError, TypeError):
        return None  # this version of PyTorch does not have this implementation of the optimizer for the CPU
    count, begin = 0, time.process_time()
    while (elapsed := time.process_time() - begin) < seconds:
        optimizer.step()
        count += 1
    return elapsed / count


def seconds_of_rueda(program, name, size, seconds) -> tuple[float, float]:
    """Returns seconds and GB/s."""
    command = [program, f"--benchmark_filter=^{name}/{size}$", "--benchmark_format=json"]
    command.append(f"--benchmark_min_time={seconds}")
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    row = json.loads(ran.stdout)["benchmarks"][0]
    return row["cpu_time"] * 1e-9, row["bytes_per_second"] * 1e-9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the program optimizer_bench of a build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="for each candidate and round")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="numbers of parameters, of %(default)s")
    parser.add_argument("--json", metavar="FILE", help="for the table, with times in ms")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, one thread, median of {given.rounds} rounds")
    print("| rule | parameters | Rueda, ms | Rueda, GB/s | memory bound, GB/s | foreach, ms | fused, ms |")
    print("|---|---|---|---|---|---|---|")
    rows = []
    for size in given.sizes:
        for name, rule in RULES.items():
            rounds = []
            for _ in range(given.rounds):
                ours, speed = seconds_of_rueda(given.program, name, size, given.seconds)
                bound = seconds_of_rueda(given.program, f"bound_{name}", size, given.seconds)[1]
                foreach = seconds_of_torch(*rule, size, given.seconds, foreach=True) if rule else None
                fused = seconds_of_torch(*rule, size, given.seconds, fused=True) if rule else None
                rounds.append((ours, speed, bound, foreach, fused))
            ours, speed, bound, foreach, fused = (
                None if values[0] is None else statistics.median(values) for values in zip(*rounds, strict=True)
            )
            theirs = [f"{value * 1e3:.4g}" if value else "–" for value in (foreach, fused)]
            print(
                f"| {name} | {size} | {ours * 1e3:.4g} | {speed:.1f} | {bound:.1f} | {' | '.join(theirs)} |", flush=True
            )
            times = {"rueda": ours, "bound": ours * speed / bound, "foreach": foreach, "fused": fused}
            milliseconds = {key: value * 1e3 for key, value in times.items() if value is not None}
            rows.append({"rule": name, "parameters": size, **milliseconds})
    if given.json:
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"pytorch": torch.__version__, "rows": rows}, file)


if __name__ == "__main__":
    main()
