# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Gives all ranks the same initial values: parameters, the state of optimizers, any Python object."""

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

try:  # cloudpickle can also pickle lambdas and classes of the main program
    import cloudpickle as _pickler
except ImportError:
    _pickler = pickle

__all__ = ["allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"]

#: A rank that could not pickle its object sends this value instead of a length.
_NO_OBJECT = -1


def broadcast_parameters(params: Any, root_rank: int) -> None:
    """Copies the root's values into every rank's tensors, in place, so that all ranks begin with the same model.

    Args:
        params: a dict of tensors, such as ``model.state_dict()``, or an iterable. The iterable yields tensors, or pairs
            of a name and a tensor, such as ``model.named_parameters()``.
        root_rank: the rank whose values all ranks get.

    Raises: ValueError: ``params`` has another type, or an element is not a tensor. The other ranks raise an error that
        quotes this error's text. Mismatch: the names or the roots differ between ranks, or a shape or a dtype differs.
        Different names or roots are found before anything is written.

    Example::

        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    """
    named: list[tuple[str, torch.Tensor]] = []
    unfit: Exception | None = None
    try:
        named = _named_tensors(params)
    except (
        # Catches every exception, also one from the iterator of the parameters, because the other ranks must be told.
        Exception
    ) as failure:
        unfit = failure
    _agree("broadcast_parameters", [name for name, _ in named], root_rank, unfit)
    with torch.no_grad():
        _broadcast_all(named, root_rank)


def _agree(function: str, names: list[str], root_rank: int, failure: Exception | None) -> None:
    """Makes all ranks raise an error if one rank cannot take part, or if the ranks differ. Otherwise some ranks would
    wait forever.
    """
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
    """Checks a tensor before any operation is started. If a rank failed after it has started some operations, the other
    ranks would wait.
    """
    try:
        plain = tensor.detach()
        as_it_is = plain.layout != torch.strided or (plain.is_contiguous() and not plain.is_neg())
        # a strided tensor that Rueda cannot use directly is copied, so only its dtype and device are checked
        _native.check_writable(plain if as_it_is else plain.new_empty(0))
    except Exception as error:
        raise InvalidArgument(f"{what}: {error}") from error


def _broadcast_all(named: Iterable[tuple[str, torch.Tensor]], root_rank: int) -> None:
    """Broadcasts the tensors in place. If one operation fails, the function still waits for all operations, because
    Rueda must not use the tensors after the function has returned.
    """
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
    """Gives every rank's optimizer the root's state and options, in place.

    Every rank gets the root's options of all parameter groups, even if an optimizer has no state. Every rank also gets
    the root's whole state: if the root has no state for a parameter, the other ranks lose their state for it. The types
    of values do not change.

    If a rank's optimizer has no state yet, the gradients of all parameters that require a gradient become zero tensors
    instead of None. Horovod does the same.

    Args:
        optimizer: a DistributedOptimizer or a plain optimizer. Every rank must have constructed it in the same way,
            with the parameters in the same order.
        root_rank: the rank whose state all ranks get.
        model: not used.

    Raises:
        ValueError: the optimizer is a torch.optim.LBFGS; Horovod does not accept it either.
        Mismatch, on all ranks: the ranks have different numbers of groups or parameters.

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
        device = _gpu_of(optimizer)
        tensors = [
            torch.empty(shape, dtype=dtype, device=device if is_on_gpu else "cpu")
            for shape, dtype, is_on_gpu in plan["tensors"]
        ]
    with torch.no_grad():
        _broadcast_all(
            [(f"broadcast_optimizer_state.{index}", tensor) for index, tensor in enumerate(tensors)], root_rank
        )
    if not optimizer.state:
        _set_gradients_to_zero(optimizer)
    if not mine:
        _apply(plan, tensors, optimizer)


def _gpu_of(optimizer: torch.optim.Optimizer) -> torch.device:
    """Returns the GPU of this rank's parameters. If no parameter is on a GPU, returns the current GPU."""
    devices = (parameter.device for parameter in _parameters(optimizer) if parameter.is_cuda)
    return next(devices, torch.device("cuda"))


def _set_gradients_to_zero(optimizer: torch.optim.Optimizer) -> None:
    """Sets all gradients to zero tensors. Horovod creates the state by a step with zero gradients, and some programs
    rely on these gradients.
    """
    for parameter in _parameters(optimizer):
        if parameter.requires_grad:
            zeros = torch.zeros_like(parameter, requires_grad=False)
            parameter.grad = zeros.to_sparse() if isinstance(optimizer, torch.optim.SparseAdam) else zeros


class _Place:
    """Replaces a tensor in an object that is pickled. The tensors themselves are sent separately, in a list. `number`
    is the tensor's index in this list.
    """

    def __init__(self, number: int) -> None:
        self.number = number


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _plan_of(optimizer: torch.optim.Optimizer, tensors: list[torch.Tensor]) -> dict[str, Any]:
    """Returns the optimizer's state and options, with a _Place for each tensor. Adds the tensors to `tensors`."""

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
        # The state of a tensor that is no longer a parameter is skipped, because no parameter of another rank
        # corresponds to it.
        "state": [entry for entry in state if entry[0] is not None],
        "groups": groups,
        "tensors": [(tuple(tensor.shape), tensor.dtype, tensor.is_cuda) for tensor in tensors],
    }


def _mapped(value: Any, function: Any) -> Any:
    """Returns a copy of a dict, list or tuple, with `function` applied to each entry. Other values stay the same."""
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

    # The dicts are changed in place, because learning-rate schedulers and programs refer to them.
    optimizer.state.clear()
    for key, value in plan["state"]:
        optimizer.state[parameters[key] if isinstance(key, int) else key] = with_tensors(value)
    for group, options in zip(optimizer.param_groups, plan["groups"], strict=True):
        for key in set(group) - set(options) - {"params"}:
            del group[key]
        group.update(with_tensors(options))


def _pickled(obj: Any) -> memoryview:
    """Returns the pickled object as writable bytes, without copying the bytes."""
    buffer = io.BytesIO()
    _pickler.dump(obj, buffer, pickle.HIGHEST_PROTOCOL)
    return buffer.getbuffer()


def broadcast_object(
    obj: Any, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Gives every rank the root's Python object, of any size. Objects that other ranks pass are ignored.

    The object is sent as a pickle, which cloudpickle makes if cloudpickle is installed. The ranks of a job must trust
    each other.

    Args:
        root_rank: the root's rank in the job, also in a process set.
        name: the name of the operation. Its two broadcasts are named ``<name>.sz`` and ``<name>.t``. If it is None, the
            calls of different ranks are matched by their order.

    Raises:
        If pickling fails, the root raises the exception of pickle, and the other ranks raise a HorovodInternalError
        that names the root.

    Example::

        epoch = hvd.broadcast_object(epoch, root_rank=0, name="epoch")
    """
    is_root = _basics.rank() == root_rank
    failure: Exception | None = None
    pickled = memoryview(bytearray())
    if is_root:
        try:
            pickled = _pickled(obj)
        # The error is raised only after the other ranks were told about it. Otherwise they would wait forever.
        except Exception as error:
            failure = error
    size = torch.tensor([_NO_OBJECT if failure else len(pickled)], dtype=torch.int64, device="cpu")
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
    """Returns a list of the Python objects of all ranks, in the order of the ranks. The objects may have any size.

    Raises:
        If a rank cannot pickle its object, that rank raises the exception, and the other ranks raise a
        HorovodInternalError that names the rank.

    Example::

        hosts = hvd.allgather_object(socket.gethostname())
    """
    failure: Exception | None = None
    pickled = memoryview(bytearray())
    try:
        pickled = _pickled(obj)
    except Exception as error:
        failure = error
    mine = torch.tensor([_NO_OBJECT if failure else len(pickled)], dtype=torch.int64, device="cpu")
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
    """Returns the bytes of all ranks, one after the other, in memory that Rueda allocated."""

    def memory_of(memory: Any, *_described: Any) -> Any:
        return memory

    return _native.allgather_async(data, None, name, memory_of, 0).result()
