# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The command `page`: measures all sections of docs/performance.md, and writes the tables of the page."""

import argparse
import datetime
import json
import os
import platform
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from .cases import Case, UsageError
from .command import progress, say
from .peers import ROOT, WORK, Bound, cores
from .rendering import FORMAT, SECTIONS, Data, DataError, load, render
from .sections import ALL, Context, Effort, NotMeasured, Result, Section, read_output
from .session import Effort as PeerEffort
from .session import PeerFailed, Runner
from .session import run as run_peer

_PAGE, _DATA = ROOT / "docs" / "performance.md", ROOT / "docs" / "performance.json"
_LIMIT_SECONDS = 3600  # for one command; the longest takes a few minutes

_EXAMPLES = """examples:
  page                              measures what is not yet in docs/performance.json, and writes docs/performance.md
  page --again all                  measures everything anew (about 45 minutes; no other program should run)
  page --again messages,broadcast   measures these sections anew
  page --only hosts                 measures this section, if it was not measured yet
  page --quick                      a few minutes: does it all work? writes to build/compare/page, not to docs
  page --render                     measures nothing, and writes the tables
  page --check                      measures nothing, and says whether the page has the tables of the data
  page --dry-run                    prints what would run

Build Rueda and get the peers before:
  cmake --workflow --preset bench
  benchmarks/compare/compare --install openmpi5,mpich,impi,oneccl,horovod

An interrupted run goes on where it was: each section is saved when it is complete.

exit status: 0 all right, 1 a section or a peer failed, or --check found a difference, 2 wrong usage, 130 interrupted"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="page",
        description="Measures all sections of docs/performance.md one after the other, and writes the page's tables.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", metavar="LIST", help=f"measure only these sections, of {', '.join(SECTIONS)}")
    parser.add_argument("--again", metavar="LIST", help="forget these sections, or all, and measure them anew")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often the peers take turns (default: 5)")
    parser.add_argument(
        "--time", type=float, default=1.0, metavar="FACTOR", help="for the duration of all measurements (default: 1)"
    )
    parser.add_argument("--quick", action="store_true", help="few sizes, one round, a tenth of the time; not for docs")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "bench", metavar="FOLDER", help="build of Rueda")
    parser.add_argument("--python", metavar="PROGRAM", help="a Python that has PyTorch (default: the first one found)")
    parser.add_argument("--data", type=Path, metavar="FILE", help="the measured data (default: docs/performance.json)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="the page (default: docs/performance.md)")
    parser.add_argument("--render", action="store_true", help="measure nothing, and write the tables")
    parser.add_argument("--check", action="store_true", help="measure nothing, and compare the page with the data")
    parser.add_argument("--dry-run", action="store_true", help="print what would run, and run nothing")
    return parser


def _names(text: str, option: str) -> list[str]:
    if text == "all":
        return list(SECTIONS)
    for name in text.split(","):
        if name not in SECTIONS:
            raise UsageError(f"{option}: section '{name}' is not known; expected one of {', '.join(SECTIONS)}, or all")
    return text.split(",")


def _first_line(*argv: str) -> str:
    try:
        result = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return (result.stdout.splitlines() or ["unknown"])[0].strip()


def _caches() -> str:
    found: dict[str, str] = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            found[f"L{level}"] = size.replace("K", " KiB")
    return ", ".join(f"{level} {size}" for level, size in found.items()) or "unknown"


def machine() -> dict[str, str]:
    """Returns what does not change while sections of the same page are measured."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in reversed(lines))}
    family = f", family {facts['cpu family']}, model {facts['model']}" if "cpu family" in facts else ""
    return {
        "processor": f"{facts.get('model name', platform.machine())}{family}, {cores()} cores",
        "caches of a core": _caches(),
        "kernel": f"{platform.system()} {platform.release()}",
        "compiler": _first_line(os.environ.get("CXX", "c++"), "--version"),
    }


class _Load:
    """Measures how much of the processor other programs used, and how much the hypervisor took (stolen time)."""

    def __init__(self) -> None:
        self.begin, (self.busy, self.stolen), self.own = time.monotonic(), self._machine(), self._own()

    @staticmethod
    def _machine() -> tuple[float, float]:
        try:
            ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
        except (OSError, ValueError):
            return 0, 0
        second = os.sysconf("SC_CLK_TCK")
        user, nice, system, _, _, interrupts, soft_interrupts, stolen = ticks
        return (user + nice + system + interrupts + soft_interrupts) / second, stolen / second

    @staticmethod
    def _own() -> float:
        both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(usage.ru_utime + usage.ru_stime for usage in both)

    def facts(self) -> Data:
        seconds = max(time.monotonic() - self.begin, 1e-3)
        busy, stolen = self._machine()
        others = (busy - self.busy - (self._own() - self.own)) / seconds
        return {
            "seconds": round(seconds, 1),
            "other_cores": round(max(others, 0), 2),
            "stolen_cores": round((stolen - self.stolen) / seconds, 2),
        }


def _cache_line_us(context: Context) -> float:
    """Returns how long a cache line takes from one core to another and back, in µs. On a virtual machine this time
    changes when the hypervisor moves a virtual core."""
    case = Case("message", (1,))
    runner = Runner(Bound(context.build), "cells by hand")
    try:
        return run_peer(runner, runner.family.settings[0], 2, [case], PeerEffort(0.02, 100, 100_000))[case.label][
            "median"
        ]
    except PeerFailed:
        return 0


def _commit() -> str:
    """Returns the commit, with "-dirty" if files other than the page and its data differ from it."""
    git = ("git", "-C", str(ROOT))
    others = [f":!{path.relative_to(ROOT)}" for path in (_PAGE, _DATA)]
    changed = _first_line(*git, "status", "--porcelain", "--untracked-files=no", "--", ".", *others)
    return _first_line(*git, "rev-parse", "--short=12", "HEAD") + ("-dirty" if changed not in ("", "unknown") else "")


def _run_command(argv: Sequence[str], context: Context, folder: Path, what: str) -> str:
    """Runs a command, and shows for how long it has been running. Returns why it failed, or an empty text."""
    begin = time.monotonic()
    with open(folder / "log", "w") as log:
        child = subprocess.Popen(
            argv, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env={**os.environ, **context.env}
        )
        try:
            while child.poll() is None:
                seconds = time.monotonic() - begin
                if seconds > _LIMIT_SECONDS:
                    raise NotMeasured(f"a command did not end within {_LIMIT_SECONDS} s")
                progress(f"{what}, {seconds:.0f} s")
                time.sleep(0.1)
        finally:
            if child.poll() is None:
                child.terminate()
                child.wait()
    if child.returncode == 0:
        return ""
    lines = [line.strip() for line in (folder / "log").read_text(errors="replace").splitlines() if line.strip()]
    return f"{(lines or ['nothing was said'])[-1][:200]} (status {child.returncode})"


def _filled(argv: Sequence[str], folder: Path) -> list[str]:
    names = {"{json}": str(folder / "result.json"), "{folder}": str(folder)}
    return [names.get(word, word) for word in argv]


def _outputs(section: Section, context: Context, what: str) -> dict[str, list[Data]]:
    commands = section.commands(context)
    rounds = 1 if section.own_rounds else context.effort.runs
    outputs: dict[str, list[Data]] = {}
    for number in range(rounds):
        for index, command in enumerate(commands):
            folder = WORK / "page" / section.name / str(index)
            folder.mkdir(parents=True, exist_ok=True)
            for old in ("report.json", "result.json"):
                (folder / old).unlink(missing_ok=True)
            steps = (
                f", {number * len(commands) + index + 1} of {rounds * len(commands)}"
                if len(commands) > 1 or rounds > 1
                else ""
            )
            failed = _run_command(_filled(command.argv, folder), context, folder, f"{what}{steps}")
            # `compare` fails if one of the peers fails, but it has then measured the other peers.
            if failed and not (folder / "report.json").exists():
                raise NotMeasured(failed)
            outputs.setdefault(command.label, []).append(read_output(command, folder))
    return outputs


def _measure(section: Section, context: Context, what: str) -> Data:
    facts = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M"),
        "commit": _commit(),
        "rounds": context.effort.rounds if section.own_rounds else context.effort.runs,
    }
    cache_line = [_cache_line_us(context)]
    load = _Load()
    try:
        result: Result = section.result(_outputs(section, context, what))
    except NotMeasured as error:
        return facts | {"reason": str(error).rstrip(".")}
    except (LookupError, TypeError, ValueError) as error:
        return facts | {"reason": f"the output of the benchmark was not as expected ({error!r})"}
    if not result.rows:
        return facts | {"reason": "the benchmark gave no rows"}
    facts |= load.facts()
    facts["cache_line_us"] = [*cache_line, _cache_line_us(context)]
    more = {name: value for name, value in vars(result).items() if value}
    return facts | more


def _write(path: Path, text: str) -> None:
    """Replaces the file in one step, so that an interruption leaves the old or the new text."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(path.name + ".new")
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write '{path}': {error.strerror}") from None


def data_text(data: Data) -> str:
    """Returns the JSON of the data, with one line for each row."""
    rows = {name: section["rows"] for name, section in data["sections"].items() if "rows" in section}
    short = {
        **data,
        "sections": {
            name: {**section, "rows": [f"row {index} of {name}" for index in range(len(rows[name]))]} if name in rows else section
            for name, section in data["sections"].items()
        },
    }  # fmt: skip
    text = json.dumps(short, indent=1, ensure_ascii=False)
    for name, entries in rows.items():
        for index, row in enumerate(entries):
            text = text.replace(f'"row {index} of {name}"', json.dumps(row, ensure_ascii=False), 1)
    return text + "\n"


def _read_page(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read the page '{path}': {error.strerror}") from None


def _render(page: Path, data: Data) -> None:
    _write(page, render(_read_page(page), data))


def _check(page: Path, data: Data) -> int:
    text = _read_page(page)
    if text == render(text, data):
        return 0
    print(
        f"page: '{page}' does not have the tables of the data; run `benchmarks/compare/page --render`", file=sys.stderr
    )
    return 1


def _started(options: argparse.Namespace, data_path: Path) -> Data:
    """Returns the data of earlier runs. All sections must come from the same machine."""
    here = machine()
    again = _names(options.again, "--again") if options.again else []
    data: Data = load(data_path) if data_path.exists() else {"format": FORMAT, "machine": here, "sections": {}}
    kept = {name: section for name, section in data["sections"].items() if name not in again and "rows" in section}
    if kept and data["machine"] != here:
        different = next(key for key in here if data["machine"].get(key) != here[key])
        raise UsageError(
            f"'{data_path}' was measured on another machine ({different}: '{data['machine'].get(different)}', here "
            f"'{here[different]}'); measure everything here with --again all"
        )
    return {"format": FORMAT, "machine": here, "sections": kept}


def _sections(options: argparse.Namespace, data: Data) -> Iterator[Section]:
    names = _names(options.only, "--only") if options.only else SECTIONS
    return (section for section in ALL if section.name in names and section.name not in data["sections"])


def _dry_run(sections: Sequence[Section], context: Context) -> int:
    for section in sections:
        print(f"{section.name}:")
        try:
            for command in section.commands(context):
                print(f"    {shlex.join(command.argv)}")
        except NotMeasured as error:
            print(f"    not measured: {error}")
    return 0


def _run(options: argparse.Namespace) -> int:
    if options.time <= 0 or (options.rounds is not None and options.rounds < 1):
        raise UsageError("--time must be more than 0, and --rounds at least 1")
    folder = WORK / "page" if options.quick else None
    data_path = options.data or (folder / _DATA.name if folder else _DATA)
    page_path = options.page or (folder / _PAGE.name if folder else _PAGE)
    if options.check or options.render:
        data = load(data_path)
        if options.check:
            return _check(page_path, data)
        _render(page_path, data)
        return 0
    if options.quick and not page_path.exists():
        _write(page_path, _read_page(_PAGE))
    data = _started(options, data_path)
    effort = Effort(
        options.rounds or (1 if options.quick else 5), options.time / (10 if options.quick else 1), options.quick
    )
    context = Context(options.build.resolve(), options.python, effort)
    wanted = list(_sections(options, data))
    if options.dry_run:
        return _dry_run(wanted, context)
    if not (context.build / "bin" / "compare_rueda").exists():
        raise UsageError(f"no {context.build}/bin/compare_rueda: build it with `cmake --workflow --preset bench`")
    render(_read_page(page_path), data)  # complains about the page before anything is measured
    status = 0
    for number, section in enumerate(wanted):
        found = _measure(section, context, f"section {number + 1} of {len(wanted)}, {section.name}")
        data["sections"][section.name] = found
        data["sections"] = {name: data["sections"][name] for name in SECTIONS if name in data["sections"]}
        _write(data_path, data_text(data))
        if "reason" in found or "failures" in found:
            status = 1
        seconds = f"{found['seconds']:.0f} s" if "seconds" in found else f"not measured: {found['reason']}"
        say(f"{section.name}: {seconds}")
        for failure in found.get("failures", []):
            say(f"    {failure}")
    _write(data_path, data_text(data))
    _render(page_path, data)
    say(f"{data_path} and {page_path}")
    return status


def main() -> int:
    options = _parser().parse_args()
    # SIGTERM becomes an exception, so that the running command is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return _run(options)
    except (UsageError, DataError) as error:
        progress("")
        print(f"page: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        progress("")
        return 130
