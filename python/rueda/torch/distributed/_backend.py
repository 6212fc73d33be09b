# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The backend for PyTorch 2.14 and later, in which Python can subclass c10d's Backend.

RuedaBackend is used in groups with several backends ("cpu:rueda,cuda:nccl"). In such a group, PyTorch's own
ProcessGroup calls the backend. The Work objects that this ProcessGroup returns to Python offer only a wait and a
future. A group whose only backend is Rueda is a RuedaProcessGroup. Its Work objects offer more methods. A
RuedaProcessGroup contains a RuedaBackend for code that asks the group for its backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from rueda.torch.distributed._groups import Membership, backends_of_group
from rueda.torch.distributed._operations import Operations
from rueda.torch.distributed._process_group import RuedaProcessGroup

if TYPE_CHECKING:
    Base: Any = object
else:
    Base = getattr(dist, "BackendBase", None) or c10d.Backend


class RuedaBackend(Operations, Base):
    """The backend that a ProcessGroup of PyTorch calls."""

    def __init__(self, rank: int, size: int, membership: Membership, timeout: timedelta) -> None:
        Base.__init__(self, rank, size)
        self._use(membership, rank, timeout)

    def getBackendName(self) -> str:  # noqa: N802  (c10d's)
        """Returns the backend's name."""
        return "rueda"

    def name(self) -> str:
        """Returns the backend's name."""
        return "rueda"

    @property
    def supports_coalescing(self) -> bool:
        """Returns False, so that batch_isend_irecv() starts its operations one by one. The operations are asynchronous,
        so the first does not block the second.
        """
        return False

    @property
    def supports_splitting(self) -> bool:
        """Returns True: PyTorch may ask the backend to split a group. A group with only this backend splits itself."""
        return True

    def eager_connect_single_device(self, _device: Any) -> None:
        """Does nothing, because the members are already connected. PyTorch calls this method for
        init_process_group(device_id=…).
        """

    def perform_nocolor_split(self, _device: Any) -> None:
        """Does nothing. After init_process_group(device_id=…), PyTorch calls this method in new_group() on ranks
        outside the new group, because NCCL needs all ranks to split a group. Rueda needs only the new group's members.
        """


class NewerProcessGroup(RuedaProcessGroup):
    """A group of PyTorch that has only this backend."""

    def __init__(self, store: Any, rank: int, size: int, membership: Membership, timeout: timedelta) -> None:
        super().__init__(store, rank, size, membership, timeout)
        self._group_store = store
        backend = RuedaBackend(rank, size, membership, timeout)
        self._set_default_backend(c10d.ProcessGroup.BackendType.CUSTOM)
        for device in ("cpu", "cuda"):
            self._register_backend(torch.device(device), c10d.ProcessGroup.BackendType.CUSTOM, backend)

    def split_group(
        self,
        ranks: Sequence[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Any = None,
    ) -> NewerProcessGroup | None:
        """Makes a group of some ranks of this group, in the given order. Ranks outside the new group get None, and do
        not wait for other ranks.
        """
        if self._rank not in ranks:
            return None
        store = dist.PrefixStore(f"split/{group_name}", self._group_store)
        limit = timeout if timeout is not None else timedelta(seconds=self._timeout or 0)
        rank, size = list(ranks).index(self._rank), len(ranks)
        part = NewerProcessGroup(store, rank, size, Membership(store, rank, size, limit), limit)
        part._set_group_name(group_name or "")
        part._set_group_desc(group_desc or "undefined")
        return part


def create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
    """Makes a group or a backend. PyTorch calls this function, which was passed to register_backend()."""
    membership = Membership(store, rank, size, timeout)
    if backends_of_group() != {"rueda"}:
        return RuedaBackend(rank, size, membership, timeout)
    return NewerProcessGroup(store, rank, size, membership, timeout)


def register() -> None:
    """Registers the name "rueda" with torch.distributed."""
    dist.Backend.register_backend("rueda", create, devices=["cpu", "cuda"])
