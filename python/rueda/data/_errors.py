# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Errors of worker processes and of map functions."""

from __future__ import annotations

from rueda.errors import RuedaError


class WorkerDied(RuedaError, RuntimeError):
    """A worker process ended before its work was done.

    Attributes:
        worker: the number of the worker.
        pid: the number of the process.
        signal: the number of the signal that killed the process, or None if no signal killed it.
        exit_code: the exit code of the process, or None if a signal killed it or the code is not known.
    """

    def __init__(
        self, message: str, worker: int = -1, pid: int = -1, signal: int | None = None, exit_code: int | None = None
    ) -> None:
        super().__init__(message)
        self.worker = worker
        self.pid = pid
        self.signal = signal
        self.exit_code = exit_code


class WorkerFailed(RuedaError, RuntimeError):
    """The generator of a worker process raised an exception. The message contains the exception's text and traceback.

    Attributes:
        worker: the number of the worker.
        pid: the number of the process.
    """

    def __init__(self, message: str, worker: int = -1, pid: int = -1) -> None:
        super().__init__(message)
        self.worker = worker
        self.pid = pid


class DecodeFailed(RuedaError, RuntimeError):
    """The function of a Decode raised an exception for a file. That exception is the ``__cause__`` of this one.

    Attributes:
        name: the path of the file.
    """

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class MapFailed(RuedaError, RuntimeError):
    """A map function of a pipeline raised an exception. That exception is the ``__cause__`` of this one.

    Attributes:
        epoch: the epoch of the batch, from 0.
        step: the number of the batch in its epoch, from 0.
    """

    def __init__(self, message: str, epoch: int = -1, step: int = -1) -> None:
        super().__init__(message)
        self.epoch = epoch
        self.step = step
