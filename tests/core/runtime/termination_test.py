# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Kills a rank under plain mpirun. After this, mpirun sends SIGTERM to the other ranks. These other ranks must still
print Rueda's line about the killed rank.

Usage: termination_test.py PROGRAM MPIRUN [flags of mpirun ...]
"""

import os
import re
import subprocess
import sys
import unittest

PROGRAM = ""
MPIRUN = []
TIMEOUT = 60


def run(mode, **settings):
    """Returns the standard error of the job, and the pid of the killed rank."""
    kept = {name: value for name, value in os.environ.items() if name == "RUEDA_MPI_PLUGIN" or "RUEDA" not in name}
    done = subprocess.run(
        [*MPIRUN, "-np", "2", PROGRAM, mode],
        env=kept | settings,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    pid = re.search(r"^pid of rank 1: (\d+)$", done.stderr, re.MULTILINE)
    assert pid, done.stderr
    assert done.returncode != 0, done.stderr
    return done.stderr, pid.group(1)


class Termination(unittest.TestCase):
    def expect_line(self, errors, pid):
        record = (
            r"its process ended and had not finished rueda::shutdown\(\); how it ended is known to the program that "
            r"started it: read that program's output, or start the job with ruedarun, which tells all ranks"
        )
        line = rf"\[[^\n]*E rueda\] \[rank 0\]: rank 1 \(pid {pid}\) died: {record}\n"
        self.assertEqual(len(re.findall(line, errors)), 1, errors)

    def test_a_rank_that_computes(self):
        # mpirun sends SIGTERM within milliseconds, usually before the background thread notices the dead rank. The test
        # makes three attempts.
        for _ in range(3):
            errors, pid = run("silent")
            self.expect_line(errors, pid)

    def test_a_rank_that_waits_in_an_operation(self):
        for _ in range(2):
            errors, pid = run("waiting")
            self.expect_line(errors, pid)

    def test_the_programs_handler_runs_too(self):
        errors, pid = run("handler")
        self.expect_line(errors, pid)
        self.assertEqual(errors.count("the program's handler\n"), 1, errors)

    def test_nothing_is_said_where_messages_are_off(self):
        errors, _ = run("silent", RUEDA_LOG_LEVEL="off")
        self.assertNotIn("rueda]", errors)


if __name__ == "__main__":
    PROGRAM = sys.argv[1]
    MPIRUN = sys.argv[2:]
    unittest.main(argv=sys.argv[:1])
