# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares hashing and vocabulary look-ups with TensorFlow on texts of the DeepFM schema, per core.

    python benchmarks/python/terms_bench.py --program build/bench/benchmarks/data_bench/terms_bench [--rounds N]

Rueda and TensorFlow take turns, each in a new process that may use one core. Each of them is the first one in every
second round. The time is the processor time of all threads for 64 batches of 1024 × 26 texts, five times. Reading the
texts and the vocabulary is not included. The table has the medians of the rounds. Needs TensorFlow
(benchmarks/compare/compare --install tensorflow).
"""

import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile

from peers import required

TEXTS_OF_BATCH = 1024 * 26
BUCKETS = 1_000_000
PASSES = 5
TITLES = {
    "hash": ("hash into a million buckets", "tf.strings.to_hash_bucket_fast"),
    "large": ("look up among 950,000 terms", "tf.lookup.StaticVocabularyTable"),
    "small": ("look up among 9,500 terms", "tf.lookup.StaticVocabularyTable"),
}


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def run_tensorflow(kind: str, folder: pathlib.Path) -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    texts = (folder / "texts.txt").read_bytes().splitlines()
    batches = [tf.constant(texts[begin : begin + TEXTS_OF_BATCH]) for begin in range(0, len(texts), TEXTS_OF_BATCH)]
    if kind == "hash":

        @tf.function
        def convert(batch):
            return tf.strings.to_hash_bucket_fast(batch, BUCKETS)
    else:
        terms = tf.lookup.TextFileInitializer(
            str(folder / f"{kind}.txt"),
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        table = tf.lookup.StaticVocabularyTable(terms, num_oov_buckets=1)

        @tf.function
        def convert(batch):
            return table.lookup(batch)

    convert(batches[0])
    begin = cpu_seconds()
    check = 0
    for _pass in range(PASSES):
        for batch in batches:
            check += int(convert(batch)[0])
    print(json.dumps({"texts": PASSES * len(texts), "cpu": cpu_seconds() - begin, "check": check}))


def run(command: list[str], core: int) -> dict:
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {core})
    )
    return json.loads(done.stdout.splitlines()[-1])


def measure(arguments, folder: pathlib.Path, kind: str) -> None:
    commands = {
        "rueda": [arguments.program, kind, str(folder)],
        "tensorflow": [required("tensorflow"), __file__, "--tensorflow", kind, str(folder)],
    }
    core = min(os.sched_getaffinity(0))
    rates: dict[str, list[float]] = {name: [] for name in commands}
    checks = {}
    for turn in range(arguments.rounds):
        for name in list(commands) if turn % 2 == 0 else reversed(list(commands)):
            result = run(commands[name], core)
            rates[name].append(result["texts"] / result["cpu"] / 1e6)
            checks[name] = result["check"]
    if kind != "hash" and len(set(checks.values())) != 1:
        raise SystemExit(f"the ids differ: {checks}")
    ours, theirs = (statistics.median(rates[name]) for name in ("rueda", "tensorflow"))
    spread = ", ".join(f"{min(all_rates):.1f}-{max(all_rates):.1f}" for all_rates in rates.values())
    title, peer = TITLES[kind]
    print(f"| {title} | {ours:.1f} | {theirs:.1f} ({peer}) | {ours / theirs:.1f} | {spread} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", help="path of the program terms_bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tensorflow", nargs=2, metavar=("KIND", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.tensorflow:
        run_tensorflow(arguments.tensorflow[0], pathlib.Path(arguments.tensorflow[1]))
        return
    if not arguments.program:
        parser.error("--program is needed")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([arguments.program, "make", str(folder)], check=True)
        print("| task | Rueda, million texts/s | TensorFlow | ratio | spread |\n|---|---|---|---|---|", flush=True)
        for kind in TITLES:
            measure(arguments, folder, kind)


if __name__ == "__main__":
    main()
