# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""An exception after which an elastic training starts again from its last commit. (HorovodInternalError has the same
effect.)
"""

from __future__ import annotations


class HostsUpdatedInterrupt(RuntimeError):
    """The hosts of the job will change. ``State.check_host_updates()`` raises this exception on all ranks, and ``run``
    catches it.

    Args:
        skip_sync: True if hosts were only removed. In this case no rank needs the state of other ranks.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the hosts of the job are to change")
        self.skip_sync = skip_sync
