# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Computes the figures of the report: medians, ratios to the fastest peer, and tables."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from .cases import BACKWARD, Case, Target, size_text, targets
from .peers import Rueda
from .session import Measured

Record = dict[str, Any]


def row(measured: Measured) -> Record:
    """Returns the figures of one runner in one case, in microseconds. `median` is the median of the rounds' medians.
    `low` and `high` are the medians of the fastest and of the slowest round."""
    case, rounds = measured.case, measured.rounds
    medians = [entry["median"] for entry in rounds]
    middle = median(medians)
    gigabytes = case.bytes / middle * 1e-3
    load = {"load": _load(measured)} if case.operation == BACKWARD else {}
    return load | {
        "ranks": measured.ranks,
        "operation": case.operation,
        "set": case.set_name,
        "bytes": case.bytes,
        "tensors": len(case.counts),
        "family": measured.runner.family.name,
        "way": measured.runner.way,
        "runner": measured.runner.name,
        "setting": measured.setting.name,
        "iterations": sum(int(entry["iterations"]) for entry in rounds),
        "microseconds": {
            "median": middle,
            "low": min(medians),
            "high": max(medians),
            "p10": median(entry["p10"] for entry in rounds),
            "p90": median(entry["p90"] for entry in rounds),
        },
        "round_medians": medians,
        "algorithm_gigabytes_per_second": gigabytes,
        "bus_gigabytes_per_second": gigabytes * case.bus_factor(measured.ranks),
        "wrong_elements": sum(int(entry["wrong"]) for entry in rounds),
    }


def _load(measured: Measured) -> Record:
    """Returns a backward pass's exposed time: how much longer it takes with communication than without, in µs. Both
    times come from the same round."""
    exposed = [entry["median"] - entry["alone"] for entry in measured.rounds]
    family, way = measured.runner.family, measured.runner.way
    tuning = family.tunings.get(way) if isinstance(family, Rueda) else None
    return {
        "alone": median(entry["alone"] for entry in measured.rounds),
        "exposed": median(exposed),
        "low": min(exposed),
        "high": max(exposed),
        "round_exposed": exposed,
        "tuning": vars(tuning) if tuning else None,
    }


def fastest(rows: Iterable[Record], families: Sequence[str] = ()) -> Record | None:
    """Returns the fastest of all peers, or of the peers in the named families (kinds of libraries). Rueda and the
    measured lower bound are not peers."""
    peers = [
        entry
        for entry in rows
        if entry["family"] not in ("rueda", "bound") and (not families or entry["family"] in families)
    ]
    return min(peers, key=lambda entry: entry["microseconds"]["median"], default=None)


def ratio(mine: Record, peer: Record) -> dict[str, float]:
    """Returns Rueda's speed divided by the peer's speed: the ratio of the medians, and the smallest and largest ratio
    of a round."""
    pairs = [theirs / ours for theirs, ours in zip(peer["round_medians"], mine["round_medians"])]
    middle = peer["microseconds"]["median"] / mine["microseconds"]["median"]
    return {"ratio": middle, "low": min(*pairs, middle), "high": max(*pairs, middle)}


def _comparison(mine: Record, peer: Record, target: Target | None) -> Record:
    record = {
        "ranks": mine["ranks"],
        "operation": mine["operation"],
        "set": mine["set"],
        "bytes": mine["bytes"],
        "memory": mine["way"],
        "microseconds": mine["microseconds"]["median"],
        "peer": peer["runner"],
        "peer_microseconds": peer["microseconds"]["median"],
        **ratio(mine, peer),
        "target": target.ratio if target else None,
        "against": list(target.against) if target else [],
    }
    return record | {"met": record["ratio"] >= target.ratio if target else None}


def compare(rows: Sequence[Record], cases: Mapping[tuple[str, str, int], Case], cores: int) -> list[Record]:
    """Compares each row of Rueda with the fastest peer to which a target refers, once for each target. A row without
    targets is compared with the fastest of all peers. Backward passes are compared in another table."""
    comparisons = []
    for mine in (entry for entry in rows if entry["family"] == "rueda" and entry["operation"] != BACKWARD):
        same = [e for e in rows if _key(e) == _key(mine)]
        wanted = targets(cases[mine["operation"], mine["set"], mine["bytes"]], mine["ranks"], cores, mine["way"])
        for target in wanted or (None,):
            peer = fastest(same, target.against if target else ())
            if peer:
                comparisons.append(_comparison(mine, peer, target))
    return comparisons


def _key(entry: Record) -> tuple[Any, ...]:
    return (entry["ranks"], entry["operation"], entry["set"], entry["bytes"])


def microseconds_text(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}" if value >= 1 else f"{value:.2f}"


def _table(head: Sequence[str], lines: Iterable[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *lines)]


def _what(entry: Record) -> str:
    return entry["set"] or size_text(entry["bytes"])


def _times_table(rows: Sequence[Record]) -> list[str]:
    """Returns a table of times in µs, with a line for each case and a column for each runner."""
    runners = list(dict.fromkeys(entry["runner"] for entry in rows))
    by_case: dict[tuple[Any, ...], dict[str, Record]] = {}
    for entry in rows:
        by_case.setdefault(_key(entry), {})[entry["runner"]] = entry
    lines = []
    for found in by_case.values():
        times = [microseconds_text(found[r]["microseconds"]["median"]) if r in found else "" for r in runners]
        lines.append([_what(next(iter(found.values()))), *times])
    return _table(["", *runners], lines)


def _milliseconds(microseconds: float) -> str:
    return f"{microseconds / 1000:,.1f}" if microseconds >= 9950 else f"{microseconds / 1000:.2f}"


def _load_table(rows: Sequence[Record]) -> list[str]:
    """Returns a table of backward passes in ms, with a line for each runner. A runner is a library and one of its
    `ways`. The lines are sorted by the time that communication adds."""
    lines = []
    for entry in sorted(rows, key=lambda entry: (entry["set"], entry["load"]["exposed"])):
        load = entry["load"]
        figures = (load["alone"], entry["microseconds"]["median"], load["exposed"])
        span = f"{_milliseconds(load['low'])} to {_milliseconds(load['high'])}"
        lines.append([entry["set"], entry["runner"], entry["setting"], *map(_milliseconds, figures), span])
    return _table(["", "", "setting", "computation alone, ms", "step, ms", "exposed, ms", "rounds"], lines)


def _sweep_tables(rows: Sequence[Record]) -> list[str]:
    """Returns a table for each set of gradients and kind of memory. It shows the exposed time in ms for each fusion
    threshold and hold time. Behind each value, the smallest value of any round is in
    brackets."""
    lines: list[str] = []
    for set_name, memory in dict.fromkeys((entry["set"], entry["load"]["tuning"]["memory"]) for entry in rows):
        grid = {
            (entry["load"]["tuning"]["threshold"], entry["load"]["tuning"]["hold_us"]): entry["load"]
            for entry in rows
            if (entry["set"], entry["load"]["tuning"]["memory"]) == (set_name, memory)
        }
        thresholds, holds = (list(dict.fromkeys(key[index] for key in grid)) for index in (0, 1))
        cells = [
            [
                f"{_milliseconds(grid[t, h]['exposed'])} ({_milliseconds(grid[t, h]['low'])})" if (t, h) in grid else ""
                for h in holds
            ]
            for t in thresholds
        ]
        lines += ["", f"### {set_name}, {memory}: exposed, ms (best round)", ""]
        head = ["threshold", *(f"hold {hold} µs" for hold in holds)]
        lines += _table(head, ([size_text(t), *cell] for t, cell in zip(thresholds, cells)))
    return lines


def _verdict(entry: Record) -> str:
    if entry["target"] is None:
        return ""
    against = f" {'/'.join(entry['against'])}" if entry["against"] else ""
    return f"≥ {entry['target']:.2g}×{against}: {'met' if entry['met'] else '**missed**'}"


def _ratio_table(comparisons: Sequence[Record]) -> list[str]:
    return _table(
        ["", "Rueda", "µs", "fastest peer", "µs", "ratio", "rounds", "target"],
        (
            [
                _what(entry),
                entry["memory"],
                microseconds_text(entry["microseconds"]),
                entry["peer"],
                microseconds_text(entry["peer_microseconds"]),
                f"{entry['ratio']:.2f}×",
                f"{entry['low']:.2f}–{entry['high']:.2f}",
                _verdict(entry),
            ]
            for entry in comparisons
        ),
    )


def _standing_table(standing: Sequence[Record]) -> list[str]:
    return _table(
        ["", "ranks", "MiB a rank after init", "% CPU idle", "% CPU waiting"],
        (
            [
                entry["runner"],
                str(entry["ranks"]),
                f"{entry['init_mebibytes']:.1f}",
                f"{entry['idle_cpu_percent']:.2f}",
                f"{entry['waiting_cpu_percent']:.2f}",
            ]
            for entry in standing
        ),
    )


def markdown(report: Record) -> str:
    """Returns the whole report as Markdown."""
    machine, between = report["machine"], report["bytes_between"]
    other_memory = f"; before each operation every rank writes {size_text(between)} of other memory" if between else ""
    lines = [
        "# Rueda beside its peers",
        "",
        f"{report['date']}, commit {report['commit']}, {machine['cores']} cores of {machine['cpu']}, Linux "
        f"{machine['kernel']}; float32, {report['rounds']} rounds in turns, medians, µs{other_memory}.",
        "",
        f"`{report['command']}`",
        "",
        *_table(
            ["peer", "version"],
            ([name, peer.get("version") or f"skipped: {peer['skipped']}"] for name, peer in report["peers"].items()),
        ),
    ]
    places = list(dict.fromkeys((entry["ranks"], entry["operation"], bool(entry["set"])) for entry in report["rows"]))
    for ranks, operation, is_set in places:
        what = "gradients, all under way at once" if is_set else operation
        if operation == BACKWARD:
            what = "batches under load"

        def here(entries: Sequence[Record], place: tuple[int, str, bool] = (ranks, operation, is_set)) -> list[Record]:
            return [e for e in entries if (e["ranks"], e["operation"], bool(e["set"])) == place]

        lines += ["", f"## {what[0].upper() + what[1:]}, {ranks} ranks", ""]
        if operation == BACKWARD:
            lines += _sweep_tables(here(report["rows"])) if report.get("sweep") else _load_table(here(report["rows"]))
            continue
        lines += _times_table(here(report["rows"]))
        comparisons = here(report["comparison"])
        if comparisons:
            lines += ["", *_ratio_table(comparisons)]
    if report["standing"]:
        lines += ["", "## Standing", "", *_standing_table(report["standing"])]
    if report["failures"]:
        lines += ["", "## Failures", ""]
        lines += [
            f"- {entry['runner']} ({entry['setting']}), {entry['ranks']} ranks: {entry['reason']}"
            for entry in report["failures"]
        ]
    return "\n".join(lines) + "\n"
