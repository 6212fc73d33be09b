# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Python objects and collections of arrays, by the operations on tensors."""

from __future__ import annotations

import io
import operator
import pickle
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from rueda import _collectives, _native
from rueda._process_sets import ProcessSet, global_process_set
from rueda._tensors import Tensor, has_buffer, numpy
from rueda.errors import InvalidArgument, Mismatch

T = TypeVar("T")


def broadcast_object(
    obj: T, root_rank: int = 0, name: str | None = None, *, process_set: ProcessSet = global_process_set
) -> T:
    """The root's Python object, on every rank. What the other ranks give is ignored.

    It travels as a pickle: the ranks of a job trust each other, and an object of a class needs that class everywhere.

    Raises:
        What pickle raises on the root, on that rank alone and before any rank is asked for something: the others wait,
        and their stall report names the root. Otherwise as broadcast().

    Example::

        epoch = rueda.broadcast_object(epoch, root_rank=0)
    """
    np = numpy()
    is_root = _native.rank() == root_rank
    pickled = np.frombuffer(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL) if is_root else b"", np.uint8)
    length = np.array([pickled.size], np.int64)
    _collectives.broadcast_(length, root_rank, name and f"{name}.length", process_set=process_set)
    if is_root:
        _collectives.broadcast(pickled, root_rank, name, process_set=process_set)
        return obj
    received = _collectives.broadcast_(np.empty(int(length[0]), np.uint8), root_rank, name, process_set=process_set)
    return pickle.load(io.BytesIO(received))  # type: ignore[no-any-return]


def allgather_object(obj: T, name: str | None = None, *, process_set: ProcessSet = global_process_set) -> list[T]:
    """Every rank's Python object, in the order of the ranks; this rank's as a copy. They travel as pickles.

    Example::

        hosts = rueda.allgather_object(socket.gethostname())
    """
    np = numpy()
    pickled = np.frombuffer(pickle.dumps(obj, pickle.HIGHEST_PROTOCOL), np.uint8)
    lengths = _collectives.allgather(
        np.array([pickled.size], np.int64), name and f"{name}.lengths", process_set=process_set
    )
    everything = _collectives.allgather(pickled, name, process_set=process_set)
    ends = np.cumsum(lengths)
    return [pickle.loads(everything[end - length : end].tobytes()) for end, length in zip(ends, lengths, strict=True)]


def _named(parameters: Any, prefix: str) -> Iterator[tuple[str, Tensor]]:
    """The tensors of dicts, lists, tuples and (name, tensor) pairs in one another, each with the way to it."""
    if isinstance(parameters, Mapping):
        for key, value in parameters.items():
            yield from _named(value, f"{prefix}.{key}")
    elif isinstance(parameters, tuple) and len(parameters) == 2 and isinstance(parameters[0], str):
        yield from _named(parameters[1], f"{prefix}.{parameters[0]}")
    elif isinstance(parameters, list | tuple) or (
        isinstance(parameters, Iterable)
        and not isinstance(parameters, str)  # whose elements are such again, without end
        and not hasattr(parameters, "shape")
        and not has_buffer(parameters)
    ):
        for index, value in enumerate(parameters):
            pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)
            yield from _named(value, prefix if pair else f"{prefix}.{index}")
    else:
        yield prefix, parameters


def _check_each(named: list[tuple[str, Tensor]], root_rank: int, process_set: ProcessSet) -> None:
    """What one rank alone can see, before anything is started."""
    if operator.index(root_rank) not in process_set.ranks:
        raise InvalidArgument(
            f"broadcast_parameters: the root rank is {root_rank}; expected one of {process_set.ranks}"
        )
    names = [path for path, _ in named]
    if len(set(names)) != len(names):
        twice = sorted({path for path in names if names.count(path) > 1})
        raise InvalidArgument(f"broadcast_parameters: {_few(twice)} twice; names have to differ")
    for path, tensor in named:
        _native.TensorSlot(path)  # whether that can be a name
        try:
            _native.check_writable(tensor)
        except (InvalidArgument, TypeError) as error:
            kind = InvalidArgument if isinstance(error, InvalidArgument) else TypeError
            raise kind(f"broadcast_parameters: '{path}': {error}") from error


def _check_alike(names: list[str], failure: Exception | None, process_set: ProcessSet) -> None:
    """An error on every rank where one has failed, or they do not have the same parameters: none waits for ever."""
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
    """Write the root's values into every rank's tensors: so that all begin from the same model.

    Args:
        parameters: a dict, a list or an iterable of (name, tensor), also in one another. The tensors are contiguous,
            writable, and of the same shape and dtype on every rank.
        root_rank: whose values they are.
        name: before the tensors' own names, in messages.
        process_set: whose ranks take part.

    Raises:
        InvalidArgument, TypeError: something is no tensor that can be written, or no name; on all ranks, before anything is
            written. Whatever an iterable raises on one rank is InvalidArgument on the others.
        Mismatch: the names differ between ranks (on all ranks, before anything is written); or a shape or dtype does.

    Example::

        rueda.broadcast_parameters({"weight": weight, "bias": bias}, root_rank=0)
    """
    named: list[tuple[str, Tensor]] = []
    unfit = None
    try:
        named = list(_named(parameters, name))
        _check_each(named, root_rank, process_set)
    except Exception as failure:  # of any kind: the others are to hear of it
        unfit = failure
    _check_alike([path for path, _ in named], unfit, process_set)
    failures: list[Exception] = []
    handles = []
    for path, tensor in named:  # all that can be started, as the other ranks start them
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
    except Exception as failure:  # all of them are waited for, so that the tensors are the caller's again
        return failure
    return None
