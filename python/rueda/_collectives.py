# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The collective operations on one tensor. Operations on several tensors are in _groups.py, and operations with a root
in _roots.py.

Tensors: a tensor is a NumPy array, or an object with the buffer protocol, DLPack or __cuda_array_interface__. Its memory
belongs to the CPU or to an NVIDIA GPU (docs/gpu.md). Its dtype is one of ``rueda.DType``.

Names: calls of different ranks that give the same ``name`` form one operation. Each rank may start the operations of
different names in any order. On one rank, only one operation of each name may be pending. Calls without a name are
matched by their order. To save the look-up of the name, pass a ``TensorSlot`` in place of a name.

Process sets: ``process_set`` says which ranks take part. By default all ranks do.

Forms: while a blocking form waits, other threads and Python's signal handlers can run. The ``_async`` forms return a
Handle at once. Rueda uses the tensors until the operation has completed, so do not touch them before that. Any thread
may call these functions.

Errors of every operation:

- TypeError: an object is not a tensor, or Rueda does not know its dtype.
- InvalidArgument: an argument is wrong, and this rank can see that without the other ranks.
- DuplicateName: an operation with this name is pending on this rank. NotInitialized: init() was not called.
- Mismatch, on all ranks: the ranks' arguments differ.
- Aborted: a rank has died, or the job was ended.
- InvalidArgument or Unsupported, on all ranks after all have called: the ranks' arguments agree, but the operation
  cannot be done. An ``_async`` form raises this error from its handle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar

from rueda import _native
from rueda._forms import blocking_form_of
from rueda._group_names import forget_job
from rueda._native import Handle, TensorSlot
from rueda._process_sets import ProcessSet, global_process_set
from rueda._tensors import Tensor, array_of, with_output, with_received_splits
from rueda.errors import InvalidArgument
from rueda.types import Average, Compression, ReduceOp

if TYPE_CHECKING:
    from rueda._forms import Array, Result

Name: TypeAlias = "str | TensorSlot | None"
T = TypeVar("T")
AnyCompression: TypeAlias = Compression | Literal["none", "fp16", "bf16"]


def number_of(compression: AnyCompression) -> Compression:
    """Returns the Compression itself, or the Compression with the given name."""
    if compression.__class__ is Compression:
        return compression
    if not isinstance(compression, str):
        raise TypeError(f"compression is {compression!r}; expected a rueda.Compression, or 'none', 'fp16' or 'bf16'")
    try:
        return Compression[compression]
    except KeyError:
        raise InvalidArgument(f"compression is {compression!r}; expected 'none', 'fp16' or 'bf16'") from None


def allreduce_async(
    tensor: Tensor,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    compression: AnyCompression = Compression.none,
) -> Handle[Array]:
    """Starts an allreduce() and returns a handle at once.

    Example::

        handle = rueda.allreduce_async(loss, "loss")
        mean_loss = handle.result()
    """
    tensor, output = with_output(tensor)
    number = number_of(compression)
    return _native.allreduce_async(
        tensor, output, name, op, prescale_factor, postscale_factor, output, process_set.process_set_id, number
    )


@blocking_form_of(allreduce_async)
def allreduce() -> None:
    """Reduces the tensors of all ranks. Element i of the result is the reduction of the elements i of all ranks'
    tensors, in the order of the ranks.

    Args:
        tensor: must have the same shape and dtype on every rank, and is only read. A tensor that is not contiguous is
            copied first.
        op: Average, Sum, Min, Max, Product or Adasum. Averages of integers truncate toward zero. 16-bit floats are
            accumulated in float32. For bool, Max is a logical "or", and Min and Product are a logical "and"; the other
            operations raise Unsupported. Adasum treats the tensor as one vector, and accepts floats only.
        prescale_factor: every rank's tensor is multiplied by this factor before the reduction, at no extra cost.
        postscale_factor: the result is multiplied by this factor after the reduction, at no extra cost.
        compression: the format in which float32 and float64 elements are sent between hosts: a ``rueda.Compression``,
            or "none", "fp16" or "bf16". With "none", the setting ``RUEDA_COMPRESSION`` decides. For other dtypes, only
            "none" is allowed. See docs/compression.md.

    Returns:
        A new array of the same shape and dtype.

    Example::

        mean_loss = rueda.allreduce(loss, "loss")
    """


def allreduce_async_(
    tensor: T,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    compression: AnyCompression = Compression.none,
) -> Handle[T]:
    """Starts an allreduce_() and returns a handle at once.

    Example::

        handles = [rueda.allreduce_async_(gradient, name) for name, gradient in gradients.items()]
        for handle in handles:
            handle.wait()
    """
    number = number_of(compression)
    return _native.allreduce_async(
        tensor, tensor, name, op, prescale_factor, postscale_factor, tensor, process_set.process_set_id, number
    )


@blocking_form_of(allreduce_async_)
def allreduce_() -> None:
    """Like allreduce(), but the result replaces the tensor, which must be contiguous and writable. This is the fastest
    form.

    Returns:
        The tensor itself.

    Example::

        rueda.allreduce_(gradient, "layer1.weight")
    """


def broadcast_async(
    tensor: Tensor, root_rank: int = 0, name: Name = None, *, process_set: ProcessSet = global_process_set
) -> Handle[Array]:
    """Starts a broadcast() and returns a handle at once.

    Example::

        weights = rueda.broadcast_async(weights, 0, "weights").result()
    """
    tensor, output = with_output(tensor)
    return _native.broadcast_async(tensor, output, root_rank, name, output, process_set.process_set_id)


@blocking_form_of(broadcast_async)
def broadcast() -> None:
    """Gives every rank the root's tensor.

    Args:
        tensor: has the same shape and dtype on every rank. Its elements are read on the root only.
        root_rank: the rank whose tensor all ranks get. It must be the same on every rank.

    Returns:
        A new array of the same shape and dtype, on the root as well.

    Example::

        weights = rueda.broadcast(weights, root_rank=0, name="weights")
    """


def broadcast_async_(
    tensor: T, root_rank: int = 0, name: Name = None, *, process_set: ProcessSet = global_process_set
) -> Handle[T]:
    """Starts a broadcast_() and returns a handle at once.

    Example::

        rueda.broadcast_async_(weights, 0, "weights").wait()
    """
    return _native.broadcast_async(tensor, tensor, root_rank, name, tensor, process_set.process_set_id)


@blocking_form_of(broadcast_async_)
def broadcast_() -> None:
    """Like broadcast(), but in place: the root's values are written to the tensor. The tensor must be contiguous and
    writable, also on the root.

    Returns:
        The tensor itself.

    Example::

        rueda.broadcast_(weights, root_rank=0, name="weights")
    """


def allgather_async(
    tensor: Tensor, name: Name = None, *, out: Result | None = None, process_set: ProcessSet = global_process_set
) -> Handle[Result]:
    """Starts an allgather() and returns a handle at once.

    Example::

        everyones = rueda.allgather_async(predictions, "predictions").result()
    """
    return _native.allgather_async(tensor, out, name, array_of if out is None else out, process_set.process_set_id)


@blocking_form_of(allgather_async)
def allgather() -> None:
    """Concatenates the tensors of all ranks along the first dimension, and gives the result to every rank.

    Args:
        tensor: has at least one dimension. The first extent may differ between ranks and may be 0; the other extents
            and the dtype must agree.
        out: contiguous and writable memory for the rows of all ranks together. With ``out``, Rueda allocates no memory
            for the result.

    Returns:
        ``out``, or a new array over memory that Rueda allocated.

    Example::

        everyones = rueda.allgather(predictions, "predictions")
    """


def reducescatter_async(
    tensor: Tensor,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    out: Result | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Result]:
    """Starts a reducescatter() and returns a handle at once.

    Example::

        mine = rueda.reducescatter_async(gradient, "gradient").result()
    """
    result = array_of if out is None else out
    return _native.reducescatter_async(
        tensor, out, name, op, prescale_factor, postscale_factor, result, process_set.process_set_id
    )


@blocking_form_of(reducescatter_async)
def reducescatter() -> None:
    """Reduces the tensors of all ranks as allreduce() does, and divides the result along the first dimension: every
    rank gets its own rows.

    Args:
        tensor: has at least one dimension, and the same shape and dtype on every rank.
        op, prescale_factor, postscale_factor: as for allreduce().
        out: contiguous and writable memory for this rank's rows. It may be the part of ``tensor`` that holds these
            rows.

    Returns:
        ``out``, or a new array over memory that Rueda allocated. If the rows cannot be divided evenly, each of the
        first ranks gets one row more than the other ranks. A rank may get no row.

    Example::

        mine = rueda.reducescatter(gradient, "gradient", rueda.Sum)
    """


def alltoall_async(
    tensor: Tensor,
    splits: Sequence[int] | None = None,
    name: Name = None,
    *,
    out: Result | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[tuple[Result, Array]]:
    """Starts an alltoall() and returns a handle at once.

    Example::

        received, counts = rueda.alltoall_async(rows, name="rows").result()
    """
    return _native.alltoall_async(tensor, out, splits, name, with_received_splits(out), process_set.process_set_id)


@blocking_form_of(alltoall_async)
def alltoall() -> None:
    """Sends rows of each rank's tensor to every rank: each rank divides its rows among all ranks.

    Args:
        tensor: has at least one dimension. All dimensions but the first, and the dtype, must agree between ranks.
        splits: the number of rows that go to each rank, in the order of the ranks. If the sum of these numbers is less
            than the number of rows, the last rows are not sent. The splits may differ between ranks and between steps.
            None: every rank gets the same number of rows.
        out: contiguous and writable memory for the rows from all ranks. It must not overlap ``tensor``.

    Returns:
        A pair: the received rows in the order of the ranks, and an int64 array with the number of rows from each rank.

    Example::

        received, counts = rueda.alltoall(rows, splits=[2, 0, 1], name="rows")
    """


def barrier_async(name: Name = None, *, process_set: ProcessSet = global_process_set) -> Handle[None]:
    """Starts a barrier. The handle completes when every rank of the process set has called this function.

    Example::

        handle = rueda.barrier_async()
        await handle
    """
    return _native.barrier_async(name, process_set.process_set_id)


@blocking_form_of(barrier_async)
def barrier() -> None:
    """Returns when every rank of the process set has called barrier().

    Example::

        rueda.barrier()
    """


def join(*, average: Literal["all", "active"] = "all") -> int:
    """Call this function on a rank that has no more batches while other ranks still have some. The call blocks until
    every rank of the job has called this function ("has joined").

    While this call blocks, the allreduces and barriers of the other ranks complete without this rank. This holds for
    the world and for every process set of this rank. Some operations need data from every rank: broadcast, allgather,
    alltoall, reducescatter, gather, scatter and reduce. These fail with InvalidArgument on all ranks that take part.
    Operations that this rank started earlier complete as usual. Until join() returns, other threads of this rank cannot
    start operations. If a signal handler raises an exception, this rank stays joined, and another join() continues the
    wait.

    Args:
        average: the divisor of averages while this rank has joined. "all": the number of all ranks, as if this rank
            contributed zeros. "active": the number of ranks that have not joined.

    Returns:
        The rank that joined last; the same value on all ranks. That rank has processed the most batches.

    Example::

        for batch in batches:  # some ranks have more batches than others
            train(batch)
        last = rueda.join()
        rueda.broadcast_parameters(parameters, root_rank=last)
    """
    last = _native.join(_number_of_average(average))
    forget_job()
    return last


def join_async(*, average: Literal["all", "active"] = "all") -> Handle[int]:
    """Joins like join(), but returns a handle at once. The handle completes when every rank has joined.

    Example::

        joined = rueda.join_async()
        evaluate(model)  # no operation of this rank meanwhile
        last = joined.result()
    """
    joined = _native.join_async(_number_of_average(average))
    # When every rank has joined, all ranks count their unnamed groups from zero. This rank can set its count to zero
    # now, because it starts no group until the handle completes.
    forget_job()
    return joined


def _number_of_average(average: str) -> int:
    if average not in ("all", "active"):
        raise ValueError(f"average is {average!r}; expected 'all' or 'active'")
    return 1 if average == "active" else 0
