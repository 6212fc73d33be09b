# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""An operation under way."""

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
    """None where PyTorch says that there is none: zero and less, which it uses for that."""
    seconds = timeout.total_seconds() if timeout is not None else 0.0
    return seconds if seconds > 0 else None


class Operation:
    """Handles of Rueda, and what is left to do when they have ended; done once, by whoever sees it first.

    Threads: any.
    """

    __slots__ = (
        "_began",
        "_concluding",
        "_ended",
        "_finish",
        "_group",
        "_what",
        "error",
        "handles",
        "outputs",
        "timeout",
    )

    def __init__(
        self,
        what: str,
        group: str,
        handles: list[Handle[Any]],
        outputs: list[torch.Tensor],
        timeout: float | None,
        finish: Callable[[], object] | None = None,
    ) -> None:
        self._what = what
        self._group = group
        self.handles = handles
        self.outputs = outputs
        self.timeout = timeout
        self._began = time.monotonic()
        self.error: Exception | None = None
        self._finish = finish
        self._concluding = threading.Lock() if finish is not None or len(handles) != 1 else None
        self._ended = False

    @property
    def what(self) -> str:
        """For messages."""
        return f"{self._what} of group '{self._group}'"

    def wait(self, timeout: float | None) -> None:
        """Until it has ended; raises what it failed with, or Timeout."""
        if not self._ended:
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
            self._conclude()
        if self.error is not None:
            raise self.error

    def is_overdue(self) -> bool:
        """Whether its own timeout has passed since it began: its futures fail then."""
        return self.timeout is not None and time.monotonic() - self._began >= self.timeout

    def overdue(self) -> Timeout:
        """What its futures fail with."""
        return self._timed_out(self.timeout or 0.0)

    def _timed_out(self, seconds: float) -> Timeout:
        """The ranks that the text names are those of the job."""
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
        """Whether it has ended, well or not. Does not block."""
        return self._ended or all(handle.poll() for handle in self.handles)

    def conclude(self) -> None:
        """Once it has ended: what wait() does, without raising."""
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
                    # What was made in inference mode can be written in it alone, on whatever thread this is.
                    made_so = any(output.is_inference() for output in self.outputs)
                    with torch.inference_mode() if made_so else torch.no_grad():
                        self._finish()
                except Exception as error:
                    self.error = error
            self._finish = None
            self._ended = True


def _failure_of(handle: Handle[Any]) -> Exception | None:
    """None: it has ended well, just after the wait for it had run out of time."""
    try:
        handle.wait()
    except Exception as error:
        return error
    return None
