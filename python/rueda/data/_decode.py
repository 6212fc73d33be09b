# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Decodes the files of a pipeline, for example images, in several threads."""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rueda.data._batches import Batch, Ragged
from rueda.data._errors import DecodeFailed
from rueda.data._terms import join_texts
from rueda.errors import InvalidArgument

Arrays = dict[str, "npt.NDArray[Any]"]


class Decode:
    """A map function for a pipeline of WholeFiles: calls a function of the program for each file, in several threads, and
    joins its results to arrays. The column "bytes" is replaced by the columns that the function returns; "name" stays.

    Decoders that release the GIL, such as those of Pillow and OpenCV, run at the same time in these threads. A
    decoder that is written in Python belongs into worker processes (rueda.data.workers()).

    Threads: one pipeline may use the object. The function is called by several threads at the same time.

    Args:
        function: gets the path of a file and its bytes, and returns a dict with an array or a number for each column.
            All files must give the same columns, with the same shapes and dtypes.
        threads: the number of threads. 0: as many as there are usable cores, at most 8.
        malformed_limit: this number of files for which the function raises an exception is left out. The next such
            file is an error. As long as every file so far was left out, a batch has only the column "name".

    Attributes:
        left_out: the number of files that were left out.

    Raises:
        DecodeFailed: the function raised an exception, or its results do not fit together. The message names the file.
            The loop over the pipeline raises MapFailed, whose ``__cause__`` is this exception.

    Example::

        def decode(name, content):  # for PNG, for example: np.asarray(PIL.Image.open(io.BytesIO(content)))
            return {"image": np.frombuffer(content, np.uint8).reshape(28, 28)}

        pipeline = rueda.data.Pipeline("*.raw", rueda.data.WholeFiles(), batch=32, maps=[rueda.data.Decode(decode)])
    """

    def __init__(
        self, function: Callable[[str, bytes], Mapping[str, Any]], threads: int = 0, malformed_limit: int = 0
    ) -> None:
        if not callable(function):
            raise InvalidArgument(f"Decode: function is {function!r}; expected a function")
        if threads < 0 or malformed_limit < 0:
            raise InvalidArgument(
                f"Decode: threads is {threads}, malformed_limit is {malformed_limit}; none of them may be negative"
            )
        self._function = function
        self._limit = malformed_limit
        self._threads = threads or max(1, min(len(os.sched_getaffinity(0)), 8))
        self._pool = concurrent.futures.ThreadPoolExecutor(self._threads, "rueda-decode")
        self._forms: Arrays = {}  # for each column, an array like the first file's
        self.left_out = 0

    def __call__(self, batch: Batch) -> Batch:
        names, contents = batch.get("name"), batch.get("bytes")
        if not isinstance(names, Ragged) or not isinstance(contents, Ragged):
            raise InvalidArgument("Decode: the batch has no columns 'name' and 'bytes'; set the format to WholeFiles()")
        paths = names.texts()
        # A task has several files, because handing a task to a thread takes longer than decoding a small file.
        step = max(1, len(paths) // (4 * self._threads))
        parts = (range(len(paths))[begin : begin + step] for begin in range(0, len(paths), step))
        tasks = [self._pool.submit(self._decode_rows, rows, paths, contents) for rows in parts]
        made = [each for task in tasks for each in task.result()]
        failures = [each for each in made if isinstance(each, DecodeFailed)]
        if self.left_out + len(failures) > self._limit:
            raise failures[min(self._limit - self.left_out, len(failures) - 1)]
        self.left_out += len(failures)
        kept = [(path, each) for path, each in zip(paths, made) if not isinstance(each, DecodeFailed)]
        for path, arrays in kept:
            self._check(os.fsdecode(path), arrays)
        decoded: Batch = {"name": Ragged(*join_texts([path for path, _ in kept]))}
        for name, form in self._forms.items():
            column = np.empty((len(kept), *form.shape), form.dtype)
            for row, (_, arrays) in enumerate(kept):
                column[row] = arrays[name]
            decoded[name] = column
        return decoded

    def _decode_rows(self, rows: range, paths: list[bytes], contents: Ragged) -> list[Arrays | DecodeFailed]:
        return [self._decode(paths[row], contents[row].tobytes()) for row in rows]

    def _decode(self, path: bytes, content: bytes) -> Arrays | DecodeFailed:
        name = os.fsdecode(path)
        try:
            return {column: np.asarray(value) for column, value in self._function(name, content).items()}
        except Exception as error:
            failure = DecodeFailed(f"decoding '{name}': {type(error).__name__}: {error}", name)
            failure.__cause__ = error
            return failure

    def _check(self, name: str, arrays: Arrays) -> None:
        """Compares the arrays of a file with those of the first file."""
        if not self._forms:
            self._forms = arrays
        for column in self._forms.keys() | arrays.keys():
            found, expected = arrays.get(column), self._forms.get(column)
            if (
                found is not None
                and expected is not None
                and found.shape == expected.shape
                and found.dtype == expected.dtype
            ):
                continue
            raise DecodeFailed(
                f"decoding '{name}': column '{column}' is {_form_of(found)}, expected {_form_of(expected)} as for the "
                "first file; return arrays of the same shape and dtype for all files",
                name,
            )


def _form_of(array: npt.NDArray[Any] | None) -> str:
    return "missing" if array is None else f"an array of shape {array.shape} and dtype {array.dtype}"
