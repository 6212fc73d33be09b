# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The extension module: the C interface, positional arguments only. Its callers are the modules beside it."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, TypeVar

from rueda._process_sets import ProcessSet

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

version: str

class Handle(Generic[T_co]):
    """The caller's end of an operation under way.

    Rueda uses the operation's tensors until it has completed; the handle keeps them alive. Dropping a handle neither
    waits nor cancels. Threads: any; several may wait for the same handle.

    Example::

        handle = rueda.allreduce_async(gradient, "gradient")
        average = handle.result()  # or: average = await handle
    """

    @property
    def name(self) -> str | TensorSlot | None: ...
    def wait(self, timeout: float | None = None) -> None:
        """Block until the operation has completed; raise what it failed with, or ``Timeout`` after so many seconds."""
    def result(self, timeout: float | None = None) -> T_co:
        """Wait, and return what the operation's blocking form returns."""
    def poll(self) -> bool:
        """Whether the operation has completed, well or not. Does not block."""
    def add_done_callback(self, fn: Callable[[Handle[T_co]], object], /) -> None:
        """Call ``fn(handle)`` when the operation has completed, well or not: at once where it has, else on a thread of
        Rueda.

        Several are called in the order in which they were added. Until one returns, those of all other operations wait:
        it may start operations, and must not wait for any: what blocks is refused (``InvalidArgument``) and starts
        nothing. What it raises is reported by
        ``sys.unraisablehook``. ``shutdown()`` returns when all were called.
        """
    def __await__(self) -> Generator[Any, None, T_co]: ...
    def _wait_a_while(self, seconds: float, /) -> bool: ...
    def _waits_for(self) -> str: ...

class Memory:
    """Bytes that Rueda owns, for the buffer protocol."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

class TensorSlot:
    """A name whose look-up is kept: give it in place of a name that is used at every step.

    For operations of one process set.

    Example::

        slot = rueda.TensorSlot("loss")
        for loss in losses:
            rueda.allreduce_(loss, slot)
    """

    def __init__(self, name: str, process_set: ProcessSet = ...) -> None: ...
    @property
    def name(self) -> str: ...

class TensorView:
    """A typed, shaped view of dense, row-major memory: for memory that has neither a buffer nor DLPack.

    ``owner`` is kept alive as long as the view, and the view as long as an operation that uses it.

    Example::

        view = rueda.TensorView(pointer, (3, 2), rueda.DType.float32, owner=buffer)
        rueda.allreduce_(view, "values")
    """

    def __init__(
        self, address: int, shape: tuple[int, ...], dtype: int, owner: object = None, writable: bool = True
    ) -> None: ...
    @property
    def address(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> int: ...
    @property
    def writable(self) -> bool: ...

# What makes a result of Rueda's memory: (memory, shape, dtype, received splits), as far as the operation has them.
Finish = Callable[[Memory | None, tuple[int, ...] | None, int | None, tuple[int, ...] | None], T]
FinishGroup = Callable[[list[tuple[Memory, tuple[int, ...], int]]], T]
Name = str | TensorSlot | None

def set_hooks(
    errors: tuple[type[BaseException], ...],
    adapt: Callable[[Any, bool], TensorView],
    wait_in_loop: Callable[[Handle[T]], Generator[Any, None, T]],
    /,
) -> None: ...
def set_torch(tensor: type, strided: object, dtypes: dict[Any, int], /) -> None: ...
def init(ranks: list[int] | None, process_sets: list[list[int]], /) -> list[int]: ...
def init_communicator(address: int, size: int, process_sets: list[list[int]], /) -> list[int]: ...
def shutdown() -> None: ...
def end_with_failure() -> None: ...
def is_initialized() -> bool: ...
def rank() -> int: ...
def size() -> int: ...
def local_rank() -> int: ...
def local_size() -> int: ...
def cross_rank() -> int: ...
def cross_size() -> int: ...
def is_homogeneous() -> bool: ...
def allocate(size: int, /) -> Memory: ...
def view_of_dlpack(capsule: Any, /) -> TensorView: ...
def process_set_add(ranks: list[int], /) -> int: ...
def process_set_remove(number: int, /) -> None: ...
def process_set_add_among(ranks: list[int], /) -> int: ...
def process_set_leave(number: int, /) -> None: ...
def process_set_ranks(number: int, /) -> list[int]: ...
def abort(reason: str, /) -> None: ...

# What an operation would raise that writes to the tensor.
def check_writable(tensor: Any, /) -> None: ...

# InvalidArgument in a completion callback.
def check_may_wait() -> None: ...
def begin_step(step: int, /) -> None: ...
def busy_begin(what: str, /) -> None: ...
def busy_end() -> None: ...
def allreduce_async(
    input: Any,
    output: Any,
    name: Name,
    op: int,
    pre: float,
    post: float,
    result: T,
    process_set: int,
    compression: int,
    /,
) -> Handle[T]: ...
def grouped_allreduce_async(
    inputs: list[Any],
    outputs: list[Any],
    name: Name,
    op: int,
    pre: float,
    post: float,
    result: T,
    process_set: int,
    compression: int,
    /,
) -> Handle[T]: ...

# Of a group, `result` is called with (memory, shape, dtype) of each member.
def grouped_allgather_async(
    inputs: list[Any], name: Name, result: FinishGroup[T], process_set: int, /
) -> Handle[T]: ...
def grouped_reducescatter_async(
    inputs: list[Any], name: Name, op: int, pre: float, post: float, result: FinishGroup[T], process_set: int, /
) -> Handle[T]: ...
def sparse_allreduce_async(
    inputs: list[Any], shape: list[int], name: str, op: int, result: FinishGroup[T], process_set: int, /
) -> Handle[T]: ...
def barrier_async(name: Name, process_set: int, /) -> Handle[None]: ...
def send_async(tensor: Any, peer: int, tag: int, process_set: int, /) -> Handle[None]: ...
def receive_async(output: Any, peer: int | None, tag: int, process_set: int, /) -> Handle[int]: ...
def join(average: int, /) -> int: ...
def join_async(average: int, /) -> Handle[int]: ...
def broadcast_async(
    input: Any, output: Any, root_rank: int, name: Name, result: T, process_set: int, /
) -> Handle[T]: ...

# With an output given, `result` is what is returned; without one, it is called to make it.
def allgather_async(input: Any, output: Any, name: Name, result: Any, process_set: int, /) -> Handle[Any]: ...
def reducescatter_async(
    input: Any, output: Any, name: Name, op: int, pre: float, post: float, result: Any, process_set: int, /
) -> Handle[Any]: ...
def alltoall_async(
    input: Any, output: Any, splits: Sequence[int] | None, name: Name, result: Finish[T], process_set: int, /
) -> Handle[T]: ...
def gather_async(
    input: Any, output: Any, root_rank: int, name: Name, result: Finish[T], process_set: int, /
) -> Handle[T]: ...
def scatter_async(
    input: Any,
    output: Any,
    splits: Sequence[int] | None,
    root_rank: int,
    name: Name,
    result: Any,
    process_set: int,
    /,
) -> Handle[Any]: ...
def reduce_async(
    input: Any,
    output: Any,
    root_rank: int,
    name: Name,
    op: int,
    pre: float,
    post: float,
    result: T,
    process_set: int,
    /,
) -> Handle[T]: ...
