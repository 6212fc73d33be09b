# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Reductions of tensors of which each rank has a few rows or elements: an allgather, and a sum of what comes twice."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from rueda import _native
from rueda._group_names import group_name
from rueda._native import Handle, Memory
from rueda._process_sets import ProcessSet, global_process_set
from rueda._rank_text import format_ranks
from rueda._tensors import arrays_of, numpy
from rueda.errors import InvalidArgument, Mismatch, Unsupported
from rueda.types import Average, ReduceOp, Sum

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array: TypeAlias = NDArray[Any]

#: They are numbered by int64.
_MOST_PLACES = 2**63 - 1


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
            Not bool, which has no sum.
        shape: of the whole tensor, which nobody makes; the same on every rank.
        name: the members of the group are called ``<name>_<i>of3``.
        op: Average, which divides by the number of ranks, or Sum; the same on every rank.

    Returns:
        (indices, values): each place that some rank has, once, ascending; indices are int64. What several have is added
        in the order of the ranks, 16-bit floats in float32. Averages of integers are those of the exact sum, and
        truncate toward zero; sums of integers wrap.

    Raises:
        Mismatch: shape or op differ between ranks; on all of them. Of the ``_async`` form, from ``result()``.

    Example::

        rows, gradient = rueda.sparse_allreduce(words, gradient_of_words, (50_000, 300), "embedding")
    """
    _native.check_may_wait()
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
    inputs, call = _prepare(indices, values, shape, op, process_set)
    with group_name(name, process_set.process_set_id) as unique:
        return _native.grouped_allgather_async(
            inputs, unique, functools.partial(_finish, call, unique), process_set.process_set_id
        )


@dataclass(frozen=True)
class _Call:
    """What a rank asked for."""

    shape: tuple[int, ...]
    op: ReduceOp
    ndim: int  #: of the indices
    along: int  #: so many dimensions of the shape
    ranks: list[int]  #: of the job, who do it together

    def row(self) -> Array:
        """What has to be the same on every rank, for the ranks to compare."""
        return numpy().array([(self.op, *self.shape)], numpy().int64)  # type: ignore[no-any-return]


def _prepare(
    indices: ArrayLike, values: ArrayLike, shape: Sequence[int], op: ReduceOp, process_set: ProcessSet
) -> tuple[list[Array], _Call]:
    if op not in (Sum, Average):
        raise InvalidArgument(
            f"the reduce operation of a sparse allreduce is {op!r}; expected rueda.Sum or rueda.Average"
        )
    np = numpy()
    whole = tuple(int(extent) for extent in shape)
    places = np.asarray(indices)
    elements = np.asarray(values)
    if elements.dtype == np.bool_:
        raise Unsupported(
            f"there is no {ReduceOp(op).name.lower()} of bool in a sparse allreduce; use an integer dtype to count"
        )
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
    if min(whole) < 0 or math.prod(whole[:along]) > _MOST_PLACES:
        raise InvalidArgument(
            f"the shape is {whole}; expected extents from 0 on, and at most {_MOST_PLACES} places along the first {along}"
        )
    expected = (len(places), *whole[along:])
    if elements.shape != expected:
        raise InvalidArgument(
            f"the values have the shape {elements.shape}; expected {expected}, for {len(places)} places in {whole}"
        )
    keys = _keys(places.reshape(len(places), along), whole)
    call = _Call(whole, ReduceOp(op), places.ndim, along, process_set.ranks)
    return [keys, elements, call.row()], call


def _keys(columns: Array, whole: tuple[int, ...]) -> Array:
    """The places as numbers of one dimension."""
    np = numpy()
    for column, extent in zip(columns.T, whole, strict=False):
        outside = column[(column < 0) | (column >= extent)]
        if len(outside) > 0:
            raise InvalidArgument(
                f"the index {outside[0]} lies outside of the shape {whole}; expected 0 to {extent - 1}"
            )
    if len(columns) == 0:
        return np.empty(0, np.int64)  # type: ignore[no-any-return]
    along = columns.shape[1]
    keys = np.ravel_multi_index(tuple(columns.astype(np.int64).T), whole[:along])
    return keys.astype(np.int64)  # type: ignore[no-any-return]


def _finish(call: _Call, name: str, outputs: list[tuple[Memory, tuple[int, ...], int]]) -> tuple[Array, Array]:
    np = numpy()
    keys, elements, rows = arrays_of(outputs)
    if (rows != call.row()).any():  # the same rows everywhere, so the same error
        who: dict[str, list[int]] = {}
        for rank, row in zip(call.ranks, rows, strict=True):
            who.setdefault(f"{ReduceOp(int(row[0])).name} of shape {tuple(row[1:].tolist())}", []).append(rank)
        asked = "; ".join(f"{format_ranks(ranks)}: {what}" for what, ranks in who.items())
        raise Mismatch(f"sparse allreduce '{name}': the ranks disagree: {asked}")
    places, position = np.unique(keys, return_inverse=True)
    divisor = len(call.ranks) if call.op == Average else 1
    sums = _sums(elements, position.reshape(-1), len(places), divisor)
    if call.ndim == 1:
        return places, sums
    return np.stack(np.unravel_index(places, call.shape[: call.along]), axis=1).astype(np.int64), sums


def _sums(elements: Array, position: Array, count: int, divisor: int) -> Array:
    """Of the elements with the same position, one after the other; over the divisor."""
    np = numpy()
    if divisor > 1 and np.issubdtype(elements.dtype, np.integer):
        return _integer_averages(elements, position, count, divisor)
    wide = np.float32 if elements.dtype.itemsize == 2 and elements.dtype.kind not in "iu" else elements.dtype
    sums = _added(elements.astype(wide, copy=False), position, count)
    return (sums / divisor if divisor > 1 else sums).astype(elements.dtype, copy=False)


def _added(elements: Array, position: Array, count: int) -> Array:
    np = numpy()
    sums = np.zeros((count, *elements.shape[1:]), elements.dtype)
    np.add.at(sums, position, elements)  # in order, as add.reduceat() does not promise to
    return sums  # type: ignore[no-any-return]


def _integer_averages(elements: Array, position: Array, count: int, divisor: int) -> Array:
    """Of the exact sums, truncated toward zero; a sum of 64-bit integers needs more than 64 bits.

    A sum is high * 2^32 + low: neither part of up to 2^31 elements leaves int64. The remainder of the high part goes
    to the low one, divided by fewer ranks than 2^31.
    """
    np = numpy()
    wide = elements if elements.dtype == np.uint64 else elements.astype(np.int64)
    high = _added((wide >> 32).astype(np.int64), position, count)
    low = _added((wide & 0xFFFF_FFFF).astype(np.int64), position, count)
    high += low >> 32
    low &= 0xFFFF_FFFF
    low += (high % divisor) << 32
    # Rounded down, in 64 bits that do not care for the sign; then up where that is toward zero.
    averages = ((high // divisor) << 32) + low // divisor
    averages += (high < 0) & (low % divisor != 0)
    return averages.astype(elements.dtype)  # type: ignore[no-any-return]
