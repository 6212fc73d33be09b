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

from rueda import _lifecycle
from rueda.data._batches import Batch, Ragged, counted_rows
from rueda.data._errors import DecodeFailed
from rueda.data._terms import join_texts
from rueda.errors import InvalidArgument

Arrays = dict[str, "npt.NDArray[Any]"]


def _usable_threads() -> int:
    """Returns this rank's share of the cores after init(), and otherwise the number of all usable cores."""
    return _lifecycle.threads_per_rank() if _lifecycle.is_initialized() else len(os.sched_getaffinity(0))


class Decode:
    """A map function for a pipeline of WholeFiles: calls a function of the program for each file, in several threads,
    and combines the results into arrays. The column "bytes" is replaced by the columns that the function returns. The
    column "name" stays. With ``remainder="pad"`` the column of weights stays, too. A batch then has rows of zeros in
    place of files that are missing or were left out. The batch must have no other columns. If a map function of
    yours calls a Decode, it must pass the name of the column of weights: ``decode(batch, weights="weight")``.

    Decoders that release the GIL, such as those of Pillow and OpenCV, run at the same time in these threads. A
    decoder that is written in Python belongs into worker processes (rueda.data.workers()).

    Threads: one pipeline may use the object. The function is called by several threads at the same time.

    Args:
        function: gets the path of a file and its bytes, and returns a dict with an array or a number for each column.
            All files must give the same columns, with the same shapes and dtypes. No column may have the name of the
            column of weights.
        threads: the number of threads. 0: as many as there are usable cores, at most 8. After init(), the ranks of a
            host divide the cores: 0 then stands for rueda.threads_per_rank(), at most 8.
        malformed_limit: if the function raises an exception for a file, the file is left out. ``malformed_limit`` is
            the largest number of different files that are left out; the next file for which the function raises is an
            error. A file that is left out in several epochs counts once. As long as every file so far was left out, a
            batch has only the column "name" (and that of weights), because the shapes of the other columns are unknown.

    Attributes:
        left_out: how often a file was left out, in all epochs together.

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
        self._threads = threads or min(_usable_threads(), 8)
        self._pool = concurrent.futures.ThreadPoolExecutor(self._threads, "rueda-decode")
        self._forms: Arrays = {}  # one array for each column; all files must have arrays of the same shape and dtype
        self._malformed: set[str] = set()  # the files that were left out
        self.left_out = 0

    def __call__(self, batch: Batch, weights: str | None = None) -> Batch:
        names, contents = batch.get("name"), batch.get("bytes")
        if not isinstance(names, Ragged) or not isinstance(contents, Ragged):
            raise InvalidArgument("Decode: the batch has no columns 'name' and 'bytes'; set the format to WholeFiles()")
        others = batch.keys() - {"name", "bytes", weights}
        if others:
            raise InvalidArgument(
                f"Decode: the batch also has the columns {', '.join(sorted(others))}, which would be lost; call Decode "
                "before the functions that add columns. If one of them is the column of weights, call the Decode object "
                "with its name: decode(batch, weights=...)"
            )
        rows = len(names)
        paths = names.texts()[: rows if weights is None else counted_rows(batch, weights)]
        # A task has several files, because handing a task to a thread takes longer than decoding a small file.
        step = max(1, len(paths) // (4 * self._threads))
        parts = (range(len(paths))[begin : begin + step] for begin in range(0, len(paths), step))
        tasks = [self._pool.submit(self._decode_rows, part, paths, contents) for part in parts]
        made = [each for task in tasks for each in task.result()]
        failures = [each for each in made if isinstance(each, DecodeFailed)]
        for failure in failures:
            if failure.name not in self._malformed and len(self._malformed) == self._limit:
                raise failure
            self._malformed.add(failure.name)
        self.left_out += len(failures)
        kept = [(path, each) for path, each in zip(paths, made) if not isinstance(each, DecodeFailed)]
        for path, arrays in kept:
            self._check(os.fsdecode(path), arrays)
        return self._joined(kept, len(kept) if weights is None else rows, weights)

    def _joined(self, kept: list[tuple[bytes, Arrays]], rows: int, weights: str | None) -> Batch:
        """Returns a batch of decoded files, with padding up to this number of rows."""
        if weights in self._forms:
            raise InvalidArgument(
                f"Decode: the function returns the column '{weights}', which is also the name of the column of weights; "
                "give `weights` another name"
            )
        padding = [b""] * (rows - len(kept))
        decoded: Batch = {"name": Ragged(*join_texts([path for path, _ in kept] + padding))}
        for name, form in self._forms.items():
            column = np.zeros((rows, *form.shape), form.dtype)
            for row, (_, arrays) in enumerate(kept):
                column[row] = arrays[name]
            decoded[name] = column
        if weights is not None:
            decoded[weights] = (np.arange(rows) < len(kept)).astype(np.float32)
        return decoded

    def _decode_rows(self, rows: range, paths: list[bytes], contents: Ragged) -> list[Arrays | DecodeFailed]:
        return [self._decode(paths[row], contents[row].tobytes()) for row in rows]

    def _decode(self, path: bytes, content: bytes) -> Arrays | DecodeFailed:
        name = os.fsdecode(path)
        try:
            columns = self._function(name, content)
            if not isinstance(columns, Mapping):
                raise InvalidArgument(f"the function returned {columns!r}; expected a dict of arrays")
            return {column: np.asarray(value) for column, value in columns.items()}
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
