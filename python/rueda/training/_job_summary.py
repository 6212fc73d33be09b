# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A summary at the end of a job: how long it took, how many samples each second, where the ranks waited, and which
checkpoint was saved last. The C++ interface has the same summary (rueda/training/job_summary.hpp).
"""

from __future__ import annotations

import contextlib
import json
import logging
import operator
import os
import socket
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, SupportsIndex, TypeVar

from rueda import _lifecycle, _objects
from rueda.errors import InvalidArgument, RuedaError
from rueda.training._checkpoints import CheckpointManager

T = TypeVar("T")

#: These limits decide whether a rank counts as "awaited", which means that the other ranks waited for it. The other
#: ranks must have spent, on average, at least the fraction _AWAITED_SHARE of the job's time in communication. The
#: awaited rank itself must have spent at most the fraction _AWAITED_RANKS_OWN_SHARE of this average in communication.
#: `rueda top` has the same limits for a straggler.
_AWAITED_SHARE = 0.1
_AWAITED_RANKS_OWN_SHARE = 0.25
#: In a job that took less than this time, no rank counts as awaited: such short waits come from the start of the
#: processes.
_SHORT_JOB_SECONDS = 1.0

#: The first words of ``JobReport.checkpoint_failure`` if the folder of the checkpoints cannot be listed.
_NOT_LISTED = "the last one is unknown: "

_logger = logging.getLogger("rueda.training")


@dataclass(frozen=True)
class RankReport:
    """The numbers of one rank in a JobReport. Times are in seconds. ``in_communication`` is the time in which threads of
    the program were blocked in operations of Rueda.

    Example::

        slow: list[rueda.training.RankReport] = [rank for rank in report.ranks if rank.waiting_for_data > 10]
    """

    host: str
    seconds: float
    steps: int
    samples: int
    in_communication: float
    waiting_for_data: float


@dataclass(frozen=True)
class JobReport:
    """The numbers of a job. Only rank 0 has ``checkpoint``, the newest checkpoint: a dict with the keys "step",
    "age_seconds" and "folder". It is None on other ranks, or if there is no checkpoint. ``checkpoint_failure`` says why
    the last save failed, or why the checkpoints cannot be listed.

    Example::

        report: rueda.training.JobReport = summary.finish()
    """

    ranks: list[RankReport]
    has_checkpoints: bool = False
    checkpoint: dict[str, Any] | None = None
    checkpoint_failure: str | None = None

    @property
    def seconds(self) -> float:
        """The time of the rank that took longest."""
        return max(rank.seconds for rank in self.ranks)

    @property
    def steps(self) -> int:
        """The steps of the rank that made the most steps."""
        return max(rank.steps for rank in self.ranks)

    @property
    def samples(self) -> int:
        """The samples of all ranks together."""
        return sum(rank.samples for rank in self.ranks)

    @property
    def samples_per_second(self) -> float:
        """The samples of all ranks in each second."""
        return self.samples / self.seconds if self.seconds > 0 else 0.0

    @property
    def awaited_rank(self) -> int | None:
        """The rank for which the other ranks waited; None if there is none. This is the rank that spent the least time
        in communication, if two conditions are true. The other ranks spent, on average, at least a tenth of the job's
        time in communication. This rank spent at most a quarter of that average. A job of less than 1 s has no such
        rank.
        """
        times = [rank.in_communication for rank in self.ranks]
        if len(times) < 2 or self.seconds < _SHORT_JOB_SECONDS:
            return None
        least = times.index(min(times))
        others = (sum(times) - times[least]) / (len(times) - 1)
        is_awaited = others >= _AWAITED_SHARE * self.seconds and times[least] <= _AWAITED_RANKS_OWN_SHARE * others
        return least if is_awaited else None

    def text(self) -> str:
        """Returns a few lines for people."""
        lines = [
            f"job: {self.seconds:.1f} s on {_count(len(self.ranks), 'rank')}, {_count(self.steps, 'step')}, "
            f"{_count(self.samples, 'sample')}, {self.samples_per_second:.1f} samples/s"
        ]
        is_alone = len(self.ranks) == 1
        if not is_alone:
            line = f"communication: the ranks were blocked for {self._spread_text('in_communication')}"
            if self.awaited_rank is not None:
                line += f"; they waited for {self._name(self.awaited_rank)}"
            lines.append(line)
        waited = "rank waited" if is_alone else "ranks waited"
        lines.append(f"data: the {waited} for {self._spread_text('waiting_for_data')}")
        if self.has_checkpoints:
            lines.append(f"checkpoints: {self._checkpoint_text()}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Returns the numbers as the dict that finish() writes as JSON. docs/training-in-python.md explains it."""
        return {
            "ranks": len(self.ranks),
            "hosts_by_rank": [rank.host for rank in self.ranks],
            "seconds": self.seconds,
            "steps": self.steps,
            "samples": self.samples,
            "samples_per_second": self.samples_per_second,
            "communication": self._spread("in_communication"),
            "data": self._spread("waiting_for_data"),
            "awaited_rank": self.awaited_rank,
            "checkpoint": self.checkpoint,
            "checkpoint_failure": self.checkpoint_failure,
        }

    def _times(self, what: str) -> list[float]:
        return [getattr(rank, what) for rank in self.ranks]

    def _spread(self, what: str) -> dict[str, Any]:
        times = self._times(what)
        least, most = _least(times), _most(times)
        return {
            "least": {"rank": least, "seconds": times[least]},
            "median_seconds": statistics.median(times),
            "most": {"rank": most, "seconds": times[most]},
            "seconds_by_rank": times,
        }

    def _spread_text(self, what: str) -> str:
        times = self._times(what)
        if len(times) == 1:
            return f"{times[0]:.1f} s"
        least, most = _least(times), _most(times)
        return (
            f"{times[least]:.1f} s ({self._name(least)}) to {times[most]:.1f} s ({self._name(most)}), "
            f"median {statistics.median(times):.1f} s"
        )

    def _name(self, rank: int) -> str:
        hosts = {each.host for each in self.ranks}
        return f"rank {rank} on {self.ranks[rank].host}" if len(hosts) > 1 else f"rank {rank}"

    def _checkpoint_text(self) -> str:
        if self.checkpoint_failure is not None and self.checkpoint_failure.startswith(_NOT_LISTED):
            return self.checkpoint_failure
        text = "none was saved"
        if self.checkpoint is not None:
            text = (
                f"the last one is of step {self.checkpoint['step']}, saved {self.checkpoint['age_seconds']:.1f} s before "
                f"the end: {self.checkpoint['folder']}"
            )
        return text if self.checkpoint_failure is None else f"{text}; the last save failed: {self.checkpoint_failure}"


class JobSummary:
    """Counts steps and samples, and prints a summary of the job at the end.

    Make the object after init(), on all ranks. The job's time is measured from then on.

    Example::

        summary = rueda.training.JobSummary()
        for batch in summary.data(loader):
            train(batch)
            summary.step(len(batch))
        summary.finish(checkpoints=manager, json_file="summary.json")
    """

    def __init__(self) -> None:
        self._blocked_before = _lifecycle.blocked_seconds()
        self._began = time.monotonic()
        self._steps = 0
        self._samples = 0
        self._data = 0.0

    def step(self, samples: SupportsIndex) -> None:
        """Counts a step of this rank with this number of samples. Does not communicate.

        Args:
            samples: the samples of this rank in the step: an int, an integer of NumPy, or a tensor with one integer.

        Example::

            summary.step(len(batch))
        """
        number = operator.index(samples)
        if number < 0:
            raise InvalidArgument(f"JobSummary: a step has {number} samples; the number must not be negative")
        self._samples += number  # a Python int, because the module json cannot write NumPy's integers
        self._steps += 1

    @contextlib.contextmanager
    def waiting_for_data(self) -> Iterator[None]:
        """A context manager. The time spent in its block counts as waiting for data.

        Example::

            with summary.waiting_for_data():
                batch = queue.get()
        """
        began = time.monotonic()
        try:
            yield
        finally:
            self._data += time.monotonic() - began

    def data(self, batches: Iterable[T]) -> Iterator[T]:
        """Yields the items of ``batches``, and counts the time in which the trainer waits for them.

        Args:
            batches: anything that gives batches: a rueda.data.Pipeline, a DataLoader of PyTorch, a generator.

        Returns:
            An iterator over the same items.

        Example::

            for batch in summary.data(loader):
                train(batch)
        """
        with self.waiting_for_data():
            iterator = iter(batches)
        while True:
            with self.waiting_for_data():
                try:
                    batch = next(iterator)
                except StopIteration:
                    return
            yield batch
            del batch  # the batch must not stay alive while the trainer waits for the next one

    def finish(
        self,
        *,
        checkpoints: CheckpointManager | None = None,
        json_file: str | os.PathLike[str] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> JobReport:
        """Collects the numbers of all ranks, and prints them on rank 0. All ranks must make the call, before shutdown().

        Args:
            checkpoints: the manager of the job's checkpoints. Rank 0 waits until the last checkpoint is complete, and
                prints the step and the age of this checkpoint.
            json_file: the file into which rank 0 writes the numbers as JSON. If it cannot be written, rank 0 logs a
                warning.
            say: is called on rank 0 with the text; by default the text goes to standard output.

        Returns:
            The report, on all ranks.

        Raises:
            Aborted: the job was aborted.

        Example::

            report = summary.finish(checkpoints=manager)
            print(report.samples_per_second)
        """
        seconds = time.monotonic() - self._began
        blocked = _lifecycle.blocked_seconds() - self._blocked_before
        host = os.environ.get("RUEDA_HOSTNAME") or socket.gethostname()
        mine = (host, seconds, self._steps, self._samples, blocked, self._data)
        ranks = [RankReport(*each) for each in _objects.allgather_object(mine, "rueda.training.job_summary")]
        if _lifecycle.rank() != 0:
            return JobReport(ranks, checkpoints is not None)
        report = JobReport(ranks, checkpoints is not None, *_last_checkpoint(checkpoints))
        (say or _print)(report.text())
        if json_file is not None:
            _write(json_file, json.dumps(report.as_dict(), indent=2) + "\n")
        return report


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _least(times: list[float]) -> int:
    return times.index(min(times))


def _most(times: list[float]) -> int:
    return len(times) - 1 - times[::-1].index(max(times))


def _print(text: str) -> None:
    print(text, flush=True)


def _last_checkpoint(manager: CheckpointManager | None) -> tuple[dict[str, Any] | None, str | None]:
    """Returns the last complete checkpoint, and a text that says which error occurred: the last save failed, or the
    checkpoints cannot be listed. Each of the two may be None.
    """
    if manager is None:
        return None, None
    manager.wait()
    failure = manager.last_failure()
    try:
        found = manager.checkpoints()
    except RuedaError as error:  # the summary must be printed even if the checkpoints cannot be listed
        save = "" if failure is None else f"; the last save failed: {failure}"
        return None, f"{_NOT_LISTED}{error}{save}"
    checkpoint = None
    if found:
        try:
            written = os.stat(os.path.join(found[0].path, "state.safetensors")).st_mtime
        except OSError:
            written = time.time()
        age = max(0.0, time.time() - written)
        checkpoint = {"step": found[0].step, "age_seconds": age, "folder": found[0].path}
    return checkpoint, None if failure is None else str(failure)


def _write(path: str | os.PathLike[str], text: str) -> None:
    new = f"{os.fspath(path)}.partial"
    try:
        with open(new, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(new, path)
    except OSError as error:
        _logger.warning("The summary of the job was not written: %s", error)
