# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Operations of which one rank, the root, has the result or the input. What holds for all operations is in _collectives.

The root is named by its rank in the job, also in a process set, whose member it has to be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from rueda import _native
from rueda._collectives import Name
from rueda._native import Handle, Memory
from rueda._process_sets import ProcessSet, global_process_set
from rueda._tensors import Tensor, array_of, with_output
from rueda.types import Average, ReduceOp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]

T = TypeVar("T")


def _gathered(
    out: Any,
) -> Callable[[Memory | None, tuple[int, ...] | None, int | None, tuple[int, ...] | None], Any]:
    """What makes the result of a gather: the root's has received splits."""

    def finish(
        memory: Memory | None, shape: tuple[int, ...] | None, dtype: int | None, splits: tuple[int, ...] | None
    ) -> Any:
        if splits is None:
            return None
        return array_of(memory, shape, dtype) if out is None else out

    return finish


@overload
def gather(
    tensor: Tensor,
    root_rank: int = 0,
    name: Name = None,
    *,
    out: None = None,
    process_set: ProcessSet = global_process_set,
) -> Array | None: ...
@overload
def gather(
    tensor: Tensor, root_rank: int = 0, name: Name = None, *, out: T, process_set: ProcessSet = global_process_set
) -> T | None: ...
def gather(
    tensor: Tensor,
    root_rank: int = 0,
    name: Name = None,
    *,
    out: Any = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The ranks' tensors, one after the other along the first dimension, on the root.

    Args:
        tensor: of at least one dimension. The first may differ between ranks and be 0; the others and the dtype must
            agree.
        root_rank: who gets them; the same on every rank.
        out: on the root, contiguous and writable, of all ranks' rows together; it does not overlap ``tensor``. Other
            ranks' is left alone.

    Returns:
        On the root a new array, over memory of Rueda, or ``out``; on other ranks None.

    Example::

        everyones = rueda.gather(predictions, root_rank=0, name="predictions")
    """
    out = out if _native.rank() == root_rank else None
    return _native.gather(tensor, out, root_rank, name, _gathered(out), process_set.process_set_id)


@overload
def gather_async(
    tensor: Tensor,
    root_rank: int = 0,
    name: Name = None,
    *,
    out: None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Array | None]: ...
@overload
def gather_async(
    tensor: Tensor, root_rank: int = 0, name: Name = None, *, out: T, process_set: ProcessSet = global_process_set
) -> Handle[T | None]: ...
def gather_async(
    tensor: Tensor,
    root_rank: int = 0,
    name: Name = None,
    *,
    out: Any = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Any]:
    """gather() that returns at once.

    Example::

        everyones = rueda.gather_async(predictions, 0, "predictions").result()
    """
    out = out if _native.rank() == root_rank else None
    return _native.gather_async(tensor, out, root_rank, name, _gathered(out), process_set.process_set_id)


@overload
def scatter(
    tensor: Tensor,
    splits: Sequence[int] | None = None,
    root_rank: int = 0,
    name: Name = None,
    *,
    out: None = None,
    process_set: ProcessSet = global_process_set,
) -> Array: ...
@overload
def scatter(
    tensor: Tensor,
    splits: Sequence[int] | None = None,
    root_rank: int = 0,
    name: Name = None,
    *,
    out: T,
    process_set: ProcessSet = global_process_set,
) -> T: ...
def scatter(
    tensor: Tensor,
    splits: Sequence[int] | None = None,
    root_rank: int = 0,
    name: Name = None,
    *,
    out: Any = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Every rank gets some of the root's rows.

    Args:
        tensor: the root's rows. On other ranks it says the dtype and the shape of a row, as ``np.empty((0, 3))`` does: all
            dimensions but the first, and the dtype, must agree.
        splits: on the root, how many rows go to each rank, in their order; rows behind their sum go to nobody. None: as many to
            each. Other ranks' are not looked at.
        root_rank: whose rows they are; the same on every rank.
        out: contiguous and writable, of this rank's rows; it does not overlap ``tensor``.

    Returns:
        A new array of this rank's rows, over memory of Rueda, or ``out``.

    Example::

        rows = samples if rueda.rank() == 0 else np.empty((0, 28), np.float32)
        mine = rueda.scatter(rows, splits=[4, 3], root_rank=0, name="samples")
    """
    result = array_of if out is None else out
    return _native.scatter(tensor, out, splits, root_rank, name, result, process_set.process_set_id)


@overload
def scatter_async(
    tensor: Tensor,
    splits: Sequence[int] | None = None,
    root_rank: int = 0,
    name: Name = None,
    *,
    out: None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Array]: ...
@overload
def scatter_async(
    tensor: Tensor,
    splits: Sequence[int] | None = None,
    root_rank: int = 0,
    name: Name = None,
    *,
    out: T,
    process_set: ProcessSet = global_process_set,
) -> Handle[T]: ...
def scatter_async(
    tensor: Tensor,
    splits: Sequence[int] | None = None,
    root_rank: int = 0,
    name: Name = None,
    *,
    out: Any = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Any]:
    """scatter() that returns at once.

    Example::

        mine = rueda.scatter_async(rows, root_rank=0, name="samples").result()
    """
    result = array_of if out is None else out
    return _native.scatter_async(tensor, out, splits, root_rank, name, result, process_set.process_set_id)


def _root_output(tensor: Tensor, out: Any, root_rank: int) -> tuple[Tensor, Any]:
    """The tensor as an input, and where the result goes: nowhere on other ranks."""
    if _native.rank() != root_rank:
        return tensor, None
    return with_output(tensor) if out is None else (tensor, out)


@overload
def reduce(
    tensor: Tensor,
    root_rank: int = 0,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    out: None = None,
    process_set: ProcessSet = global_process_set,
) -> Array | None: ...
@overload
def reduce(
    tensor: Tensor,
    root_rank: int = 0,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    out: T,
    process_set: ProcessSet = global_process_set,
) -> T | None: ...
def reduce(
    tensor: Tensor,
    root_rank: int = 0,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    out: Any = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """The reduction of allreduce(), bit for bit, on the root.

    Args:
        tensor: of the same shape and dtype on every rank; only read, unless it is ``out``.
        root_rank: who gets the result; the same on every rank.
        op, prescale_factor, postscale_factor: as of allreduce().
        out: on the root, contiguous and writable, of the same shape and dtype; it may be ``tensor``. Other ranks' is left
            alone.

    Returns:
        On the root a new array, or ``out``; on other ranks None.

    Example::

        total = rueda.reduce(counts, root_rank=0, name="counts", op=rueda.Sum)
    """
    tensor, output = _root_output(tensor, out, root_rank)
    return _native.reduce(
        tensor, output, root_rank, name, op, prescale_factor, postscale_factor, output, process_set.process_set_id
    )


@overload
def reduce_async(
    tensor: Tensor,
    root_rank: int = 0,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    out: None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Array | None]: ...
@overload
def reduce_async(
    tensor: Tensor,
    root_rank: int = 0,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    out: T,
    process_set: ProcessSet = global_process_set,
) -> Handle[T | None]: ...
def reduce_async(
    tensor: Tensor,
    root_rank: int = 0,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    out: Any = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Any]:
    """reduce() that returns at once.

    Example::

        total = rueda.reduce_async(counts, 0, "counts", rueda.Sum).result()
    """
    tensor, output = _root_output(tensor, out, root_rank)
    return _native.reduce_async(
        tensor, output, root_rank, name, op, prescale_factor, postscale_factor, output, process_set.process_set_id
    )
