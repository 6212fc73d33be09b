# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs one fault once, and prints what happened as JSON. reliability.py starts this program in new namespaces.

Usage: one_run.py FAULT FOLDER RUEDARUN FAULT_RANK PATIENCE. PATIENCE multiplies all limits of time.
"""

import ctypes
import json
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time

from catalogue import FAULTS
from job import Job, Problem

MS_REC, MS_PRIVATE = 0x4000, 0x40000  # from linux/mount.h


def separate(folder):
    """Gives this process's namespaces their own /tmp, /dev/shm and loopback network."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    (folder / "tmp").mkdir()
    subprocess.run(["mount", "--bind", folder / "tmp", "/tmp"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a program that a shell starts with `&` ignores SIGINT


def check_survivors(fault, job, begin, problems):
    """Checks the errors of the surviving ranks. Returns the time until the last of these ranks had its error, or None."""
    times = []
    for rank in fault.survivors if fault.survivors is not None else ():
        error = job.rank(rank).error
        if error is None:
            problems.append(f"rank {rank} has no error")
        elif not re.search(fault.error, error[1]):
            problems.append(f"the error of rank {rank} is {error[1]!r}; expected {fault.error!r}")
        else:
            times.append(error[0] - begin)
    return max(times, default=None)


def let_it_end(fault, job):
    """For a job that continues after the fault: lets it train for a while, then tells it to end."""
    time.sleep(fault.trains_on)
    for note in fault.notes:
        job.wait_until(lambda note=note: re.search(note, all_notes(job)), 20, f"a rank notes {note!r}")
    (job.folder / "finish").write_text("")


def all_notes(job):
    return "\n".join(note for rank in job.ranks for note in job.rank(rank).notes)


def run(fault, job, patience):
    fault.injection.prepare(job)
    job.environment |= fault.settings
    job.start()
    begin = fault.injection.inject(job)
    problems = []
    if fault.goes_on:
        let_it_end(fault, job)
    status = job.wait_for_end()
    over, processes = job.wait_until_no_process()
    left = job.left_behind(processes)
    job.read_rest()
    if status is None:
        problems.append("the job hangs")
    elif status not in fault.statuses:
        problems.append(f"the exit status is {status}; expected {fault.statuses}")
    noticed = check_survivors(fault, job, begin, problems)
    seen = job.first_line(fault.sees) if fault.sees else None
    if fault.sees and seen is None:
        problems.append(f"no line of the output has {fault.sees!r}")
    if fault.goes_on:
        problems += [f"rank {rank} has not ended in order" for rank in job.ranks if not job.rank(rank).ended]
    elif over - begin > fault.limit * patience:
        problems.append(f"the job was over after {over - begin:.2f} s; the limit is {fault.limit} s")
    problems += [f"no rank notes {note!r}" for note in fault.notes if not re.search(note, all_notes(job))]
    problems += [f"left behind: {thing}" for thing in left if not fault.leaves or not re.search(fault.leaves, thing)]
    if noticed is None and seen is not None and not fault.goes_on:
        noticed = seen[0] - begin
    return {
        "problems": problems,
        "status": status,
        "line": seen[1] if seen else None,
        "noticed": noticed,
        "over": None if fault.goes_on else over - begin,
        "left": left,
        "output": job.output() if problems else "",
    }


def main():
    key, folder, ruedarun, rank_program, patience = sys.argv[1:]
    fault = next(fault for fault in FAULTS if fault.key == key)
    folder = pathlib.Path(folder)
    separate(folder)
    job = Job(fault.launch, ruedarun, rank_program, folder)
    try:
        result = run(fault, job, float(patience))
    except Problem as problem:
        result = {"problems": [str(problem)], "status": None, "line": None, "noticed": None, "over": None, "left": []}
        result["output"] = job.output()
    finally:
        job.close()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
