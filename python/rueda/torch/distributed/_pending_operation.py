# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A pending operation, and the effect of an abandoned wait on later operations."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

from rueda._native import Handle
from rueda.errors import Timeout


def seconds_of(timeout: timedelta | None) -> float | None:
    """Seconds of a timeout. None if PyTorch means no timeout, for which it uses zero and negative values."""
    seconds = timeout.total_seconds() if timeout is not None else 0.0
    return seconds if seconds > 0 else None


class Order:
    """Whether this rank may start further operations of a group.

    Operations match between the ranks by their order. After a wait has timed out, the ranks may disagree about that order. This rank skips
    the operations that would follow (the second half of a call, the collectives of a callback), or repeats the call. The late rank executes
    them, so later operations would silently be matched with different ones. So further operations are refused, unless the program first
    waits again for the operation that timed out, and this wait succeeds.

    Threads: any.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self._changing = threading.Lock()
        self._given_up: dict[object, str] = {}  # by operation; the value tells how the wait ended
        self._is_broken = False  # cannot be repaired

    def check(self) -> None:
        """Called before this rank starts an operation of the group.

        Raises:
            RuntimeError: the operation must not be started.
        """
        if not self._given_up:  # no lock: an operation that starts at the same moment counts as started before
            return
        with self._changing:
            if not self._given_up:
                return
            # The other ranks start this operation, so from now on they are one operation ahead.
            self._is_broken = True
            cause = next(iter(self._given_up.values()))
        raise RuntimeError(
            f"group '{self.group}': this rank cannot start further operations of the group, because it has given up waiting for an earlier "
            f"one ({cause}). The other ranks would match them with different operations. End the process, or destroy the group on all "
            "ranks and make a new one"
        )

    def give_up(self, operation: object, cause: str) -> None:
        """A wait has ended before its operation has."""
        with self._changing:
            self._given_up.setdefault(operation, cause)

    def break_for_good(self, cause: str) -> None:
        """A future has failed, or a callback could not start its operation. Another wait cannot repair that."""
        with self._changing:
            self._is_broken = True
            self._given_up.setdefault(self, cause)

    def resume(self, operation: object) -> None:
        """The program has waited again, and the operation has ended."""
        if not self._given_up:
            return
        with self._changing:
            if not self._is_broken:
                self._given_up.pop(operation, None)


class Operation:
    """Handles of Rueda, and the work to do when they have ended. The first thread that sees the end does this work, once.

    Threads: any.
    """

    __slots__ = (
        "_began",
        "_concluding",
        "_ended",
        "_finish",
        "_identity",
        "_order",
        "_what",
        "error",
        "handles",
        "is_recorded",
        "outputs",
        "timeout",
    )

    def __init__(
        self,
        what: str,
        order: Order,
        handles: list[Handle[Any]],
        outputs: list[torch.Tensor],
        timeout: float | None,
        finish: Callable[[], object] | None = None,
    ) -> None:
        self._what = what
        self._order = order
        self._identity = object()  # the key for Order, which must not keep the tensors alive
        self.handles = handles
        self.outputs = outputs
        self.timeout = timeout
        self._began = time.monotonic()
        self.is_recorded = False  # a profiler recorded the call, and shall record the waits
        self.error: Exception | None = None
        self._finish = finish
        self._concluding = threading.Lock() if finish is not None or len(handles) != 1 else None
        self._ended = False

    @property
    def what(self) -> str:
        """A description for messages."""
        return f"{self._what} of group '{self._order.group}'"

    @property
    def kind(self) -> str:
        """The first word of the description, for the names of ranges in a profile."""
        return self._what.partition(" ")[0]

    def wait(self, timeout: float | None) -> None:
        """Waits until it has ended. Raises its error, or Timeout.

        With its own `timeout` the wait is only a check, which the program may repeat at any time. Without one it ends by the operation's
        timeout, and the group refuses further operations until a wait for this one succeeds.
        """
        if not self._ended:
            try:
                self._wait_for_handles(timeout)
            except BaseException as error:
                if timeout is None:  # also for Ctrl-C
                    self._order.give_up(self._identity, str(error) or f"{self.what}: {type(error).__name__}")
                raise
            self._conclude()
        self._order.resume(self._identity)
        if self.error is not None:
            raise self.error

    def _wait_for_handles(self, timeout: float | None) -> None:
        limit = self.timeout if timeout is None else timeout
        end = None if limit is None or len(self.handles) == 1 else time.monotonic() + limit
        for handle in self.handles:
            try:
                handle.wait(limit if end is None else max(end - time.monotonic(), 0.0))
            except Timeout:
                if not handle.poll():
                    raise self._timed_out(limit or 0.0) from None
                self.error = self.error or _failure_of(handle)
            except Exception as error:
                if not handle.poll():
                    raise  # of the wait itself
                self.error = self.error or error

    def is_overdue(self) -> bool:
        """Whether its own timeout has passed since it began: its futures fail then."""
        return self.timeout is not None and time.monotonic() - self._began >= self.timeout

    def overdue(self) -> Timeout:
        """The error with which this operation's futures fail. The group refuses further operations from then on."""
        error = self._timed_out(self.timeout or 0.0)
        self._order.break_for_good(str(error))
        return error

    def _timed_out(self, seconds: float) -> Timeout:
        """The text names ranks of the job."""
        account = next((handle._waits_for() for handle in self.handles if not handle.poll()), "")
        return Timeout(
            f"{self.what}: not completed after {seconds:g} s{account and ': '}{account}; the operation goes on, and still uses its "
            "tensors"
        )

    def wait_a_while(self, seconds: float) -> bool:
        """For the watch of futures."""
        for handle in self.handles:
            if not handle.poll():
                handle._wait_a_while(seconds)
                break
        return self.has_ended()

    def has_ended(self) -> bool:
        """Whether it has ended, with or without an error. Does not block."""
        return self._ended or all(handle.poll() for handle in self.handles)

    def conclude(self) -> None:
        """Called when it has ended: does what wait() does, without raising."""
        try:
            self.wait(None)
        except Exception as error:
            self.error = self.error or error

    def _conclude(self) -> None:
        if self._concluding is None:
            self._ended = True
            return
        with self._concluding:
            if self._ended:
                return
            if self.error is None and self._finish is not None:
                try:
                    # Tensors that were made in inference mode can be written only in this mode, on every thread.
                    made_so = any(output.is_inference() for output in self.outputs)
                    with torch.inference_mode() if made_so else torch.no_grad():
                        self._finish()
                except Exception as error:
                    self.error = error
            self._finish = None
            self._ended = True


def _failure_of(handle: Handle[Any]) -> Exception | None:
    """Returns None if it has ended without an error just after the wait for it timed out."""
    try:
        handle.wait()
    except Exception as error:
        return error
    return None
