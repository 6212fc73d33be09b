# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Batches of NumPy arrays over the memory of the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from rueda import _native
from rueda.errors import InvalidArgument
from rueda.types import DType

#: In seconds: a call that waits for a batch returns to Python after this time, so that Python can handle signals such
#: as Ctrl-C.
_PART = 0.1


class Ragged:
    """A column whose samples have different numbers of values, or a column of texts. The values of all samples stand
    in one array, as in a CSR matrix.

    Attributes:
        values: the values of all samples. Texts are bytes (uint8).
        offsets: sample i has the values ``values[offsets[i]:offsets[i + 1]]``. In a column with several texts in a
            sample, i is the number of a text: each text has an offset.
        width: the number of texts in each sample. It is 1 for a column of numbers.

    Example::

        column = rueda.data.Ragged(np.array([7, 8, 9]), np.array([0, 2, 2, 3]))
        assert [len(row) for row in column] == [2, 0, 1]
    """

    __slots__ = ("offsets", "values", "width")

    def __init__(self, values: npt.NDArray[Any], offsets: npt.NDArray[np.int64], width: int = 1) -> None:
        self.values = values
        self.offsets = offsets
        self.width = width

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> npt.NDArray[Any]:
        """Returns the values of a sample, as a view."""
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of a column with {len(self)} samples")
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def texts(self) -> list[bytes]:
        """Returns the texts as a list of bytes.

        Example::

            column = rueda.data.Ragged(np.frombuffer(b"onetwo", "uint8"), np.array([0, 3, 6]))
            assert column.texts() == [b"one", b"two"]
        """
        data = self.values.tobytes()
        offsets = self.offsets.tolist()
        return [data[begin:end] for begin, end in zip(offsets, offsets[1:])]


Batch = dict[str, "npt.NDArray[Any] | Ragged"]


def counted_rows(batch: Batch, weights: str) -> int:
    """Returns how many rows of a padded batch are samples. The samples are the first rows; padding follows. ``weights``
    is the name of the column of weights, in which padding has the weight 0. The weight of a sample need not be 1,
    because a map function may have multiplied the column.
    """
    column = batch.get(weights)
    if not isinstance(column, np.ndarray) or column.ndim != 1:
        raise InvalidArgument(
            f"the batch has no column of weights with the name '{weights}'; keep this column, because it says which "
            "rows are padding"
        )
    counted = np.flatnonzero(column)
    return int(counted[-1]) + 1 if len(counted) > 0 else 0


class _Memory:
    """The memory of a batch's column, as an object from which NumPy makes an array. The array keeps this object
    alive, and this object keeps the batch alive.
    """

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, owner: object, address: int, size: int) -> None:
        self._owner = owner
        self.__array_interface__ = {"data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3}


def _view(owner: object, address: int, size: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    if size == 0:
        return np.empty(0, dtype)
    return np.asarray(_Memory(owner, address, size)).view(dtype)


DTYPES = {kind.value: np.dtype(kind.name) for kind in (DType.float32, DType.float64, DType.int64, DType.uint8)}


def take_batch(pipeline: object, is_stopped: Callable[[], bool] = lambda: False) -> Batch | None:
    """Returns the next batch of a pipeline of the native module, or None at the end of the epoch. Returns None, too, if
    ``is_stopped`` becomes true while this function waits.
    """
    while not _native.data_wait(pipeline, _PART):  # Python handles signals between two calls of data_wait()
        if is_stopped():
            return None
    taken = _native.data_next(pipeline)
    if taken is None:
        return None
    rows, columns, owner = taken
    batch: Batch = {}
    for name, dtype, width, address, size, offsets_address, offset_count in columns:
        values = _view(owner, address, size, DTYPES[dtype])
        if width == 0 or (values.dtype == np.uint8 and offset_count > 0):  # ragged, or texts
            offsets = _view(owner, offsets_address, 8 * offset_count, np.int64)
            batch[name] = Ragged(values, offsets if offset_count > 0 else np.zeros(1, np.int64), max(width, 1))
        else:
            batch[name] = values if width == 1 else values.reshape(rows, width)
    return batch
