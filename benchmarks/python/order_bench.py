# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Measures what the arrangement of an input pipeline costs, with the files of examples/deepfm.

    deepfm_data --folder big --rows 200000 --test-rows 50000
    PYTHONPATH=build/release/python python benchmarks/python/order_bench.py --folder big [--rounds N]

Each arrangement runs in a new process that may use one core. The arrangements take turns, in several rounds. The time is the
processor time of all threads for one epoch. If there are several epochs, the first one is not counted. The program
checks that all arrangements deliver the same sum of the values. (A rank of a job with two ranks delivers about half of
this sum.) The table has the medians of the rounds.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

import numpy as np

FIELDS, BATCH = 39, 512
#: An arrangement has a title, the files, the options of the pipeline, the number of epochs, and a function for `maps`.
ARRANGEMENTS = {
    "plain": ("parsed in the library, in batches", "train-*.libsvm", {}, 1, None),
    "no-shuffle": ("`shuffle=0`", "train-*.libsvm", {"shuffle": 0}, 1, None),
    "large-shuffle": ("`shuffle=100_000`", "train-*.libsvm", {"shuffle": 100_000}, 1, None),
    "map": ("… and a NumPy function for each batch", "train-*.libsvm", {}, 1, "transform_batch"),
    "map-rows": ("… and the same function for each sample", "train-*.libsvm", {}, 1, "transform_rows"),
    "python": ("lines that Python parses one by one", "train-*.libsvm", {}, 1, "parse_lines"),
    "half": ("rank 0 of 2, `lanes=1`", "train-*.libsvm", {"size": 2}, 1, None),
    "lanes": ("rank 0 of 2, `lanes=2`", "train-*.libsvm", {"size": 2, "lanes": 2}, 1, None),
    "gzip": ("gzip, no cache", "*.gz", {}, 3, None),
    "memory": ('gzip, `cache="memory"`', "*.gz", {"cache": "memory"}, 3, None),
    "folder": ("gzip, `cache=FOLDER`", "*.gz", {"cache": "folder"}, 3, None),
}


def transform(values: np.ndarray) -> np.ndarray:
    return np.sqrt(values)


def transform_batch(batch: dict) -> None:
    batch["transformed"] = transform(batch["value"].values)


def transform_rows(batch: dict) -> None:
    batch["transformed"] = np.concatenate([transform(row) for row in batch["value"].values.reshape(-1, FIELDS)])


class Values:
    """Stands for the column "value" of a batch, if Python parses the lines instead of the library."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values


def parse_lines(batch: dict) -> None:
    rows = []
    for line in batch["line"].texts():
        label, *pairs = line.split()
        rows.append((float(label), *(pair.partition(b":") for pair in pairs)))
    batch["label"] = np.array([row[0] for row in rows], np.float32)
    batch["index"] = np.array([[int(index) for index, _, _ in row[1:]] for row in rows])
    batch["value"] = Values(np.array([[float(value) for _, _, value in row[1:]] for row in rows], np.float32))


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def read(name: str, folder: pathlib.Path, cache: pathlib.Path) -> None:
    from rueda import data

    _, pattern, options, epochs, function = ARRANGEMENTS[name]
    options = {"shuffle": 10_000, **options}
    if options.get("cache") == "folder":
        options["cache"] = cache
    format = data.Lines() if function == "parse_lines" else data.Libsvm(one_based=True)
    maps = [globals()[function]] if function else []
    pipeline = data.Pipeline(folder / pattern, format, BATCH, threads=1, seed=1, epochs=epochs, maps=maps, **options)
    total = []
    for epoch in range(epochs):
        if epoch < 2:
            begin = cpu_seconds()
        total.append(sum(float(batch["value"].values.sum(dtype=np.float64)) for batch in pipeline))
    assert max(total) - min(total) < 1e-6 * total[0], total
    print(json.dumps({"total": total[0], "cpu": (cpu_seconds() - begin) / max(1, epochs - 1)}))


def run(name: str, folder: pathlib.Path) -> dict:
    core = min(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--folder", str(folder), "--read", name, cache]
        done = subprocess.run(
            command, check=True, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {core})
        )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="folder that deepfm_data has filled")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--read", nargs=2, metavar=("NAME", "CACHE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        read(arguments.read[0], arguments.folder, pathlib.Path(arguments.read[1]))
        return
    results: dict[str, list[dict]] = {name: [] for name in ARRANGEMENTS}
    with tempfile.TemporaryDirectory() as packed:
        for path in sorted(arguments.folder.glob("train-*.libsvm")):
            (pathlib.Path(packed) / (path.name + ".gz")).write_bytes(gzip.compress(path.read_bytes(), 6))
        for turn in range(arguments.rounds):
            for name in ARRANGEMENTS if turn % 2 == 0 else reversed(ARRANGEMENTS):
                folder = pathlib.Path(packed) if ARRANGEMENTS[name][1] == "*.gz" else arguments.folder
                results[name].append(run(name, folder))
    whole = results["plain"][0]["total"]
    print("| arrangement | processor time of an epoch | lowest, highest |\n|---|---|---|")
    for name, runs in results.items():
        title, _, options, _, _ = ARRANGEMENTS[name]
        share = runs[0]["total"] / whole * options.get("size", 1)
        assert abs(share - 1) < (0.02 if options.get("size") else 1e-6), f"{name}: other samples"
        times = [one["cpu"] for one in runs]
        print(f"| {title} | {statistics.median(times):.2f} s | {min(times):.2f}, {max(times):.2f} |")


if __name__ == "__main__":
    main()
