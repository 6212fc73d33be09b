# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The timeline of all ranks, for Perfetto and chrome://tracing. The native library writes it; see docs/timeline.md."""

from __future__ import annotations

import os
import time
from types import TracebackType

from rueda import _native

__all__ = ["start_timeline", "stop_timeline", "timeline_scope"]


def start_timeline(file_path: str | os.PathLike[str], mark_cycles: bool = False) -> None:
    """Starts to write a timeline of the operations of all ranks. All ranks should call this function. The lowest rank
    of each host writes the file.

    The timeline shows the operations that start from now on. If a timeline with the same file is running, nothing
    changes. If a timeline with another file is running, this call ends that timeline.

    Args:
        file_path: the file to write, the same on all ranks. It has the JSON format of Chrome's traces. If the file
            exists, it is replaced. In a job on several hosts, the other hosts append ``.host1`` and so on, until
            ``shutdown()`` on rank 0 merges the files.
        mark_cycles: whether to mark the beginning of each batch with an event ``CYCLE_START``, for tools that look for
            Horovod's cycles. Rueda itself has no cycles.

    Raises:
        InvalidArgument: the file cannot be written. Only the ranks that write get this error.
        NotInitialized: before init().

    Example::

        rueda.start_timeline("timeline.json")
        train_some_steps()
        rueda.stop_timeline()
    """
    _native.timeline_start(os.fsencode(file_path), mark_cycles)


def stop_timeline() -> None:
    """Ends the timeline. When this function returns on the lowest rank of a host, the host's file is complete. Without
    a timeline, this function does nothing. shutdown() also ends the timeline.

    Raises:
        NotInitialized: before init().

    Example::

        rueda.stop_timeline()
    """
    _native.timeline_stop()


class timeline_scope:  # noqa: N801  (reads as the verb it is)
    """Records this scope as a span of this rank's timeline. Without a timeline, it does nothing.

    Example::

        with rueda.timeline_scope("backward pass"):
            loss.backward()
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._began_ns = 0

    def __enter__(self) -> timeline_scope:
        self._began_ns = time.monotonic_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if _native.is_initialized():  # if the scope's body has called shutdown(), there is no timeline
            _native.timeline_scope(self._name, self._began_ns)
