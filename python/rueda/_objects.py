# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Sends Python objects and collections of arrays between ranks. This module uses the operations on tensors."""

from __future__ import annotations

import io
import itertools
import operator
import pickle
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from rueda import _collectives, _native
from rueda._process_sets import ProcessSet, global_process_set
from rueda._tensors import Tensor, has_buffer, numpy
from rueda.errors import Internal, InvalidArgument, Mismatch

T = TypeVar("T")


class _Pickled:
    """A pickled object, or the reason why pickling failed. A negative length means that pickling failed. In this case
    the bytes are a text that tells the other ranks why.
    """

    def __init__(self, obj: object) -> None:
        np = numpy()
        self.failure: Exception | None = None
        try:
            data = pickle.dumps(obj, pickle.HIGHEST_PROTOCOL)
        # every exception is caught, because without a message the other ranks would wait forever
        except Exception as failure:
            self.failure = failure
            data = _words_of(failure).encode(errors="backslashreplace")
        self.bytes = np.frombuffer(data, np.uint8)
        self.length = np.array([len(data) if self.failure is None else -len(data)], np.int64)


def _words_of(failure: Exception) -> str:
    try:
        return f"{type(failure).__name__}: {failure}"
    except Exception:  # str() of the error failed, but the other ranks need a message
        return type(failure).__name__


def _not_pickled(function: str, rank: int, reason: bytes) -> InvalidArgument:
    why = reason.decode(errors="replace")
    return InvalidArgument(f"{function}: rank {rank} could not pickle its object: {why}")


def broadcast_object(
    obj: T, root_rank: int = 0, name: str | None = None, *, process_set: ProcessSet = global_process_set
) -> T:
    """Gives every rank the root's Python object. Objects that other ranks pass are ignored.

    The object is sent as a pickle. The ranks of a job must therefore trust each other, and every rank needs the
    object's class.

    Raises:
        If pickling fails, the root raises the exception of pickle. The other ranks raise InvalidArgument with its text.
            In addition, the errors of broadcast() are possible.

    Example::

        epoch = rueda.broadcast_object(epoch, root_rank=0)
    """
    np = numpy()
    is_root = _native.rank() == root_rank
    pickled = _Pickled(obj) if is_root else None
    length = np.zeros(1, np.int64) if pickled is None else pickled.length
    _collectives.broadcast_(length, root_rank, name and f"{name}.length", process_set=process_set)
    if pickled is not None:
        _collectives.broadcast(pickled.bytes, root_rank, name, process_set=process_set)
        if pickled.failure is not None:
            raise pickled.failure
        return obj
    received = _collectives.broadcast_(
        np.empty(abs(int(length[0])), np.uint8), root_rank, name, process_set=process_set
    )
    if length[0] < 0:
        raise _not_pickled("broadcast_object", root_rank, received.tobytes())
    return pickle.load(io.BytesIO(received))  # type: ignore[no-any-return]


def allgather_object(obj: T, name: str | None = None, *, process_set: ProcessSet = global_process_set) -> list[T]:
    """Returns a list of the Python objects of all ranks, in the order of the ranks. The list contains a copy of this
    rank's own object. The objects are sent as pickles.

    Raises:
        If a rank cannot pickle its object, that rank raises the exception of pickle. The other ranks raise
        InvalidArgument with its text; the message names the first rank that failed.

    Example::

        hosts = rueda.allgather_object(socket.gethostname())
    """
    pickled = _Pickled(obj)
    lengths = _collectives.allgather(pickled.length, name and f"{name}.lengths", process_set=process_set)
    everything = _collectives.allgather(pickled.bytes, name, process_set=process_set)
    if pickled.failure is not None:
        raise pickled.failure
    sizes = [
        abs(int(length)) for length in lengths
    ]  # Python's integers cannot overflow when these lengths from other processes are added
    if len(sizes) != len(process_set.ranks) or sum(sizes) != everything.size:
        raise Internal(
            f"allgather_object: the ranks announced {sizes} bytes, and {everything.size} came: some rank did something else"
        )
    ends = itertools.accumulate(sizes)
    parts = [everything[end - size : end].tobytes() for end, size in zip(ends, sizes, strict=True)]
    for rank, length, part in zip(process_set.ranks, lengths, parts, strict=True):
        if length < 0:
            raise _not_pickled("allgather_object", rank, part)
    return [pickle.loads(part) for part in parts]


def _named(parameters: Any, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """Yields the tensors in nested dicts, lists, tuples and (name, tensor) pairs. Each tensor comes with its path in
    the collection.
    """
    if isinstance(parameters, Mapping):
        for key, value in parameters.items():
            yield from _named(value, f"{prefix}.{key}")
    elif isinstance(parameters, tuple) and len(parameters) == 2 and isinstance(parameters[0], str):
        yield from _named(parameters[1], f"{prefix}.{parameters[0]}")
    elif isinstance(parameters, list | tuple) or (
        isinstance(parameters, Iterable)
        # a string is not searched: its elements are strings, too, so the search would never end
        and not isinstance(parameters, str)
        and not hasattr(parameters, "shape")
        and not has_buffer(parameters)
    ):
        for index, value in enumerate(parameters):
            pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
            yield from _named(value, prefix if pair else f"{prefix}.{index}")
    else:
        yield prefix, parameters


def _check_each(named: list[tuple[str, Tensor]], root_rank: int, process_set: ProcessSet) -> None:
    """Raises the errors that this rank can see without other ranks. Call it before any operation is started."""
    if operator.index(root_rank) not in process_set.ranks:
        raise InvalidArgument(
            f"broadcast_parameters: the root rank is {root_rank}; expected one of {process_set.ranks}"
        )
    names = [path for path, _ in named]
    if len(set(names)) != len(names):
        twice = sorted({path for path in names if names.count(path) > 1})
        raise InvalidArgument(f"broadcast_parameters: {_few(twice)} twice; names have to differ")
    for path, tensor in named:
        _native.TensorSlot(path)  # raises an error if the path cannot be a name
        try:
            _native.check_writable(tensor)
        except (InvalidArgument, TypeError) as error:
            kind = InvalidArgument if isinstance(error, InvalidArgument) else TypeError
            raise kind(f"broadcast_parameters: '{path}': {error}") from error


def _check_alike(names: list[str], failure: Exception | None, process_set: ProcessSet) -> None:
    """Makes all ranks raise an error if one rank has failed, or if the ranks have different parameters. Otherwise some
    ranks would wait forever.
    """
    mine = (names, failure and f"{type(failure).__name__}: {failure}")
    everyones = allgather_object(mine, "rueda.broadcast_parameters", process_set=process_set)
    if failure is not None:
        raise failure
    for member, (_, problem) in enumerate(everyones):
        if problem is not None:
            rank = process_set.ranks[member]
            raise InvalidArgument(
                f"broadcast_parameters: rank {rank} cannot take part, and nothing was sent: {problem}"
            )
    first_names = set(everyones[0][0])
    for member, (listed, _) in enumerate(everyones):
        theirs = set(listed)
        if theirs != first_names:
            rank, first = process_set.ranks[member], process_set.ranks[0]
            missing = sorted(first_names - theirs)
            surplus = sorted(theirs - first_names)
            lacks = f" lacks {_few(missing)}" if missing else ""
            has = f"{' and' if missing else ''} has {_few(surplus)}, which rank {first} lacks" if surplus else ""
            raise Mismatch(f"broadcast_parameters: rank {rank}{lacks}{has}; give the same names on every rank")


def _few(names: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def broadcast_parameters(
    parameters: Any,
    root_rank: int = 0,
    name: str = "parameters",
    *,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Copies the root's values into every rank's tensors, so that all ranks begin with the same model.

    Args:
        parameters: a dict, a list or an iterable of (name, tensor) pairs; these may be nested. The tensors must be
            contiguous and writable, and must have the same shape and dtype on every rank.
        root_rank: the rank whose values all ranks get.
        name: a prefix for the names of the tensors, which appear in error messages.
        process_set: the ranks that take part.

    Raises:
        InvalidArgument, TypeError: an element is not a writable tensor, or a name cannot be used. All ranks raise an
            error, and no tensor has changed. If an iterable raises an exception on one rank, the other ranks raise
            InvalidArgument.
        Mismatch: the names differ between ranks, or a shape or dtype differs. Different names are found before anything
            is written.

    Example::

        rueda.broadcast_parameters({"weight": weight, "bias": bias}, root_rank=0)
    """
    named: list[tuple[str, Tensor]] = []
    unfit = None
    try:
        named = list(_named(parameters, name))
        _check_each(named, root_rank, process_set)
    except Exception as failure:  # every exception is caught, because the other ranks must be told
        unfit = failure
    _check_alike([path for path, _ in named], unfit, process_set)
    failures: list[Exception] = []
    handles = []
    # this rank must start the other operations even if one cannot be started, because other ranks start them too
    for path, tensor in named:
        try:
            handles.append(_collectives.broadcast_async_(tensor, root_rank, path, process_set=process_set))
        except Exception as failure:
            failures.append(failure)
    failures += [failure for failure in map(_failure_of, handles) if failure is not None]
    if failures:
        raise failures[0]


def _failure_of(handle: _native.Handle[Any]) -> Exception | None:
    try:
        handle.wait()
    # even after an error, the caller must wait for the other operations, because they still use the tensors
    except Exception as failure:
        return failure
    return None
