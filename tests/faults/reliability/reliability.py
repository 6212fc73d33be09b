#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Injects each fault of catalogue.py several times into a job, and checks what happens. See --help.

Exit status: 0: all runs were as expected; 1: a run was not as expected; 77: no fault can be injected on this machine.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import namespaces  # noqa: E402
import page  # noqa: E402
from catalogue import FAULTS  # noqa: E402
from job import HANG_SECONDS, START_SECONDS, test_hosts  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77  # CTest reports this exit status as "skipped"
LONGEST_RUN = START_SECONDS + 3 * HANG_SECONDS


def parse(arguments):
    parser = argparse.ArgumentParser(description="Injects faults into jobs, and checks what happens.")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the build folder with the programs")
    parser.add_argument("--times", type=int, default=1, help="how often each fault is injected (default 1)")
    parser.add_argument("--within", type=float, metavar="SECONDS", help="begin no new run after this time")
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
    parser.add_argument("--page", type=pathlib.Path, help="write the tables into this page")
    parser.add_argument("--check-page", type=pathlib.Path, help="check that this page has a row for each fault")
    parser.add_argument("--list", action="store_true", help="print the faults, and inject none")
    options = parser.parse_args(arguments)
    options.build = options.build.resolve()
    keys = [fault.key for fault in FAULTS]
    options.keys = options.only.split(",") if options.only else keys
    if unknown := [key for key in options.keys if key not in keys]:
        parser.error(f"there is no fault {unknown[0]!r}; there are: {', '.join(keys)}")
    if options.page and options.only and not options.earlier:
        parser.error("--page needs the runs of all faults; take the others --with the results of an earlier call")
    return options


def why_not(fault):
    """Returns the reason why this machine cannot inject the fault, or None."""
    if fault.launch.way != "no MPI" and shutil.which("mpirun") is None:
        return "there is no mpirun"
    if fault.launch.way != "no MPI" and "Open MPI" not in version_of_mpirun():
        return "mpirun is not that of Open MPI"
    if fault.launch.way == "hosts" and (reason := test_hosts.why_not()):
        return reason
    return fault.injection.why_not()


def version_of_mpirun():
    return subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout


def run_once(fault, options, work):
    """Runs one_run.py in new namespaces. Returns its result."""
    programs = options.build / "tests" / "faults" / "reliability"
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{fault.key}-", dir=work))
    words = [sys.executable, "-B", HERE / "one_run.py", fault.key, folder, options.build / "bin" / "ruedarun"]
    words += [programs / "fault_rank", str(options.patience)]
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
        text = f"one_run.py failed: {error!r}\n{done.stderr if 'done' in locals() else ''}"
        return {
            "problems": [text],
            "status": None,
            "line": None,
            "noticed": None,
            "over": None,
            "left": [],
            "output": "",
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def say(fault, number, result):
    how = "as expected" if not result["problems"] else "NOT AS EXPECTED"
    times = "".join(f", {name} after {result[name]:.2f} s" for name in ("noticed", "over") if result[name] is not None)
    print(f"{fault.key}, run {number}: {how}{times}", flush=True)
    for problem in result["problems"]:
        print(f"  {problem}", flush=True)
    if result["problems"]:
        print("  output:\n    " + result["output"].replace("\n", "\n    "), flush=True)


def run_all(options, faults, work):
    """Runs the faults in turn, so that all of them have nearly the same number of runs when the time is over."""
    begin = time.monotonic()
    results = json.loads(options.earlier.read_text()) if options.earlier else {}
    results |= {fault.key: [] for fault in faults}

    def run(fault, number):
        if options.within is None or time.monotonic() - begin < options.within:
            results[fault.key].append(run_once(fault, options, work))
            say(fault, number, results[fault.key][-1])
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = [pool.submit(run, fault, number) for number in range(1, options.times + 1) for fault in faults]
        for one in runs:
            one.result()
    return results


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
    skipped = {fault.key: reason for fault in chosen if (reason := why_not(fault))}
    for key, reason in skipped.items():
        print(f"{key}: skipped: {reason}")
    work = pathlib.Path(tempfile.mkdtemp(prefix="reliability-", dir=options.build))
    try:
        results = run_all(options, [fault for fault in chosen if fault.key not in skipped], work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    failed = sum(bool(result["problems"]) for runs in results.values() for result in runs)
    print(f"{sum(map(len, results.values()))} runs, {failed} of them not as expected, {len(skipped)} faults skipped")
    if options.page:
        page.write(options.page, FAULTS, results, skipped)
    return 1 if failed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
