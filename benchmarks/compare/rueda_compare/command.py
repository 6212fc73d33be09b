# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The command: parses the arguments, runs the measurements, and writes the report."""

import argparse
import datetime
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
from pathlib import Path

from . import gradients, plots, summary
from .cases import BACKWARD, FLOAT_BYTES, OPERATIONS, SIZES, Case, UsageError, parse_size
from .peers import FAMILIES, INSTALLABLE, ROOT, Family, Missing, SweptRueda, cores, family, install
from .session import Effort, PeerFailed, QuietMachine, Runner, Session, run_standing

_EXAMPLES = """examples:
  compare --output results                        everything, about an hour
  compare --output results --quick                few sizes, one round: does it all work?
  compare --output results --peers rueda,openmpi --operations allreduce --sizes 4K,1M --ranks 2
  compare --output results --gradients resnet50 --operations none --backward none
  compare --output results --gradients none --operations none --backward resnet50=40
  compare --output results --sweep --backward recommender
  compare --install openmpi5,oneccl               gets those peers into build/compare
  compare --install tensorflow,ray,tensorboard    gets the peers of benchmarks/python and of two tests
  compare --dry-run                               says what would run

exit status: 0 all right, 1 a wrong result or a peer that failed, 2 wrong usage, 130 interrupted"""


def _list(text: str, known: tuple[str, ...], what: str) -> list[str]:
    names = [] if text == "none" else text.split(",")
    for name in names:
        if name not in known:
            raise UsageError(f"{what} '{name}' is not known; expected one of {', '.join(known)}, or none")
    return list(dict.fromkeys(names))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="compare",
        description="Runs Rueda and other libraries in turns, on the same data, and says where each stands.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    sets = ",".join(gradients.NAMES)
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="for report.json, report.md and the pictures")
    parser.add_argument("--peers", default=",".join(FAMILIES), metavar="LIST", help="(default: %(default)s)")
    parser.add_argument(
        "--operations",
        default=",".join(OPERATIONS),
        metavar="LIST",
        help=f"of {', '.join(OPERATIONS)}, or none (default: %(default)s)",
    )
    parser.add_argument("--sizes", metavar="LIST", help=f"bytes of one rank's input (default: {','.join(SIZES)})")
    parser.add_argument("--gradients", metavar="LIST", help=f"sets of gradients, or none (default: {sets})")
    parser.add_argument(
        "--backward",
        metavar="LIST",
        help="sets whose gradients arrive one by one, on the first number of ranks; NAME=MS says how long the backward "
        f"pass computes (default: {','.join(f'{name}={ms:g}' for name, ms in gradients.BACKWARD_MS.items())})",
    )
    parser.add_argument(
        "--sweep", action="store_true", help="only the sets of --backward, with Rueda's settings of batches"
    )
    parser.add_argument(
        "--thresholds", default="0,64K,1M,4M,16M,64M", metavar="LIST", help="of --sweep (default: %(default)s)"
    )
    parser.add_argument(
        "--holds", default="0,50,200,1000,5000", metavar="LIST", help="of --sweep, µs (default: %(default)s)"
    )
    parser.add_argument("--ranks", default="2,4", metavar="LIST", help="(default: %(default)s)")
    parser.add_argument("--rounds", type=int, metavar="N", help="how often the peers take turns (default: 5)")
    parser.add_argument(
        "--seconds", type=float, default=0.15, metavar="S", help="for one case in one round (default: %(default)s)"
    )
    parser.add_argument(
        "--between",
        default="0",
        metavar="SIZE",
        help="bytes of other memory that each rank writes before each operation (or before each set of gradients), so "
        "that the caches do not contain the outputs of the operation before (default: %(default)s)",
    )
    parser.add_argument(
        "--idle", type=float, metavar="S", help="seconds over which CPU use is taken; 0: not (default: 10)"
    )
    parser.add_argument(
        "--lock",
        type=Path,
        metavar="FILE",
        help="hold the flock(2) of this file while peers run, and let others have it every 30 s",
    )
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="build of Rueda (default: the newest in build/)")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="sizes 4,64K,1M, one round, first settings, no CPU use, ResNet-50 only, the recommender's backward pass "
        "only, unless given",
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would run, and run nothing")
    parser.add_argument("--install", metavar="LIST", help=f"of {', '.join(INSTALLABLE)}; then end")
    return parser


def _numbers(text: str) -> list[int]:
    if not all(word.isdecimal() and 1 <= int(word) <= 64 for word in text.split(",")):
        raise UsageError(f"--ranks '{text}' is not a list of numbers from 1 to 64: write 2,4")
    return [int(word) for word in text.split(",")]


def _backward(text: str) -> Case:
    """Parses NAME or NAME=MILLISECONDS: the set of gradients of a backward pass, and the duration of the pass."""
    name, given, number = text.partition("=")
    if name not in gradients.NAMES:
        raise UsageError(f"set '{name}' is not known; expected one of {', '.join(gradients.NAMES)}, or none")
    try:
        milliseconds = float(number) if given else gradients.BACKWARD_MS[name]
    except ValueError:
        milliseconds = -1
    if not 0 < milliseconds <= 60_000:
        raise UsageError(f"--backward '{text}' has no time from 0 to 60000 ms: write {name}=40")
    times = tuple(share * milliseconds * 1000 for share in gradients.shares(name))
    return Case(BACKWARD, tuple(gradients.counts(name)), name, times)


def _holds(text: str) -> list[int]:
    if not all(word.isdecimal() and int(word) <= 1_000_000 for word in text.split(",")):
        raise UsageError(f"--holds '{text}' is not a list of µs up to 1000000: write 0,200,1000")
    return [int(word) for word in text.split(",")]


def _swept(options: argparse.Namespace) -> SweptRueda:
    thresholds = [0 if word == "0" else parse_size(word) for word in options.thresholds.split(",")]
    return SweptRueda(options.build, thresholds, _holds(options.holds))


def _cases(options: argparse.Namespace) -> list[list[Case]]:
    """Returns groups of cases. Each peer is started once for a group."""
    sizes = [
        parse_size(word) for word in (options.sizes or ("4,64K,1M" if options.quick else ",".join(SIZES))).split(",")
    ]
    names = options.gradients or ("resnet50" if options.quick else ",".join(gradients.NAMES))
    groups = [
        [Case(operation, (size // FLOAT_BYTES,)) for size in sizes]
        for operation in _list(options.operations, OPERATIONS, "operation")
    ]
    groups += [[Case("allreduce", tuple(gradients.counts(n)), n)] for n in _list(names, gradients.NAMES, "set")]
    backward = options.backward or ("recommender" if options.quick else ",".join(gradients.NAMES))
    loads = [[_backward(word)] for word in backward.split(",") if backward != "none"]
    return loads if options.sweep else groups + loads


def _places(ranks: list[int], groups: list[list[Case]]) -> list[tuple[int, list[Case]]]:
    """Returns pairs: a number of ranks, and the cases that are measured with this number. Backward
    passes run only with the first number of ranks, because backward passes that share a core
    compute half as fast."""
    return [(n, cases) for n in ranks for cases in groups if n == ranks[0] or cases[0].operation != BACKWARD]


def _machine() -> summary.Record:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    cpu = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
    return {"cpu": cpu, "cores": cores(), "kernel": platform.release()}


def _commit() -> str:
    argv = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    result = subprocess.run(argv, capture_output=True, text=True, check=False)
    return result.stdout.strip() or "unknown"


def say(text: str) -> None:
    progress("")
    print(text, flush=True)


def progress(text: str) -> None:
    """Shows a line in place of the previous one, if the output is a terminal."""
    if sys.stderr.isatty():
        # Some terminals report a width of 0.
        width = (os.get_terminal_size(sys.stderr.fileno()).columns or 80) - 1
        print(f"\r{text[:width]:<{width}}\r", end="", file=sys.stderr, flush=True)


def _find(families: list[Family]) -> tuple[list[Family], dict[str, summary.Record]]:
    """Returns two values: the requested families of peers (kinds of libraries) that this machine has, and facts for the
    report. For each requested family, the report gives its version or says why it is skipped."""
    present, report = [], {}
    for found in families:
        name = found.name
        progress(f"looking for {name}")
        try:
            report[name] = {"version": found.version(), "settings": [setting.name for setting in found.settings]}
            present.append(found)
        except Missing as error:
            report[name] = {"skipped": str(error)}
            say(f"skipped: {name}: {error}")
    return present, report


def _measure_standing(runners: list[Runner], ranks: int, seconds: float, session: Session) -> list[summary.Record]:
    """Measures an idle and a waiting rank of each library. Only one of the library's `ways` to reduce a set of tensors
    is measured, because the `ways` make no difference for an idle or waiting rank."""
    report = []
    for runner in {
        runner.family.name: runner for runner in reversed(runners) if runner.family.name != "bound"
    }.values():
        progress(f"{ranks} ranks: memory and CPU use of {runner.family.name}")
        try:
            with session.machine.turn():
                report.append({"runner": runner.family.name, "ranks": ranks, **run_standing(runner, ranks, seconds)})
        except PeerFailed as error:
            session.failures.append(
                {"runner": runner.name, "setting": "standing", "ranks": ranks, "reason": str(error)}
            )
            say(f"failed: {runner.name}, memory and CPU use: {error}")
    return report[::-1]


def _write(report: summary.Record, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n")
        (folder / "report.md").write_text(summary.markdown(report))
    except OSError as error:
        raise UsageError(f"cannot write to '{folder}': {error.strerror}; give --output a writable folder") from None
    try:
        pictures = plots.draw(report, folder)
    except ImportError:
        pictures = []
        say(f"skipped: pictures: {sys.executable} has no matplotlib (Debian: python3-matplotlib)")
    say(f"{folder}/report.md, report.json and {len(pictures)} pictures")


def _dry_run(runners: list[Runner], places: list[tuple[int, list[Case]]]) -> None:
    for number, cases in places:
        for runner in runners:
            able = [case.label for case in cases if runner.family.can(runner.way, case, number)]
            if able:
                processes = runner.family.processes(runner.way, number, runner.family.settings[0])
                print(f"{number} ranks, {runner.name}: {', '.join(able)}")
                print(
                    f"    {shlex.join(processes[0].argv)}"
                    + (f"  (and {len(processes) - 1} more)" if processes[1:] else "")
                )


def _run(options: argparse.Namespace) -> int:
    rounds = options.rounds if options.rounds is not None else 1 if options.quick else 5
    idle = options.idle if options.idle is not None else 0 if options.quick or options.sweep else 10
    ranks = _numbers(options.ranks)
    groups = _cases(options)
    names = _list(options.peers, FAMILIES, "peer")
    between = 0 if options.between == "0" else parse_size(options.between)
    if rounds < 1 or options.seconds <= 0 or idle < 0:
        raise UsageError("--rounds must be at least 1, --seconds more than 0, --idle at least 0")
    if not names or not (groups or idle):
        raise UsageError("nothing is left to be measured: name peers, and operations, gradients or backward passes")
    if options.output is None and not options.dry_run:
        raise UsageError("--output FOLDER is needed, or --dry-run")
    if options.output and options.output.exists() and not options.output.is_dir():
        raise UsageError(f"--output '{options.output}' is not a folder")
    present, peers = _find([_swept(options)] if options.sweep else [family(name, options.build) for name in names])
    runners = [Runner(found, way) for found in present for way in found.ways]
    if not runners:
        raise UsageError("none of the peers is here")
    if options.dry_run:
        _dry_run(runners, _places(ranks, groups))
        return 0
    try:
        machine = QuietMachine(options.lock)
    except OSError as error:
        raise UsageError(f"--lock '{options.lock}' cannot be opened: {error.strerror}") from None
    session = Session(Effort(options.seconds, 5, 5000, between), rounds, say, progress, machine)
    standing = [line for number in ranks[:1] if idle for line in _measure_standing(runners, number, idle, session)]
    rows = [summary.row(m) for number, cases in _places(ranks, groups) for m in session.measure(runners, number, cases)]
    by_key = {(case.operation, case.set_name, case.bytes): case for cases in groups for case in cases}
    report = {
        "format": 1,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "command": shlex.join(["compare", *sys.argv[1:]]),
        "machine": _machine(),
        "rounds": rounds,
        "bytes_between": between,
        "sweep": options.sweep,
        "peers": peers,
        "rows": rows,
        "comparison": summary.compare(rows, by_key, cores()),
        "standing": standing,
        "failures": session.failures,
    }
    _write(report, options.output)
    wrong = [entry for entry in rows if entry["wrong_elements"]]
    for entry in wrong:
        say(
            f"wrong: {entry['runner']}, {entry['ranks']} ranks, {entry['operation']} of {entry['bytes']} bytes: {entry['wrong_elements']} elements"
        )
    return 1 if wrong or session.failures else 0


def main() -> int:
    options = _parser().parse_args()
    # SIGTERM becomes an exception, so that all processes of the run are ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if options.install:
            for name in options.install.split(","):
                install(name)
            return 0
        return _run(options)
    except (UsageError, Missing) as error:
        progress("")
        print(f"compare: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        return 130
