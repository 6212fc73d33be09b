# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Judges a run by what the catalogue says about its fault.

one_run.py collects what happened: the lines of the output, the errors of the ranks, and so on, all with the seconds since
the fault. These facts are kept in the results. So a run can be judged again when the catalogue has changed.
"""

import re


def first_line(run, pattern):
    """Returns the time and the text of the first line of the output that matches the pattern, or None."""
    return next(([when, line] for when, line in run["lines"] if re.search(pattern, line)), None)


def notes(run):
    return "\n".join(run["notes"])


def of_survivors(fault, run, problems):
    """Checks the errors of the ranks that survive. Returns the seconds from the fault until the last of these ranks got
    its error, or None."""
    times = []
    for rank in fault.survivors or ():
        error = run["errors"].get(str(rank))
        if error is None:
            problems.append(f"rank {rank} has no error")
        elif not re.search(fault.error, error[1]):
            problems.append(f"the error of rank {rank} is {error[1]!r}; expected {fault.error!r}")
        else:
            times.append(error[0])
    return max(times, default=None)


def failed(problem):
    """Returns the record of a run that could not be judged because of this problem."""
    return {"problems": [problem], "status": None, "line": None, "noticed": None, "over": None, "left": []}


def judged(fault, run):
    """Returns the run with these keys added: `problems`, `line` (what the user sees) and `noticed`. If the run has no
    list of lines, returns it unchanged: the run failed early, or an older version of this program recorded it."""
    if "lines" not in run:
        return run
    problems = []
    if run["status"] is None:
        problems.append("the job hangs")
    elif run["status"] not in fault.statuses:
        problems.append(f"the exit status is {run['status']}; expected {fault.statuses}")
    noticed = of_survivors(fault, run, problems)
    seen = first_line(run, fault.sees) if fault.sees else None
    if fault.sees and seen is None:
        problems.append(f"no line of the output has {fault.sees!r}")
    if fault.goes_on:
        problems += [f"rank {rank} has not ended in order" for rank, ended in enumerate(run["ended"]) if not ended]
    elif run["over"] > fault.limit * run["patience"]:
        problems.append(f"the job was over after {run['over']:.2f} s; the limit is {fault.limit} s")
    problems += [f"no rank notes {note!r}" for note in fault.notes if not re.search(note, notes(run))]
    left = run["left"]
    problems += [f"left behind: {thing}" for thing in left if not fault.leaves or not re.search(fault.leaves, thing)]
    if noticed is None and seen is not None and not fault.goes_on:
        noticed = seen[0]
    return run | {"problems": problems, "line": seen[1] if seen else None, "noticed": noticed}
