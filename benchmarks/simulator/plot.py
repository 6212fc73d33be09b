#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Draws the output of rueda_simulator --json. Needs matplotlib (Debian: python3-matplotlib)."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, Any]

LINES = [
    ("tree", "later", "Rueda, names known", {"color": "#1f6fb2", "marker": "o"}),
    ("tree", "first", "Rueda, first step", {"color": "#1f6fb2", "marker": "o", "linestyle": ":", "fillstyle": "none"}),
    ("cycles", "later", "Horovod's scheme, names cached", {"color": "#c2571a", "marker": "s"}),
    (
        "cycles",
        "first",
        "Horovod's scheme, first step",
        {"color": "#c2571a", "marker": "s", "linestyle": ":", "fillstyle": "none"},
    ),
]

PANELS: list[tuple[str, Callable[[Row], float]]] = [
    (
        "from ready on the last rank\nto known on the last host, median, µs",
        lambda row: row["delay_microseconds"]["median"],
    ),
    ("messages of a step", lambda row: row["messages"]),
    ("CPU time of a step per rank of the job, µs", lambda row: row["all_microseconds"] / row["ranks"]),
]

LICENSE = """  <!-- SPDX-License-Identifier: Apache-2.0 -->
  <!-- SPDX-FileCopyrightText: 2026 The Rueda authors -->
"""


def draw(report: Row, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    # matplotlib makes the ids in an SVG file with this salt. With a fixed salt, the same numbers give the same file.
    matplotlib.rcParams["svg.hashsalt"] = "simulator"
    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["font.family"] = "sans-serif"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(PANELS), figsize=(13, 4.4), layout="constrained")
    rows = [row for row in report["rows"] if row["hosts"] > 1]
    sizes = sorted({row["ranks"] for row in rows})
    for axis, (title, value) in zip(axes, PANELS):
        for scheme, step, label, style in LINES:
            mine = {row["ranks"]: value(row) for row in rows if (row["scheme"], row["step"]) == (scheme, step)}
            axis.plot(sizes, [mine[size] for size in sizes], label=label, markersize=5, **style)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axis.minorticks_off()
        axis.set_title(title, fontsize=10)
        axis.set_xlabel(f"ranks, {report['ranks_per_host']} on a host")
        axis.grid(True, alpha=0.3)
    axes[0].legend(fontsize="small")
    figure.savefig(path, metadata={"Date": None, "Creator": None, "Title": "Who is ready, simulated"})
    text = path.read_text()
    head = text.index(">", text.index("<svg")) + 2
    lines = (text[:head] + LICENSE + text[head:]).splitlines()
    path.write_text("\n".join(line.rstrip() for line in lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="what rueda_simulator --json wrote")
    parser.add_argument("picture", type=Path, help="the SVG file to write")
    arguments = parser.parse_args()
    draw(json.loads(arguments.report.read_text()), arguments.picture)


if __name__ == "__main__":
    main()
