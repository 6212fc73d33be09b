# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""What ends an attempt of an elastic job besides HorovodInternalError."""

from __future__ import annotations


class HostsUpdatedInterrupt(RuntimeError):
    """The hosts of the job are to change: raised by ``State.check_host_updates()`` on all ranks, and caught by ``run``.

    Args:
        skip_sync: whether hosts were only taken away, so that no rank needs the others' state.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the hosts of the job are to change")
        self.skip_sync = skip_sync
