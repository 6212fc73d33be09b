# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Horovod's functions for the timeline. The native library writes the timeline (docs/timeline.md)."""

from __future__ import annotations

import os

import rueda
from rueda import timeline_scope as scope
from rueda.errors import NotInitialized
from rueda.torch import _basics

__all__ = ["scope", "start_timeline", "stop_timeline"]


def start_timeline(file_path: str | os.PathLike[str], mark_cycles: bool = False) -> None:
    """Starts to write a timeline of the operations of all ranks. See ``rueda.start_timeline``.

    Args:
        file_path: the file to write, the same on all ranks. Its format is the JSON of Chrome's traces. An existing file
            is replaced.
        mark_cycles: whether to mark the beginning of each batch with an event ``CYCLE_START``.

    Raises:
        ValueError: before init(), or the file cannot be written.

    Example::

        hvd.start_timeline("timeline.json")
        train_some_steps()
        hvd.stop_timeline()
    """
    if not _basics.is_initialized():
        raise NotInitialized("start_timeline: Horovod has not been initialized; use hvd.init().")
    rueda.start_timeline(file_path, mark_cycles)


def stop_timeline() -> None:
    """Ends the timeline. Without a timeline, it does nothing. shutdown() also ends the timeline.

    Raises:
        ValueError: before init().

    Example::

        hvd.stop_timeline()
    """
    if not _basics.is_initialized():
        raise NotInitialized("stop_timeline: Horovod has not been initialized; use hvd.init().")
    rueda.stop_timeline()
