# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The extension module: the C interface with positional arguments only. The other modules of this package call it."""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic, TypeVar, overload

from rueda._process_sets import ProcessSet

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

version: str

class Handle(Generic[T_co]):
    """A pending operation, as the caller sees it.

    Rueda uses the operation's tensors until the operation has completed; the handle keeps the tensors alive. Dropping a
    handle neither waits for the operation nor cancels it. Threads: any thread may use a handle, and several threads may
    wait for the same handle.

    Example::

        handle = rueda.allreduce_async(gradient, "gradient")
        average = handle.result()  # or: average = await handle
    """

    @property
    def name(self) -> str | TensorSlot | None: ...
    def wait(self, timeout: float | None = None) -> None:
        """Blocks until the operation has completed. Raises the operation's error, or ``Timeout`` after this number of
        seconds.
        """
    def wait_on_stream(self, stream: Any, timeout: float | None = None) -> None:
        """Makes a CUDA stream wait for an operation on a GPU. Work that the program puts into the stream from then on
        can use the result.

        Blocks until all ranks have called the operation, but not until the GPU has done it. For an operation in the
        CPU's memory, it is the same as wait(). ``stream`` is a stream of CuPy, Numba or PyTorch, or its address.
        """
    def result(self, timeout: float | None = None) -> T_co:
        """Waits for the operation, and returns what the operation's blocking form returns."""
    def poll(self) -> bool:
        """Returns True if the operation has completed, with or without an error. Does not block."""
    # The number of the tensors' CUDA device, -1 for the CPU's memory; and the address of the stream of the call.
    @property
    def _device(self) -> int: ...
    @property
    def _stream(self) -> int: ...
    def _wait_on_stream(self, stream: int, timeout: float | None, /) -> None: ...
    # Returns False if the stream cannot wait yet, and raises no error of the operation.
    def _try_to_wait_on_stream(self, stream: int, timeout: float | None, /) -> bool: ...
    # Like result(), but for tensors on a GPU, PyTorch's current stream waits, and not the host.
    def _torch_result(self, timeout: float | None, /) -> T_co: ...
    def add_done_callback(self, fn: Callable[[Handle[T_co]], object], /) -> None:
        """Calls ``fn(handle)`` when the operation has completed, with or without an error. If the operation has
        completed already, the call happens at once on this thread, otherwise on a thread of Rueda.

        Callbacks of a handle run in the order in which they were added. While a callback runs, the callbacks of all
        other operations are delayed. A callback may start operations but must not wait for an operation: a blocking
        call raises ``InvalidArgument`` and starts nothing. If a callback raises an exception, ``sys.unraisablehook``
        reports it. ``shutdown()`` returns after all callbacks have run.
        """
    def __await__(self) -> Generator[Any, None, T_co]: ...
    def _wait_a_while(self, seconds: float, /) -> bool: ...
    def _waits_for(self) -> str: ...

class Memory:
    """Memory that Rueda owns. Python code reads it by the buffer protocol."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

class TensorSlot:
    """A tensor's name with a stored look-up. Use a slot in place of a name that is used in every step.

    A slot can be used only in operations of one process set.

    Example::

        slot = rueda.TensorSlot("loss")
        for loss in losses:
            rueda.allreduce_(loss, slot)
    """

    def __init__(self, name: str, process_set: ProcessSet = ...) -> None: ...
    @property
    def name(self) -> str: ...

class TensorView:
    """Describes dense, row-major memory as a tensor with a dtype and a shape. Use it for memory that supports neither
    the buffer protocol nor DLPack.

    The view keeps ``owner`` alive. An operation keeps the views that it uses alive. For memory of a GPU, give the number
    of the CUDA device, and the address of the stream in which the memory is ready.

    Example::

        view = rueda.TensorView(pointer, (3, 2), rueda.DType.float32, owner=buffer)
        rueda.allreduce_(view, "values")
    """

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        dtype: int,
        owner: object = None,
        writable: bool = True,
        device: int = -1,
        stream: int = 0,
    ) -> None: ...
    @property
    def address(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> int: ...
    @property
    def writable(self) -> bool: ...
    @property
    def device(self) -> int: ...
    @property
    def stream(self) -> int: ...

# The type of a function that makes a result from Rueda's memory. Its arguments are (memory, shape, dtype, received
# splits). An argument is None if the operation does not have it.
Finish = Callable[[Memory | None, tuple[int, ...] | None, int | None, tuple[int, ...] | None], T]
FinishGroup = Callable[[list[tuple[Memory, tuple[int, ...], int]]], T]
Name = str | TensorSlot | None

def set_hooks(
    errors: tuple[type[BaseException], ...],
    adapt: Callable[[Any, bool], TensorView],
    wait_in_loop: Callable[[Handle[T]], Generator[Any, None, T]],
    address_of_stream: Callable[[Any], int],
    /,
) -> None: ...
def set_torch(
    tensor: type, strided: object, dtypes: dict[Any, int], current_stream: Callable[[int], int], /
) -> None: ...
def init(ranks: list[int] | None, process_sets: list[list[int]], /) -> list[int]: ...
def init_communicator(address: int, size: int, process_sets: list[list[int]], /) -> list[int]: ...
def shutdown() -> None: ...
def end_with_failure() -> None: ...
def is_initialized() -> bool: ...
def rank() -> int: ...
def size() -> int: ...
def local_rank() -> int: ...
def local_device() -> int: ...
def local_size() -> int: ...
def threads_per_rank() -> int: ...
def cross_rank() -> int: ...
def cross_size() -> int: ...
def is_homogeneous() -> bool: ...
def allocate(size: int, /) -> Memory: ...
def view_of_dlpack(capsule: Any, stream: int, /) -> TensorView: ...
def process_set_add(ranks: list[int], /) -> int: ...
def process_set_remove(number: int, /) -> None: ...
def process_set_add_among(ranks: list[int], /) -> int: ...
def process_set_leave(number: int, /) -> None: ...
def process_set_ranks(number: int, /) -> list[int]: ...
def abort(reason: str, /) -> None: ...

# Raises the error that an operation would raise if it had to write to the tensor.
def check_writable(tensor: Any, /) -> None: ...

# Raises InvalidArgument if it is called in a completion callback.
def check_may_wait() -> None: ...
def begin_step(step: int, /) -> None: ...
def busy_begin(what: str, /) -> None: ...
def busy_end() -> None: ...
def timeline_start(path: bytes, mark_cycles: bool, /) -> None: ...
def timeline_stop() -> None: ...

# `began_ns` is a time of time.monotonic_ns().
def timeline_scope(name: str, began_ns: int, /) -> None: ...

# See rueda_metrics in rueda.h.
def metrics() -> str: ...
def blocked_seconds() -> float: ...

# Returns the number of the signal by which Rueda takes stacks; 0 if stacks are off.
def stack_signal() -> int: ...

# See rueda_adopt_traceback_handler in rueda.h.
def adopt_traceback_handler(descriptor: int, /) -> None: ...
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

# Rueda calls `result` with a list that contains (memory, shape, dtype) for each operation of the group.
def grouped_allgather_async(
    inputs: list[Any], name: Name, result: FinishGroup[T], process_set: int, /
) -> Handle[T]: ...
@overload
def grouped_reducescatter_async(
    inputs: list[Any], name: Name, op: int, pre: float, post: float, result: FinishGroup[T], process_set: int, /
) -> Handle[T]: ...
@overload
def grouped_reducescatter_async(
    inputs: list[Any],
    name: Name,
    op: int,
    pre: float,
    post: float,
    result: T,
    process_set: int,
    outputs: list[Any],
    /,
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

# If there is an output, the operation's result is `result` itself. Otherwise `result` is a function that makes it.
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

# The checkpoint functions take paths as bytes, and tensors as a list of tuples (name, tensor).
def checkpoint_create_folder(folder: bytes, /) -> None: ...
def checkpoint_save(
    folder: bytes,
    step: int,
    model: list[tuple[str, Any]],
    state: list[tuple[str, Any]],
    values: str,
    metric: float | None,
    better: int,
    max_to_keep: int,
    size: int,
    /,
) -> str | None: ...
def checkpoint_list(folder: bytes, /) -> str: ...
def checkpoint_open(path: bytes, /) -> object: ...
def checkpoint_describe(checkpoint: object, /) -> str: ...
def checkpoint_check_model(checkpoint: object, model: list[tuple[str, Any]], /) -> None: ...
def checkpoint_read(checkpoint: object, model: list[tuple[str, Any]], state: list[tuple[str, Any]], /) -> None: ...

# The functions of rueda/data.h. A batch is (number of samples, columns, owner of the memory). A column is (name, dtype, width,
# address, bytes, address of the offsets, number of offsets).
def data_open(options: str, /) -> object: ...
def data_wait(pipeline: object, seconds: float, /) -> bool: ...
def data_next(pipeline: object, /) -> tuple[int, list[tuple[str, int, int, int, int, int, int]], object] | None: ...
def data_describe(pipeline: object, /) -> str: ...
