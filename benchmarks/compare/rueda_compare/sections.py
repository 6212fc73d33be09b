# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The sections of docs/performance.md: the commands that measure each section, and the rows that their output gives.

A command writes JSON to a file. The rows have the form that rendering.py describes.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from .cases import COLLECTIVES, UsageError, size_text
from .peers import ROOT, WORK, open_mpi_environment
from .rendering import SECTIONS, Data

BENCHMARKS = ROOT / "benchmarks"
_NAMES = {"mpich": "MPICH", "impi": "Intel MPI", "oneccl": "oneCCL", "gloo": "Gloo", "horovod": "Horovod"}


class NotMeasured(Exception):
    """A section cannot be measured on this machine. The text is the reason."""


@dataclass(frozen=True)
class Effort:
    """How much is measured. `time` is a factor for the duration of every measurement. `compare` makes all rounds; the
    other programs take turns with the libraries within a run, so they are run only for half of the rounds."""

    rounds: int = 5
    time: float = 1.0
    quick: bool = False  # only a few sizes

    @property
    def runs(self) -> int:
        return (self.rounds + 1) // 2


@dataclass(frozen=True)
class Context:
    """What the commands need: the build of Rueda, the Python that has PyTorch, and the effort."""

    build: Path
    given_python: str | None
    effort: Effort

    @cached_property
    def python(self) -> str:
        return find_python(self.given_python)

    @cached_property
    def env(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, [str(self.build / "python"), os.environ.get("PYTHONPATH", "")]))
        return {**open_mpi_environment(), "PYTHONPATH": path}

    def ruedarun(self, ranks: int, *program: str) -> list[str]:
        return [str(self.build / "bin" / "ruedarun"), "--no-mpi", "-np", str(ranks), *program]

    def seconds(self, value: float) -> str:
        return f"{value * self.effort.time:g}"


@dataclass(frozen=True)
class Command:
    """A program to run. It writes its results to the file that the argument `{json}` names. `label` says which result
    this is; a label occurs once in each round."""

    label: str
    argv: Sequence[str]


@dataclass
class Result:
    """The rows of a section, and facts about the peers. `missing` says why a peer was not measured."""

    rows: list[Data] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


Outputs = Mapping[str, Sequence[Data]]  # for each label, the output of each round


@dataclass(frozen=True)
class Section:
    """`commands` are run in each of the `rounds`. A command of `compare` makes its own rounds, so `rounds` is 1."""

    name: str
    commands: Callable[[Context], list[Command]]
    result: Callable[[Outputs], Result]
    own_rounds: bool = False


def _display(name: str, version: str) -> str:
    """Returns the name of a peer as the page shows it."""
    if name.startswith("openmpi"):
        return f"Open MPI {version.partition('.')[0]}"
    return _NAMES.get(name, name)


# --- the sections that `compare` measures ---

_PEERS = "rueda,openmpi,openmpi5,mpich,impi,oneccl,gloo,bound"
_ALL_SIZES = "4,64,1K,4K,16K,64K,256K,1M,4M,16M,64M"
_QUICK_SIZES = "64,64K,1M"


def _compare(
    context: Context,
    peers: str,
    *,
    operations: str = "none",
    sizes: str = "",
    gradients: str = "none",
    backward: str = "none",
    ranks: int = 2,
    seconds: float = 0.1,
    idle: str = "0",
) -> list[Command]:
    """Returns the command. `compare` writes report.json to a folder, so the file is named by the folder."""
    argv = [sys.executable, str(BENCHMARKS / "compare" / "compare"), "--build", str(context.build)]
    argv += ["--operations", operations, *(("--sizes", sizes) if sizes else ())]
    argv += ["--gradients", gradients, "--backward", backward, "--peers", peers, "--ranks", str(ranks)]
    argv += ["--idle", idle, "--seconds", context.seconds(seconds)]
    argv += ["--rounds", str(context.effort.rounds), "--output", "{folder}"]
    return [Command("compare", argv)]


def _collective(operation: str) -> Callable[[Context], list[Command]]:
    def commands(context: Context) -> list[Command]:
        sizes = _QUICK_SIZES if context.effort.quick else _ALL_SIZES
        return _compare(context, _PEERS, operations=operation, sizes=sizes, seconds=0.06)

    return commands


def _messages(context: Context) -> list[Command]:
    sizes = "4,64,1K" if context.effort.quick else "4,64,1K,4K,64K,1M"
    return _compare(context, _PEERS, operations="message", sizes=sizes)


def _four_ranks(context: Context) -> list[Command]:
    # Only Open MPI can yield while it waits. With ranks that spin, some operations of other MPIs take seconds.
    sizes = "4,64K" if context.effort.quick else "4,64,1K,4K,16K,64K,256K,1M,4M,16M"
    return _compare(context, "rueda,openmpi,openmpi5", operations="allreduce", sizes=sizes, ranks=4)


_SET_PEERS = "rueda,openmpi,openmpi5,mpich,impi,gloo,horovod,bound"


def _sets(context: Context) -> str:
    return "recommender" if context.effort.quick else "resnet50,recommender"


def _gradients(context: Context) -> list[Command]:
    return _compare(context, _SET_PEERS, gradients=_sets(context))


def _load(context: Context) -> list[Command]:
    return _compare(context, _SET_PEERS, backward=_sets(context))


def _standing(context: Context) -> list[Command]:
    return _compare(context, "rueda,openmpi,openmpi5,mpich,impi,horovod", idle=context.seconds(10))


def _compared(outputs: Outputs, rows: Callable[[Data, Callable[[Data], str]], list[Data]]) -> Result:
    """Reads the report of `compare`. `rows` makes the rows from the report and a function that names a peer."""
    (report,) = outputs["compare"]
    peers: Data = report["peers"]
    versions = {name: peer["version"] for name, peer in peers.items() if "version" in peer}

    def name_of(entry: Data) -> str:
        display = _display(entry["family"], versions[entry["family"]])
        extra = [entry["way"]] if entry["way"] not in ("", "each") or entry["set"] else []
        extra += [entry["setting"]] if entry["setting"] != "default" else []
        return f"{display} ({', '.join(filter(None, extra))})" if any(extra) else display

    named = {_display(name, text): text for name, text in versions.items() if name not in ("rueda", "bound")}
    missing = {name: peer["skipped"] for name, peer in peers.items() if "skipped" in peer}
    failures = [f"{f['runner']} ({f['setting']}) failed: {f['reason']}" for f in report["failures"]]
    return Result(rows(report, name_of), {"Rueda": versions.get("rueda", ""), **named}, missing, failures)


def _times(entry: Data, factor: float, exposed: bool) -> list[float]:
    times = entry["load"]["round_exposed"] if exposed else entry["round_medians"]
    return [round(time * factor, 6) for time in times]


def _is_bound_of(mine: Data, way: str) -> bool:
    """Returns whether the hand-written program `way` is a bound for the row `mine` of Rueda."""
    if way == "by hand":
        return bool(mine["way"] != "staged")  # its tensors are resident
    # Tiny tensors take most of their time as tensors, and not as bytes. The crossing has only one buffer.
    has_tiny_tensors = mine["set"] and mine["bytes"] < mine["tensors"] * (8 << 10)
    return not (way == "crossing" and has_tiny_tensors)


def _rows_of_report(table: str, factor: float = 1, exposed: bool = False) -> Callable[[Outputs], Result]:
    def rows(report: Data, name_of: Callable[[Data], str]) -> list[Data]:
        made = []
        for mine in (entry for entry in report["rows"] if entry["family"] == "rueda"):
            same = [e for e in report["rows"] if (e["set"], e["bytes"]) == (mine["set"], mine["bytes"])]
            others = {name_of(e): _times(e, factor, exposed) for e in same if e["family"] not in ("rueda", "bound")}
            bounds = {e["way"]: _times(e, factor, exposed) for e in same if e["family"] == "bound" and not exposed}
            made.append(
                {
                    "table": table,
                    "case": f"{mine['set']}, {mine['tensors']} tensors" if mine["set"] else size_text(mine["bytes"]),
                    "kind": mine["way"],
                    "rueda": _times(mine, factor, exposed),
                    "peers": others,
                    "bounds": {way: times for way, times in bounds.items() if _is_bound_of(mine, way)},
                }
            )
        return made

    return lambda outputs: _compared(outputs, rows)


def _standing_result(outputs: Outputs) -> Result:
    def rows(report: Data, _: Callable[[Data], str]) -> list[Data]:
        return [
            {
                "table": "standing",
                "case": "Rueda"
                if e["runner"] == "rueda"
                else _display(e["runner"], report["peers"][e["runner"]]["version"]),
                "values": {
                    "MiB of a rank after init": f"{e['init_mebibytes']:.1f}",
                    "CPU of an idle rank": f"{e['idle_cpu_percent']:.2f} %",
                    "CPU of a waiting rank": f"{e['waiting_cpu_percent']:.2f} %",
                },
            }
            for e in report["standing"]
        ]

    return _compared(outputs, rows)


# --- the sections of other programs ---


def _join(outputs: Sequence[Data], *path: str) -> list[float]:
    """Returns the value at `path` in the output of each round. Leaves out rounds without this value."""
    found = []
    for output in outputs:
        value: Any = output
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if value is not None:
            found.append(round(float(value), 6))
    return found


def _overlap(context: Context) -> list[Command]:
    steps = "5" if context.effort.quick else "20"
    program = str(context.build / "bin" / "overlap_bench")
    return [Command("overlap", context.ruedarun(2, program, "--steps", steps, "--json", "{json}"))]


def _overlap_result(outputs: Outputs) -> Result:
    rounds = outputs["overlap"]
    kinds = {"exposed with overlap": "overlap", "exposed without overlap": "at_end"}
    rows = [
        {"table": "overlap", "case": case, "rueda": [round(r[key] - r["alone"], 3) for r in rounds]}
        for case, key in kinds.items()
    ]
    rows.append({"table": "overlap", "case": "a step alone", "rueda": _join(rounds, "alone")})
    return Result(rows)


# The label, the arguments, and the sizes of a run of `links`.
_LINKS = (
    ("1 Gbit/s", ("--rate", "1gbit"), ("4", "1K", "64K", "1M", "16M")),
    ("1 Gbit/s", ("--rate", "1gbit", "--ranks", "2"), ("4", "1K", "64K", "16M")),
    ("1 Gbit/s", ("--rate", "1gbit", "--hosts", "3"), ("4", "1K", "64K", "16M")),
    ("40 Gbit/s", ("--rate", "40gbit", "--burst", "256kb"), ("4", "64K", "1M", "16M")),
    ("100 Mbit/s, 5 ms", ("--rate", "100mbit", "--delay", "5"), ("4", "64K", "4M")),
)


def _hosts(context: Context) -> list[Command]:
    made = []
    for number, (_, arguments, sizes) in enumerate(_LINKS[:1] if context.effort.quick else _LINKS):
        argv = [sys.executable, str(BENCHMARKS / "links" / "links"), *arguments, "--build", str(context.build)]
        argv += ["--seconds", context.seconds(1), "--json", "{json}", "--sizes", *sizes]
        made.append(Command(str(number), argv))
    return made


def _hosts_result(outputs: Outputs) -> Result:
    rows = []
    for number, (link, _, _) in enumerate(_LINKS):
        rounds = outputs.get(str(number), [])
        for index, line in enumerate(rounds[0]["rows"] if rounds else []):
            lines = [output["rows"][index] for output in rounds]
            # The exchange is measured with the same bytes on the same link. So it is a better bound than the others.
            bounds = (
                {"exchange": "exchange"} if "exchange" in line else {"bound": "link", "by_hand": "through one host"}
            )
            rows.append(
                {
                    "table": "hosts",
                    "case": link,
                    "kind": f"{rounds[0]['hosts']} × {rounds[0]['ranks']}, {size_text(line['bytes'])}",
                    "rueda": _join(lines, "rueda"),
                    "peers": {"Open MPI": _join(lines, "mpi")},
                    "bounds": {label: _join(lines, key) for key, label in bounds.items() if key in line},
                }
            )
    return Result(rows)


def _torch(context: Context) -> str:
    if not context.python:
        raise NotMeasured("no Python with PyTorch was found; name one with --python")
    return context.python


def _script(name: str) -> str:
    return str(BENCHMARKS / "python" / name)


def _torch_step(context: Context) -> list[Command]:
    rounds = ["--rounds", "2" if context.effort.quick else "6"]
    made = []
    for label, zero in (("None", ()), ("zero", ("--zero",))):
        argv = context.ruedarun(2, _torch(context), _script("torch_step_bench.py"), *rounds, *zero, "--json", "{json}")
        made.append(Command(label, argv))
        horovod = WORK / "horovod" / "bin" / "python"
        mpirun = shutil.which("mpirun")
        if horovod.exists() and mpirun:
            flags = ["-np", "2", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
            for name, value in (("HOROVOD_CYCLE_TIME", "0.1"), ("HOROVOD_FUSION_THRESHOLD", "0")):
                flags += ["-x", f"{name}={value}"]
            argv = [mpirun, *flags, str(horovod), _script("torch_step_bench.py"), "--library", "horovod", *rounds]
            made.append(Command(f"Horovod {label}", [*argv, *zero, "--json", "{json}"]))
    return made


def _torch_step_result(outputs: Outputs) -> Result:
    result = Result(versions={"PyTorch": outputs["None"][0]["pytorch"]})
    for label in ("None", "zero"):
        rounds = outputs[label]
        peers = {
            name: times
            for name in rounds[0]["not_hidden"]
            if not name.startswith("rueda") and (times := _join(rounds, "not_hidden", name))
        }
        horovod = _join(outputs.get(f"Horovod {label}", []), "not_hidden", "Horovod")
        peers |= {"Horovod": horovod} if horovod else {}
        for name in (name for name in rounds[0]["not_hidden"] if name.startswith("rueda")):
            kind = name.partition(", ")[2]
            row = {"table": "torch-step", "case": f"to {label}", "kind": kind, "peers": peers}
            result.rows.append(row | {"rueda": _join(rounds, "not_hidden", name)})
    if "Horovod None" not in outputs:
        result.missing["horovod"] = "it is not installed; get it with `compare --install horovod`"
    return result


def _torch_distributed(hosts: bool) -> Callable[[Context], list[Command]]:
    def commands(context: Context) -> list[Command]:
        argv = [_torch(context), _script("torch_distributed_bench.py"), "--seconds", context.seconds(0.3)]
        argv += [
            "--json",
            "{json}",
            "--largest",
            str(64 << 10 if context.effort.quick else 4 << 20 if hosts else 64 << 20),
        ]
        if not hosts:
            return [Command("calls", context.ruedarun(2, *argv))]
        ruedarun = [str(context.build / "bin" / "ruedarun"), "-np", "2", "-H", "rueda-h0:1,rueda-h1:1"]
        hosts_py = str(ROOT / "tests" / "support" / "hosts" / "hosts.py")
        start = [sys.executable, hosts_py, "--rate", "1gbit", "--burst", "16kb", "--"]
        return [Command("calls", [*start, *ruedarun, *argv, "--link", str(16 << 10)])]

    return commands


def _torch_distributed_result(table: str) -> Callable[[Outputs], Result]:
    def result(outputs: Outputs) -> Result:
        rounds = outputs["calls"]
        rows = []
        for index, line in enumerate(rounds[0]["rows"]):
            lines = [output["rows"][index] for output in rounds]
            gloo = _join(lines, "gloo")
            rows.append(
                {
                    "table": table,
                    "case": line["operation"],
                    "kind": size_text(line["bytes"]) if line["bytes"] else "",
                    "rueda": _join(lines, "rueda"),
                    "peers": {"Gloo": gloo} if gloo else {},
                    "bounds": {"link": _join(lines, "link")} if "link" in line else {},
                }
            )
        return Result(rows, {"PyTorch": rounds[0]["pytorch"]})

    return result


def _torch_calls(context: Context) -> list[Command]:
    argv = [_torch(context), _script("torch_bench.py"), "--seconds", context.seconds(0.4), "--json", "{json}"]
    return [Command("calls", context.ruedarun(2, *argv))]


def _python_calls(context: Context) -> list[Command]:
    samples = "1000" if context.effort.quick else "10000"
    argv = [context.python or sys.executable, _script("python_bench.py"), "--samples", samples, "--json", "{json}"]
    return [Command("calls", context.ruedarun(2, *argv))]


def _calls_result(table: str) -> Callable[[Outputs], Result]:
    def result(outputs: Outputs) -> Result:
        rounds = outputs["calls"]
        rows = [{"table": table, "case": name, "rueda": _join(rounds, "rows", name)} for name in rounds[0]["rows"]]
        return Result(rows, {name: str(version) for name, version in rounds[0].get("versions", {}).items()})

    return result


def _optimizers(context: Context) -> list[Command]:
    argv = [_torch(context), _script("optimizer_bench.py"), str(context.build / "bin" / "optimizer_bench")]
    argv += ["--seconds", context.seconds(0.1), "--rounds", "1", "--json", "{json}"]
    return [Command("steps", argv + (["--sizes", "4096"] if context.effort.quick else []))]


def _optimizers_result(outputs: Outputs) -> Result:
    rounds = outputs["steps"]
    rows = []
    for index, line in enumerate(rounds[0]["rows"]):
        lines = [output["rows"][index] for output in rounds]
        peers = {f"PyTorch {name}": times for name in ("foreach", "fused") if (times := _join(lines, name))}
        kind = size_text(line["parameters"]).replace(" B", "").replace("iB", "i")
        rows.append(
            {
                "table": "optimizers",
                "case": line["rule"],
                "kind": kind,
                "rueda": _join(lines, "rueda"),
                "peers": peers,
                "bounds": {"memory": _join(lines, "bound")},
            }
        )
    return Result(rows, {"PyTorch": rounds[0]["pytorch"]})


ALL = (
    *(Section(name, _collective(name), _rows_of_report(name), own_rounds=True) for name in COLLECTIVES),
    Section("messages", _messages, _rows_of_report("messages"), own_rounds=True),
    Section("four-ranks", _four_ranks, _rows_of_report("four-ranks"), own_rounds=True),
    Section("gradients", _gradients, _rows_of_report("gradients", 1e-3), own_rounds=True),
    Section("load", _load, _rows_of_report("load", 1e-3, exposed=True), own_rounds=True),
    Section("overlap", _overlap, _overlap_result),
    Section("hosts", _hosts, _hosts_result),
    Section("torch-step", _torch_step, _torch_step_result),
    Section("torch-distributed", _torch_distributed(False), _torch_distributed_result("torch-distributed")),
    Section("torch-hosts", _torch_distributed(True), _torch_distributed_result("torch-hosts")),
    Section("torch-calls", _torch_calls, _calls_result("torch-calls")),
    Section("python-calls", _python_calls, _calls_result("python-calls")),
    Section("optimizers", _optimizers, _optimizers_result),
    Section("standing", _standing, _standing_result, own_rounds=True),
)
assert tuple(section.name for section in ALL) == SECTIONS


def find_python(given: str | None) -> str:
    """Returns the first Python that has PyTorch, or an empty text. Prefers those that the tests have installed,
    because they have the newest PyTorch."""
    installed = [ROOT / "build" / name / "latest" / "bin" / "python" for name in ("frameworks", "pytorch")]
    for python in [given] if given else [*map(str, installed), sys.executable, "/usr/bin/python3"]:
        if python and shutil.which(python):
            found = subprocess.run([python, "-c", "import torch, numpy"], capture_output=True, check=False)
            if found.returncode == 0:
                return python
    if given:
        raise UsageError(f"--python '{given}' cannot import torch and numpy")
    return ""


def read_output(command: Command, folder: Path) -> Data:
    """Returns what the command has written. `compare` writes report.json."""
    path = folder / ("report.json" if command.label == "compare" else "result.json")
    try:
        output: Data = json.loads(path.read_text(encoding="utf-8"))
        return output
    except (OSError, ValueError) as error:
        raise NotMeasured(f"'{Path(command.argv[0]).name}' wrote no result ({error})") from None
