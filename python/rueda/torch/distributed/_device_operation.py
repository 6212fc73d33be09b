# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A pending operation on tensors of a GPU. A wait for the operation makes the current stream wait instead of the host."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import torch

from rueda._native import Handle
from rueda.torch import _devices
from rueda.torch.distributed._pending_operation import Operation, Order

#: Pairs (event, function). The function refers to tensors that a stream uses until the event is reached, and keeps the
#: tensors alive. If the tensors died earlier, PyTorch could give their memory to later work of the stream for which the
#: memory was allocated.
_kept: deque[tuple[Any, Any]] = deque()
# Without this lock, two threads could test the event of the first pair at the same time. Both would then remove a pair,
# so the second pair would be removed although its event had not been tested.
_keeping = threading.Lock()


def _keep(event: Any, function: Any) -> None:
    _drop_reached()
    with _keeping:
        _kept.append((event, function))


def _drop_reached() -> None:
    """Drops the tensors that no stream uses any longer. If another thread is dropping them, this call does nothing."""
    if not _kept or not _keeping.acquire(blocking=False):
        return
    dropped = []  # `dropped` is destroyed after the lock is free, because destructors may run other code
    try:
        while _kept and _kept[0][0].query():
            dropped.append(_kept.popleft())
    finally:
        _keeping.release()


class DeviceOperation(Operation):
    """One or several handles of operations on a GPU.

    In this class, an operation counts as ended when all its work has been put into streams of the GPU, including the
    work of `finish`. From then on, a stream can wait for the operation. has_completed() says whether the GPU has done
    the work.

    Threads: any thread may use an object.
    """

    __slots__ = ("_finished", "_index", "_stream")

    def __init__(
        self,
        what: str,
        order: Order,
        handles: list[Handle[Any]],
        outputs: list[torch.Tensor],
        timeout: float | None,
        finish: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(what, order, handles, outputs, timeout, finish)
        _drop_reached()
        self._concluding = threading.Lock()
        self._index = handles[0]._device
        self._stream = handles[0]._stream
        self._finished: Any = None  # a GPU event that is reached when the work of `finish` is done

    def wait(self, timeout: float | None) -> None:
        """Blocks until the operation's work has been put into a stream of the GPU. The current stream then waits for
        the end of this work. Raises the operation's error, or Timeout.
        """
        try:
            self._wait_for_handles(timeout)
        except BaseException as error:
            if timeout is None:  # the except block also runs if Ctrl-C interrupts the wait
                self._order.give_up(self._identity, str(error) or f"{self.what}: {type(error).__name__}")
            raise
        self._conclude()
        self._order.resume(self._identity)
        if self.error is not None:
            raise self.error

    def _wait_for_handles(self, timeout: float | None) -> None:
        limit = self.timeout if timeout is None else timeout
        end = None if limit is None else time.monotonic() + limit
        stream = _devices.raw_stream(self._index)
        for handle in self.handles:
            try:
                handle._wait_on_stream(stream, None if end is None else max(end - time.monotonic(), 0.0))
            except Exception as error:
                self._take_error(handle, error, limit)

    def _conclude(self) -> None:
        assert self._concluding is not None
        with self._concluding:
            if self._ended:
                if self._finished is not None:
                    _devices.current_stream(self._index).wait_event(self._finished)
                return
            if self.error is None and self._finish is not None:
                self._call_finish(self._finish)
                self._finished = _devices.recorded_event(_devices.current_stream(self._index))
                if _devices.raw_stream(self._index) != self._stream:
                    _keep(self._finished, self._finish)
            self._finish = None
            self._ended = True

    def wait_a_while(self, seconds: float) -> bool:
        """Waits for at most `seconds`. The thread that watches futures calls this method."""
        return self._ended or self._reaches_side_stream(seconds)

    def has_ended(self) -> bool:
        """Returns True if a stream can wait for the operation, or if it has failed. Does not block."""
        return self._ended or self._reaches_side_stream(0.0)

    def _reaches_side_stream(self, seconds: float) -> bool:
        """Makes the stream for callbacks wait for the operation, within the given time. If CUDA refuses this, the
        operation fails with CUDA's error, because no stream or thread can find out when the operation's outputs are
        complete.
        """
        try:
            stream = self._side_stream().cuda_stream
            return all(handle._try_to_wait_on_stream(stream, seconds) for handle in self.handles)
        except Exception as error:
            self._fail(error)
            return True

    def _fail(self, error: Exception) -> None:
        assert self._concluding is not None
        with self._concluding:
            if not self._ended:
                self.error = self.error or error
                self._finish = None
                self._ended = True

    def has_completed(self) -> bool:
        """Returns True if the GPU has done the operation, or if it has failed. Does not block."""
        if not all(handle.poll() for handle in self.handles):
            return False
        return self._finished is None or bool(self._finished.query())

    def _side_stream(self) -> Any:
        return _devices.side_stream(self._index, "futures")

    def stream_for_callbacks(self) -> contextlib.AbstractContextManager[Any]:
        """Returns a scope that selects a stream. A thread of the backend concludes the operation in this scope, because
        such a thread belongs to no stream of the program."""
        return _devices.on_stream(self._side_stream())

    def devices(self) -> list[torch.device] | None:
        """Returns the devices for a future of this operation."""
        return [_device(self._index)]


@functools.cache
def _device(index: int) -> torch.device:
    return torch.device("cuda", index)
