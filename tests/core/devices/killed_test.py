# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Kills a rank while the simulated GPUs of all ranks work on an operation, through NCCL and through CUDA IPC.

Usage: killed_test.py RUEDARUN GPU_PROGRAM
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import time


def entries(folder):
    """Returns the names of everything in a folder. The test looks for shared memory or files that a job left behind."""
    return {entry.name for entry in pathlib.Path(folder).iterdir()}


def processes_of(program):
    """Returns the processes that still run the program."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.path.samefile(entry / "exe", program):
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def run(ruedarun, program, mode):
    """Runs the program, which kills its rank 1, and looks for what is left behind."""
    shared_before = entries("/dev/shm")
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, TMPDIR=folder, XDG_RUNTIME_DIR=folder)
        # This test runs its own copy of the program. It recognises its processes by this copy, so it does not find the
        # processes of other tests.
        own = pathlib.Path(folder) / "program"
        own.write_bytes(pathlib.Path(program).read_bytes())
        own.chmod(0o700)
        began = time.monotonic()
        done = subprocess.run(
            [ruedarun, "--no-mpi", "-np", "3", str(own), mode],
            env=environment,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        took = time.monotonic() - began
        text = done.stdout + done.stderr
        assert done.returncode != 0, text
        assert text.count("survived") == 2, text
        assert "rank 1" in text, text
        assert took < 20, f"{took} s\n{text}"
        assert not processes_of(own), text
        left = entries(folder) - {"program"}
        assert not left, f"files are left: {left}\n{text}"
    left = {name for name in entries("/dev/shm") - shared_before if "rueda" in name or "gpu_stand_in" in name}
    assert not left, f"shared memory is left: {left}"


def main():
    """Runs both modes."""
    for mode in ("killed", "killed-ipc"):
        run(*sys.argv[1:3], mode)


if __name__ == "__main__":
    main()
