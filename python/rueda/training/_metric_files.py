# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Writes metrics to files, and shows progress."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TypeVar

from rueda import _lifecycle, _native
from rueda.errors import InvalidArgument
from rueda.training._curves import draw_curves

T = TypeVar("T")


_FORMATS = ("csv", "jsonl", "tensorboard")


class MetricsWriter:
    """Writes metrics of the training to files of one folder. Only rank 0 writes; the other ranks' calls do nothing.

    write() gives each line to the operating system before it returns, so a killed job loses no line.

    Args:
        folder: is created if it does not exist.
        formats: one or several of "csv" (metrics.csv), "jsonl" (metrics.jsonl, one JSON object per line) and
            "tensorboard" (event files, which ``tensorboard --logdir FOLDER`` shows).
        first_step: the first step of a job that was resumed. Lines of this step and later ones are removed, because the
            job writes them again. With 0, earlier files are overwritten.
        curves: if True, close() draws metrics.svg, a picture with a curve for each metric. It has the steps that this
            object wrote, and not those of an earlier job.

    Raises:
        InvalidArgument: a format is unknown, or a file cannot be created. Earlier files of this name stay unchanged.
        ResourceExhausted: the disk is full.

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
        self._files: object | None = None
        self._curves: dict[str, list[tuple[float, float]]] | None = {} if curves else None
        self._writes = _lifecycle.rank() == 0
        if self._writes:
            self._files = _native.metrics_open(os.fsencode(self._folder), ",".join(formats), first_step)

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Writes the metrics of a step.

        Raises:
            InvalidArgument: a metric has the name "step", or its name is empty or contains control characters. With the
                format csv, also if a metric was not in the first call.
            ResourceExhausted: the disk is full. The line is missing; later calls may succeed.
        """
        if not self._writes:
            return
        numbers = {name: float(value) for name, value in metrics.items()}
        _native.metrics_write(self._files, step, list(numbers.items()))
        if self._curves is not None:
            for name, value in numbers.items():
                self._curves.setdefault(name, []).append((step, value))

    def close(self) -> None:
        """Flushes the files to the disk, closes them, and draws the picture."""
        files, self._files = self._files, None
        if files is not None:
            _native.metrics_close(files)
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
