# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Reductions of sparse tensors, of which each rank has only a few rows or elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from rueda import _native
from rueda._forms import blocking_form_of
from rueda._group_names import group_name
from rueda._native import Handle, Memory
from rueda._process_sets import ProcessSet, global_process_set
from rueda._tensors import arrays_of, numpy
from rueda.errors import InvalidArgument
from rueda.types import Average, ReduceOp

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array: TypeAlias = NDArray[Any]


def sparse_allreduce_async(
    indices: ArrayLike,
    values: ArrayLike,
    shape: Sequence[int],
    name: str | None = None,
    op: ReduceOp = Average,
    *,
    process_set: ProcessSet = global_process_set,
) -> Handle[tuple[Array, Array]]:
    """Starts a sparse_allreduce() and returns a handle at once. The values are added when the program asks for the
    result, on the thread that asks.

    Example::

        rows, gradient = rueda.sparse_allreduce_async(words, gradient_of_words, (50_000, 300)).result()
    """
    if op not in tuple(ReduceOp):
        raise InvalidArgument(f"op is {op!r} in a sparse allreduce; expected rueda.Sum or rueda.Average")
    inputs = [_places_of(indices), numpy().asarray(values)]
    whole = [int(extent) for extent in shape]
    with group_name(name, process_set.process_set_id) as unique:
        return _native.sparse_allreduce_async(inputs, whole, unique, op, _finish, process_set.process_set_id)


@blocking_form_of(sparse_allreduce_async)
def sparse_allreduce() -> None:
    """Computes the sum or the average, over the ranks, of tensors that are zero except at a few places.

    Args:
        indices: the places where this rank has values, as whole numbers. An array of shape [n] contains places along
            the first dimension. An array of shape [n, k] contains places along the first k dimensions. Places may be in
            any order and may repeat. n may differ between ranks and may be 0.
        values: the values at these places, of shape [n, …]. After n come those dimensions of ``shape`` that the indices
            do not cover; they are the same on every rank. The dtype must not be bool, because bool has no sum.
        shape: the shape of the whole tensor. It must be the same on every rank. No rank allocates the whole tensor.
        name: the name of the operation. The operation sends three tensors as a group, under the names
        ``<name>_<i>of3``.
        op: Average (divides by the number of ranks) or Sum; the same on every rank.

    Returns:
        (indices, values). The indices, as int64, contain each place that occurs on at least one rank, once and in
            ascending order. At each place, the values of the ranks are added in the order of the ranks; 16-bit floats
            are added in float32. Averages of integers divide the exact sum and truncate toward zero; sums of integers
            wrap.

    Raises:
        Mismatch: shape or op differ between ranks.
        Unsupported: the values are bool.
        InvalidArgument: op is neither Average nor Sum.
        All ranks raise these errors. The ``_async`` form raises them from ``result()``.

    Example::

        rows, gradient = rueda.sparse_allreduce(words, gradient_of_words, (50_000, 300), "embedding")
    """


def _places_of(indices: ArrayLike) -> Array:
    np = numpy()
    places = np.asarray(indices)
    if places.size == 0 and places.ndim == 1:
        return np.empty(0, np.int64)  # type: ignore[no-any-return]  # the dtype of an empty list is float64
    if places.ndim not in (1, 2) or not np.issubdtype(places.dtype, np.integer):
        raise InvalidArgument(
            f"the indices have the shape {places.shape} and the dtype {places.dtype}; expected whole numbers of shape "
            "[n] or [n, k]"
        )
    return places  # type: ignore[no-any-return]


def _finish(outputs: list[tuple[Memory, tuple[int, ...], int]]) -> tuple[Array, Array]:
    places, sums = arrays_of(outputs)
    return places, sums
