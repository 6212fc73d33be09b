# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares the speed of the input pipeline on one core with that of tf.data, or with that of the disk. The files have
the schema of DeepFM.

    python benchmarks/python/data_bench.py --program build/bench/benchmarks/data_bench/data_bench [--rows N] [--rounds N]
    python benchmarks/python/data_bench.py --program build/bench/benchmarks/data_bench/data_bench --disk FOLDER [--rows N]

Rueda and tf.data take turns, each in a new process that may use one core. The order of the two
changes from round to round. The time is the processor time of all threads from opening the file to
the last batch. Before the measurement, tf.data reads and parses one batch, so the time does not
include the building of its graph. The table has the medians of the rounds. Needs TensorFlow
(benchmarks/compare/compare --install tensorflow).

With --disk FOLDER, the files are made in FOLDER. Three readers take turns. The first one reads by O_DIRECT in blocks of
1 MiB, which shows the rate of the disk. The second one is Rueda, after the system has dropped the file's pages from its
page cache. The third one is Rueda, which reads from the page cache. The rates are bytes per second of elapsed time, on
one core. TensorFlow is not needed.
"""

import argparse
import json
import mmap
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time

from peers import required

FLOATS = 13
IDS = 26
BATCH = 1024
FILES = {"vectors": "vectors.tfrecord", "scalars": "scalars.tfrecord", "libsvm": "rows.libsvm"}
TITLES = {
    "vectors": "TFRecord, tf.Example with 3 features",
    "scalars": "TFRecord, tf.Example with 40 features",
    "libsvm": "LibSVM",
}


def dataset_of(tf, kind: str, path: str):
    """Returns the dataset as tf.data's performance guide advises: batch first, then a vectorised map."""
    if kind == "libsvm":

        def parse_lines(lines):
            tokens = tf.strings.split(lines, " ")
            labels = tf.strings.to_number(tokens[:, :1].flat_values)
            rest = tokens[:, 1:]
            pairs = tf.reshape(tf.strings.split(rest.flat_values, ":").flat_values, [-1, 2])
            indices = tf.strings.to_number(pairs[:, 0], tf.int64)
            return labels, indices, tf.strings.to_number(pairs[:, 1]), rest.row_splits

        dataset = tf.data.TextLineDataset(path).batch(BATCH).map(parse_lines)
    else:
        features = {"label": tf.io.FixedLenFeature([], tf.float32)}
        if kind == "vectors":
            features["floats"] = tf.io.FixedLenFeature([FLOATS], tf.float32)
            features["ids"] = tf.io.FixedLenFeature([IDS], tf.int64)
        else:
            features |= {f"I{i + 1}": tf.io.FixedLenFeature([], tf.float32) for i in range(FLOATS)}
            features |= {f"C{i + 1}": tf.io.FixedLenFeature([], tf.int64) for i in range(IDS)}
        dataset = tf.data.TFRecordDataset(path).batch(BATCH).map(lambda records: tf.io.parse_example(records, features))
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = 1
    return dataset.prefetch(4).with_options(options)


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def read_with_tensorflow(kind: str, path: str) -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    dataset = dataset_of(tf, kind, path)
    next(iter(dataset))
    begin, cpu_begin, rows = time.perf_counter(), cpu_seconds(), 0
    for batch in dataset:
        rows += int((batch["label"] if kind != "libsvm" else batch[0]).shape[0])
    cpu, wall = cpu_seconds() - cpu_begin, time.perf_counter() - begin
    print(json.dumps({"rows": rows, "bytes": os.path.getsize(path), "cpu": cpu, "wall": wall}))


def run(command: list[str], core: int) -> dict:
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {core})
    )
    return json.loads(done.stdout.splitlines()[-1])


def measure(arguments, folder: pathlib.Path, kind: str) -> None:
    path = str(folder / FILES[kind])
    ours = [arguments.program, "read", kind, path]
    theirs = [required("tensorflow"), __file__, "--tensorflow", kind, path]
    core = min(os.sched_getaffinity(0))
    results = {"rueda": [], "tf.data": []}
    for turn in range(arguments.rounds):
        order = [("rueda", ours), ("tf.data", theirs)]
        for name, command in order if turn % 2 == 0 else reversed(order):
            results[name].append(run(command, core))
    rates = {}
    for name, runs in results.items():
        cpu = statistics.median(one["cpu"] for one in runs)
        rates[name] = runs[0]["rows"] / cpu
        megabytes = runs[0]["bytes"] / cpu / 1e6
        spread = f"{min(one['cpu'] for one in runs):.2f}-{max(one['cpu'] for one in runs):.2f} s"
        print(f"| {TITLES[kind]} | {name} | {rates[name] / 1e6:.2f} | {megabytes:.0f} | {spread} |", flush=True)
    print(f"| {TITLES[kind]} | ratio | {rates['rueda'] / rates['tf.data']:.1f} | | |", flush=True)


def read_directly(path: str, core: int) -> dict:
    """Reads the file without using the page cache (O_DIRECT), on one core as run() does."""
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        return read_past_cache(path)
    finally:
        os.sched_setaffinity(0, usable)


def read_past_cache(path: str) -> dict:
    buffer, read, begin = mmap.mmap(-1, 1 << 20), 0, time.perf_counter()
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    while count := os.preadv(descriptor, [buffer], read):
        read += count
        if count % 4096:  # the end of the file
            break
    os.close(descriptor)
    return {"bytes": read, "wall": time.perf_counter() - begin}


def write_back(path: str) -> None:
    """Waits until the whole file has been written to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def drop_pages(path: str) -> None:
    """Drops the file's pages from the page cache, and checks this at three places."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)  # the system drops only pages that are on the disk
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    for part in range(3):
        try:
            os.preadv(descriptor, [bytearray(1)], os.path.getsize(path) * part // 3, os.RWF_NOWAIT)
        except BlockingIOError:  # this error is expected: it says that the byte is not in the page cache
            continue
        raise SystemExit(f"the system keeps pages of {path} in its cache; name a folder on a disk")
    os.close(descriptor)


def read_cold(command: list[str], core: int) -> dict:
    drop_pages(command[-1])
    return run(command, core)


def measure_disk(arguments, folder: pathlib.Path, kind: str) -> None:
    path = str(folder / FILES[kind])
    command = [arguments.program, "read", kind, path]
    core = min(os.sched_getaffinity(0))
    # The first direct read must not wait until the file is on the disk.
    write_back(path)
    readers = {
        "the disk (O_DIRECT)": lambda: read_directly(path, core),
        "Rueda, pages dropped": lambda: read_cold(command, core),
        "Rueda, page cache": lambda: run(command, core),
    }
    results = {name: [] for name in readers}
    for _ in range(arguments.rounds):
        for name, read in readers.items():  # the read with dropped pages also fills the page cache for the next reader
            results[name].append(read())
    for name, runs in results.items():
        rates = sorted(one["bytes"] / one["wall"] / 1e6 for one in runs)
        busy = [one["cpu"] / one["wall"] for one in runs if "cpu" in one]
        share = f"{100 * statistics.median(busy):.0f} %" if busy else ""
        print(
            f"| {TITLES[kind]} | {name} | {statistics.median(rates):.0f} | {rates[0]:.0f}-{rates[-1]:.0f} | {share} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", help="path of the program data_bench")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--disk", metavar="FOLDER", help="compare with the disk that has this folder")
    parser.add_argument("--tensorflow", nargs=2, metavar=("KIND", "FILE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.tensorflow:
        read_with_tensorflow(*arguments.tensorflow)
        return
    if not arguments.program:
        parser.error("--program is needed")
    with tempfile.TemporaryDirectory(dir=arguments.disk) as name:
        folder = pathlib.Path(name)
        subprocess.run([arguments.program, "make", str(folder), str(arguments.rows)], check=True)
        if arguments.disk:
            print("| format | reader | MB/s | range | of one core |\n|---|---|---|---|---|", flush=True)
            for kind in FILES:
                measure_disk(arguments, folder, kind)
            return
        print("| format | reader | million samples/s | MB/s | processor time |\n|---|---|---|---|---|", flush=True)
        for kind in FILES:
            measure(arguments, folder, kind)


if __name__ == "__main__":
    main()
