# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Adds up the results in the JUnit files of ctest. There is one file for each build in which tests ran.

    test_results.py counts FILE…   "passed failed skipped"
    test_results.py line FAILED_STEPS FILE…
                                   "358 passed, 0 failed (436 runs in 3 builds); slowest: soak.np4 5 s, …"

A test that runs in several builds counts as one. Such a test counts as failed if it failed in any build, and as skipped
if it was skipped in all builds. A failed step of the script counts as a failure even if it is not a test. A file that
cannot be read is an error.
"""

import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from typing import NamedTuple

SLOWEST = 5


class Run(NamedTuple):
    """A test in one build."""

    test: str
    outcome: str  # "passed", "failed" or "skipped"
    seconds: float


def runs_of(path: str) -> list[Run]:
    """Returns the test runs in one JUnit file."""
    runs = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        outcome = "passed"
        if case.find("failure") is not None or case.get("status") == "fail":
            outcome = "failed"
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            outcome = "skipped"
        runs.append(Run(case.get("name", ""), outcome, float(case.get("time") or 0)))
    return runs


def counts(runs: list[Run]) -> dict[str, int]:
    """Counts how many tests passed, failed and were skipped."""
    outcomes: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        outcomes[run.test].add(run.outcome)
    result = {"passed": 0, "failed": 0, "skipped": 0}
    for found in outcomes.values():
        result["failed" if "failed" in found else "passed" if "passed" in found else "skipped"] += 1
    return result


def last_line(paths: list[str], failed_steps: int) -> str:
    """Returns the last line that scripts/test prints: the numbers, and the slowest tests."""
    runs = [run for path in paths for run in runs_of(path)]
    count = counts(runs)
    text = f"{count['passed']} passed, {count['failed'] + failed_steps} failed"
    if count["skipped"]:
        text += f", {count['skipped']} skipped"
    if len(paths) > 1:
        text += f" ({len(runs)} runs in {len(paths)} builds)"
    slowest = sorted(runs, key=lambda run: -run.seconds)[:SLOWEST]
    if slowest:
        text += "; slowest: " + ", ".join(f"{run.test} {run.seconds:.0f} s" for run in slowest)
    return text


if __name__ == "__main__":
    if sys.argv[1] == "counts":
        print(*counts([run for path in sys.argv[2:] for run in runs_of(path)]).values())
    else:
        print(last_line(sys.argv[3:], int(sys.argv[2])))
