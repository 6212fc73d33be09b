# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs single peers, and rounds of all peers."""

import contextlib
import fcntl
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from .cases import MEBI, Case
from .peers import Family, Missing, Process, Setting

_BOARD_BYTES = 64 * 1024  # this value must be equal to kBoardBytes in drivers/harness.cpp
_RESULT = '{"case"'
_STARTING_SECONDS = 180  # this is enough time to start Python, PyTorch and a launcher on a busy machine


class PeerFailed(Exception):
    """A run of a peer failed. The text is the reason."""


@dataclass(frozen=True)
class Effort:
    """The limits for measuring a case in one round: the time, and the fewest and the most iterations. `between` is no
    limit: before each operation, a rank writes this many bytes of other memory."""

    seconds: float
    fewest: int
    most: int
    between: int = 0


@dataclass(frozen=True)
class Runner:
    """A library (peer) and one of its `ways` to reduce a set of tensors. Each runner is a row of the report."""

    family: Family
    way: str

    @property
    def name(self) -> str:
        return " ".join(part for part in (self.family.name, self.way) if part)

    @property
    def has_result(self) -> bool:
        """Returns whether the runner computes a result that can be checked."""
        return self.name != "bound crossing"


@dataclass
class Measured:
    """The results of a runner (a library and one of its `ways`) for one case, in all rounds."""

    ranks: int
    case: Case
    runner: Runner
    setting: Setting
    rounds: list[dict[str, float]] = field(default_factory=list)


def plan_line(case: Case, effort: Effort, has_result: bool) -> str:
    tensors: Iterable[object] = case.counts
    if case.compute_us:
        tensors = (f"{count}@{time:.3f}" for count, time in zip(case.counts, case.compute_us, strict=True))
    limits = [effort.seconds, effort.fewest, effort.most, int(has_result), effort.between]
    return " ".join(map(str, [case.label, case.collective, *limits, *tensors]))


def _end(children: list[subprocess.Popen[str]]) -> None:
    for child in children:
        if child.poll() is None:
            child.terminate()
    for child in children:
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()


def _reason(errors: str, status: int) -> str:
    """Returns the driver's error line, or else the last line of the output."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    named = [line for line in lines if "peer" in line.partition(":")[0] or line.startswith("compare:")]
    return f"{(named or lines or ['nothing was said'])[-1][:200]} (status {status})"


def _wait(children: list[subprocess.Popen[str]], folder: Path, limit: float) -> None:
    """Waits until all processes have succeeded. If one of them fails or the time is over, ends the others and raises an
    error."""
    deadline = time.monotonic() + limit
    try:
        while True:
            states = [child.poll() for child in children]
            bad = next((index for index, state in enumerate(states) if state not in (None, 0)), None)
            if bad is not None:
                raise PeerFailed(_reason((folder / f"err{bad}").read_text(errors="replace"), states[bad] or 0))
            if all(state == 0 for state in states):
                return
            if time.monotonic() > deadline:
                raise PeerFailed(f"did not end within {limit:.0f} s")
            time.sleep(0.02)
    finally:
        _end(children)


def run_processes(processes: list[Process], plan: str, shared_bytes: int, limit: float) -> dict[str, dict[str, float]]:
    """Starts the processes with shared memory (the board) and a list of the cases to measure (the plan). Returns the
    results by the cases' labels."""
    board = os.memfd_create("compare")
    try:
        os.ftruncate(board, _BOARD_BYTES + shared_bytes)
        with tempfile.TemporaryDirectory(prefix="rueda-compare-") as name:
            folder = Path(name)
            (folder / "plan").write_text(plan + "\n")
            common = {
                **os.environ,
                "COMPARE_BOARD": f"/proc/{os.getpid()}/fd/{board}",
                "COMPARE_PLAN": str(folder / "plan"),
                "COMPARE_RENDEZVOUS": str(folder / "rendezvous"),
            }
            children: list[subprocess.Popen[str]] = []
            try:
                for index, process in enumerate(processes):
                    with open(folder / f"out{index}", "w") as out, open(folder / f"err{index}", "w") as err:
                        env = {**common, **process.env}
                        children.append(subprocess.Popen(process.argv, stdout=out, stderr=err, env=env, text=True))
            except OSError as error:
                _end(children)
                raise PeerFailed(str(error)) from None
            _wait(children, folder, limit)
            outputs = [(folder / f"out{index}").read_text(errors="replace") for index in range(len(children))]
            # ruedarun writes the rank before each line.
            lines = [line[line.index(_RESULT) :] for line in "".join(outputs).splitlines() if _RESULT in line]
            results = [json.loads(line) for line in lines]
            return {str(result.pop("case")): result for result in results}
    finally:
        os.close(board)


def run(
    runner: Runner, setting: Setting, ranks: int, cases: Iterable[Case], effort: Effort
) -> dict[str, dict[str, float]]:
    """Starts the peer once and runs all cases. Returns the results by label. Raises PeerFailed."""
    cases = list(cases)
    plan = "\n".join(plan_line(case, effort, runner.has_result) for case in cases)
    least_bytes = runner.family.bound_bytes
    # a bound writes up to 16 bytes beside each tensor
    most_bytes = max(least_bytes, *(case.bytes + 16 * len(case.counts) for case in cases))
    shared = ranks * (most_bytes + 8192) if least_bytes else 0
    # An iteration writes the tensors, runs the operation and checks the results. Together this takes up to 40 ns per
    # byte with the slowest peers.
    least = sum(case.bytes for case in cases) * 40e-9 * ranks * (effort.fewest + 5)
    least += len(cases) * effort.between * 10e-9 * ranks * (effort.fewest + 5)
    least += sum(sum(case.compute_us) for case in cases) * 4e-6 * (effort.fewest + 5)
    limit = _STARTING_SECONDS + 4 * len(cases) * effort.seconds + least
    try:
        processes = runner.family.processes(runner.way, ranks, setting)
    except Missing as error:
        raise PeerFailed(str(error)) from None
    results = run_processes(processes, plan, shared, limit)
    lacking = [case.label for case in cases if case.label not in results]
    if lacking:
        raise PeerFailed(f"gave no result for {', '.join(lacking[:3])}")
    return results


def run_standing(runner: Runner, ranks: int, seconds: float) -> dict[str, float]:
    """Measures the memory after init, and the CPU use of an idle and of a waiting rank."""
    plan = f"standing standing {seconds} 1 1 1 0"
    processes = runner.family.processes(runner.way, ranks, runner.family.standing_setting())
    results = run_processes(processes, plan, 0, _STARTING_SECONDS + 3 * seconds)
    if "standing" not in results:
        raise PeerFailed("gave no result")
    return results["standing"]


class QuietMachine:
    """A lock (flock(2)) on a file that other users of the machine also lock, or no lock if `lock` is None. The lock is
    kept over several starts of peers, but only for a limited time."""

    _KEEPS_SECONDS = 30

    def __init__(self, lock: Path | None) -> None:
        self._file = open(lock) if lock else None  # noqa: SIM115: kept until the end of the session
        self._since: float | None = None

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        if self._file and self._since is None:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            self._since = time.monotonic()
        try:
            yield
        finally:
            if self._file and self._since is not None and time.monotonic() - self._since > self._KEEPS_SECONDS:
                fcntl.flock(self._file, fcntl.LOCK_UN)
                self._since = None
                time.sleep(1)  # the pause lets waiting processes take the lock


class Session:
    """Runs all runners in turn. A runner is a library and one of its `ways`. If a runner fails with a group of cases,
    the failure is reported, and the runner skips this group in later rounds."""

    def __init__(
        self,
        effort: Effort,
        rounds: int,
        say: Callable[[str], None],
        progress: Callable[[str], None],
        machine: QuietMachine,
    ) -> None:
        self.effort = effort
        self.machine = machine
        self.rounds = rounds
        self.say = say
        self.progress = progress
        self.failures: list[dict[str, str | int]] = []

    def _effort(self, cases: list[Case]) -> Effort:
        """Sets of 100 MiB or more take so long that only a few iterations are made."""
        large = max(case.bytes for case in cases) >= 100 * MEBI
        if not large:
            return self.effort
        return replace(self.effort, seconds=4 * self.effort.seconds, fewest=min(self.effort.fewest, 3))

    def _attempt(
        self, runner: Runner, setting: Setting, ranks: int, cases: list[Case], effort: Effort
    ) -> dict[str, dict[str, float]]:
        try:
            with self.machine.turn():
                return run(runner, setting, ranks, cases, effort)
        except PeerFailed as error:
            what = f"{runner.name} ({setting.name}), {ranks} ranks, {cases[0].operation}"
            self.failures.append({"runner": runner.name, "setting": setting.name, "ranks": ranks, "reason": str(error)})
            self.say(f"failed: {what}: {error}")
            return {}

    def _best_settings(self, runner: Runner, ranks: int, cases: list[Case]) -> dict[Case, Setting]:
        """Returns the fastest setting for each case, found by a short run of each setting. Leaves out cases that fail
        with every setting."""
        settings = runner.family.settings
        if len(settings) == 1 or self.rounds == 1:
            return {case: settings[0] for case in cases}
        short = replace(self.effort, seconds=self.effort.seconds / 4, fewest=3)
        medians: dict[Case, dict[int, float]] = {case: {} for case in cases}
        for index, setting in enumerate(settings):
            self.progress(f"{ranks} ranks, {cases[0].label.partition('/')[0]}: trying {runner.name}, {setting.name}")
            results = self._attempt(runner, setting, ranks, cases, short)
            for case in cases:
                if case.label in results:
                    medians[case][index] = results[case.label]["median"]
        return {case: settings[min(tried, key=tried.__getitem__)] for case, tried in medians.items() if tried}

    def measure(self, runners: list[Runner], ranks: int, cases: list[Case]) -> list[Measured]:
        """Measures the cases in rounds. In each round, every runner runs all its cases."""
        effort = self._effort(cases)
        chosen: dict[Runner, dict[Case, Setting]] = {}
        for runner in runners:
            able = [case for case in cases if runner.family.can(runner.way, case, ranks)]
            if able:
                chosen[runner] = self._best_settings(runner, ranks, able)
        measured = {
            (runner, case): Measured(ranks, case, runner, setting)
            for runner, settings in chosen.items()
            for case, setting in settings.items()
        }
        for number in range(self.rounds):
            for runner, settings in list(chosen.items()):
                self.progress(
                    f"{ranks} ranks, {cases[0].label.partition('/')[0]}: round {number + 1} of {self.rounds}, {runner.name}"
                )
                for name in dict.fromkeys(setting.name for setting in settings.values()):
                    mine = [case for case, setting in settings.items() if setting.name == name]
                    results = self._attempt(runner, settings[mine[0]], ranks, mine, effort)
                    if not results:
                        chosen.pop(runner, None)
                    for case in mine:
                        if case.label in results:
                            measured[runner, case].rounds.append(results[case.label])
        return [entry for entry in measured.values() if entry.rounds]
