# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Draws the report as pictures, in PNG and SVG. Needs matplotlib."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .cases import size_text
from .summary import Record

# Rueda has one colour, and the measured bounds are grey. Colour-blind readers can distinguish the other colours
# (Okabe and Ito).
_STYLES: dict[str, dict[str, Any]] = {
    "rueda staged": {"color": "#D55E00", "marker": "o", "linestyle": "--", "linewidth": 2},
    "rueda resident": {"color": "#D55E00", "marker": "o", "linewidth": 2},
    "openmpi each": {"color": "#0072B2", "marker": "s"},
    "mpich each": {"color": "#009E73", "marker": "^"},
    "impi each": {"color": "#56B4E9", "marker": "v"},
    "openmpi5 each": {"color": "#0072B2", "marker": "D", "linestyle": "--"},
    "oneccl": {"color": "#F0E442", "marker": "P"},
    "gloo": {"color": "#CC79A7", "marker": "x"},
    "horovod": {"color": "#000000", "marker": "+"},
    "bound crossing": {"color": "#888888", "linestyle": ":"},
    "bound by hand": {"color": "#888888", "linestyle": "--"},
    "bound cells by hand": {"color": "#888888", "linestyle": "-."},
    "bound single copy by hand": {"color": "#bbbbbb", "linestyle": "-."},
}
_NAMES = {
    "bound crossing": "crossing bound",
    "openmpi each": "Open MPI",
    "mpich each": "MPICH",
    "impi each": "Intel MPI",
}
_NAMES |= {"openmpi5 each": "Open MPI 5", "oneccl": "oneCCL"}


def _name(runner: str) -> str:
    return _NAMES.get(runner, runner.capitalize())


def _size_axis(axis: Any, rows: Sequence[Record]) -> None:
    sizes = sorted({entry["bytes"] for entry in rows})
    axis.set_xscale("log", base=2)
    axis.set_xticks(sizes, [size_text(size) for size in sizes], rotation=45, ha="right")
    axis.minorticks_off()
    axis.grid(True, alpha=0.3)


def _curves(plt: Any, rows: Sequence[Record], title: str) -> Any:
    figure, (times, rates) = plt.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
    for runner in dict.fromkeys(entry["runner"] for entry in rows):
        mine = sorted((e for e in rows if e["runner"] == runner), key=lambda e: e["bytes"])
        sizes = [entry["bytes"] for entry in mine]
        style = {"label": _name(runner), "markersize": 4, **_STYLES.get(runner, {})}
        times.plot(sizes, [entry["microseconds"]["median"] for entry in mine], **style)
        rates.plot(sizes, [entry["bus_gigabytes_per_second"] for entry in mine], **style)
    for axis, label in ((times, "µs"), (rates, "GB/s that cross between ranks, per rank")):
        _size_axis(axis, rows)
        axis.set_yscale("log")
        axis.set_ylabel(label)
    times.legend(fontsize="small")
    figure.suptitle(title)
    return figure


_TARGET_COLOURS = {"staged": "#56B4E9", "resident": "#444444"}


def _ratios(plt: Any, comparisons: Sequence[Record], title: str) -> Any:
    figure, axis = plt.subplots(figsize=(7, 4.8), layout="constrained")
    for memory in dict.fromkeys(entry["memory"] for entry in comparisons):
        mine = sorted((e for e in comparisons if e["memory"] == memory), key=lambda e: e["bytes"])
        sizes = [entry["bytes"] for entry in mine]
        style = _STYLES[f"rueda {memory}"]
        axis.plot(sizes, [entry["ratio"] for entry in mine], label=memory, **style)
        axis.fill_between(sizes, [e["low"] for e in mine], [e["high"] for e in mine], color=style["color"], alpha=0.12)
        wanted = [entry for entry in mine if entry["target"]]
        dashes = {"color": _TARGET_COLOURS[memory], "markersize": 12, "markeredgewidth": 2}
        if wanted:
            targets = [e["target"] for e in wanted]
            axis.plot([e["bytes"] for e in wanted], targets, "_", label=f"target, {memory}", **dashes)
    axis.set_yscale("log")
    low, high = axis.get_ylim()
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20, 50, 100, 1000) if low <= tick <= high]
    axis.set_yticks(ticks, [f"{tick:g}×" for tick in ticks])
    axis.minorticks_off()
    axis.axhline(1, color="#888888", linewidth=1)
    _size_axis(axis, comparisons)
    axis.set_ylabel("times as fast as the fastest peer")
    axis.legend()
    figure.suptitle(title)
    return figure


def _bars(plt: Any, rows: Sequence[Record], title: str) -> Any:
    figure, axis = plt.subplots(figsize=(8, 0.4 * len(rows) + 1.4), layout="constrained")
    is_load = "load" in rows[0]

    def milliseconds(entry: Record) -> float:
        return (entry["load"]["exposed"] if is_load else entry["microseconds"]["median"]) / 1000

    ordered = sorted(rows, key=lambda entry: -milliseconds(entry))
    values = [milliseconds(entry) for entry in ordered]
    colours = ["#D55E00" if entry["family"] == "rueda" else "#9DB4C0" for entry in ordered]
    bars = axis.barh([entry["runner"] for entry in ordered], values, color=colours)
    axis.bar_label(bars, [f"{value:.3g}" for value in values], padding=3)
    axis.set_xlabel("ms of communication that are not hidden" if is_load else "ms until all are reduced")
    axis.margins(x=0.12)
    figure.suptitle(title)
    return figure


def _sweep(plt: Any, rows: Sequence[Record], title: str) -> Any:
    """Draws a panel for each kind of memory. It shows how the time depends on the hold time, with a line for each
    fusion threshold."""
    memories = list(dict.fromkeys(entry["load"]["tuning"]["memory"] for entry in rows))
    figure, axes = plt.subplots(1, len(memories), figsize=(6 * len(memories), 4.8), layout="constrained", squeeze=False)
    for axis, memory in zip(axes[0], memories):
        loads = [entry["load"] for entry in rows if entry["load"]["tuning"]["memory"] == memory]
        for index, threshold in enumerate(dict.fromkeys(load["tuning"]["threshold"] for load in loads)):
            mine = [load for load in loads if load["tuning"]["threshold"] == threshold]
            holds = [f"{load['tuning']['hold_us']} µs" for load in mine]
            style = {"marker": "osv^x+"[index % 6], "markersize": 4, "label": size_text(threshold)}
            axis.plot(holds, [load["exposed"] / 1000 for load in mine], **style)
        axis.set_title(memory)
        axis.set_xlabel("hold time")
        axis.grid(True, alpha=0.3)
    axes[0][0].set_ylabel("ms of communication that are not hidden")
    axes[0][0].legend(title="fusion threshold", fontsize="small")
    figure.suptitle(title)
    return figure


def draw(report: Record, folder: Path) -> list[Path]:
    """Writes the pictures and returns their paths. Raises ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figures: dict[str, Any] = {}
    singles = [entry for entry in report["rows"] if not entry["set"]]
    for ranks, operation in dict.fromkeys((entry["ranks"], entry["operation"]) for entry in singles):
        title, name = f"{operation}, {ranks} ranks", f"{operation}-{ranks}-ranks"
        rows = [e for e in singles if (e["ranks"], e["operation"]) == (ranks, operation)]
        figures[name] = _curves(plt, rows, title)
        comparisons = [
            e for e in report["comparison"] if (e["ranks"], e["operation"], e["set"]) == (ranks, operation, "")
        ]
        if comparisons:
            figures[f"{name}-ratio"] = _ratios(plt, comparisons, title)
    sets = [entry for entry in report["rows"] if entry["set"]]
    for ranks, set_name, is_load in dict.fromkeys((e["ranks"], e["set"], "load" in e) for e in sets):
        rows = [e for e in sets if (e["ranks"], e["set"], "load" in e) == (ranks, set_name, is_load)]
        title = f"{set_name}: {rows[0]['tensors']} gradients, {size_text(rows[0]['bytes'])}, {ranks} ranks"
        draw_set = _sweep if is_load and report.get("sweep") else _bars
        figures[f"{set_name}{'-under-load' if is_load else ''}-{ranks}-ranks"] = draw_set(plt, rows, title)
    paths = []
    for name, figure in figures.items():
        for suffix in ("png", "svg"):
            paths.append(folder / f"{name}.{suffix}")
            figure.savefig(paths[-1], dpi=120)
        plt.close(figure)
    return paths
