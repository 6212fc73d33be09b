# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs a numbered example, and checks that every rank prints the lines that the example promises.

Usage: run_example.py NAME RANKS command… A variant without Rueda (04_linear_model_mpi, 06_cnn_plain) must print the
same lines as its example. NAME may have a prefix that ends in a dot.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable

# For each example number: the pattern of a rank's line.
LINES: dict[str, Callable[[int, int], str]] = {
    "01": lambda rank, ranks: f"hello from rank {rank} of {ranks}",
    "02": lambda rank, ranks: f"rank {rank}: average {(ranks - 1) / 2:.2f}",
    "03": lambda rank, ranks: f"rank {rank}: average of layer 3: {3 * (ranks + 1) / 2:.2f}",
    "04": lambda rank, ranks: rf"rank {rank}: slope 3\.000, offset 2\.000",
    "05": lambda rank, ranks: r"loss 0\.\d+: learned",
    "06": lambda rank, ranks: f"rank {rank}: learned",
    "08": lambda rank, ranks: f"rank {rank} of {ranks}: local rank {rank} of {ranks} on host 0 of 1",
    "09": lambda rank, ranks: rf"rank {rank} of {ranks}, process \d+: 60 steps, slope \d+\.\d+",
    "08_two_hosts": lambda rank, ranks: f"rank {rank} of {ranks}: local rank 0 of 1 on host {rank} of 2",
}


def check(command: list[str], ranks: int, line: Callable[[int, int], str]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=200)
    print(" ".join(command), ran.stdout, ran.stderr, sep="\n", flush=True)
    if ran.returncode != 0:
        sys.exit(f"exit status {ran.returncode}; expected 0")
    for rank in range(ranks):
        # ruedarun may write the rank in brackets before each line.
        if not re.search(rf"^(\[\d+\] )?{line(rank, ranks)}$", ran.stdout, re.MULTILINE):
            sys.exit(f"no line matches {line(rank, ranks)!r}")


def main() -> None:
    name, ranks, command = sys.argv[1].rpartition(".")[2], int(sys.argv[2]), sys.argv[3:]
    if name.startswith("07"):  # the second run must continue where the first one ended
        with tempfile.TemporaryDirectory() as folder:
            for steps in ("0 to 50", "50 to 100"):
                check(
                    [*command, f"{folder}/model"], ranks, lambda rank, _, s=steps: rf"rank {rank}: steps {s}, slope \S+"
                )
    else:
        check(command, ranks, LINES[name if name in LINES else name[:2]])


if __name__ == "__main__":
    main()
