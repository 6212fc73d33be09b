# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares epochs of compressed TFRecord files with and without a cache, and with the cache of tf.data.

    PYTHONPATH=build/bench/python python benchmarks/python/cache_bench.py [--rows N] [--rounds N]

Each reader runs in a new process that may use one core, in turn and in several rounds. The time is the processor time
of all threads for the second and the third epoch. The program checks that all readers deliver the same bytes. tf.data
is left out if TensorFlow is missing (benchmarks/compare/compare --install tensorflow), and the output says so. The
table has the medians of the rounds.
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from peers import INSTALL, python_of

FILES, BATCH, RECORD = 4, 1024, 300
READERS = {
    "none": "Rueda without a cache",
    "memory": "Rueda, memory",
    "folder": "Rueda, folder",
    "tf-none": "tf.data without a cache",
    "tf-memory": "tf.data, `cache()`",
    "tf-folder": "tf.data, `cache(filename)`",
}


def write_files(folder: pathlib.Path, rows: int) -> None:
    import random

    from rueda import data

    numbers = random.Random(1)
    for file in range(FILES):
        with data.TfrecordWriter(folder / f"part-{file}.tfrecord.gz") as writer:
            for _ in range(rows // FILES):
                # Half of the bytes are random, so gzip halves the files.
                writer.write(numbers.randbytes(RECORD // 2) + bytes(RECORD // 2))


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def epochs_of_rueda(folder: pathlib.Path, cache: str):
    from rueda import data

    place = {"none": None, "memory": "memory", "folder": folder / "cache"}[cache]
    pipeline = data.Pipeline(folder / "part-*.gz", data.Tfrecords(), batch=BATCH, epochs=3, threads=1, cache=place)
    for _ in range(3):
        yield sum(len(batch["record"].values) for batch in pipeline)


def epochs_of_tensorflow(folder: pathlib.Path, cache: str):
    import tensorflow as tf

    files = sorted(str(path) for path in folder.glob("part-*.gz"))
    dataset = tf.data.TFRecordDataset(files, compression_type="GZIP")
    if cache != "tf-none":
        dataset = dataset.cache(str(folder / "tf-cache") if cache == "tf-folder" else "")
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = 1
    lengths = dataset.batch(BATCH).map(lambda batch: tf.reduce_sum(tf.strings.length(batch)))
    lengths = lengths.prefetch(4).with_options(options)
    for _ in range(3):
        yield sum(int(length) for length in lengths)


def read(folder: pathlib.Path, cache: str) -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    epochs = epochs_of_tensorflow(folder, cache) if cache.startswith("tf-") else epochs_of_rueda(folder, cache)
    total = [next(epochs)]
    cpu, wall = cpu_seconds(), time.perf_counter()
    total += epochs
    assert len(set(total)) == 1, total
    print(json.dumps({"bytes": total[0], "cpu": cpu_seconds() - cpu, "wall": time.perf_counter() - wall}))


def run(folder: pathlib.Path, cache: str) -> dict:
    python = python_of("tensorflow") if cache.startswith("tf-") else sys.executable
    command = [python, __file__, "--read", str(folder), cache]
    core = min(os.sched_getaffinity(0))
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {core})
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--read", nargs=2, metavar=("FOLDER", "CACHE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        read(pathlib.Path(arguments.read[0]), arguments.read[1])
        return
    has_tensorflow = python_of("tensorflow") is not None
    if not has_tensorflow:
        print(f"tf.data is left out: TensorFlow is missing; install it with `{INSTALL} tensorflow`")
    readers = [cache for cache in READERS if has_tensorflow or not cache.startswith("tf-")]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_files(folder, arguments.rows)
        results: dict[str, list[dict]] = {cache: [] for cache in readers}
        for turn in range(arguments.rounds):
            for cache in readers if turn % 2 == 0 else reversed(readers):
                results[cache].append(run(folder, cache))
    assert len({runs[0]["bytes"] for runs in results.values()}) == 1
    print("| reader | processor time of an epoch | MB/s |\n|---|---|---|")
    for cache, runs in results.items():
        cpu = statistics.median(one["cpu"] for one in runs) / 2
        print(f"| {READERS[cache]} | {cpu:.3f} s | {runs[0]['bytes'] / cpu / 1e6:.0f} |")


if __name__ == "__main__":
    main()
