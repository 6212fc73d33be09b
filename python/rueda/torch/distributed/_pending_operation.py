# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A pending operation, and the rules for later operations of a group after a wait has timed out."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

from rueda._native import Handle
from rueda.errors import Timeout


def seconds_of(timeout: timedelta | None) -> float | None:
    """Returns the timeout in seconds, or None for no timeout. In PyTorch, zero and negative values mean no timeout."""
    seconds = timeout.total_seconds() if timeout is not None else 0.0
    return seconds if seconds > 0 else None


class Order:
    """Decides whether this rank may start further operations of a group.

    Operations of the ranks are matched by their order. After a wait has timed out, the ranks may disagree about this
    order. For example, this rank skips the rest of a call that has several operations, or repeats the call, while the
    late rank executes the whole call. In such a case, later operations would be matched with wrong operations, without
    an error. The group therefore refuses further operations. If the program waits once more for the operation that
    timed out, and this wait succeeds, the group accepts operations again.

    Threads: any thread may use an object.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self._changing = threading.Lock()
        self._given_up: dict[object, str] = {}  # the key of an operation -> a text that says how the wait for it ended
        self._is_broken = False  # if True, the group refuses operations for good, even if another wait succeeds

    def check(self) -> None:
        """Checks that this rank may start an operation of the group. Call it before each operation.

        Raises:
            RuntimeError: the group refuses the operation.
        """
        # This first check needs no lock. If a wait of another thread times out at the same time, this operation counts
        # as started before the timeout.
        if not self._given_up:
            return
        with self._changing:
            if not self._given_up:
                return
            # This rank does not start the operation, but the other ranks do. From now on, the other ranks have started
            # one operation more than this rank.
            self._is_broken = True
            cause = next(iter(self._given_up.values()))
        raise RuntimeError(
            f"group '{self.group}': this rank cannot start further operations of the group, because it has given up waiting for an earlier "
            f"one ({cause}). The other ranks would match them with different operations. End the process, or destroy the group on all "
            "ranks and make a new one"
        )

    def give_up(self, operation: object, cause: str) -> None:
        """Records that a wait ended before its operation ended. From then on, the group refuses operations."""
        with self._changing:
            self._given_up.setdefault(operation, cause)

    def break_for_good(self, cause: str) -> None:
        """Makes the group refuse all operations from now on. This is necessary if a future has failed, or if a callback
        could not start its operation.
        """
        with self._changing:
            self._is_broken = True
            self._given_up.setdefault(self, cause)

    def resume(self, operation: object) -> None:
        """Records that a wait for the operation has succeeded, after an earlier wait gave up. If the group has no other
        reason to refuse operations, it accepts operations again.
        """
        if not self._given_up:
            return
        with self._changing:
            if not self._is_broken:
                self._given_up.pop(operation, None)


class Operation:
    """One or several handles of Rueda, and the work to do when all of them have ended. The first thread that notices
    the end does this work, once.

    Threads: any thread may use an object.
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
        # This operation's key in Order. If the operation itself were the key, Order would keep its tensors alive.
        self._identity = object()
        self.handles = handles
        self.outputs = outputs
        self.timeout = timeout
        self._began = time.monotonic()
        self.is_recorded = False  # if True, a profiler recorded the call, and must also record the waits
        self.error: Exception | None = None
        self._finish = finish
        self._concluding = threading.Lock() if finish is not None or len(handles) != 1 else None
        self._ended = False

    @property
    def what(self) -> str:
        """Describes the operation for messages."""
        return f"{self._what} of group '{self._order.group}'"

    @property
    def kind(self) -> str:
        """The first word of the operation's description. This word is a part of the names of ranges in a profile."""
        return self._what.partition(" ")[0]

    def wait(self, timeout: float | None) -> None:
        """Waits until the operation has ended. Raises the operation's error, or Timeout.

        If the caller passes a `timeout`, the wait is only a check, and the program may repeat it at any time. Without a
        `timeout`, the operation's own timeout ends the wait. After such a timeout, the group refuses further operations
        until a wait for this operation succeeds.
        """
        if not self._ended:
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
        end = None if limit is None or len(self.handles) == 1 else time.monotonic() + limit
        for handle in self.handles:
            try:
                handle.wait(limit if end is None else max(end - time.monotonic(), 0.0))
            except Exception as error:
                self._take_error(handle, error, limit)

    def _take_error(self, handle: Handle[Any], error: Exception, limit: float | None) -> None:
        """If the handle's operation has ended, stores its error. Otherwise only the wait has failed, and this function
        raises the wait's error.
        """
        if handle.poll():
            self.error = self.error or (_failure_of(handle) if isinstance(error, Timeout) else error)
        elif isinstance(error, Timeout):
            raise self._timed_out(limit or 0.0) from None
        else:
            raise error

    def is_overdue(self) -> bool:
        """Returns True if the operation was started longer ago than its timeout. If so, its futures fail."""
        return self.timeout is not None and time.monotonic() - self._began >= self.timeout

    def overdue(self) -> Timeout:
        """Returns the error for the futures of this operation, whose timeout has passed. Also makes the group refuse
        all further operations.
        """
        error = self._timed_out(self.timeout or 0.0)
        self._order.break_for_good(str(error))
        return error

    def _timed_out(self, seconds: float) -> Timeout:
        """Returns the error of a wait that timed out. The text of this error contains ranks of the job, not of the
        group."""
        account = next((handle._waits_for() for handle in self.handles if not handle.poll()), "")
        return Timeout(
            f"{self.what}: not completed after {seconds:g} s{account and ': '}{account}; the operation goes on, and still uses its "
            "tensors"
        )

    def wait_a_while(self, seconds: float) -> bool:
        """Waits for at most `seconds`. The thread that watches futures calls this method."""
        for handle in self.handles:
            if not handle.poll():
                handle._wait_a_while(seconds)
                break
        return self.has_ended()

    def has_ended(self) -> bool:
        """Returns True if the operation has ended, with or without an error. Does not block."""
        return self._ended or all(handle.poll() for handle in self.handles)

    #: Returns True if the operation has ended and its outputs are complete. Does not block.
    has_completed = has_ended

    def stream_for_callbacks(self) -> contextlib.AbstractContextManager[Any]:
        """Returns a context manager. A thread of the backend concludes the operation inside it. For tensors on a GPU, the
        context manager selects a stream, because in this thread none of the program's streams is the current one.
        """
        return contextlib.nullcontext()

    def devices(self) -> list[torch.device] | None:
        """Returns the devices for a future of this operation; None for the CPU."""
        return None

    def conclude(self) -> None:
        """Does the same work as wait(), but raises no error. Call it when the operation has ended."""
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
                self._call_finish(self._finish)
            self._finish = None
            self._ended = True

    def _call_finish(self, finish: Callable[[], object]) -> None:
        try:
            # Tensors that were made in PyTorch's inference mode can be written only in this mode, which must be set on
            # each thread.
            made_so = any(output.is_inference() for output in self.outputs)
            with torch.inference_mode() if made_so else torch.no_grad():
                finish()
        except Exception as error:
            self.error = error


def _failure_of(handle: Handle[Any]) -> Exception | None:
    """Returns the error of an operation that has ended, or None if it ended without an error. (An operation may end
    just after a wait for it has timed out.)
    """
    try:
        handle.wait()
    except Exception as error:
        return error
    return None
