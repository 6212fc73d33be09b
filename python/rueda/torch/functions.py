# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""What all ranks have to begin with alike: parameters, the state of optimizers, any Python object."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from rueda import _collectives, _native
from rueda.errors import HorovodInternalError, InvalidArgument, Mismatch
from rueda.torch import _basics
from rueda.torch._errors import Refused
from rueda.torch.operations.allgather import allgather
from rueda.torch.operations.broadcast import broadcast_, broadcast_async_
from rueda.torch.operations.handles import as_horovod, synchronize
from rueda.torch.process_sets import ProcessSet, global_process_set

try:  # takes lambdas and classes of the main program as well
    import cloudpickle as _pickler
except ImportError:
    _pickler = pickle

__all__ = ["allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"]

#: In place of a length: the root could not pickle its object.
_NO_OBJECT = -1


def broadcast_parameters(params: Any, root_rank: int) -> None:
    """Write the root's values into every rank's tensors, in place: so that all begin from the same model.

    Args:
        params: a dict of tensors, such as ``model.state_dict()``; or tensors, or pairs of a name and a tensor, in a list or
            whatever gives them one after the other, such as ``model.named_parameters()``.
        root_rank: whose values they are.

    Raises:
        ValueError: this is neither, or has something in it that is no tensor. On the other ranks an error that says so.
        Mismatch: the names or the roots differ between ranks. On all ranks, and before anything is written. Or a shape or a
            dtype differs.

    Example::

        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    """
    named: list[tuple[str, torch.Tensor]] = []
    unfit: Exception | None = None
    try:
        named = _named_tensors(params)
    except Exception as failure:  # of any kind, also of what gives the parameters: the others are to hear of it
        unfit = failure
    _agree("broadcast_parameters", [name for name, _ in named], root_rank, unfit)
    with torch.no_grad():
        _broadcast_all(named, root_rank)


def _agree(function: str, names: list[str], root_rank: int, failure: Exception | None) -> None:
    """An error on every rank where one cannot take part, or they do not have the same: none waits for ever."""
    everyones = allgather_object((names, root_rank, failure and f"{type(failure).__name__}: {failure}"), function)
    if failure is not None:
        raise failure
    for rank, (_, _, problem) in enumerate(everyones):
        if problem is not None:
            raise Refused(f"{function}: rank {rank} cannot take part, and nothing was sent: {problem}")
    first, first_root, _ = everyones[0]
    for rank, (theirs, root, _) in enumerate(everyones):
        if root != first_root:
            raise Mismatch(f"{function}: the root is rank {root} on rank {rank}, and rank {first_root} on rank 0")
        lacks, surplus = sorted(set(first) - set(theirs)), sorted(set(theirs) - set(first))
        if lacks or surplus:
            said = [f"lacks {_few(lacks)}"] if lacks else []
            said += [f"has {_few(surplus)}, which rank 0 lacks"] if surplus else []
            raise Mismatch(f"{function}: rank {rank} {' and '.join(said)}; give the same names on every rank")


def _few(names: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def _named_tensors(params: Any) -> list[tuple[str, torch.Tensor]]:
    pairs: list[Any]
    if isinstance(params, Mapping):
        pairs = sorted(params.items())
    elif isinstance(params, Iterable) and not isinstance(params, torch.Tensor | str | bytes):
        pairs = [entry if isinstance(entry, tuple) else (None, entry) for entry in params]
    else:
        raise InvalidArgument(
            f"broadcast_parameters: invalid params of type: {type(params)}; expected a dict, such as model.state_dict(), or "
            "a list of tensors or of (name, tensor)"
        )
    named = []
    for index, pair in enumerate(pairs):
        if len(pair) != 2 or not isinstance(pair[1], torch.Tensor):
            raise InvalidArgument(
                f"broadcast_parameters: entry {index} is {type(pair[-1]).__name__} {pair[0]!r}; expected a tensor"
            )
        name = f"parameter.{index}" if pair[0] is None else str(pair[0])
        _check_travels(f"broadcast_parameters: {name!r}", pair[1])
        named.append((name, pair[1]))
    names = [name for name, _ in named]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InvalidArgument(f"broadcast_parameters: {_few(twice)} twice; names have to differ")
    return named


def _check_travels(what: str, tensor: torch.Tensor) -> None:
    """Before anything is started: an error of one rank in the middle would have the others wait."""
    try:
        plain = tensor.detach()
        as_it_is = plain.layout != torch.strided or (plain.is_contiguous() and not plain.is_neg())
        _native.check_writable(plain if as_it_is else plain.new_empty(0))  # others are copied
    except Exception as error:
        raise InvalidArgument(f"{what}: {error}") from error


def _broadcast_all(named: Iterable[tuple[str, torch.Tensor]], root_rank: int) -> None:
    """In place. All are waited for, so that the tensors are the caller's again also where one fails."""
    pending = []
    for name, tensor in named:
        plain = tensor.detach()
        dense = plain if plain.is_contiguous() and not plain.is_neg() else plain.contiguous().resolve_neg()
        pending.append((broadcast_async_(dense, root_rank, name), plain, dense))
    failures: list[Exception] = []
    for handle, plain, dense in pending:
        try:
            synchronize(handle)
        except HorovodInternalError as failure:
            failures.append(failure)
            continue
        if dense is not plain:
            plain.copy_(dense)
    if failures:
        raise failures[0]


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: Any = None) -> None:
    """Give every rank's optimizer the root's state and options, in place.

    All options of all parameter groups come from the root, also of optimizers without state, and the whole state as the root
    has it: a state that is empty there is empty everywhere. Types survive.

    As with Horovod, where a rank's optimizer has no state yet, the gradient of each of its parameters that requires one is a zero
    tensor afterwards, and not None.

    Args:
        optimizer: made alike on every rank, with the parameters in the same order; a DistributedOptimizer or a plain one.
        root_rank: whose state it is.
        model: not used.

    Raises:
        ValueError: torch.optim.LBFGS, as with Horovod.
        Mismatch: the ranks have different numbers of groups or parameters; on all of them.

    Example::

        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    """
    unfit = None
    if isinstance(optimizer, torch.optim.LBFGS):
        unfit = InvalidArgument("cannot broadcast torch.optim.LBFGS state")
    counts = [str(len(group["params"])) for group in optimizer.param_groups]
    groups = [f"group {i} of {count} parameters" for i, count in enumerate(counts)]
    tensors: list[torch.Tensor] = []
    plan = None
    mine = _basics.rank() == root_rank
    if mine and unfit is None:
        try:
            plan = _plan_of(optimizer, tensors)
        except InvalidArgument as failure:
            unfit = failure
    _agree("broadcast_optimizer_state", groups, root_rank, unfit)
    plan = broadcast_object(plan, root_rank, "broadcast_optimizer_state")
    if not mine:
        tensors = [torch.empty(shape, dtype=dtype) for shape, dtype in plan["tensors"]]
    with torch.no_grad():
        _broadcast_all(
            [(f"broadcast_optimizer_state.{index}", tensor) for index, tensor in enumerate(tensors)], root_rank
        )
    if not optimizer.state:
        _set_gradients_to_zero(optimizer)
    if not mine:
        _apply(plan, tensors, optimizer)


def _set_gradients_to_zero(optimizer: torch.optim.Optimizer) -> None:
    """Horovod makes the state by a step of zero gradients, and programs rely on gradients that are there."""
    for parameter in _parameters(optimizer):
        if parameter.requires_grad:
            zeros = torch.zeros_like(parameter, requires_grad=False)
            parameter.grad = zeros.to_sparse() if isinstance(optimizer, torch.optim.SparseAdam) else zeros


class _Place:
    """Of a tensor in what is pickled: its number among those that travel by themselves."""

    def __init__(self, number: int) -> None:
        self.number = number


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _plan_of(optimizer: torch.optim.Optimizer, tensors: list[torch.Tensor]) -> dict[str, Any]:
    """What is not a tensor, with places for those that are; these go to `tensors`."""

    def without_tensors(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            _check_travels(f"broadcast_optimizer_state: a tensor of shape {tuple(value.shape)}", value)
            tensors.append(value.detach())
            return _Place(len(tensors) - 1)
        return _mapped(value, without_tensors)

    numbers = {id(parameter): number for number, parameter in enumerate(_parameters(optimizer))}
    state = [
        (numbers.get(id(key), None if isinstance(key, torch.Tensor) else key), without_tensors(value))
        for key, value in optimizer.state.items()
    ]
    groups = [
        {key: without_tensors(value) for key, value in group.items() if key != "params"}
        for group in optimizer.param_groups
    ]
    return {
        # A state of a tensor that is no parameter any more has no place elsewhere.
        "state": [entry for entry in state if entry[0] is not None],
        "groups": groups,
        "tensors": [(tuple(tensor.shape), tensor.dtype) for tensor in tensors],
    }


def _mapped(value: Any, function: Any) -> Any:
    """The same collection, with the function of each entry."""
    if isinstance(value, dict):
        return type(value)((key, function(entry)) for key, entry in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(function(entry) for entry in value))
    if isinstance(value, list | tuple):
        return type(value)(function(entry) for entry in value)
    return value


def _apply(plan: dict[str, Any], tensors: list[torch.Tensor], optimizer: torch.optim.Optimizer) -> None:
    parameters = _parameters(optimizer)

    def with_tensors(value: Any) -> Any:
        return tensors[value.number] if isinstance(value, _Place) else _mapped(value, with_tensors)

    # In place: learning-rate schedulers and users hold on to these dicts.
    optimizer.state.clear()
    for key, value in plan["state"]:
        optimizer.state[parameters[key] if isinstance(key, int) else key] = with_tensors(value)
    for group, options in zip(optimizer.param_groups, plan["groups"], strict=True):
        for key in set(group) - set(options) - {"params"}:
            del group[key]
        group.update(with_tensors(options))


def _pickled(obj: Any) -> memoryview:
    """The object as bytes that can be written, without a copy of them."""
    buffer = io.BytesIO()
    _pickler.dump(obj, buffer, pickle.HIGHEST_PROTOCOL)
    return buffer.getbuffer()


def broadcast_object(
    obj: Any, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """The root's Python object, on every rank, of any size. What the other ranks give is ignored.

    It travels as a pickle (by cloudpickle, where that is installed): the ranks of a job trust each other.

    Args:
        root_rank: a rank of the job, also in a process set.
        name: of its two broadcasts, ``<name>.sz`` and ``<name>.t``; None: matched by the order of the calls.

    Raises:
        What pickling raises, on the root; and HorovodInternalError, that names the root, on the others.

    Example::

        epoch = hvd.broadcast_object(epoch, root_rank=0, name="epoch")
    """
    is_root = _basics.rank() == root_rank
    failure: Exception | None = None
    pickled = memoryview(bytearray())
    if is_root:
        try:
            pickled = _pickled(obj)
        except Exception as error:  # the others are told before it is raised: they would wait for ever
            failure = error
    size = torch.tensor([_NO_OBJECT if failure else len(pickled)], dtype=torch.int64)
    broadcast_(size, root_rank, name and f"{name}.sz", process_set)
    if failure is not None:
        raise failure
    if size.item() == _NO_OBJECT:
        raise HorovodInternalError(
            f"broadcast_object: rank {root_rank} could not pickle its object; its error says why"
        )
    if is_root:
        _broadcast_bytes(pickled, root_rank, name, process_set)
        return obj
    received = memoryview(bytearray(int(size.item())))
    _broadcast_bytes(received, root_rank, name, process_set)
    return pickle.loads(received)


def _broadcast_bytes(data: memoryview, root_rank: int, name: str | None, process_set: ProcessSet) -> None:
    wire_name = None if name is None else f"broadcast.{name}.t"
    with as_horovod("broadcast_object", process_set):
        _collectives.broadcast_(data, root_rank, wire_name, process_set=process_set)


def allgather_object(obj: Any, name: str | None = None) -> list[Any]:
    """Every rank's Python object, in the order of the ranks, of any size.

    Raises:
        What pickling raises, on the rank whose object it is; and HorovodInternalError, that names that rank, on the others.

    Example::

        hosts = hvd.allgather_object(socket.gethostname())
    """
    failure: Exception | None = None
    pickled = memoryview(bytearray())
    try:
        pickled = _pickled(obj)
    except Exception as error:
        failure = error
    mine = torch.tensor([_NO_OBJECT if failure else len(pickled)], dtype=torch.int64)
    sizes = allgather(mine, name and f"{name}.sz").tolist()
    if failure is not None:
        raise failure
    if _NO_OBJECT in sizes:
        raise HorovodInternalError(
            f"allgather_object: rank {sizes.index(_NO_OBJECT)} could not pickle its object; its error says why"
        )
    with as_horovod("allgather_object", global_process_set):
        everything = memoryview(_gathered(pickled, None if name is None else f"allgather.{name}.t"))
    if min(sizes) < 0 or sum(sizes) != len(everything):
        raise HorovodInternalError(
            f"allgather_object: the ranks announced {sizes} bytes, and {len(everything)} came: some rank did something else"
        )
    objects, begin = [], 0
    for size in sizes:
        objects.append(pickle.loads(everything[begin : begin + size]))
        begin += size
    return objects


def _gathered(data: memoryview, name: str | None) -> Any:
    """The ranks' bytes, one after the other, in Rueda's memory."""

    def memory_of(memory: Any, *_described: Any) -> Any:
        return memory

    return _native.allgather_async(data, None, name, memory_of, 0).result()
