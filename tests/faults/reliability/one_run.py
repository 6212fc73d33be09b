# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs one fault once, and prints what happened as JSON. reliability.py starts this program in new namespaces.

Usage: one_run.py FAULT FOLDER BUILD PATIENCE DELAY. BUILD is the build folder. PATIENCE multiplies all limits of time. The
job trains for DELAY seconds before the fault.
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
from judge import failed, judged
from namespaces import mount_over

MS_REC, MS_PRIVATE = 0x4000, 0x40000  # from linux/mount.h


def separate(folder, kept):
    """Gives this process's namespaces their own /tmp, /dev/shm and loopback network. The folders `kept` stay visible."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        raise OSError(ctypes.get_errno(), "mount")
    (folder / "tmp").mkdir()
    mount_over("/tmp", ["--bind", folder / "tmp"], kept)
    mount_over("/dev/shm", ["-t", "tmpfs", "tmpfs"], kept)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a program that a shell starts with `&` ignores SIGINT


def let_it_end(fault, job):
    """Ends a job that continues after the fault: lets it train for a while, waits for the expected notes, and tells it
    to end."""
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
    if fault.goes_on:
        let_it_end(fault, job)
    status = job.wait_for_end()
    over, processes = job.wait_until_no_process()
    left = job.left_behind(processes)
    job.read_rest()
    ranks = [job.rank(number) for number in job.ranks]
    facts = {
        "status": status,
        "over": None if fault.goes_on else over - begin,
        "lines": [[when - begin, line] for when, line in job.lines],
        "errors": {
            str(number): [rank.error[0] - begin, rank.error[1]] for number, rank in enumerate(ranks) if rank.error
        },
        "ended": [rank.ended for rank in ranks],
        "notes": [note for rank in ranks for note in rank.notes],
        "left": left,
        "patience": patience,
    }
    return judged(fault, facts)


def main():
    key, folder, build, patience, delay = sys.argv[1:]
    fault = next(fault for fault in FAULTS if fault.key == key)
    folder = pathlib.Path(folder)
    build = pathlib.Path(build)
    # The folders that a job or a helper of the test needs. Python may be in a virtual environment below /tmp.
    kept = [build, pathlib.Path(__file__).resolve().parents[3], sys.prefix, sys.base_prefix]
    separate(folder, kept)
    rank_program = build / "tests" / "faults" / "reliability" / "fault_rank"
    job = Job(fault.launch, str(build / "bin" / "ruedarun"), str(rank_program), folder, kept)
    job.delay = float(delay)
    try:
        result = run(fault, job, float(patience))
    except Problem as problem:
        result = failed(str(problem)) | {"output": job.output()}
    finally:
        job.close()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
