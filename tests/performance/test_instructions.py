# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Detects if an operation becomes more expensive. callgrind counts the instructions of an operation from enqueue to
completion.

Compares two runs that differ only in the number of rounds. So the cost of everything that happens once cancels out. The
limits are the counts of a build with g++ 12 and the checks of the preset "ci", plus one seventh for other compilers and
processors. If a change makes an operation more expensive, it must raise the limit here and give the reason. The
environment variables VALGRIND and PROGRAM name the programs.
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

# The limits: instructions for one operation on one float32 of one rank. An asynchronous operation includes about a
# hundred instructions that check for compression, completion callbacks and messages. On a busy machine it takes about
# fifty more, because either the background thread or the caller may complete the operation. For stall reports, Rueda
# notes each step of the negotiation and the last finished operation: this takes about 20 instructions for a blocking
# operation, and about 120 for an asynchronous one (2,963 were counted). The flight recorder takes 209 for a blocking
# operation and 197 for an asynchronous one: 19 ns, nearly all of it for reading the processor's counter twice.
# A message is a send or a receive of a rank to itself: half of a pair. The recorder takes 96 of its 5,637.
LIMITS = {"slot": 1895, "name": 2065, "asynchronous": 3400, "message": 6440}
# If other tests run at the same time, the count varies by some hundred instructions. The lowest count of a few runs is
# what the code needs.
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

    def test_send_and_receive(self):
        self.check("message", 100, 2)


if __name__ == "__main__":
    if not VALGRIND:
        print("valgrind is not installed")
        sys.exit(77)
    unittest.main()
