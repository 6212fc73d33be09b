# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Operations on several tensors with one name. The rules for all operations are in _collectives.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from rueda import _native
from rueda._collectives import AnyCompression, number_of
from rueda._forms import blocking_form_of
from rueda._group_names import group_name
from rueda._native import Handle
from rueda._process_sets import ProcessSet, global_process_set
from rueda._tensors import Tensor, arrays_of, with_output
from rueda.types import Average, Compression, ReduceOp

if TYPE_CHECKING:
    from rueda._forms import Array

T = TypeVar("T")


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
    """Starts a grouped_allreduce() and returns one handle for all tensors at once.

    Example::

        weight, bias = rueda.grouped_allreduce_async([weight, bias], "layer1").result()
    """
    pairs = [with_output(tensor) for tensor in tensors]
    inputs, outputs = [tensor for tensor, _ in pairs], [output for _, output in pairs]
    number = number_of(compression)
    with group_name(name, process_set.process_set_id) as unique:
        return _native.grouped_allreduce_async(
            inputs, outputs, unique, op, prescale_factor, postscale_factor, outputs, process_set.process_set_id, number
        )


@blocking_form_of(grouped_allreduce_async)
def grouped_allreduce() -> None:
    """Reduces each of the tensors like allreduce(), with one name for the group. Rueda starts either all operations of
    the group or none.

    Args:
        tensors: a list with at least one tensor. The list must have the same length on every rank. Shapes and dtypes
            may differ within the group.
        name: the operations of the group are named ``<name>_<i>of<count>``, where i counts from 1.
        op, prescale_factor, postscale_factor, compression: as for allreduce(); they apply to all tensors.

    Returns:
        A new array for each tensor.

    Example::

        weight, bias = rueda.grouped_allreduce([weight, bias], "layer1")
    """


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
    """Starts a grouped_allreduce_() and returns one handle for all tensors at once.

    Example::

        rueda.grouped_allreduce_async_([weight, bias], "layer1").wait()
    """
    own = list(tensors)
    number = number_of(compression)
    with group_name(name, process_set.process_set_id) as unique:
        return _native.grouped_allreduce_async(
            own, own, unique, op, prescale_factor, postscale_factor, own, process_set.process_set_id, number
        )


@blocking_form_of(grouped_allreduce_async_)
def grouped_allreduce_() -> None:
    """Like grouped_allreduce(), but the results replace the tensors. Returns the tensors.

    Example::

        rueda.grouped_allreduce_([weight, bias], "layer1")
    """


def grouped_allgather_async(
    tensors: Iterable[Tensor], name: str | None = None, *, process_set: ProcessSet = global_process_set
) -> Handle[list[Array]]:
    """Starts a grouped_allgather() and returns one handle for all tensors at once.

    Example::

        predictions, labels = rueda.grouped_allgather_async([predictions, labels], "batch").result()
    """
    own = list(tensors)
    with group_name(name, process_set.process_set_id) as unique:
        return _native.grouped_allgather_async(own, unique, arrays_of, process_set.process_set_id)


@blocking_form_of(grouped_allgather_async)
def grouped_allgather() -> None:
    """Gathers each of the tensors like allgather(), with one name for the group. Rueda starts either all operations of
    the group or none.

    Args:
        tensors: a list with at least one tensor. The list must have the same length on every rank. The rules of
            allgather() apply to each tensor. Dtypes may differ within the group.
        name: the operations of the group are named ``<name>_<i>of<count>``, where i counts from 1.

    Returns:
        For each tensor, a new array over memory that Rueda allocated.

    Example::

        predictions, labels = rueda.grouped_allgather([predictions, labels], "batch")
    """


def grouped_reducescatter_async(
    tensors: Iterable[Tensor],
    name: str | None = None,
    op: ReduceOp = Average,
    *,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[list[Array]]:
    """Starts a grouped_reducescatter() and returns one handle for all tensors at once.

    Example::

        weight, bias = rueda.grouped_reducescatter_async([weight, bias], "layer1").result()
    """
    own = list(tensors)
    with group_name(name, process_set.process_set_id) as unique:
        return _native.grouped_reducescatter_async(
            own, unique, op, prescale_factor, postscale_factor, arrays_of, process_set.process_set_id
        )


@blocking_form_of(grouped_reducescatter_async)
def grouped_reducescatter() -> None:
    """Reduces and divides each of the tensors like reducescatter(), with one name for the group. Rueda starts either
    all operations of the group or none.

    Args:
        tensors: a list with at least one tensor. The list must have the same length on every rank. The rules of
            reducescatter() apply to each tensor. Dtypes may differ within the group.
        name: the operations of the group are named ``<name>_<i>of<count>``, where i counts from 1.
        op, prescale_factor, postscale_factor: as for allreduce(); they apply to all tensors.

    Returns:
        For each tensor, a new array with this rank's rows, over memory that Rueda allocated.

    Example::

        weight, bias = rueda.grouped_reducescatter([weight, bias], "layer1")
    """
