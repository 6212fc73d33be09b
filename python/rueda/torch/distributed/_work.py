# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The Work that PyTorch gets for a pending operation."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Work

from rueda.torch.distributed import _futures, _ranges
from rueda.torch.distributed._callbacks import Callbacks, OrderedFuture
from rueda.torch.distributed._pending_operation import Operation, Order, seconds_of

_making = threading.Lock()  # protects the making of futures; held for a moment


class RuedaWork(Work):  # type: ignore[misc]
    """The object that torch.distributed returns with ``async_op=True``."""

    def __init__(self, operation: Operation, callbacks: Callbacks | None = None) -> None:
        """`callbacks`: the callbacks of the group, if Python code gets this object itself."""
        super().__init__()
        self.operation = operation
        self._callbacks = callbacks
        self._future: Any = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Blocks until it has completed. Raises its error, or ``rueda.Timeout``; then the operation goes on."""
        seconds = None if timeout is None else seconds_of(timeout)
        if self.operation.is_recorded:
            _ranges.wait(self.operation, seconds)
        else:
            self.operation.wait(seconds)
        return True

    def synchronize(self) -> None:
        """The same as wait(): results are in the CPU's memory."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it has ended, with or without an error. Does not block."""
        if not self.operation.has_ended():
            return False
        self.operation.conclude()
        return True

    def is_success(self) -> bool:
        """Whether it has ended without an error."""
        return self.is_completed() and self.operation.error is None

    def exception(self) -> Exception | None:
        """The error of the operation."""
        return self.operation.error if self.is_completed() else None

    def result(self) -> list[torch.Tensor]:
        """The output tensors, once it has completed."""
        self.wait()
        return self.operation.outputs

    def get_future(self) -> Any:
        """A torch.futures.Future of the list of output tensors; completed by a thread of the backend.

        It fails with ``rueda.Timeout`` when the operation's timeout, or else the group's, has passed since the operation began.
        """
        with _making:
            if self._future is None:
                self._future = (
                    _future_of(self.operation)
                    if self._callbacks is None
                    else OrderedFuture.of_operation(self._callbacks, self.operation)
                )
            return self._future

    def source_rank(self) -> int:
        """For a receive: the group's rank that sent the message."""
        raise ValueError(f"{self.operation.what}: only a receive has a source")

    def _source_rank(self) -> int:
        return self.source_rank()


class ReceiveWork(RuedaWork):
    """The Work of recv and irecv."""

    def __init__(self, operation: Operation, ranks: dict[int, int], callbacks: Callbacks | None) -> None:
        super().__init__(operation, callbacks)
        self._ranks = ranks  # ranks of the job, as ranks of the group

    def source_rank(self) -> int:
        """The group's rank that sent the message."""
        self.wait()
        return self._ranks[self.operation.handles[0].result()]


def _future_of(operation: Operation) -> Any:
    """For C++ code, which may take tensors from it without looking for an error."""
    completed: Any = torch.futures.Future()
    overdue: list[Exception] = []
    # An error must not go into a future by set_exception(): DDP's backward ends in a SIGSEGV then (PyTorch 2.15). One
    # that `then` raises is a RuntimeError there.
    future = completed.then(lambda _: _outputs_of(operation, overdue))

    def conclude() -> None:
        if operation.has_ended():
            operation.conclude()
        else:
            # The operation goes on. Its handles keep its tensors alive until it has ended, even if the Work is deleted.
            overdue.append(operation.overdue())
        completed.set_result(None)

    if operation.has_ended():
        conclude()
    else:
        _futures.when_ended(operation, conclude)
    return future


def _outputs_of(operation: Operation, overdue: list[Exception]) -> list[torch.Tensor]:
    for error in (*overdue, operation.error):
        if error is not None:
            raise error
    return operation.outputs


#: The result of a call that has waited; no code keeps it.
ENDED = RuedaWork(Operation("an operation", Order(""), [], [], None))
ENDED.wait()
