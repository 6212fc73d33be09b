# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The Work object that PyTorch gets for a pending operation."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import torch
from torch._C._distributed_c10d import Work

from rueda.torch.distributed import _futures, _ranges
from rueda.torch.distributed._callbacks import Callbacks, OrderedFuture
from rueda.torch.distributed._pending_operation import Operation, Order, seconds_of

_making = threading.Lock()  # protects the creation of futures; a thread holds it only for a moment


class RuedaWork(Work):  # type: ignore[misc]
    """The object that torch.distributed returns with ``async_op=True``."""

    def __init__(self, operation: Operation, callbacks: Callbacks | None = None) -> None:
        """`callbacks` are the group's callbacks. They are None if this object is not returned to Python code."""
        super().__init__()
        self.operation = operation
        self._callbacks = callbacks
        self._future: Any = None

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Blocks until the operation has completed. Raises the operation's error, or ``rueda.Timeout`` after the
        timeout. After a Timeout, the operation continues.

        For tensors on a GPU, blocks until all members have called the operation, but not until the GPU has executed it.
        The current stream waits for the GPU's work.
        A wait for a receive blocks until the message has arrived on the host, and a wait for a send until the message was
        received.
        """
        seconds = None if timeout is None else seconds_of(timeout)
        if self.operation.is_recorded:
            _ranges.wait(self.operation, seconds)
        else:
            self.operation.wait(seconds)
        return True

    def synchronize(self) -> None:
        """Does the same as wait()."""
        self.wait()

    def is_completed(self) -> bool:
        """Returns True if the operation has ended, with or without an error. Does not block."""
        if not self.operation.has_completed():
            return False
        self.operation.conclude()
        return self.operation.has_completed()

    def is_success(self) -> bool:
        """Returns True if the operation has ended without an error."""
        return self.is_completed() and self.operation.error is None

    def exception(self) -> Exception | None:
        """Returns the error of the operation; None if it is pending or has succeeded."""
        return self.operation.error if self.is_completed() else None

    def result(self) -> list[torch.Tensor]:
        """Waits for the operation, and returns the output tensors."""
        self.wait()
        return self.operation.outputs

    def get_future(self) -> Any:
        """Returns a torch.futures.Future for the list of output tensors. A thread of the backend completes it.

        The future fails with ``rueda.Timeout`` if the operation's timeout passes before the operation has ended. If the
        operation has no timeout, the group's timeout is used.
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
        """Returns the rank that sent the message, counted within the group. Only a receive knows this rank."""
        raise ValueError(f"{self.operation.what}: only a receive has a source")

    def _source_rank(self) -> int:
        return self.source_rank()


class ReceiveWork(RuedaWork):
    """The Work that recv and irecv return."""

    def __init__(self, operation: Operation, ranks: dict[int, int], callbacks: Callbacks | None) -> None:
        super().__init__(operation, callbacks)
        self._ranks = ranks  # the keys are ranks in the job, the values are ranks in the group

    def source_rank(self) -> int:
        """Returns the rank that sent the message, counted within the group."""
        self.wait()
        return self._ranks[self.operation.handles[0].result()]


def _future_of(operation: Operation) -> Any:
    """Makes a future for C++ code. Such code may take tensors from the future without checking for an error."""
    devices = operation.devices()
    completed: Any = torch.futures.Future() if devices is None else torch.futures.Future(devices=devices)
    failures: list[Exception] = []
    # The error is not stored by set_exception(), because DDP's backward pass would end with a SIGSEGV (PyTorch 2.15).
    # Instead, a function that was passed to `then` raises the error, and C++ code gets a RuntimeError.
    future = completed.then(lambda _: _outputs_of(operation, failures))

    def conclude() -> None:
        try:
            with operation.stream_for_callbacks():
                if operation.has_ended():
                    operation.conclude()
                else:
                    # The operation is still pending. The operation's handles keep its tensors alive until the operation
                    # has ended, even if this Work is deleted.
                    failures.append(operation.overdue())
                # A future records events for the devices of the tensors in its result. Its callbacks run on streams
                # that wait for these events.
                completed.set_result(None if devices is None or failures or operation.error else operation.outputs)
        except Exception as error:  # CUDA may refuse the stream or an event, for example after a failed kernel
            failures.append(error)
            if not completed.done():
                completed.set_result(None)  # DDP's backward pass waits for this future

    if operation.has_ended():
        conclude()
    else:
        _futures.when_ended(operation, conclude)
    return future


def _outputs_of(operation: Operation, failures: list[Exception]) -> list[torch.Tensor]:
    for error in (*failures, operation.error):
        if error is not None:
            raise error
    return operation.outputs


#: The Work that a blocking call returns. Its operation has ended before the call returns, so all such calls can share
#: this object.
ENDED = RuedaWork(Operation("an operation", Order(""), [], [], None))
ENDED.wait()
