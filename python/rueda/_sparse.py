# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Reductions of tensors of which each rank has a few rows or elements: an allgather, and a sum of what comes twice."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from rueda import _native
from rueda._group_names import group_name
from rueda._native import Handle, Memory
from rueda._process_sets import ProcessSet, global_process_set
from rueda._tensors import arrays_of, numpy
from rueda.errors import InvalidArgument
from rueda.types import Average, ReduceOp, Sum

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array: TypeAlias = NDArray[Any]


def sparse_allreduce(
    indices: ArrayLike,
    values: ArrayLike,
    shape: Sequence[int],
    name: str | None = None,
    op: ReduceOp = Average,
    *,
    process_set: ProcessSet = global_process_set,
) -> tuple[Array, Array]:
    """The sum or the average over the ranks of tensors that are zero but at some places.

    Args:
        indices: where this rank has something, whole numbers: of shape [n], places along the first dimension; of shape
            [n, k], places along the first k. In any order, and a place may come several times; n may differ between
            ranks and be 0.
        values: what is there, of shape [n, …]: the rest is ``shape`` after those dimensions, the same on every rank.
        shape: of the whole tensor, which nobody makes; the same on every rank.
        name: the members of the group are called ``<name>_<i>of2``.
        op: Average, which divides by the number of ranks, or Sum.

    Returns:
        (indices, values): each place that some rank has, once, ascending; indices are int64. What several have is added
        in the order of the ranks, 16-bit floats in float32. Averages of integers truncate toward zero.

    Example::

        rows, gradient = rueda.sparse_allreduce(words, gradient_of_words, (50_000, 300), "embedding")
    """
    return sparse_allreduce_async(indices, values, shape, name, op, process_set=process_set).result()


def sparse_allreduce_async(
    indices: ArrayLike,
    values: ArrayLike,
    shape: Sequence[int],
    name: str | None = None,
    op: ReduceOp = Average,
    *,
    process_set: ProcessSet = global_process_set,
) -> Handle[tuple[Array, Array]]:
    """sparse_allreduce() that returns at once. The sums are made by who asks for the result.

    Example::

        rows, gradient = rueda.sparse_allreduce_async(words, gradient_of_words, (50_000, 300)).result()
    """
    inputs, finish = _prepare(indices, values, shape, op, process_set)
    with group_name(name, process_set.process_set_id) as unique:
        return _native.grouped_allgather_async(inputs, unique, finish, process_set.process_set_id)


def _prepare(
    indices: ArrayLike, values: ArrayLike, shape: Sequence[int], op: ReduceOp, process_set: ProcessSet
) -> tuple[list[Array], functools.partial[tuple[Array, Array]]]:
    if op not in (Sum, Average):
        raise InvalidArgument(
            f"the reduce operation of a sparse allreduce is {op!r}; expected rueda.Sum or rueda.Average"
        )
    np = numpy()
    whole = tuple(int(extent) for extent in shape)
    places = np.asarray(indices)
    elements = np.asarray(values)
    if places.size == 0 and places.ndim == 1:
        places = places.astype(np.int64)  # that of an empty list is float64
    if places.ndim not in (1, 2) or not np.issubdtype(places.dtype, np.integer):
        raise InvalidArgument(
            f"the indices have the shape {places.shape} and the dtype {places.dtype}; expected whole numbers of shape "
            "[n] or [n, k]"
        )
    along = 1 if places.ndim == 1 else places.shape[1]
    if not 1 <= along <= len(whole):
        raise InvalidArgument(
            f"the indices are places along {along} dimensions, and the shape {whole} has {len(whole)}"
        )
    expected = (len(places), *whole[along:])
    if elements.shape != expected:
        raise InvalidArgument(
            f"the values have the shape {elements.shape}; expected {expected}, for {len(places)} places in {whole}"
        )
    columns = places.reshape(len(places), along).astype(np.int64)
    for column, extent in zip(columns.T, whole, strict=False):
        outside = column[(column < 0) | (column >= extent)]
        if len(outside) > 0:
            raise InvalidArgument(
                f"the index {outside[0]} lies outside of the shape {whole}; expected 0 to {extent - 1}"
            )
    keys = np.ravel_multi_index(tuple(columns.T), whole[:along]) if len(columns) > 0 else np.empty(0, np.int64)
    finish = functools.partial(_coalesce, places.ndim, whole[:along], process_set.size() if op == Average else 1)
    return [keys.astype(np.int64), elements], finish


def _coalesce(
    ndim: int, extents: tuple[int, ...], divisor: int, outputs: list[tuple[Memory, tuple[int, ...], int]]
) -> tuple[Array, Array]:
    np = numpy()
    keys, elements = arrays_of(outputs)
    places, position = np.unique(keys, return_inverse=True)
    wide = elements.dtype
    if np.issubdtype(wide, np.integer):  # whose average divides the exact sum
        wide = np.promote_types(wide, np.int64) if wide != np.uint64 else wide
    elif wide.itemsize == 2:
        wide = np.dtype(np.float32)
    # One after the other, as add.reduceat() does not promise to.
    sums = np.zeros((len(places), *elements.shape[1:]), wide)
    np.add.at(sums, position.reshape(-1), elements.astype(wide, copy=False))
    if divisor > 1:
        # Integers truncate toward zero, where // rounds down.
        sums = np.sign(sums) * (np.abs(sums) // divisor) if np.issubdtype(wide, np.integer) else sums / divisor
    indices = places if ndim == 1 else np.stack(np.unravel_index(places, extents), axis=1).astype(np.int64)
    return indices, sums.astype(elements.dtype, copy=False)
