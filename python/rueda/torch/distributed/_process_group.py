# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The process group class, a subclass of PyTorch's ProcessGroup. Python can define such a subclass in every version of
PyTorch.

PyTorch's Python functions call the methods of this class directly. PyTorch's C++ code also calls these methods, but
only waits for the returned Work or takes its future. Before PyTorch 2.14, there is no backend object besides this
class. Features for which PyTorch asks a group's backends are therefore not available in these versions (see the table
in docs/pytorch.md).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

from rueda.torch.distributed._groups import Membership, backends_of_group
from rueda.torch.distributed._operations import Operations
from rueda.torch.distributed._pending_operation import Operation
from rueda.torch.distributed._tensors import Tensor
from rueda.torch.distributed._work import RuedaWork

if TYPE_CHECKING:
    Base: Any = object
else:
    Base = c10d.ProcessGroup


class RuedaProcessGroup(Operations, Base):
    """The process group that PyTorch uses for the backend "rueda" instead of its own class."""

    def __init__(self, store: Any, rank: int, size: int, membership: Membership, timeout: timedelta) -> None:
        try:
            Base.__init__(self, store, rank, size)
        except TypeError:  # before PyTorch 2.1
            Base.__init__(self, rank, size)
        self._use(membership, rank, timeout)

    def getBackendName(self) -> str:  # noqa: N802  (c10d's)
        """Returns the backend's name."""
        return "rueda"

    _get_backend_name = getBackendName

    def name(self) -> str:
        """Returns the backend's name."""
        return "rueda"

    def _allgather_base(self, output: Tensor, input: Tensor, opts: Any = None) -> RuedaWork:
        return self.all_gather_single(output, input, opts)

    def allgather_into_tensor_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> RuedaWork:
        """Does all_gather_single() for each pair of tensors."""
        return self.all_gather_single_coalesced(outputs, inputs, opts)

    def _reduce_scatter_base(self, output: Tensor, input: Tensor, opts: Any = None) -> RuedaWork:
        return self.reduce_scatter_single(output, input, opts)

    def reduce_scatter_tensor_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> RuedaWork:
        """Does reduce_scatter_single() for each pair of tensors."""
        return self.reduce_scatter_single_coalesced(outputs, inputs, opts)

    def alltoall_base(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: Sequence[int],
        input_split_sizes: Sequence[int],
        opts: Any = None,
    ) -> RuedaWork:
        """Does all_to_all_single(). Older versions of PyTorch call it by this name."""
        return self.all_to_all_single(output, input, output_split_sizes, input_split_sizes, opts)

    def _start_coalescing(self, *_: Any) -> None:
        """Does nothing. batch_isend_irecv() calls this method before it starts its operations one by one. This group
        does not combine the operations.
        """

    def _end_coalescing(self, *_: Any) -> None:
        """Does nothing, like _start_coalescing()."""

    def _set_sequence_number_for_group(self) -> None:
        """Does nothing. PyTorch's checks in debug mode call it. Rueda itself compares the ranks' calls."""

    def _get_sequence_number_for_group(self) -> int:
        return 0

    def _for_caller(self, operation: Operation, make: Callable[[Operation, Any], RuedaWork]) -> Any:
        return make(operation, self._callbacks if _is_called_by_python() else None)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():  # at the interpreter's exit, the job has already ended, and modules may be cleared
            self.shutdown()  # older versions of PyTorch do not call shutdown() in destroy_process_group()


class OlderProcessGroup(RuedaProcessGroup):
    """The process group for versions of PyTorch whose C++ code does not keep the Python object of a Work alive.

    C++ code can call the Python object's wait() only while this object exists. After that, C++ code calls PyTorch's own
    wait(), which would wait forever. Therefore C++ code (for example that of DDP) gets a Work that PyTorch makes from
    the operation's future.
    """

    def __init__(self, store: Any, rank: int, size: int, membership: Membership, timeout: timedelta) -> None:
        super().__init__(store, rank, size, membership, timeout)
        self._names = {"name": "", "desc": "undefined"}

    # Newer versions of PyTorch ask a group's backends for the properties below. This class is for older versions, in
    # which Python cannot implement a backend, so the group has these properties itself.

    def getGroupName(self) -> str:  # noqa: N802  (c10d's)
        """Returns the name by which PyTorch registers the group."""
        return self._names["name"]

    def setGroupName(self, name: str) -> None:  # noqa: N802
        """Sets the name by which PyTorch registers the group."""
        self._names["name"] = name

    def getGroupDesc(self) -> str:  # noqa: N802
        """Returns the program's description of the group."""
        return self._names["desc"]

    def setGroupDesc(self, desc: str) -> None:  # noqa: N802
        """Sets the program's description of the group."""
        self._names["desc"] = desc

    _set_group_name = setGroupName
    _set_group_desc = setGroupDesc
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)

    def _get_backend(self, device: Any) -> Any:
        """Returns this group itself as the backend. The group raises an error for features that it does not have."""
        return self

    @property
    def supports_coalescing(self) -> bool:
        """Returns False, so that batch_isend_irecv() starts its operations one by one. The operations are asynchronous,
        so the first does not block the second.
        """
        return False

    @property
    def supports_splitting(self) -> bool:
        """Returns False. PyTorch therefore makes groups by new_group(), and does not split existing groups."""
        return False

    @property
    def _device_types(self) -> list[Any]:
        return [torch.device("cpu"), torch.device("cuda")]

    def _for_caller(self, operation: Operation, make: Callable[[Operation, Any], RuedaWork]) -> Any:
        if _is_called_by_python():
            return make(operation, self._callbacks)
        return c10d._create_work_from_future(make(operation, None).get_future())


def _is_called_by_python() -> bool:
    """Returns True if the first caller outside this package is a function of torch.distributed that gives the Work to
    the program.
    """
    try:
        frame: Any = sys._getframe(2)
        while frame.f_globals.get("__package__") == __package__:
            frame = frame.f_back
    except (ValueError, AttributeError):  # the caller is C++ code, on a thread without Python frames
        return False
    return bool(frame.f_globals.get("__name__") == "torch.distributed.distributed_c10d")


def create(store: Any, rank: int, size: int, timeout: timedelta) -> OlderProcessGroup:
    """Makes a group. PyTorch calls this function, which was passed to register_backend().

    Raises:
        RuntimeError: the group also has another backend.
    """
    others = (backends_of_group() or {"rueda"}) - {"rueda"}
    if others:
        raise RuntimeError(
            f"backend rueda: with PyTorch {torch.__version__} it cannot share a group with {', '.join(sorted(others))}; 2.14 and newer can. "
            'Make a group of its own: new_group(backend="rueda")'
        )
    return OlderProcessGroup(store, rank, size, Membership(store, rank, size, timeout), timeout)


def register() -> None:
    """Registers the name "rueda" with torch.distributed."""
    try:
        dist.Backend.register_backend("rueda", create, devices=["cpu", "cuda"])
    except TypeError:  # before PyTorch 2.0
        dist.Backend.register_backend("rueda", create)
