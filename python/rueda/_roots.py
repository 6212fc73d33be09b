# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Operations in which only one rank, the root, has the input or gets the result. The rules for all operations are in
_collectives.py.

``root_rank`` is the root's rank in the job, also for a process set. The root must be a member of the set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rueda import _native
from rueda._collectives import Name
from rueda._forms import blocking_form_of
from rueda._native import Handle, Memory
from rueda._process_sets import ProcessSet, global_process_set
from rueda._tensors import Tensor, array_of, with_output
from rueda.types import Average, ReduceOp

if TYPE_CHECKING:
    from rueda._forms import Result


def _gathered(
    out: Any,
) -> Callable[[Memory | None, tuple[int, ...] | None, int | None, tuple[int, ...] | None], Any]:
    """Returns the function that makes the result of a gather. Only the root has received splits: the number of rows
    from each rank.
    """

    def finish(
        memory: Memory | None, shape: tuple[int, ...] | None, dtype: int | None, splits: tuple[int, ...] | None
    ) -> Any:
        if splits is None:
            return None
        return array_of(memory, shape, dtype) if out is None else out

    return finish


def gather_async(
    tensor: Tensor,
    root_rank: int = 0,
    name: Name = None,
    *,
    out: Result | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Result | None]:
    """Starts a gather() and returns a handle at once.

    Example::

        everyones = rueda.gather_async(predictions, 0, "predictions").result()
    """
    out = out if _native.rank() == root_rank else None
    return _native.gather_async(tensor, out, root_rank, name, _gathered(out), process_set.process_set_id)


@blocking_form_of(gather_async)
def gather() -> None:
    """Concatenates the tensors of all ranks along the first dimension, and gives the result to the root.

    Args:
        tensor: has at least one dimension. The first extent may differ between ranks and may be 0; the other extents
            and the dtype must agree.
        root_rank: the rank that gets the tensors. It must be the same on every rank.
        out: on the root, contiguous and writable memory for the rows of all ranks together. It must not overlap
            ``tensor``. On other ranks, ``out`` is not written.

    Returns:
        On the root, ``out`` or a new array over memory that Rueda allocated. On other ranks None.

    Example::

        everyones = rueda.gather(predictions, root_rank=0, name="predictions")
    """


def scatter_async(
    tensor: Tensor,
    splits: Sequence[int] | None = None,
    root_rank: int = 0,
    name: Name = None,
    *,
    out: Result | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Result]:
    """Starts a scatter() and returns a handle at once.

    Example::

        mine = rueda.scatter_async(rows, root_rank=0, name="samples").result()
    """
    result = array_of if out is None else out
    return _native.scatter_async(tensor, out, splits, root_rank, name, result, process_set.process_set_id)


@blocking_form_of(scatter_async)
def scatter() -> None:
    """Divides the rows of the root's tensor among the ranks.

    Args:
        tensor: on the root, the rows to send. On other ranks, only its dtype and the shape of a row matter, so
            ``np.empty((0, 3))`` is enough. The dtype and all dimensions except the first must be the same on all ranks.
        splits: on the root, the number of rows that go to each rank, in the order of the ranks. If the sum of these
            numbers is less than the number of rows, the last rows are not sent. None: every rank gets the same number
            of rows. The splits of other ranks are not used.
        root_rank: the rank that sends the rows. It must be the same on every rank.
        out: contiguous and writable memory for this rank's rows. It must not overlap ``tensor``.

    Returns:
        This rank's rows: ``out``, or a new array over memory that Rueda allocated.

    Example::

        rows = samples if rueda.rank() == 0 else np.empty((0, 28), np.float32)
        mine = rueda.scatter(rows, splits=[4, 3], root_rank=0, name="samples")
    """


def reduce_async(
    tensor: Tensor,
    root_rank: int = 0,
    name: Name = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    out: Result | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Result | None]:
    """Starts a reduce() and returns a handle at once.

    Example::

        total = rueda.reduce_async(counts, 0, "counts", rueda.Sum).result()
    """
    output: Any = None
    if _native.rank() == root_rank:
        tensor, output = with_output(tensor) if out is None else (tensor, out)
    return _native.reduce_async(
        tensor, output, root_rank, name, op, prescale_factor, postscale_factor, output, process_set.process_set_id
    )


@blocking_form_of(reduce_async)
def reduce() -> None:
    """Gives the root the same result as allreduce(), with the same bits. Other ranks get no result.

    Args:
        tensor: has the same shape and dtype on every rank. It is only read, unless it is ``out``.
        root_rank: the rank that gets the result. It must be the same on every rank.
        op, prescale_factor, postscale_factor: as for allreduce().
        out: on the root, contiguous and writable memory of the same shape and dtype; it may be ``tensor``. On other
            ranks, ``out`` is not written.

    Returns:
        On the root, ``out`` or a new array. On other ranks None.

    Example::

        total = rueda.reduce(counts, root_rank=0, name="counts", op=rueda.Sum)
    """
