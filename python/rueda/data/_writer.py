# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Writes TFRecord files and tf.train.Example messages."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from rueda import _native
from rueda.data._batches import DTYPES, Ragged
from rueda.data._terms import address_of, join_texts
from rueda.errors import InvalidArgument

_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


class _Column:
    """A column of a batch, as arrays that the library reads."""

    def __init__(self, name: str, values: Any) -> None:
        if not isinstance(name, str):
            raise InvalidArgument(f"writing Examples: the name of a feature is {name!r}; expected a text")
        self._offsets: npt.NDArray[np.int64] | None = None
        if isinstance(values, Ragged):
            is_text = values.values.dtype == np.uint8
            self._width = values.width if is_text else 0
            self._offsets = np.ascontiguousarray(values.offsets, np.int64)
            self._values = values.values if is_text else _numbers(name, values.values)
            self.rows = len(values) // (values.width if is_text else 1)
        else:
            self._use_array(name, values)
        self._values = np.ascontiguousarray(self._values)
        self._name = name

    def _use_array(self, name: str, values: Any) -> None:
        if isinstance(values, list | tuple) and values and all(isinstance(each, str | bytes) for each in values):
            self.rows, self._width = len(values), 1
            self._values, self._offsets = join_texts(values)  # NumPy would remove zero bytes at the ends of texts
            return
        array = np.asarray(values)
        if array.ndim == 0:
            raise InvalidArgument(f"writing Examples: feature '{name}' is {values!r}; expected a value for each sample")
        self.rows = len(array)
        self._width = int(np.prod(array.shape[1:], dtype=np.int64))
        if array.dtype.kind in "SUO":
            self._values, self._offsets = join_texts(array.ravel().tolist(), f"writing Examples: feature '{name}'")
        elif self._width == 0:  # no sample has a value, so the column is written as a ragged column
            self._values, self._offsets = _numbers(name, array).ravel(), np.zeros(self.rows + 1, np.int64)
        else:
            self._values = _numbers(name, array)

    def tuple(self) -> tuple[str, int, int, int, int, int, int]:
        offsets = self._offsets
        return (
            self._name,
            _NUMBERS[self._values.dtype],
            self._width,
            address_of(self._values),
            self._values.nbytes,
            0 if offsets is None else address_of(offsets),
            0 if offsets is None else len(offsets),
        )


def _numbers(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns the array with a dtype that an Example can hold."""
    if array.dtype.kind == "f":
        return array.astype(np.float32, copy=False)
    if array.dtype.kind in "iub" and not (array.dtype == np.uint64 and array.size > 0 and array.max() >> 63):
        return array.astype(np.int64, copy=False)
    raise InvalidArgument(
        f"writing Examples: feature '{name}' has dtype {array.dtype}; expected floats, integers of 64 bits, or texts"
    )


def _single(values: Any) -> Any:
    """Converts the values of one sample to the form of a batch that contains only this sample."""
    if isinstance(values, str | bytes):
        return [values]
    if isinstance(values, list | tuple) and values and all(isinstance(each, str | bytes) for each in values):
        return Ragged(*join_texts(values), len(values))
    if isinstance(values, Ragged):
        raise InvalidArgument("writing an Example: a Ragged has the values of several samples; use write_examples()")
    return np.asarray(values).reshape(1, -1)


class TfrecordWriter:
    """Writes a TFRecord file, which Pipeline and TensorFlow read. Call close() at the end, or use a ``with`` block.

    Threads: one at a time.

    Args:
        path: the file is created, or emptied.
        compression: "automatic" (gzip for ".gz"), "none" or "gzip".

    Raises:
        InvalidArgument: the file cannot be created.
        Unsupported: this build of Rueda has no zlib, or the compression is zstd, which TensorFlow does not read.

    Example::

        with rueda.data.TfrecordWriter("train.tfrecord") as writer:
            writer.write_example({"label": 1.0, "ids": [3, 7, 9], "name": "first"})
            writer.write_examples({"label": np.zeros(8), "ids": np.ones((8, 3), int), "name": ["other"] * 8})
    """

    def __init__(self, path: str | os.PathLike[str], compression: str = "automatic") -> None:
        self._path = os.fspath(path)
        self._writer: object | None = _native.writer_open(os.fsencode(path), compression)

    def _opened(self) -> object:
        if self._writer is None:
            raise InvalidArgument(f"writing '{self._path}': the file is already closed")
        return self._writer

    def write(self, record: bytes) -> None:
        """Appends a record.

        Raises:
            ResourceExhausted: the file cannot be written, for example because the disk is full.

        Example::

            writer.write(b"any bytes")
        """
        _native.writer_write(self._opened(), record)

    def write_examples(self, batch: Mapping[str, Any]) -> None:
        """Appends a tf.train.Example for each sample of a batch. Floats become a float_list, integers an int64_list, and
        texts and bytes a bytes_list. A batch of Pipeline can be written without changes.

        Args:
            batch: for each feature an array or a list whose first dimension is the number of samples, or a Ragged.

        Raises:
            InvalidArgument: the features have different numbers of samples, or a dtype that Examples cannot hold.
            ResourceExhausted: the file cannot be written.

        Example::

            writer.write_examples({"label": np.zeros(8), "name": ["text"] * 8})
        """
        writer = self._opened()
        columns = [_Column(name, values) for name, values in batch.items()]
        counts = {column.rows for column in columns}
        if len(counts) > 1:
            numbers = ", ".join(f"{name}: {column.rows}" for name, column in zip(batch, columns))
            raise InvalidArgument(f"writing Examples: the features have different numbers of samples: {numbers}")
        if columns:
            _native.writer_write_examples(writer, [column.tuple() for column in columns], counts.pop())

    def write_example(self, features: Mapping[str, Any]) -> None:
        """Appends one tf.train.Example. Each feature is a value or a list of values.

        Raises:
            InvalidArgument: there is no feature, or one has a dtype that Examples cannot hold.
            ResourceExhausted: the file cannot be written.

        Example::

            writer.write_example({"label": 1.0, "ids": [3, 7, 9], "name": "first"})
        """
        if not features:
            raise InvalidArgument("writing an Example: it has no features; expected at least one")
        self.write_examples({name: _single(values) for name, values in features.items()})

    def close(self) -> None:
        """Writes what is still in memory, and closes the file.

        Raises:
            ResourceExhausted: the disk is full.

        Example::

            writer.close()
        """
        writer, self._writer = self._writer, None
        if writer is not None:
            _native.writer_close(writer)

    def __enter__(self) -> TfrecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
