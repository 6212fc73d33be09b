# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Notices if an operation becomes more expensive: callgrind counts its instructions from enqueue to completion.

Compares two runs that differ only in the number of rounds, so that everything that happens once drops out. The limits
are the counts of a build with g++ 12 and the checks of the preset "ci", plus one seventh for other compilers and
processors. A change that makes an operation more expensive raises the limit here and gives the reason. VALGRIND and
PROGRAM name the programs.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["PROGRAM"]
VALGRIND = os.environ["VALGRIND"]
TENSORS = 161

# Instructions for one operation on one float32 of one rank. An asynchronous operation includes about a hundred for
# compression, completion callbacks and messages, which it has to look for. On a busy machine there are about fifty
# more, because either the background thread or the caller may complete the operation. Stall reports need notes of each
# step of the negotiation and of the last finished operation: about 20 instructions for a blocking operation, and about
# 120 for an asynchronous one (2,963 were counted). The flight recorder needs 209 for a blocking operation and 197 for an
# asynchronous one. They take 19 ns, almost all of it in the two looks at the processor's counter.
LIMITS = {"slot": 1895, "name": 2065, "asynchronous": 3300}
# The count varies by some hundred instructions if other tests run at the same time. The least of a few runs is what the
# code needs.
RUNS = 4


def instructions(how: str, rounds: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "callgrind")
        run = subprocess.run(
            [VALGRIND, "--tool=callgrind", "--toggle-collect=measured", f"--callgrind-out-file={output}", PROGRAM, how]
            + [str(rounds)],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        if run.returncode != 0:
            raise AssertionError(f"exit status {run.returncode}: {run.stderr}")
        with open(output, encoding="utf-8") as file:
            found = re.search(r"^(?:summary|totals): (\d+)", file.read(), re.MULTILINE)
        if found is None:
            raise AssertionError(f"no summary in callgrind's file: {run.stderr}")
        return int(found.group(1))


class Instructions(unittest.TestCase):
    def check(self, how: str, rounds: int, operations: int) -> None:
        counts = []
        while len(counts) < RUNS and (not counts or min(counts) > LIMITS[how]):
            counted = instructions(how, rounds) - instructions(how, 0)
            counts.append(counted / (rounds * operations))
        print(f"{how}: {min(counts):.0f} instructions for an operation, limit {LIMITS[how]}")
        self.assertGreater(min(counts), 50, "too few to be true")
        self.assertLessEqual(min(counts), LIMITS[how])

    def test_blocking_with_a_slot(self):
        self.check("slot", 100, 1)

    def test_blocking_by_name(self):
        self.check("name", 100, 1)

    def test_asynchronous_by_name(self):
        self.check("asynchronous", 10, TENSORS)


if __name__ == "__main__":
    if not VALGRIND:
        print("valgrind is not installed")
        sys.exit(77)
    unittest.main()
