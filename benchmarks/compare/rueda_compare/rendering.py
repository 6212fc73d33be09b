# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Writes the generated parts of docs/performance.md from the measured data (docs/performance.json).

A generated part stands between the lines `<!-- table: NAME -->` and `<!-- end -->`. The data has sections. A section is
either measured, or has a `reason` why it was not measured. The rows of a section have one of two forms:

- a comparison: {"table", "case", "kind", "rueda", "peers": {name: times}, "bounds": {name: times}}. The times are lists
  with the median of each round. All times of a row have the unit of the table.
- a set of values: {"table", "case", "values": {column: text}}.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

Data = dict[str, Any]
FORMAT = 1
WANTED_SHARE = 0.9  # a row may stay below 1.0 if Rueda reaches this share of the row's bound
NOISE = 0.05  # how far two times of the same program may differ; a peer may beat a bound by this share
_MARKED = re.compile(r"<!-- table: ([\w-]+) -->\n(.*?)<!-- end -->", re.DOTALL)


class DataError(Exception):
    """The data or the page cannot be used. The text is the reason, for one line of output."""


@dataclass(frozen=True)
class Table:
    """A generated table of the page. `first` and `second` are the heads of the columns for a row's case and kind.
    `anchor` is the heading under which the table stands."""

    name: str
    title: str
    anchor: str
    first: str = "bytes"
    second: str = "tensors"
    unit: str = "µs"


TABLES = (
    Table("allreduce", "allreduce", "allreduce"),
    Table("broadcast", "broadcast", "broadcast"),
    Table("allgather", "allgather", "allgather"),
    Table("reducescatter", "reducescatter", "reducescatter"),
    Table("alltoall", "alltoall", "alltoall"),
    Table("messages", "messages", "messages"),
    Table("four-ranks", "allreduce, four ranks on two cores", "four-ranks-on-two-cores"),
    Table("gradients", "sets of gradients", "gradients", "gradients", unit="ms"),
    Table("load", "gradients during a backward pass", "batches-under-load", "gradients", "ways", "ms"),
    Table("overlap", "`DistributedOptimizer` for C++", "distributedoptimizer-for-c", "step", unit="ms"),
    Table("hosts", "allreduce between hosts", "between-hosts", "link", "hosts × ranks, bytes", "ms"),
    Table("torch-step", "training step of PyTorch", "a-training-step-of-pytorch", "`zero_grad`", "storage", "ms"),
    Table("torch-distributed", "torch.distributed", "torchdistributed", "operation", "bytes"),
    Table("torch-hosts", "torch.distributed between hosts", "torchdistributed-between-hosts", "operation", "bytes"),
    Table("torch-calls", "calls of `rueda.torch`", "calls", "call", "library"),
    Table("python-calls", "calls from Python", "calls-from-python", "call"),
    Table("optimizers", "optimizers", "optimizers", "rule", "parameters", "ms"),
    Table("standing", "memory and CPU use", "memory-and-cpu-use", "library"),
)
SECTIONS = tuple(table.name for table in TABLES)  # each table has its own section


def load(path: Path) -> Data:
    """Returns the data of the file. Raises DataError if the file is damaged or incomplete."""
    try:
        data: Data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"cannot read '{path}': {error.strerror}; measure first, or give --data FILE") from None
    except ValueError as error:
        raise DataError(f"'{path}' is not JSON ({error}); restore the file, or remove it and measure again") from None
    complaint = _complaint(data)
    if complaint:
        raise DataError(f"'{path}' is damaged: {complaint}; restore the file, or remove it and measure again")
    return data


def _complaint(data: Any) -> str:
    """Returns what is wrong with the data, or an empty text."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        return f"the format is not {FORMAT}"
    if not isinstance(data.get("machine"), dict) or not isinstance(data.get("sections"), dict):
        return "'machine' or 'sections' is missing"
    for name, section in data["sections"].items():
        if name not in SECTIONS:
            return f"section '{name}' is not known"
        lacking = [key for key in ("date", "commit", "seconds", "rows") if key not in section]
        if lacking and "reason" not in section:
            return f"section '{name}' has no '{lacking[0]}'"
        for number, row in enumerate(section.get("rows", [])):
            complaint = _row_complaint(row)
            if complaint:
                return f"section '{name}', row {number + 1}: {complaint}"
    return ""


def _row_complaint(row: Any) -> str:
    if not isinstance(row, dict) or not isinstance(row.get("case"), str):
        return "there is no 'case'"
    if row.get("table") not in [table.name for table in TABLES]:
        return f"table '{row.get('table')}' is not known"
    if "values" in row:
        return "" if isinstance(row["values"], dict) and row["values"] else "'values' is empty"
    lists = {"rueda": row.get("rueda"), **row.get("peers", {}), **row.get("bounds", {})}
    for name, times in lists.items():
        if not isinstance(times, list) or not times or not all(isinstance(time, int | float) for time in times):
            return f"'{name}' is not a list of times"
    return ""


@dataclass(frozen=True)
class Standing:
    """What a row says: Rueda's time, the fastest peer, and the fastest hand-written program (the bound). Each ratio and
    each share is the median over the rounds, and both times of a round were measured shortly after each other. The
    speed of a virtual machine changes between rounds, so ratios of medians would be less exact."""

    row: Data
    time: float
    peer: str = ""
    peer_time: float = 0
    ratio: float = 0
    low: float = 0
    high: float = 0
    bound: str = ""
    bound_time: float = 0
    share: float = 0  # which share of the bound's speed Rueda reaches

    @property
    def bound_holds(self) -> bool:
        """Returns whether there is a bound that the fastest peer does not beat. A bound that a peer beats is none."""
        return bool(self.bound) and (not self.peer or self.ratio >= self.share * (1 - NOISE))

    @property
    def is_behind(self) -> bool:
        return bool(self.peer) and round(self.ratio, 2) < 1


def _ratios(mine: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Returns their time divided by Rueda's time, for each round. A time that is not positive (nothing is exposed) has
    no ratio."""
    return [their / our for their, our in zip(theirs, mine) if our > 0]


def _fastest(others: Mapping[str, Sequence[float]]) -> str:
    """Returns the name whose times are the shortest compared with the mean of all names in the same round."""
    means = [sum(times) / len(times) for times in zip(*others.values())]
    relative = {name: median(t / mean for t, mean in zip(times, means)) for name, times in others.items()}
    return min(relative, key=relative.__getitem__)


def standing(row: Data) -> Standing:
    mine = row["rueda"]
    found: dict[str, Any] = {}
    if bounds := row.get("bounds"):
        name = _fastest(bounds)
        shares = _ratios(mine, bounds[name])
        found |= {"bound": name, "bound_time": median(bounds[name]), "share": median(shares)} if shares else {}
    if peers := row.get("peers"):
        name = _fastest(peers)
        ratios = _ratios(mine, peers[name])
        if ratios:
            found |= {"peer": name, "peer_time": median(peers[name]), "ratio": median(ratios)}
            found |= {"low": min(ratios), "high": max(ratios)}
    return Standing(row, median(mine), **found)


def time_text(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def _ratio_text(entry: Standing) -> str:
    number = f"{entry.ratio:.2f}×"
    span = f" ({entry.low:.2f}–{entry.high:.2f})" if len(entry.row["rueda"]) > 1 else ""
    return f"**{number}**{span}" if entry.is_behind else f"{number}{span}"


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def _lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]


def _name(row: Data) -> str:
    return ", ".join(part for part in (row["case"], row.get("kind", "")) if part)


def _bound_text(entry: Standing) -> str:
    """Returns Rueda's share of the bound, and the bound with its time."""
    return f"{_percent(entry.share)} ({entry.bound}, {time_text(entry.bound_time)})" if entry.bound else "–"


_Column = tuple[str, bool, Callable[[Standing], str]]  # the head, whether the column is shown, and the cell of a row


def _own_columns(name: str, unit: str, entries: Sequence[Standing]) -> list[_Column]:
    compared, bounded = any(entry.peer for entry in entries), any(entry.bound for entry in entries)
    rounds = not compared and any(len(entry.row["rueda"]) > 1 for entry in entries)
    return [
        (f"{name}, {unit}", True, lambda e: time_text(e.time)),
        ("rounds", rounds, lambda e: f"{time_text(min(e.row['rueda']))} to {time_text(max(e.row['rueda']))}"),
        ("ratio (rounds)", compared, lambda e: _ratio_text(e) if e.peer else "–"),
        ("of the bound", bounded, _bound_text),
    ]


def _comparison(table: Table, rows: Sequence[Data]) -> list[str]:
    """Returns the table, and below it the sentences on the rows in which a peer is faster. Rows that differ only in
    staged or resident tensors are one line of the table."""
    entries = [standing(row) for row in rows]
    compared = any(entry.peer for entry in entries)
    columns: list[_Column] = [
        (table.first, True, lambda e: e.row["case"]),
        (table.second, any(row.get("kind") for row in rows), lambda e: e.row.get("kind", "")),
        ("fastest peer", compared, lambda e: e.peer or "–"),
        (f"its time, {table.unit}", compared, lambda e: time_text(e.peer_time) if e.peer else "–"),
    ]
    if {row.get("kind") for row in rows} == {"staged", "resident"}:
        del columns[1]
        pairs = {case: [e for e in entries if e.row["case"] == case] for case in dict.fromkeys(r["case"] for r in rows)}
        kinds = ("staged", "resident")
        own = [_own_columns(kind, table.unit, entries) for kind in kinds]
        head = [name for name, wanted, _ in (*columns, *own[0], *own[1]) if wanted]
        lines = []
        for found in pairs.values():
            line = [cell(found[0]) for _, wanted, cell in columns if wanted]
            for kind, mine in zip(kinds, own):
                entry = next((e for e in found if e.row["kind"] == kind), None)
                line += [cell(entry) if entry else "–" for _, wanted, cell in mine if wanted]
            lines.append(line)
    else:
        columns += _own_columns("Rueda", table.unit, entries)
        shown = [(name, cell) for name, wanted, cell in columns if wanted]
        head, lines = [name for name, _ in shown], [[cell(entry) for _, cell in shown] for entry in entries]
    return _lines(head, lines) + (["", *_behind(entries)] if compared else [])


def _proof(entry: Standing) -> str:
    """Returns how Rueda's time in a row relates to the row's bound. Only rows in which a peer is faster need this."""
    if not entry.bound:
        return "no bound was measured"
    if not entry.bound_holds:
        return "the peer is faster than the bound as well, so the bound explains nothing"
    return f"Rueda reaches {'at least' if entry.share >= WANTED_SHARE else 'less than'} {_percent(WANTED_SHARE)} of the bound"


def _behind(entries: Sequence[Standing]) -> list[str]:
    """Returns the sentences that name the rows in which a peer is faster, with Rueda's share of the bound."""
    compared = [entry for entry in entries if entry.peer]
    behind = [entry for entry in compared if entry.is_behind]
    if not behind:
        return [f"No peer is faster than Rueda in any of the {len(compared)} rows."]
    groups: dict[str, list[str]] = {}
    for entry in behind:
        share = f", {_percent(entry.share)} of the bound" if entry.bound else ""
        groups.setdefault(_proof(entry), []).append(f"{_name(entry.row)} ({entry.ratio:.2f}× {entry.peer}{share})")
    lines = [f"A peer is faster than Rueda in {len(behind)} of the {len(compared)} rows:", ""]
    return lines + [f"- {proof[0].upper() + proof[1:]}: {'; '.join(named)}." for proof, named in groups.items()]


def _values(table: Table, rows: Sequence[Data]) -> list[str]:
    columns = list(dict.fromkeys(column for row in rows for column in row["values"]))
    return _lines(
        [table.first, *columns], [[row["case"], *(row["values"].get(c, "–") for c in columns)] for row in rows]
    )


def _rows(data: Data, table: Table) -> list[Data]:
    section = data["sections"].get(table.name, {})
    return [row for row in section.get("rows", []) if row["table"] == table.name]


def _table_text(data: Data, table: Table) -> str:
    section = data["sections"].get(table.name)
    rows = _rows(data, table)
    if not section or not rows:
        reason = (section or {}).get("reason", "the section has not been run yet")
        return f"This table was not measured: {reason}.\n"
    lines = _values(table, rows) if "values" in rows[0] else _comparison(table, rows)
    return "\n".join(lines) + "\n"


def _summary(data: Data) -> str:
    lines = []
    for table in TABLES:
        entries = [e for e in map(standing, (r for r in _rows(data, table) if "rueda" in r)) if e.peer]
        if entries:
            ratios = sorted(entry.ratio for entry in entries)
            behind = [entry for entry in entries if entry.is_behind]
            proven = sum(entry.bound_holds and entry.share >= WANTED_SHARE for entry in behind)
            cells = [f"[{table.title}](#{table.anchor})", str(len(entries)), str(len(behind)), str(proven)]
            lines.append(cells + [f"{value:.2f}×" for value in (ratios[0], median(ratios), ratios[-1])])
    if not lines:
        return "Nothing was measured yet.\n"
    head = ["rows of", "rows", "a peer is faster", "of these, at the bound", "smallest ratio", "median", "largest"]
    return "\n".join(_lines(head, lines)) + "\n"


def _measured(data: Data) -> str:
    sections = {name: found for name in SECTIONS if "rows" in (found := data["sections"].get(name, {}))}
    if not sections:
        return "Nothing was measured yet.\n"
    versions: dict[str, str] = {}
    for section in sections.values():
        versions |= section.get("versions", {})
    facts = [*data["machine"].items(), *versions.items()]
    lines = _lines(["what", "which"], [[name, str(value)] for name, value in facts])
    lines += ["", *_lines(
        ["section", "measured (UTC)", "commit", "seconds", "rounds", "cache line, µs", "other programs, cores", "stolen, cores"],
        [
            [name, s["date"], f"`{s['commit']}`", f"{s['seconds']:.0f}", str(s.get("rounds", "")),
             " to ".join(f"{time:.2f}" for time in s.get("cache_line_us", [])),
             f"{s.get('other_cores', 0):.2f}", f"{s.get('stolen_cores', 0):.2f}"]
            for name, s in sections.items()
        ],
    )]  # fmt: skip
    return "\n".join(lines) + "\n"


def _not_measured(data: Data) -> str:
    lines: list[str] = []
    for name in SECTIONS:
        section = data["sections"].get(name)
        if section is None:
            lines.append(f"- The section `{name}` has not been run yet.")
        elif "reason" in section:
            lines.append(f"- The section `{name}`: {section['reason']}.")
    missing: dict[str, list[str]] = {}
    for name in SECTIONS:
        section = data["sections"].get(name, {})
        for peer, reason in section.get("missing", {}).items():
            missing.setdefault(f"{peer}: {reason}", []).append(name)
        for failure in section.get("failures", []):
            missing.setdefault(failure, []).append(name)
    lines += [f"- {reason} ({', '.join(f'`{name}`' for name in names)})." for reason, names in missing.items()]
    return "\n".join(lines or ["All sections and all peers were measured."]) + "\n"


def parts(data: Data) -> dict[str, str]:
    """Returns all generated parts of the page, by name."""
    made = {table.name: _table_text(data, table) for table in TABLES}
    return made | {"summary": _summary(data), "measured": _measured(data), "not-measured": _not_measured(data)}


def render(page: str, data: Data) -> str:
    """Returns the page with all generated parts written anew. Raises DataError if a marker is unknown or missing."""
    made = parts(data)
    named = [match.group(1) for match in _MARKED.finditer(page)]
    unknown = [name for name in named if name not in made]
    lacking = [name for name in made if name not in named]
    if unknown:
        raise DataError(f"the page has the marker '<!-- table: {unknown[0]} -->', but there is no such table")
    if lacking:
        raise DataError(f"the page has no complete marker '<!-- table: {lacking[0]} -->' … '<!-- end -->'")
    return _MARKED.sub(lambda match: f"<!-- table: {match.group(1)} -->\n{made[match.group(1)]}<!-- end -->", page)
