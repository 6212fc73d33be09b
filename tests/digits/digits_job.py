# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Starts examples/digits without a launcher, by ruedarun (with and without mpirun), and by plain mpirun.

The environment variables DIGITS, RUEDARUN and MPIRUN (may be empty) name the programs, and DIGITS_DATA names the file
of the UCI digits. Without this file, the tests use images that this module makes.
"""

import csv
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

DIGITS = os.environ["DIGITS"]
RUEDARUN = os.environ.get("RUEDARUN", "")
MPIRUN = os.environ.get("MPIRUN", "")
REAL_DATA = os.environ.get("DIGITS_DATA", "")
HAS_REAL_DATA = os.path.isfile(REAL_DATA)
TIMEOUT = 120  # seconds; a run takes about two seconds on two free cores

for folder in ("training", "support"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder))
import job_environment  # noqa: E402
import safetensors_reader  # noqa: E402, F401 (for the tests)

ENVIRONMENT = job_environment.job_environment()


def alone(_processes, program):
    return program


def direct(processes, program):
    return [RUEDARUN, "--no-mpi", "-np", str(processes), *program]


def over_mpirun(processes, program):
    return [RUEDARUN, "-np", str(processes), *program]


def plain_mpirun(processes, program):
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    return [MPIRUN, *root, "--oversubscribe", "-np", str(processes), *program]


def make_data(path):
    """Writes a thousand images. Each image is one of ten patterns with random noise. These images are as easy to learn
    as the digits."""
    numbers = random.Random(1)
    patterns = [[numbers.choice((0, 3, 13, 16)) for _ in range(64)] for _ in range(10)]
    with open(path, "w", encoding="ascii") as file:
        for i in range(1000):
            pixels = [min(16, max(0, pixel + numbers.randint(-4, 4))) for pixel in patterns[i % 10]]
            print(*pixels, i % 10, sep=",", file=file)


def rows(folder):
    with open(os.path.join(folder, "curve.csv"), encoding="ascii", newline="") as file:
        return list(csv.DictReader(file))


def losses(folder):
    return [float(row["loss"]) for row in rows(folder)]


def content(*parts):
    with open(os.path.join(*parts), "rb") as file:
        return file.read()


def processes_of_digits():
    """Returns the process ids of the example's live processes."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{entry}/exe") == os.path.realpath(DIGITS):
                found.append(int(entry))
        except OSError:
            pass  # the process has ended or belongs to another user
    return found


class DigitsTest(unittest.TestCase):
    """The base class of the tests. It creates a folder for each test, and has functions that start the program."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="rueda-digits-")
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        if HAS_REAL_DATA:
            self.data = REAL_DATA
        else:
            self.data = self.path("made.csv")
            make_data(self.data)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def program(self, run, *options, data=None):
        return [DIGITS, "--data", data or self.data, "--checkpoint-dir", self.path(run), *options]

    def start(self, command, **more):
        return subprocess.run(
            command,
            env=ENVIRONMENT,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
            **more,
        )

    def train(self, launch, processes, run, *options):
        """Runs the program, requires success, and returns the standard output."""
        done = self.start(launch(processes, self.program(run, *options)))
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def same_files(self, run, other):
        for name in ("curve.csv", "digits.safetensors"):
            self.assertEqual(content(self.path(run), name), content(self.path(other), name), name)

    def refused(self, command, *words, status=2):
        """Requires that the program fails and prints one line, and that this line contains the words. The launcher may
        print further lines."""
        done = self.start(command)
        self.assertEqual(done.returncode, status, done.stderr)
        lines = [line for line in done.stderr.splitlines() if "digits: " in line]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])
        return done

    def copy_run(self, run, other):
        shutil.copytree(self.path(run), self.path(other))
