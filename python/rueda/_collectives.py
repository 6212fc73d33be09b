# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The operations.

Of all of them: a tensor is a NumPy array, or anything with the buffer protocol or DLPack that lies in the CPU's memory;
its dtype is one of ``rueda.DType``. ``name`` matches the ranks' calls: each rank may start its names in any order, and
one operation of a name may be pending on a rank. Without a name, calls match by their order. A ``TensorSlot`` in place
of a name saves its look-up. ``process_set`` says which ranks do it together; all, unless said otherwise.

The blocking forms let other threads run, and Python's signal handlers. The ``_async`` forms return a Handle at once:
Rueda uses the tensors until the operation has completed, so leave them alone until then. Threads: any.

Errors, of all of them: TypeError, a dtype or an object that is no tensor; InvalidArgument, what this rank alone can see
is wrong; DuplicateName; NotInitialized; Mismatch, where the ranks disagree, on all of them; Aborted, when a rank dies. What
no rank can do, by what they have to agree on, is InvalidArgument or Unsupported on all of them when all have come: of an
``_async`` form, from its handle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, overload

from rueda import _native
from rueda._group_names import forget_job, group_name
from rueda._native import Handle, TensorSlot
from rueda._process_sets import ProcessSet, global_process_set
from rueda._tensors import Tensor, array_of, arrays_of, with_output, with_received_splits
from rueda.errors import InvalidArgument
from rueda.types import Average, Compression, ReduceOp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]

Name: TypeAlias = "str | TensorSlot | None"
T = TypeVar("T")
AnyCompression: TypeAlias = Compression | Literal["none", "fp16", "bf16"]


def number_of(compression: AnyCompression) -> Compression:
    """From a member or its name."""
    if compression.__class__ is Compression:
        return compression
    if not isinstance(compression, str):
        raise TypeError(f"compression is {compression!r}; expected a rueda.Compression, or 'none', 'fp16' or 'bf16'")
    try:
        return Compression[compression]
    except KeyError:
        raise InvalidArgument(f"compression is {compression!r}; expected 'none', 'fp16' or 'bf16'") from None


def allreduce(
    tensor: Tensor,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    compression: AnyCompression = Compression.none,
) -> Array:
    """Element i of the result is the reduction, in the order of the ranks, of element i of every rank's tensor.

    Args:
        tensor: of the same shape and dtype on every rank; only read. One that is not contiguous is copied first.
        op: Average, Sum, Min, Max or Product. Averages of integers truncate toward zero; 16-bit floats are accumulated
            in float32. Of bool, Max is or, Min and Product are and; the others are Unsupported. Adasum takes the
            tensor as a whole, and is of floats only.
        prescale_factor: every rank's tensor is multiplied by it first; at no cost.
        postscale_factor: the result is multiplied by it last; at no cost.
        compression: of float32 and float64, as what they travel between hosts: a ``rueda.Compression``, or "none", "fp16"
            or "bf16". None as said by ``RUEDA_COMPRESSION``. Refused for other dtypes. See docs/compression.md.

    Returns:
        A new array of the same shape and dtype.

    Example::

        mean_loss = rueda.allreduce(loss, "loss")
    """
    tensor, output = with_output(tensor)
    number = number_of(compression)
    return _native.allreduce(
        tensor, output, name, op, prescale_factor, postscale_factor, output, process_set.process_set_id, number
    )


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
    """allreduce() that returns at once.

    Example::

        handle = rueda.allreduce_async(loss, "loss")
        mean_loss = handle.result()
    """
    tensor, output = with_output(tensor)
    number = number_of(compression)
    return _native.allreduce_async(
        tensor, output, name, op, prescale_factor, postscale_factor, output, process_set.process_set_id, number
    )


def allreduce_(
    tensor: T,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    compression: AnyCompression = Compression.none,
) -> T:
    """allreduce() in place: the fastest form. The tensor has to be contiguous and writable.

    Returns:
        The tensor itself.

    Example::

        rueda.allreduce_(gradient, "layer1.weight")
    """
    number = number_of(compression)
    return _native.allreduce(
        tensor, tensor, name, op, prescale_factor, postscale_factor, tensor, process_set.process_set_id, number
    )


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
    """allreduce_() that returns at once.

    Example::

        handles = [rueda.allreduce_async_(gradient, name) for name, gradient in gradients.items()]
        for handle in handles:
            handle.wait()
    """
    number = number_of(compression)
    return _native.allreduce_async(
        tensor, tensor, name, op, prescale_factor, postscale_factor, tensor, process_set.process_set_id, number
    )


def _outputs(tensors: Iterable[Tensor]) -> tuple[list[Tensor], list[Array]]:
    pairs = [with_output(tensor) for tensor in tensors]
    return [tensor for tensor, _ in pairs], [output for _, output in pairs]


def _start_group(
    inputs: list[Any],
    outputs: list[T],
    name: str | None,
    op: ReduceOp,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
    compression: AnyCompression,
) -> Handle[list[T]]:
    number = number_of(compression)
    with group_name(name, process_set.process_set_id) as unique:
        return _native.grouped_allreduce_async(
            inputs, outputs, unique, op, prescale_factor, postscale_factor, outputs, process_set.process_set_id, number
        )


def grouped_allreduce(
    tensors: Iterable[Tensor],
    name: str | None = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    compression: AnyCompression = Compression.none,
) -> list[Array]:
    """An allreduce of each of the tensors, with one name; either all are started or none.

    Args:
        tensors: as many on every rank, at least one; shapes and dtypes may differ within the group.
        name: the members are called ``<name>_<i>of<count>``, from 1.
        op, prescale_factor, postscale_factor, compression: as of allreduce(), for all of them.

    Returns:
        A new array for each.

    Example::

        weight, bias = rueda.grouped_allreduce([weight, bias], "layer1")
    """
    _native.check_may_wait()
    return grouped_allreduce_async(
        tensors,
        name,
        op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
        compression=compression,
    ).result()


def grouped_allreduce_async(
    tensors: Iterable[Tensor],
    name: str | None = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    compression: AnyCompression = Compression.none,
) -> Handle[list[Array]]:
    """grouped_allreduce() that returns at once, one handle for all.

    Example::

        weight, bias = rueda.grouped_allreduce_async([weight, bias], "layer1").result()
    """
    inputs, outputs = _outputs(tensors)
    return _start_group(inputs, outputs, name, op, prescale_factor, postscale_factor, process_set, compression)


def grouped_allreduce_(
    tensors: Iterable[T],
    name: str | None = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    compression: AnyCompression = Compression.none,
) -> list[T]:
    """grouped_allreduce() in place. Returns the tensors.

    Example::

        rueda.grouped_allreduce_([weight, bias], "layer1")
    """
    _native.check_may_wait()
    return grouped_allreduce_async_(
        tensors,
        name,
        op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
        compression=compression,
    ).result()


def grouped_allreduce_async_(
    tensors: Iterable[T],
    name: str | None = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    compression: AnyCompression = Compression.none,
) -> Handle[list[T]]:
    """grouped_allreduce_() that returns at once.

    Example::

        rueda.grouped_allreduce_async_([weight, bias], "layer1").wait()
    """
    own = list(tensors)
    return _start_group(own, own, name, op, prescale_factor, postscale_factor, process_set, compression)


def grouped_allgather(
    tensors: Iterable[Tensor], name: str | None = None, *, process_set: ProcessSet = global_process_set
) -> list[Array]:
    """An allgather of each of the tensors, with one name; either all are started or none.

    Args:
        tensors: as many on every rank, at least one; each as of allgather(), and dtypes may differ within the group.
        name: the members are called ``<name>_<i>of<count>``, from 1.

    Returns:
        A new array for each, over memory of Rueda.

    Example::

        predictions, labels = rueda.grouped_allgather([predictions, labels], "batch")
    """
    _native.check_may_wait()
    return grouped_allgather_async(tensors, name, process_set=process_set).result()


def grouped_allgather_async(
    tensors: Iterable[Tensor], name: str | None = None, *, process_set: ProcessSet = global_process_set
) -> Handle[list[Array]]:
    """grouped_allgather() that returns at once, one handle for all.

    Example::

        predictions, labels = rueda.grouped_allgather_async([predictions, labels], "batch").result()
    """
    own = list(tensors)
    with group_name(name, process_set.process_set_id) as unique:
        return _native.grouped_allgather_async(own, unique, arrays_of, process_set.process_set_id)


def grouped_reducescatter(
    tensors: Iterable[Tensor],
    name: str | None = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Array]:
    """A reducescatter of each of the tensors, with one name; either all are started or none.

    Args:
        tensors: as many on every rank, at least one; each as of reducescatter(), and dtypes may differ within the group.
        name: the members are called ``<name>_<i>of<count>``, from 1.
        op, prescale_factor, postscale_factor: as of allreduce(), for all of them.

    Returns:
        A new array for each, over memory of Rueda: this rank's rows.

    Example::

        weight, bias = rueda.grouped_reducescatter([weight, bias], "layer1")
    """
    _native.check_may_wait()
    return grouped_reducescatter_async(
        tensors, name, op, prescale_factor=prescale_factor, postscale_factor=postscale_factor, process_set=process_set
    ).result()


def grouped_reducescatter_async(
    tensors: Iterable[Tensor],
    name: str | None = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[list[Array]]:
    """grouped_reducescatter() that returns at once, one handle for all.

    Example::

        weight, bias = rueda.grouped_reducescatter_async([weight, bias], "layer1").result()
    """
    own = list(tensors)
    with group_name(name, process_set.process_set_id) as unique:
        return _native.grouped_reducescatter_async(
            own, unique, op, prescale_factor, postscale_factor, arrays_of, process_set.process_set_id
        )


def broadcast(
    tensor: Tensor, root_rank: int = 0, name: Name = None, *, process_set: ProcessSet = global_process_set
) -> Array:
    """The root's tensor, on every rank.

    Args:
        tensor: of the same shape and dtype on every rank; its elements are read on the root only.
        root_rank: whose tensor it is; the same on every rank.

    Returns:
        A new array of the same shape and dtype, on the root as well.

    Example::

        weights = rueda.broadcast(weights, root_rank=0, name="weights")
    """
    tensor, output = with_output(tensor)
    return _native.broadcast(tensor, output, root_rank, name, output, process_set.process_set_id)


def broadcast_async(
    tensor: Tensor, root_rank: int = 0, name: Name = None, *, process_set: ProcessSet = global_process_set
) -> Handle[Array]:
    """broadcast() that returns at once.

    Example::

        weights = rueda.broadcast_async(weights, 0, "weights").result()
    """
    tensor, output = with_output(tensor)
    return _native.broadcast_async(tensor, output, root_rank, name, output, process_set.process_set_id)


def broadcast_(tensor: T, root_rank: int = 0, name: Name = None, *, process_set: ProcessSet = global_process_set) -> T:
    """broadcast() in place. The tensor has to be contiguous and writable, on the root as well.

    Returns:
        The tensor itself.

    Example::

        rueda.broadcast_(weights, root_rank=0, name="weights")
    """
    return _native.broadcast(tensor, tensor, root_rank, name, tensor, process_set.process_set_id)


def broadcast_async_(
    tensor: T, root_rank: int = 0, name: Name = None, *, process_set: ProcessSet = global_process_set
) -> Handle[T]:
    """broadcast_() that returns at once.

    Example::

        rueda.broadcast_async_(weights, 0, "weights").wait()
    """
    return _native.broadcast_async(tensor, tensor, root_rank, name, tensor, process_set.process_set_id)


@overload
def allgather(
    tensor: Tensor, name: Name = None, *, out: None = None, process_set: ProcessSet = global_process_set
) -> Array: ...
@overload
def allgather(tensor: Tensor, name: Name = None, *, out: T, process_set: ProcessSet = global_process_set) -> T: ...
def allgather(
    tensor: Tensor, name: Name = None, *, out: Any = None, process_set: ProcessSet = global_process_set
) -> Any:
    """The ranks' tensors, one after the other along the first dimension.

    Args:
        tensor: of at least one dimension. The first may differ between ranks and be 0; the others and the dtype must
            agree.
        out: contiguous and writable, of all ranks' rows together; saves the memory of the result.

    Returns:
        A new array, over memory of Rueda, or ``out``.

    Example::

        everyones = rueda.allgather(predictions, "predictions")
    """
    return _native.allgather(tensor, out, name, array_of if out is None else out, process_set.process_set_id)


@overload
def allgather_async(
    tensor: Tensor, name: Name = None, *, out: None = None, process_set: ProcessSet = global_process_set
) -> Handle[Array]: ...
@overload
def allgather_async(
    tensor: Tensor, name: Name = None, *, out: T, process_set: ProcessSet = global_process_set
) -> Handle[T]: ...
def allgather_async(
    tensor: Tensor, name: Name = None, *, out: Any = None, process_set: ProcessSet = global_process_set
) -> Handle[Any]:
    """allgather() that returns at once.

    Example::

        everyones = rueda.allgather_async(predictions, "predictions").result()
    """
    return _native.allgather_async(tensor, out, name, array_of if out is None else out, process_set.process_set_id)


@overload
def reducescatter(
    tensor: Tensor,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    out: None = None,
    process_set: ProcessSet = global_process_set,
) -> Array: ...
@overload
def reducescatter(
    tensor: Tensor,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    out: T,
    process_set: ProcessSet = global_process_set,
) -> T: ...
def reducescatter(
    tensor: Tensor,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    out: Any = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The reduction of an allreduce, divided along the first dimension: every rank gets its rows.

    Args:
        tensor: of at least one dimension, of the same shape and dtype on every rank.
        op, prescale_factor, postscale_factor: as of allreduce().
        out: contiguous and writable, of this rank's rows; their place in ``tensor``, or elsewhere.

    Returns:
        A new array, over memory of Rueda, or ``out``. Where the rows cannot be shared evenly, the first ranks get one
        more; there may be none.

    Example::

        mine = rueda.reducescatter(gradient, "gradient", rueda.Sum)
    """
    result = array_of if out is None else out
    return _native.reducescatter(
        tensor, out, name, op, prescale_factor, postscale_factor, result, process_set.process_set_id
    )


@overload
def reducescatter_async(
    tensor: Tensor,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    out: None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Array]: ...
@overload
def reducescatter_async(
    tensor: Tensor,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    out: T,
    process_set: ProcessSet = global_process_set,
) -> Handle[T]: ...
def reducescatter_async(
    tensor: Tensor,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    out: Any = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Any]:
    """reducescatter() that returns at once.

    Example::

        mine = rueda.reducescatter_async(gradient, "gradient").result()
    """
    result = array_of if out is None else out
    return _native.reducescatter_async(
        tensor, out, name, op, prescale_factor, postscale_factor, result, process_set.process_set_id
    )


@overload
def alltoall(
    tensor: Tensor,
    splits: Sequence[int] | None = None,
    name: Name = None,
    *,
    out: None = None,
    process_set: ProcessSet = global_process_set,
) -> tuple[Array, Array]: ...
@overload
def alltoall(
    tensor: Tensor,
    splits: Sequence[int] | None = None,
    name: Name = None,
    *,
    out: T,
    process_set: ProcessSet = global_process_set,
) -> tuple[T, Array]: ...
def alltoall(
    tensor: Tensor,
    splits: Sequence[int] | None = None,
    name: Name = None,
    *,
    out: Any = None,
    process_set: ProcessSet = global_process_set,
) -> tuple[Any, Array]:
    """Every rank has some rows for each rank.

    Args:
        tensor: of at least one dimension; all but the first and the dtype must agree between ranks.
        splits: how many rows go to each rank, in their order; rows behind their sum go to nobody. They may be others on
            every rank and at every step. None: as many to each.
        out: contiguous and writable, of the rows that come from all ranks; it does not overlap ``tensor``.

    Returns:
        (what came, in the order of the ranks; how many rows came from each, an int64 array)

    Example::

        received, counts = rueda.alltoall(rows, splits=[2, 0, 1], name="rows")
    """
    return _native.alltoall(tensor, out, splits, name, with_received_splits(out), process_set.process_set_id)


@overload
def alltoall_async(
    tensor: Tensor,
    splits: Sequence[int] | None = None,
    name: Name = None,
    *,
    out: None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[tuple[Array, Array]]: ...
@overload
def alltoall_async(
    tensor: Tensor,
    splits: Sequence[int] | None = None,
    name: Name = None,
    *,
    out: T,
    process_set: ProcessSet = global_process_set,
) -> Handle[tuple[T, Array]]: ...
def alltoall_async(
    tensor: Tensor,
    splits: Sequence[int] | None = None,
    name: Name = None,
    *,
    out: Any = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Any]:
    """alltoall() that returns at once.

    Example::

        received, counts = rueda.alltoall_async(rows, name="rows").result()
    """
    return _native.alltoall_async(tensor, out, splits, name, with_received_splits(out), process_set.process_set_id)


def barrier(name: Name = None, *, process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank has called it.

    Example::

        rueda.barrier()
    """
    _native.barrier(name, process_set.process_set_id)


def barrier_async(name: Name = None, *, process_set: ProcessSet = global_process_set) -> Handle[None]:
    """Completes when every rank has called it.

    Example::

        handle = rueda.barrier_async()
        await handle
    """
    return _native.barrier_async(name, process_set.process_set_id)


def join(*, average: Literal["all", "active"] = "all") -> int:
    """For ranks that have fewer batches than others: blocks until every rank of the job has joined.

    Meanwhile the others' allreduces and barriers go on without this rank, in the world and in every process set that it
    is in. Operations that need something of every rank (broadcast, allgather, alltoall, reducescatter, gather, scatter,
    reduce) fail on all their ranks with InvalidArgument. What this rank has started before is done as ever; what its
    other threads start meanwhile is refused. Where a signal's handler raises meanwhile, this rank has joined all the same:
    another join() goes on waiting.

    Args:
        average: what averages divide by while this rank is away: "all", the number of all ranks, as if it gave zeros; or
            "active", where it does not count.

    Returns:
        The rank that joined last, the same on all: it has seen the most batches.

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
    """join() that returns at once: this rank has joined, and the handle ends when every rank has.

    Example::

        joined = rueda.join_async()
        evaluate(model)  # no operation of this rank meanwhile
        last = joined.result()
    """
    joined = _native.join_async(_number_of_average(average))
    forget_job()  # until the handle ends this rank starts nothing
    return joined


def _number_of_average(average: str) -> int:
    if average not in ("all", "active"):
        raise ValueError(f"average is {average!r}; expected 'all' or 'active'")
    return 1 if average == "active" else 0
