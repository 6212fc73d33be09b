#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Injects each fault of catalogue.py several times into a job, and checks what happens. See --help.

Exit status: 0 all runs were as expected; 1 a run was not as expected, or a fault was not injected although --random is
not given; 77 this machine can inject none of the chosen faults.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import namespaces  # noqa: E402
import page  # noqa: E402
from catalogue import FAULTS  # noqa: E402
from job import HANG_SECONDS, START_SECONDS, test_hosts  # noqa: E402
from judge import failed, judged  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77  # CTest reports this exit status as "skipped"
LONGEST_DELAY = 3.0  # with --random: the longest time in seconds for which a job trains before a fault
LONGEST_RUN = START_SECONDS + 3 * HANG_SECONDS
DESCRIPTION = """Injects faults into jobs, and checks what happens. On two cores with --jobs 2, one run of each fault takes
about 70 s, and 20 runs of each take about 25 minutes. `scripts/test --long --stage faults --budget 60` makes 20 runs of
each fault in the first half of its time."""


def parse(arguments):
    parser = argparse.ArgumentParser(description=DESCRIPTION)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build folder with the programs")
    parser.add_argument("--times", type=int, default=1, help="how often each fault is injected (default 1)")
    parser.add_argument("--within", type=float, metavar="SECONDS", help="begin no new run after this time")
    parser.add_argument("--random", action="store_true", help="draw fault and moment of each run, --within SECONDS")
    parser.add_argument("--seed", type=int, help="the seed of --random; without it, the program chooses and prints one")
    parser.add_argument("--jobs", type=int, default=1, help="how many runs at the same time (default 1)")
    parser.add_argument("--only", metavar="KEY,…", help="only these faults; --list shows the keys")
    parser.add_argument("--patience", type=float, default=1, help="multiplies all limits of time, for busy machines")
    parser.add_argument("--json", type=pathlib.Path, help="write the results of all runs to this file")
    parser.add_argument(
        "--with",
        dest="earlier",
        type=pathlib.Path,
        metavar="JSON",
        help="take the runs of the other faults from this file",
    )
    parser.add_argument(
        "--page",
        type=pathlib.Path,
        help="write the tables into this page; with --only and without --with, the rows of the other faults stay",
    )
    parser.add_argument("--check-page", type=pathlib.Path, help="check that this page has a row for each fault")
    parser.add_argument("--list", action="store_true", help="print the faults, and inject none")
    options = parser.parse_args(arguments)
    options.build = options.build.resolve()
    keys = [fault.key for fault in FAULTS]
    options.keys = options.only.split(",") if options.only else keys
    if unknown := [key for key in options.keys if key not in keys]:
        parser.error(f"there is no fault {unknown[0]!r}; there are: {', '.join(keys)}")
    if options.random and options.within is None:
        parser.error("--random needs --within SECONDS")
    if options.seed is not None and not options.random:
        parser.error("--seed needs --random")
    if options.random and options.page:
        parser.error("--page needs runs of all faults, which --random does not promise")
    return options


def why_not(fault, build):
    """Returns the reason why this machine cannot inject the fault, or None."""
    if fault.launch.needs_mpi and shutil.which("mpirun") is None:
        return "there is no mpirun"
    if fault.launch.needs_mpi and "Open MPI" not in version_of_mpirun():
        return "mpirun is not that of Open MPI"
    if fault.launch.has_hosts and (reason := test_hosts.why_not()):
        return reason
    needs_ucx = fault.settings.get("RUEDA_TRANSPORT") == "ucx" or (
        fault.launch.has_hosts and not fault.launch.needs_mpi
    )
    if needs_ucx and not (build / "lib" / "librueda_ucx.so").exists():
        return "Rueda was built without UCX (Debian: libucx-dev)"
    return fault.injection.why_not()


def version_of_mpirun():
    return subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout


def run_once(fault, options, work, delay):
    """Runs one_run.py in new namespaces. The job trains for `delay` seconds before the fault. Returns the result."""
    programs = options.build / "tests" / "faults" / "reliability"
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{fault.key}-", dir=work))
    words = [sys.executable, "-B", HERE / "one_run.py", fault.key, folder, options.build, options.patience, delay]
    try:
        done = subprocess.run(
            namespaces.command(list(map(str, words))),
            env={**os.environ, "CLOCK_JUMP": str(programs / "clock_jump.so")},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=LONGEST_RUN,
            check=False,
        )
        return json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, json.JSONDecodeError, IndexError) as error:
        return failed(f"one_run.py failed: {error!r}\n{done.stderr if 'done' in locals() else ''}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def say(fault, number, result):
    how = "as expected" if not result["problems"] else "NOT AS EXPECTED"
    times = "".join(f", {name} after {result[name]:.2f} s" for name in ("noticed", "over") if result[name] is not None)
    print(f"{fault.key}, run {number}: {how}{times}", flush=True)
    for problem in result["problems"]:
        print(f"  {problem}", flush=True)
    if result["problems"]:
        output = [line for _, line in result["lines"]] if "lines" in result else result.get("output", "").split("\n")
        print("  output:\n    " + "\n    ".join(output), flush=True)


class Runs:
    """Runs faults, and collects the results. Threads: several threads can call run() at the same time."""

    def __init__(self, options, work):
        self.options = options
        self.work = work
        self.begin = time.monotonic()
        self.results = json.loads(options.earlier.read_text()) if options.earlier else {}
        self.lock = threading.Lock()

    def is_over(self):
        return self.options.within is not None and time.monotonic() - self.begin >= self.options.within

    def run(self, fault, delay):
        result = run_once(fault, self.options, self.work, delay)
        with self.lock:
            self.results[fault.key].append(result)
            say(fault, len(self.results[fault.key]), result)
            if self.options.json:
                self.options.json.write_text(json.dumps(self.results))

    def run_all(self, faults):
        """Runs the faults in turn, so that all of them have nearly the same number of runs when the time is over. With
        --random, draws faults and delays until the time is over."""
        self.results |= {fault.key: [] for fault in faults}
        sequence = drawn(faults, self.options.seed) if self.options.random else in_turn(faults, self.options.times)

        def work():
            while not self.is_over():
                with self.lock:
                    drawing = next(sequence, None)
                if drawing is None:
                    return
                self.run(*drawing)

        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            for worker in [pool.submit(work) for _ in range(self.options.jobs)]:
                worker.result()


def in_turn(faults, times):
    """Yields every fault `times` times, each without a delay."""
    for fault in faults * times:
        yield fault, 0.0


def drawn(faults, seed):
    """Yields random faults without end. With each fault comes the number of seconds for which the job trains before
    it."""
    numbers = random.Random(seed)
    while True:
        yield numbers.choice(faults), round(numbers.uniform(0, LONGEST_DELAY), 3)


def count_runs(options, faults, results):
    """Prints how many runs there were. Returns False if a fault has no run although --random is not given."""
    counts = [len(results[fault.key]) for fault in faults]
    planned = "at random" if options.random else str(len(faults) * options.times)
    print(f"planned {planned}, run {sum(counts)}, fewest runs of a fault {min(counts)}")
    if min(counts) == 0 and not options.random:
        missing = [fault.key for fault, count in zip(faults, counts, strict=True) if count == 0]
        print(f"the time of --within was over before these faults were injected: {', '.join(missing)}")
        return False
    return True


def main():
    options = parse(sys.argv[1:])
    if options.list:
        for fault in FAULTS:
            print(f"{fault.key:26} {fault.section}: {fault.name}")
        return 0
    wrong = page.complaints(options.check_page, FAULTS) if options.check_page else []
    for text in wrong:
        print(f"{text}; write the page anew with --page")
    if reason := namespaces.why_not():
        print(f"skipped: {reason}")
        return 1 if wrong else SKIPPED
    chosen = [fault for fault in FAULTS if fault.key in options.keys]
    skipped = {fault.key: reason for fault in chosen if (reason := why_not(fault, options.build))}
    for key, reason in skipped.items():
        print(f"{key}: skipped: {reason}")
    faults = [fault for fault in chosen if fault.key not in skipped]
    if not faults:
        print("skipped: this machine can inject none of these faults")
        return 1 if wrong else SKIPPED
    if options.random and options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 31)
    if options.random:
        print(f"faults at random; --seed {options.seed} draws them again", flush=True)
    work = pathlib.Path(tempfile.mkdtemp(prefix="reliability-", dir=options.build))
    runs = Runs(options, work)
    try:
        runs.run_all(faults)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    results = {fault.key: [judged(fault, run) for run in runs.results.get(fault.key, [])] for fault in FAULTS}
    bad = sum(bool(run["problems"]) for of_fault in results.values() for run in of_fault)
    complete = count_runs(options, faults, results)
    seed = f", seed {options.seed}" if options.random else ""
    print(f"{sum(map(len, results.values()))} runs, {bad} of them not as expected, {len(skipped)} faults skipped{seed}")
    if options.page:
        page.write(options.page, FAULTS, results, skipped, keeps=bool(options.only) and not options.earlier)
    return 1 if bad or wrong or not complete else 0


if __name__ == "__main__":
    sys.exit(main())
