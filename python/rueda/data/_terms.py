# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Numbers for texts: hashes and vocabularies. The library computes them, for whole arrays and without the GIL."""

from __future__ import annotations

import dataclasses
import json
import operator
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rueda import _collectives, _native
from rueda.data._batches import Batch, Ragged, counted_rows
from rueda.errors import InvalidArgument

Texts = "Ragged | npt.NDArray[Any] | Sequence[str | bytes]"
Ids = "npt.NDArray[np.int64] | Ragged"


def address_of(array: npt.NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _as_bytes(what: str, index: int, text: Any) -> bytes:
    if not isinstance(text, bytearray | memoryview):  # refuses integers, because bytes(3) would give three zero bytes
        raise InvalidArgument(f"{what}: element {index} is {text!r} ({type(text).__name__}); expected str or bytes")
    return bytes(text)


def join_texts(
    texts: Iterable[str | bytes], what: str = "texts"
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Returns the bytes of all texts, and the offsets at which the texts begin. ``what`` begins the message of an error."""
    pieces = [
        text.encode() if isinstance(text, str) else text if isinstance(text, bytes) else _as_bytes(what, index, text)
        for index, text in enumerate(texts)
    ]
    offsets = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
    return np.frombuffer(b"".join(pieces), np.uint8), offsets


def _whole_numbers(elements: list[Any]) -> npt.NDArray[np.int64] | None:
    """Returns the elements as an array of integers if all of them are integers. Otherwise returns None, also for an
    empty list."""
    if not elements or not all(isinstance(each, int | np.integer) and not isinstance(each, bool) for each in elements):
        return None
    try:
        return np.array(elements, np.int64)
    except OverflowError as error:
        raise InvalidArgument(f"texts: {error}; expected integers of at most 64 bits") from error


class _Terms:
    """Texts or integers as arrays that the library reads."""

    def __init__(self, given: Any) -> None:
        self._finish: Callable[[npt.NDArray[np.int64]], Any]
        if isinstance(given, Ragged) and given.values.dtype == np.uint8:
            self._use_texts(given.values, given.offsets, (-1,) if given.width == 1 else (-1, given.width))
        elif isinstance(given, Ragged):
            self._use_integers(given.values)
            offsets = given.offsets
            self._finish = lambda ids: Ragged(ids, offsets)
        else:
            array = given if isinstance(given, np.ndarray) else None
            if array is not None and array.dtype.kind in "iu":
                self._use_integers(array)
            elif array is not None and array.dtype.kind not in "SUO":
                raise InvalidArgument(f"texts: the array has dtype {array.dtype}; expected texts or integers")
            elif isinstance(given, str | bytes | bytearray | memoryview):
                raise InvalidArgument(f"texts: {given!r} is one text; expected a list of texts")
            else:
                shape = (-1,) if array is None else array.shape
                elements = list(given) if array is None else array.ravel().tolist()
                integers = _whole_numbers(elements)
                if integers is not None:
                    self._use_integers(integers.reshape(shape))
                else:
                    self._use_texts(*join_texts(elements), shape)

    def _use_texts(self, values: npt.NDArray[Any], offsets: npt.NDArray[Any], shape: tuple[int, ...]) -> None:
        self._arrays = (np.ascontiguousarray(values), np.ascontiguousarray(offsets, np.int64))
        self.count = len(offsets) - 1
        self.tuple = (address_of(self._arrays[0]), len(values), address_of(self._arrays[1]), 0, self.count)
        self._finish = lambda ids: ids.reshape(shape)

    def _use_integers(self, values: npt.NDArray[Any]) -> None:
        if values.dtype.kind not in "iu" or (values.dtype == np.uint64 and values.size > 0 and values.max() >> 63):
            raise InvalidArgument(f"texts: the values have dtype {values.dtype}; expected integers of at most 64 bits")
        integers = np.ascontiguousarray(values, np.int64)
        self._arrays = (integers, integers)
        self.count = values.size
        self.tuple = (0, 0, 0, address_of(integers), self.count)
        self._finish = lambda ids: ids.reshape(values.shape)

    def ids(self, find: Callable[[tuple[int, int, int, int, int], int], None], counted: int | None = None) -> Any:
        """Calls the function ``find`` with these terms and the address of an array. ``find`` writes the ids into this
        array, which is returned. With ``counted``, ``find`` gets only so many terms; the ids of the other terms are 0.
        """
        ids = np.zeros(self.count, np.int64)
        find((*self.tuple[:4], self.count if counted is None else counted), address_of(ids))
        return self._finish(ids)


def _number(what: str, value: Any, least: int, most: int) -> int:
    try:
        number = operator.index(value)
    except TypeError as error:
        raise InvalidArgument(f"{what} is {value!r}; expected a whole number") from error
    if not least <= number <= most:
        raise InvalidArgument(f"{what} is {number}; it must be {least} to {most}")
    return number


def hash_texts(texts: Any, buckets: int, seed: int = 0) -> Any:
    """Returns the bucket of each text: XXH64 of its bytes with the seed, times the number of buckets, divided by 2^64.
    The buckets are the same on every machine, and the same as those of ``rueda::data::hash_texts``. An integer counts
    as its decimal text.

    Args:
        texts: a Ragged of texts or of integers, an array of integers or of texts, or a list of texts (str or bytes) or
            of integers.
        buckets: the number of buckets, at least 1.
        seed: other seeds give other buckets.

    Returns:
        An int64 array with a bucket for each text or integer. For a Ragged of integers, a Ragged.

    Raises:
        InvalidArgument: an argument cannot be used.

    Example::

        buckets = rueda.data.hash_texts(["red", "green"], buckets=1000)
    """
    buckets = _number("hashing: buckets", buckets, 1, 2**63 - 1)
    seed = _number("hashing: seed", seed, 0, 2**64 - 1)
    return _Terms(texts).ids(lambda terms, into: _native.data_hash(terms, seed, buckets, into))


class Vocabulary:
    """Numbers for the texts of a feature. The id of a term is its index in the list of terms, counted from 0. Unknown
    texts have the ids from ``most_terms`` to ``ids - 1``. So an embedding table needs ``ids`` rows, and a growing
    vocabulary never changes an id.

    A vocabulary that grows counts the unknown texts that look_up_and_count() finds. At a point that all ranks reach, all
    ranks call agree(), and the most frequent texts become terms. The ids depend only on what all ranks counted together,
    not on the number of ranks or on the order of the texts.

    A term is a text of 1 to 65,535 bytes in UTF-8 without newlines and carriage returns, and without a byte-order mark
    at its beginning. Other texts are always unknown, and are not counted. An integer counts as its decimal text.

    Threads: any thread may call every function; a lock lets one of them work at a time. agree() holds the lock while it
    waits for the other ranks.

    Args:
        terms: the path of a text file with one term in each line, or a list of texts. Empty by default, for a vocabulary
            that grows.
        most_terms: the largest number of terms. 0: the number of ``terms``. A vocabulary that grows needs a number.
        unknown_buckets: the number of ids for unknown texts. 1: all of them have the same id. 0: their id is -1.
        seed: for the buckets of unknown texts.
        grows: whether the vocabulary grows.
        min_count: a text becomes a term if all ranks together have counted it at least this many times.
        most_unknown: the largest number of different unknown texts that are counted. ``left_out`` counts the others.

    Raises:
        InvalidArgument: an argument cannot be used, or the file cannot be read: a line is empty or repeated, is not
            UTF-8, or there are too many lines. The message names the line.

    Example::

        colours = rueda.data.Vocabulary("colours.txt")
        colours = rueda.data.Vocabulary(["red", "green"])
        assert colours.look_up(["green", "pink"]).tolist() == [1, 2]
    """

    def __init__(
        self,
        terms: str | os.PathLike[str] | Iterable[str] = (),
        *,
        most_terms: int = 0,
        unknown_buckets: int = 1,
        seed: int = 0,
        grows: bool = False,
        min_count: int = 1,
        most_unknown: int = 1_000_000,
    ) -> None:
        options: dict[str, Any] = {
            "most_terms": operator.index(most_terms),
            "unknown_buckets": operator.index(unknown_buckets),
            "seed": _number("vocabulary: seed", seed, 0, 2**64 - 1),
            "grows": bool(grows),
            "min_count": operator.index(min_count),
            "most_unknown": operator.index(most_unknown),
        }
        if isinstance(terms, str | os.PathLike):
            options["path"] = os.fspath(terms)
            if not options["path"]:
                raise InvalidArgument("vocabulary: the path of the file is empty; expected a path")
        else:
            options["terms"] = list(terms)
        self._vocabulary = _native.vocabulary_open(json.dumps(options, ensure_ascii=False))
        self._lock = threading.Lock()  # the library's functions run without the GIL, and some of them change the terms

    def _describe(self) -> dict[str, Any]:
        with self._lock:
            description: dict[str, Any] = json.loads(_native.vocabulary_describe(self._vocabulary))
        return description

    def __len__(self) -> int:
        """Returns the number of terms."""
        size: int = self._describe()["size"]
        return size

    @property
    def ids(self) -> int:
        """The number of ids: ``most_terms + unknown_buckets``."""
        ids: int = self._describe()["ids"]
        return ids

    @property
    def grows(self) -> bool:
        """Whether the vocabulary grows."""
        grows: bool = self._describe()["grows"]
        return grows

    @property
    def left_out(self) -> int:
        """How many unknown texts were not counted because of ``most_unknown``."""
        left_out: int = self._describe()["left_out"]
        return left_out

    def term(self, id: int) -> str:
        """Returns the term with this id.

        Raises:
            InvalidArgument: there is no such term.

        Example::

            name = colours.term(0)
        """
        with self._lock:
            return _native.vocabulary_term(self._vocabulary, operator.index(id))

    def terms(self) -> list[str]:
        """Returns all terms, in the order of their ids.

        Example::

            names = colours.terms()
        """
        return [self.term(id) for id in range(len(self))]

    def look_up(self, texts: Any) -> Any:
        """Returns the id of each text, and counts nothing. ``texts`` and the result have the forms that hash_texts()
        describes.

        Example::

            ids = colours.look_up(["red", "green"])
        """
        return self._look_up(texts, False)

    def look_up_and_count(self, texts: Any) -> Any:
        """Returns the id of each text, and counts the unknown texts if the vocabulary grows. Call it in the order of the
        batches, so that a resumed job counts the same texts.

        Example::

            ids = colours.look_up_and_count(batch["colour"])
        """
        return self._look_up(texts, True)

    def _look_up(self, texts: Any, counts: bool, counted: int | None = None) -> Any:
        terms = _Terms(texts)
        with self._lock:
            return terms.ids(
                lambda given, ids: _native.vocabulary_look_up(self._vocabulary, given, counts, ids), counted
            )

    def agree(self) -> int:
        """Exchanges the counts of the ranks, and makes terms of the most frequent texts. Texts with a higher count come
        first; texts with equal counts are sorted by their bytes. All ranks must call this function at the same point,
        for example at the end of an epoch. If a program has several vocabularies, all ranks must call it for them in
        the same order.

        Returns:
            The number of new terms.

        Raises:
            InvalidArgument: the ranks' vocabularies differed before. All ranks raise it.
            NotInitialized: rueda.init() was not called.

        Example::

            new_terms = colours.agree()
        """
        # The lock is held until the end. Otherwise texts could be counted between the two calls below, and the merge
        # would forget these counts.
        with self._lock:
            mine = np.frombuffer(_native.vocabulary_unmerged(self._vocabulary), np.uint8)
            everyones = np.asarray(_collectives.allgather(mine, "rueda.data.vocabulary"))
            return _native.vocabulary_merge(self._vocabulary, everyones.tobytes())

    def freeze(self) -> None:
        """Ends the growth, and forgets all counts.

        Example::

            colours.freeze()
        """
        with self._lock:
            _native.vocabulary_freeze(self._vocabulary)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the terms as a file from which a vocabulary can be made. The file appears at its path only when it is
        complete and flushed to the disk. Only one rank should save.

        Raises:
            InvalidArgument: the file cannot be written.
            ResourceExhausted: the disk is full.

        Example::

            if rueda.rank() == 0:
                colours.save("colours.txt")
        """
        with self._lock:
            _native.vocabulary_save(self._vocabulary, os.fsencode(path))

    def state_dict(self) -> dict[str, Any]:
        """Returns terms and counts, for a checkpoint. The state is that of the last agree(), so it is the same on all
        ranks. Texts that this rank has counted since are not in the state; if there are any, the first call logs a
        warning. Call agree() before each checkpoint to keep all counts.

        Example::

            manager.save(step, model, {"colours": colours})
        """
        with self._lock:
            state = _native.vocabulary_state(self._vocabulary)
        return {"vocabulary": np.frombuffer(state, np.uint8).copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues with the terms and counts of a state_dict(). If the saved vocabulary was frozen, this vocabulary
        becomes frozen, too.

        Raises:
            InvalidArgument: the state is damaged, its vocabulary had another ``most_terms``, ``unknown_buckets`` or
                ``seed``, or this vocabulary is frozen and has other terms. The vocabulary is unchanged.

        Example::

            colours.load_state_dict(colours.state_dict())
        """
        try:
            content = np.asarray(state["vocabulary"], np.uint8).tobytes()
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgument(
                "vocabulary: load_state_dict() got something that state_dict() did not return"
            ) from error
        with self._lock:
            _native.vocabulary_restore(self._vocabulary, content)


def _counted_terms(name: str, column: Any, counted: int, rows: int) -> int | None:
    """Returns how many terms of a column are in the first ``counted`` of its ``rows`` rows. Returns None for a
    ragged column of integers: its rows of padding have no terms, so all of its terms count.
    """
    if isinstance(column, Ragged) and column.values.dtype != np.uint8:
        return None
    terms = column.size if isinstance(column, np.ndarray) else len(column)
    if terms % max(rows, 1) != 0:
        raise InvalidArgument(
            f"LookUp: column '{name}' has {terms} terms for {rows} rows, so it is unclear which are padding"
        )
    return counted * (terms // max(rows, 1))


def _names_in(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _column(batch: Batch, name: str) -> Any:
    try:
        return batch[name]
    except KeyError as error:
        raise InvalidArgument(f"there is no column '{name}'; there are: {', '.join(batch)}") from error


@dataclasses.dataclass(frozen=True)
class Hash:
    """A map function for Pipeline: replaces texts and integers by their buckets, as hash_texts() does.

    Attributes:
        columns: the name of a column, or several names.
        buckets: the number of buckets.
        seed: other seeds give other buckets.

    Example::

        stage = rueda.data.Hash(["user", "page"], buckets=100_000)
    """

    columns: str | Sequence[str]
    buckets: int
    seed: int = 0

    def __post_init__(self) -> None:
        _number("hashing: buckets", self.buckets, 1, 2**63 - 1)
        _number("hashing: seed", self.seed, 0, 2**64 - 1)

    def _stage(self) -> dict[str, Any]:
        return {
            "kind": "hash",
            "columns": list(_names_in(self.columns)),
            "buckets": operator.index(self.buckets),
            "seed": operator.index(self.seed),
        }

    def __call__(self, batch: Batch) -> None:
        for name in _names_in(self.columns):
            batch[name] = hash_texts(_column(batch, name), self.buckets, self.seed)


class LookUp:
    """A map function for Pipeline: replaces texts and integers by their ids in a vocabulary.

    If the vocabulary grows, the ``for`` loop finds the ids, and not the library's threads. These threads work ahead, so
    with them the ids would depend on timing.

    With ``remainder="pad"``, padding is not counted, and its ids are 0. If a map function of yours calls a LookUp, it
    must pass the name of the column of weights: ``stage(batch, weights="weight")``.

    Args:
        columns: the name of a column, or several names.
        vocabulary: the vocabulary.
        count_unknown: True: a vocabulary that grows counts the unknown texts. Set it to False for evaluation.

    Example::

        stage = rueda.data.LookUp("colour", colours)
    """

    def __init__(self, columns: str | Sequence[str], vocabulary: Vocabulary, count_unknown: bool = True) -> None:
        if not isinstance(vocabulary, Vocabulary):
            raise InvalidArgument(f"LookUp: vocabulary is {vocabulary!r}; expected a Vocabulary")
        self.columns = _names_in(columns)
        self.vocabulary = vocabulary
        self.count_unknown = count_unknown

    def __call__(self, batch: Batch, weights: str | None = None) -> None:
        counted, rows = (0, 0) if weights is None else (counted_rows(batch, weights), len(batch[weights]))
        for name in self.columns:
            column = _column(batch, name)
            terms = None if weights is None else _counted_terms(name, column, counted, rows)
            batch[name] = self.vocabulary._look_up(column, self.count_unknown, terms)
