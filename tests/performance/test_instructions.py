# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Checks that no operation becomes more expensive. callgrind counts the instructions of an operation from enqueue to
completion.

Two runs differ only in the number of rounds, so the difference of their counts leaves out everything that happens once.
The limits are the counts of a g++ 12 build with the checks of the preset "ci", plus one seventh for other compilers and
processors. If a change makes an operation more expensive, the same change must raise the limit and give the reason. The
environment variables VALGRIND and PROGRAM contain the paths of valgrind and of the program that is measured.
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

# A limit is a number of instructions for one operation on one float32 of one rank. Some costs that the limits contain:
# - An asynchronous operation checks for compression, completion callbacks and messages (about 100 instructions).
# - On a busy machine the caller or the background thread completes an asynchronous operation (about 50 instructions
#   more).
# - Notes for stall reports need about 20 instructions in a blocking operation, and 120 of the 2,963 instructions of an
#   asynchronous one.
# - The flight recorder needs 193 instructions in a blocking operation, and 197 in an asynchronous one. They take 19 ns,
#   mostly because they read the processor's counter twice.
# - In "message", a rank sends to itself and receives from itself. The limit is for one of the two calls. The flight
#   recorder takes 96 of the 5,637 instructions of a call.
# - On several hosts, the leader may carry small inputs. A blocking operation on one host checks that it does not (8
#   instructions). Another 5 are for the third value of the progress lock's word `turned_away`.
# - A blocking operation checks twice that no next tensor is to be prefetched (6 instructions).
# - All operations on named tensors share one path, which compares the arguments with the last request of the name. An
#   allreduce had a path of its own, and took 110 instructions less. A broadcast then took 700 instructions more than an
#   allreduce, and an alltoall 2,000 more.
# - An announcement compares the size of its input with the limits for resident and for long inputs (4 instructions).
LIMITS = {"slot": 2050, "name": 2195, "asynchronous": 3400, "message": 6440}
# Other tests that run at the same time add some hundred instructions. Therefore the lowest count of a few runs is used.
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
