# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Writes metrics to files, and shows progress."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TextIO, TypeVar

from rueda import _lifecycle
from rueda.errors import InvalidArgument, Unsupported
from rueda.training._curves import draw_curves

T = TypeVar("T")


def _whole_lines(path: str, first_step: int) -> str:
    """Returns the complete lines of a file that an earlier job wrote; nothing if this job begins with step 0."""
    if first_step == 0 or not os.path.exists(path):
        return ""
    with open(path, newline="", encoding="utf-8", errors="replace") as file:
        text = file.read().replace("\0", "")  # a power failure can leave bytes of value 0
    return text[: text.rfind("\n") + 1]


def _begin_file(path: str, beginning: str) -> TextIO:
    """Makes a file with this text, and returns the open file, to which the caller can add text. If the job is killed
    while the file is made, an earlier file with the same path stays unchanged.
    """
    new = f"{path}.new"
    file = open(new, "w", newline="", encoding="utf-8")  # noqa: SIM115  (the caller closes it)
    try:
        file.write(beginning)
        file.flush()
        os.replace(new, path)
    except BaseException:
        file.close()
        raise
    return file


def _step_of(line: str) -> float:
    """Returns the step of a line of JSON; infinity if the line was damaged, for example when the disk was full."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, TypeError, KeyError):
        return float("inf")


class _CsvFile:
    """A table with a column for each metric of the first row."""

    def __init__(self, folder: str, first_step: int) -> None:
        self._path = os.path.join(folder, "metrics.csv")
        self._columns: list[str] = []
        rows = self._rows_before(first_step)
        beginning = io.StringIO(newline="")
        if self._columns:
            csv.writer(beginning).writerows([self._columns, *rows])
        self._file = _begin_file(self._path, beginning.getvalue())
        self._writer = csv.writer(self._file)

    def _rows_before(self, first_step: int) -> list[list[str]]:
        """Returns the rows that a job wrote before it was killed, without those of steps that are repeated. A row that
        was cut when the job was killed is left out.
        """
        self._columns, *rows = list(csv.reader(io.StringIO(_whole_lines(self._path, first_step), newline=""))) or [[]]
        whole = [row for row in rows if len(row) == len(self._columns) > 0 and row[0].isdecimal()]
        return [row for row in whole if int(row[0]) < first_step]

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        if not self._columns:
            self._columns = ["step", *metrics]
            self._writer.writerow(self._columns)
        unknown = [name for name in metrics if name not in self._columns[1:]]
        if unknown:
            raise InvalidArgument(
                f"metrics of step {step}: '{unknown[0]}' has no column in {self._path}, because it was not in the first row; "
                "give all metrics in the first call, or use the format jsonl"
            )
        self._writer.writerow([step, *(repr(metrics[name]) if name in metrics else "" for name in self._columns[1:])])
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class _JsonFile:
    """A line for each call, with step, time and metrics. A number that is not finite is null, because JSON has none."""

    def __init__(self, folder: str, first_step: int) -> None:
        path = os.path.join(folder, "metrics.jsonl")
        lines = _whole_lines(path, first_step).splitlines(keepends=True)
        self._file = _begin_file(path, "".join(line for line in lines if _step_of(line) < first_step))

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        finite = {name: value if abs(value) < float("inf") else None for name, value in metrics.items()}
        json.dump({"step": step, "time": round(time.time(), 3), **finite}, self._file)
        self._file.write("\n")
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class _TensorBoardFile:
    """Event files of the package tensorboard."""

    def __init__(self, folder: str, first_step: int) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise Unsupported(
                f"metrics: the format tensorboard needs the package tensorboard: pip install tensorboard ({error})"
            ) from error
        self._event = event_pb2.Event
        self._summary = summary_pb2.Summary
        self._writer = EventFileWriter(folder)
        if first_step > 0:
            # This event makes TensorBoard hide earlier events of `first_step` and later steps, because the job repeats
            # these steps.
            status = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._writer.add_event(self._event(wall_time=time.time(), step=first_step, session_log=status))

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        values = [self._summary.Value(tag=name, simple_value=value) for name, value in metrics.items()]
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=self._summary(value=values)))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


_FORMATS: dict[str, Callable[[str, int], Any]] = {
    "csv": _CsvFile,
    "jsonl": _JsonFile,
    "tensorboard": _TensorBoardFile,
}


class MetricsWriter:
    """Writes metrics of the training to files of one folder. Only rank 0 writes; the other ranks' calls do nothing.

    write() gives each line to the operating system before it returns, so a killed job loses no line.

    Args:
        folder: is created if it does not exist.
        formats: one or several of "csv" (metrics.csv), "jsonl" (metrics.jsonl, one JSON object per line) and
            "tensorboard" (event files, which need the package tensorboard).
        first_step: the first step of a job that was resumed. Lines of this step and later ones are removed, because the
            job writes them again. With 0, earlier files are overwritten.
        curves: if True, close() draws metrics.svg, a picture with a curve for each metric. It has the steps that this
            object wrote, and not those of an earlier job.

    Raises:
        InvalidArgument: a format is unknown.
        Unsupported: the package tensorboard is missing.
        OSError: a file cannot be written.

    Example::

        with rueda.training.MetricsWriter("run", ["csv", "tensorboard"], first_step=backup.first_step) as writer:
            for step in backup:
                writer.write(step, {"loss": train(step)})
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        formats: Sequence[str] = ("csv",),
        *,
        first_step: int = 0,
        curves: bool = False,
    ) -> None:
        for name in formats:
            if name not in _FORMATS:
                raise InvalidArgument(f"metrics: the format '{name}' is unknown; use {', '.join(_FORMATS)}")
        self._folder = os.fspath(folder)
        self._files: list[Any] = []
        self._curves: dict[str, list[tuple[float, float]]] | None = {} if curves else None
        self._writes = _lifecycle.rank() == 0
        if self._writes:
            os.makedirs(self._folder, exist_ok=True)
            self._files = [_FORMATS[name](self._folder, first_step) for name in formats]

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Writes the metrics of a step.

        Raises:
            InvalidArgument: a metric has the name "step"; or with the format csv, a metric was not in the first call.
            OSError: a file cannot be written.
        """
        if not self._writes:
            return
        if "step" in metrics:
            raise InvalidArgument(f"metrics of step {step}: a metric has the name 'step'; choose another name")
        numbers = {name: float(value) for name, value in metrics.items()}
        for file in self._files:
            file.write(step, numbers)
        if self._curves is not None:
            for name, value in numbers.items():
                self._curves.setdefault(name, []).append((step, value))

    def close(self) -> None:
        """Closes the files, and draws the picture."""
        for file in self._files:
            file.close()
        self._files = []
        if self._writes and self._curves:
            draw_curves(os.path.join(self._folder, "metrics.svg"), self._curves, y_label="")
        self._writes = False

    def __enter__(self) -> MetricsWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def progress(steps: Iterable[T], what: str = "", total: int | None = None) -> Iterator[T]:
    """Iterates over ``steps``, and shows a progress bar on rank 0.

    The bar is that of the package tqdm. It is shown only if tqdm is installed and the standard error stream is a
    terminal. Otherwise nothing is printed, so log files stay readable.

    Args:
        steps: what to iterate over.
        what: a text before the bar.
        total: the number of steps, if ``steps`` has no length.

    Example::

        for step in rueda.training.progress(range(1000), "training"):
            train(step)
    """
    if _lifecycle.rank() == 0 and sys.stderr.isatty():
        try:
            from tqdm import tqdm
        except ImportError:
            pass
        else:
            steps = tqdm(steps, desc=what or None, total=total)
    yield from steps
