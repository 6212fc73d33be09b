# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Some rows of tensors, for checkpoints to which each rank contributes a part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rueda._tensors import Tensor
from rueda.errors import InvalidArgument
from rueda.training import _trees
from rueda.training._sampler import shard


class TensorPart(NamedTuple):
    """Some rows of a tensor. This rank holds only these rows. A tensor is divided along its first dimension.

    ``tensor`` has the rows of this rank, as a NumPy array or a PyTorch tensor. ``rows`` are their numbers in the whole
    tensor, and ``whole_rows`` is the number of rows of the whole tensor. A scalar counts as one row.

    Example::

        rows = rueda.training.shard(1000)  # this rank's rows of a table with 1000 rows
        part = rueda.training.TensorPart(np.zeros((len(rows), 8)), rows, 1000)
    """

    tensor: Tensor
    rows: range
    whole_rows: int


def split_rows(model: Any, rank: int | None = None, size: int | None = None) -> dict[str, TensorPart]:
    """Divides the rows of tensors that are equal on all ranks, so that each rank writes a part of the rows.

    Args:
        model: a dict of tensors, or an object with state_dict(), as for CheckpointManager.save().
        rank: by default rueda.rank(). The result has this rank's part of each tensor, which is the rows
            ``shard(rows, rank, size)``. Rank 0 gets the scalars.
        size: by default rueda.size().

    Returns:
        The parts of the rank, which are views of the tensors. Tensors of which the rank gets no rows are left out.

    Raises:
        InvalidArgument: the rank is not below the size.
        NotInitialized: the rank or the size is not given, and rueda.init() was not called.
        TypeError: the model has a value that is no tensor, or is a DTensor, whose rows are divided already.

    Example::

        manager.save_parts(step, rueda.training.split_rows(model))
    """
    parts = {}
    is_first = len(shard(1, rank, size)) == 1  # rank 0 also gets the tensors without rows
    for name, tensor in _trees.model_tensors(model):
        whole = _rows_of(tensor)
        rows = shard(whole, rank, size)
        if len(rows) > 0 or (whole == 0 and is_first):
            parts[name] = TensorPart(tensor[rows.start : rows.stop] if len(tensor.shape) > 0 else tensor, rows, whole)
    return parts


def _rows_of(tensor: Tensor) -> int:
    return int(tensor.shape[0]) if len(tensor.shape) > 0 else 1


def check(parts: Mapping[str, TensorPart]) -> None:
    """Checks that the parts can be saved.

    Raises:
        InvalidArgument: rows do not fit their tensor, or lie outside the whole tensor.
        TypeError: a value is no TensorPart, or has no tensor that Rueda can save.
    """
    for name, part in parts.items():
        if not isinstance(part, TensorPart):
            raise TypeError(
                f"checkpoint: the part '{name}' is of the type {type(part).__name__}; expected a TensorPart"
            )
        _trees.model_tensors({name: part.tensor})  # checks the types
        _trees.check_dtype(name, part.tensor)
        rows, held = part.rows, _rows_of(part.tensor)
        if not isinstance(rows, range) or not isinstance(part.whole_rows, int):
            raise TypeError(
                f"checkpoint: the rows of '{name}' are {rows!r} of {part.whole_rows!r}; expected a range of an int"
            )
        if rows.step != 1 or rows.start < 0 or len(rows) != held or rows.start + held > part.whole_rows:
            raise InvalidArgument(
                f"checkpoint: tensor '{name}' has {held} rows on this rank, and they are called {rows} of "
                f"{part.whole_rows}; the range must have as many rows as the tensor, and lie inside the whole tensor"
            )


def views_of(parts: Mapping[str, TensorPart], memory: Iterable[tuple[str, Tensor]]) -> list[tuple[str, Any, int, int]]:
    """Returns the parts in the form that the native module needs. The ranges of rows come from ``parts``, but the
    tensors come from ``memory``.
    """
    return [(name, _trees.view_of(tensor), parts[name].rows.start, parts[name].whole_rows) for name, tensor in memory]
