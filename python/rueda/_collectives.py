# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The collective operations on one tensor. _groups.py has those on several tensors, _roots.py those with one root.

Tensors: a tensor is a NumPy array, or an object with the buffer protocol or DLPack whose memory the CPU can read. Its
dtype is one of ``rueda.DType``.

Names: ``name`` says which calls of the ranks belong together. Each rank may start its names in any order. On one rank,
only one operation of a name may be pending. Calls without a name belong together by their order. A ``TensorSlot`` in
place of a name saves the look-up of the name.

Process sets: ``process_set`` says which ranks take part. By default all ranks do.

Forms: the blocking forms let other threads and Python's signal handlers run. The ``_async`` forms return a Handle at
once. Rueda uses the tensors until the operation has completed, so do not touch them before that. Any thread may call.

Errors of every operation:

- TypeError: an object is no tensor, or Rueda does not know its dtype.
- InvalidArgument: this rank alone can see that an argument is wrong.
- DuplicateName, NotInitialized.
- Mismatch, on all ranks: the ranks' arguments disagree.
- Aborted: a rank has died.
- InvalidArgument or Unsupported, on all ranks after all have called: the ranks agree on something that cannot be done.
  An ``_async`` form raises this error from its handle.
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
    """The Compression itself, or the one with that name."""
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
    """allreduce() that returns a handle at once.

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
    """Element i of the result is the reduction, in the order of the ranks, of element i of every rank's tensor.

    Args:
        tensor: it has the same shape and dtype on every rank, and is only read. If it is not contiguous, it is copied
            first.
        op: Average, Sum, Min, Max, Product or Adasum. Averages of integers truncate toward zero. 16-bit floats are
            accumulated in float32. For bool, Max means or; Min and Product mean and; the others are Unsupported.
            Adasum reduces the tensor as a whole, and takes floats only.
        prescale_factor: every rank's tensor is multiplied by it before the reduction, at no cost.
        postscale_factor: the result is multiplied by it after the reduction, at no cost.
        compression: what float32 and float64 become while they travel between hosts: a ``rueda.Compression``, or
            "none", "fp16" or "bf16". With none, ``RUEDA_COMPRESSION`` decides. Other dtypes refuse a compression. See
            docs/compression.md.

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
    """allreduce_() that returns a handle at once.

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
    """allreduce() in place, which is the fastest form. The tensor has to be contiguous and writable.

    Returns:
        The tensor itself.

    Example::

        rueda.allreduce_(gradient, "layer1.weight")
    """


def broadcast_async(
    tensor: Tensor, root_rank: int = 0, name: Name = None, *, process_set: ProcessSet = global_process_set
) -> Handle[Array]:
    """broadcast() that returns a handle at once.

    Example::

        weights = rueda.broadcast_async(weights, 0, "weights").result()
    """
    tensor, output = with_output(tensor)
    return _native.broadcast_async(tensor, output, root_rank, name, output, process_set.process_set_id)


@blocking_form_of(broadcast_async)
def broadcast() -> None:
    """Gives every rank the root's tensor.

    Args:
        tensor: it has the same shape and dtype on every rank. Its elements are read on the root only.
        root_rank: the rank whose tensor it is; the same on every rank.

    Returns:
        A new array of the same shape and dtype, on the root as well.

    Example::

        weights = rueda.broadcast(weights, root_rank=0, name="weights")
    """


def broadcast_async_(
    tensor: T, root_rank: int = 0, name: Name = None, *, process_set: ProcessSet = global_process_set
) -> Handle[T]:
    """broadcast_() that returns a handle at once.

    Example::

        rueda.broadcast_async_(weights, 0, "weights").wait()
    """
    return _native.broadcast_async(tensor, tensor, root_rank, name, tensor, process_set.process_set_id)


@blocking_form_of(broadcast_async_)
def broadcast_() -> None:
    """broadcast() in place. The tensor has to be contiguous and writable, on the root as well.

    Returns:
        The tensor itself.

    Example::

        rueda.broadcast_(weights, root_rank=0, name="weights")
    """


def allgather_async(
    tensor: Tensor, name: Name = None, *, out: Result | None = None, process_set: ProcessSet = global_process_set
) -> Handle[Result]:
    """allgather() that returns a handle at once.

    Example::

        everyones = rueda.allgather_async(predictions, "predictions").result()
    """
    return _native.allgather_async(tensor, out, name, array_of if out is None else out, process_set.process_set_id)


@blocking_form_of(allgather_async)
def allgather() -> None:
    """Gives every rank the ranks' tensors, one after the other along the first dimension.

    Args:
        tensor: it has at least one dimension. The first may differ between ranks and be 0; the others and the dtype must
            agree.
        out: contiguous and writable memory for all ranks' rows together. It saves the memory of the result.

    Returns:
        A new array, over memory of Rueda, or ``out``.

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
    """reducescatter() that returns a handle at once.

    Example::

        mine = rueda.reducescatter_async(gradient, "gradient").result()
    """
    result = array_of if out is None else out
    return _native.reducescatter_async(
        tensor, out, name, op, prescale_factor, postscale_factor, result, process_set.process_set_id
    )


@blocking_form_of(reducescatter_async)
def reducescatter() -> None:
    """The reduction of an allreduce, divided along the first dimension: every rank gets its rows.

    Args:
        tensor: it has at least one dimension, and the same shape and dtype on every rank.
        op, prescale_factor, postscale_factor: as for allreduce().
        out: contiguous and writable memory for this rank's rows. It may be the place of these rows in ``tensor``.

    Returns:
        A new array, over memory of Rueda, or ``out``. If the rows cannot be shared evenly, the first ranks get one more;
        a rank may get none.

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
    """alltoall() that returns a handle at once.

    Example::

        received, counts = rueda.alltoall_async(rows, name="rows").result()
    """
    return _native.alltoall_async(tensor, out, splits, name, with_received_splits(out), process_set.process_set_id)


@blocking_form_of(alltoall_async)
def alltoall() -> None:
    """Sends some rows of every rank to each rank.

    Args:
        tensor: it has at least one dimension. All dimensions but the first, and the dtype, must agree between ranks.
        splits: how many rows go to each rank, in the order of the ranks. Rows after their sum go to no rank. The splits
            may differ between ranks and between steps. None: the same number to each.
        out: contiguous and writable memory for the rows that come from all ranks. It does not overlap ``tensor``.

    Returns:
        (the received rows in the order of the ranks; how many rows came from each rank, an int64 array)

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
    """Returns when every rank has called it.

    Example::

        rueda.barrier()
    """


def join(*, average: Literal["all", "active"] = "all") -> int:
    """For ranks that have fewer batches than others: blocks until every rank of the job has joined.

    Meanwhile the allreduces and barriers of the other ranks go on without this rank, in the world and in every process
    set that this rank is in. Operations that need something from every rank (broadcast, allgather, alltoall,
    reducescatter, gather, scatter, reduce) fail on all their ranks with InvalidArgument. Operations that this rank
    started before complete as usual. Operations that its other threads start meanwhile are refused. If a signal handler
    raises an exception meanwhile, this rank stays joined; another join() continues the wait.

    Args:
        average: what averages divide by while this rank is away. "all": the number of all ranks, as if this rank gave
            zeros. "active": the number of ranks that have not joined.

    Returns:
        The rank that joined last, the same on all ranks: it has seen the most batches.

    Example::

        for batch in batches:  # more on some ranks than on others
            train(batch)
        last = rueda.join()
        rueda.broadcast_parameters(parameters, root_rank=last)
    """
    last = _native.join(_number_of_average(average))
    forget_job()
    return last


def join_async(*, average: Literal["all", "active"] = "all") -> Handle[int]:
    """join() that returns at once: this rank has joined, and the handle completes when every rank has joined.

    Example::

        joined = rueda.join_async()
        evaluate(model)  # no operation of this rank meanwhile
        last = joined.result()
    """
    joined = _native.join_async(_number_of_average(average))
    forget_job()  # this rank starts no operation until the handle has completed
    return joined


def _number_of_average(average: str) -> int:
    if average not in ("all", "active"):
        raise ValueError(f"average is {average!r}; expected 'all' or 'active'")
    return 1 if average == "active" else 0
