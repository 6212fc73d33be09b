# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Writes the tables of docs/reliability.md from the results of runs."""

import datetime
import os
import re
import statistics

from catalogue import GOES_ON, SECTIONS

BEGIN = "<!-- tables: made by tests/faults/reliability/reliability.py -->"
END = "<!-- end of the tables -->"
LONGEST_LINE = 200  # the maximum number of characters of a message in the table


def shorten(line):
    """Returns a line of the output as the table shows it: without the prefixes of ruedarun and of the log, and with at
    most LONGEST_LINE characters. The letter N replaces numbers that differ between runs.
    """
    line = re.sub(r"^\[\d+\] ", "", line.strip())
    line = re.sub(r"^\[[^\]]*rueda\] (\[rank \d+\]: )?", "", line)
    line = re.sub(r"\bpid \d+", "pid N", line)
    line = re.sub(r"\b\d+\.\d+ s\b", "N s", line)
    line = re.sub(r"\b0x[0-9a-f]+", "0xN", line)
    line = re.sub(r"'@rueda-[0-9a-f]+'", "'@rueda-…'", line)
    line = re.sub(r"/\S*/([^/\s]+)", r"…/\1", line)
    line = re.sub(r"\b(rank \d+ on )(?!rueda-h)\S+", r"\1host", line)
    line = line.strip()
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1].rstrip() + "…"


def cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def seconds(values):
    """Returns the median and the maximum of the values as a text."""
    return f"{statistics.median(values):.2f}, {max(values):.2f}" if values else "—"


def leftovers(runs):
    """Returns the names of things that were left behind, without the parts of the names that differ in each run."""
    kinds = {re.sub(r"\d+|[0-9a-f]{8}", "N", thing) for run in runs for thing in run["left"]}
    if not kinds:
        return "nothing"
    names = sorted({re.sub(r"^the (file|folder) (\S+?)(/pid\.N.*|\.vm\..*|\.N.*)?$", r"\2*", kind) for kind in kinds})
    return "; ".join(f"`{name}`" for name in names)


def row(fault, runs):
    failed = sum(bool(run["problems"]) for run in runs)
    line = next((run["line"] for run in runs if run["line"]), None)
    seen = f"`{cell(shorten(line))}`" if line else "nothing: the job trains on" if fault.goes_on else "nothing"
    cells = [fault.name, seen]
    if fault.section != GOES_ON:
        cells.append(seconds([run["noticed"] for run in runs if run["noticed"] is not None]))
        cells.append(seconds([run["over"] for run in runs if run["over"] is not None]))
    cells.append(leftovers(runs))
    cells.append(f"{len(runs)}" if failed == 0 else f"{len(runs)}, {failed} of them otherwise")
    return "| " + " | ".join(cells) + " |"


def old_rows(text):
    """Returns the table rows in `text`, the text between the two markers of a page. The key of a row is its section and
    the name of its fault."""
    rows = {}
    section = ""
    for line in text.splitlines():
        section = line.removeprefix("### ") if line.startswith("### ") else section
        if line.startswith("| ") and not line.startswith("| fault |"):
            rows[section, line.split(" | ")[0].removeprefix("| ")] = line
    return rows


def count_in(line):
    """Returns the number of runs in the last cell of a row."""
    return int(line.rstrip(" |").split(" | ")[-1].split(",")[0])


def dates(old):
    """Returns a text with the days on which the runs were measured. If rows of the page are kept, `old` is the page's
    text between the markers, which names the earlier days. Otherwise, `old` is empty."""
    today = datetime.date.today()
    now = f"{today.day} {today:%B %Y}"
    before = re.search(r"Measured (?:on|from) (\d+ \w+ \d+)", old)
    return f"on {now}" if before is None or before[1] == now else f"from {before[1]} to {now}"


def tables(faults, results, skipped, old=""):
    """Returns the text between the two markers of the page. `results` has the runs of each fault, and `skipped` the
    reasons why some faults could not be injected. The keys of both are the keys of the faults. A fault without runs
    keeps its row from `old`, the page's earlier text.
    """
    kept = {place: line for place, line in old_rows(old).items() if count_in(line) > 0}
    of_fault = {fault.key: kept.get((fault.section, fault.name)) for fault in faults if not results.get(fault.key)}
    count = sum(map(len, results.values())) + sum(count_in(line) for line in of_fault.values() if line)
    text = [
        BEGIN,
        "",
        f"Measured {dates(old)}, in {count} runs, on a machine with {os.cpu_count()} cores.",
    ]
    for section in SECTIONS:
        head = ["fault", "what the user sees"]
        if section != GOES_ON:
            head += ["noticed after (s)", "over after (s)"]
        head += ["left behind", "runs"]
        text += ["", f"### {section}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for fault in (fault for fault in faults if fault.section == section):
            if runs := results.get(fault.key):
                text.append(row(fault, runs))
            elif line := of_fault[fault.key]:
                text.append(line)
            else:
                why = f"not run: {skipped[fault.key]}" if fault.key in skipped else "not run"
                text.append("| " + " | ".join([fault.name, why, *["—"] * (len(head) - 3), "0"]) + " |")
    return "\n".join([*text, "", END])


def write(page, faults, results, skipped, keeps=False):
    """Writes the tables into the page. If `keeps` is true, faults without runs keep their rows."""
    before, rest = page.read_text().split(BEGIN)
    old, after = rest.split(END)
    page.write_text(before + tables(faults, results, skipped, old if keeps else "") + after)


def complaints(page, faults):
    """Checks that the page has one row for each fault, in the section of the fault. Returns what is wrong, as texts."""
    text = page.read_text()
    if BEGIN not in text or END not in text:
        return [f"{page} has no tables"]
    found = list(old_rows(text.split(BEGIN)[1].split(END)[0]))
    expected = [(fault.section, fault.name) for section in SECTIONS for fault in faults if fault.section == section]
    wrong = [f"{page.name} has no row for {row}" for row in expected if row not in found]
    wrong += [f"{page.name} has a row for {row}, which no fault makes" for row in found if row not in expected]
    return wrong
