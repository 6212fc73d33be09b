# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Horovod's operations for PyTorch's tensors.

Of all of them: a tensor is dense memory of the CPU and contiguous; ``name`` matches the ranks' calls (without one they match by
their order, in each process set by itself); ``process_set`` says which ranks do it together. The blocking forms without ``_`` at
the end are functions of autograd; the others have no gradient. An ``_async`` form returns a handle, a number, for ``poll()`` and
``synchronize()``: leave its tensors alone until then. Threads: any.

Errors, of all of them: ValueError, what this rank alone can see is wrong, also where the name is pending here already;
HorovodInternalError, where the ranks disagree (Mismatch, on all of them), where a rank has died (Aborted), and without init().
"""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

import torch

import rueda
from rueda import _group_names, _native, errors
from rueda._native import Handle
from rueda.errors import HorovodInternalError, InvalidArgument
from rueda.torch import _basics, timeline
from rueda.torch._basics import (
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    rocm_built,
    shutdown,
    size,
)
from rueda.torch._errors import NotInitialized, Refused
from rueda.torch._tensors import tensor_of, tensors_of, with_received_splits
from rueda.torch.compression import Compression
from rueda.torch.process_sets import ProcessSet, global_process_set
from rueda.types import Adasum, Average, Max, Min, Product, Sum

__all__ = [
    "Adasum",
    "Average",
    "HorovodInternalError",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "rocm_built",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "synchronize",
]

#: What allreduce takes for ``average``, ``op`` and so on is Horovod's; an op is a number.
Op: TypeAlias = int

T = TypeVar("T")

# Pending operations and those whose result nobody has asked for yet, by handle.
_handle_map: dict[int, Handle[Any]] = {}
_next_handle = itertools.count(1)  # next() of it is one step under the GIL: threads need no lock
_basics._at_end.append(_handle_map.clear)


@contextmanager
def _as_horovod(operation: str, process_set: ProcessSet) -> Iterator[None]:
    """Raises what Horovod's callers expect in place of what a call raised."""
    try:
        yield
    except errors.NotInitialized as error:
        raise NotInitialized(f"{error}") from None
    except TypeError:
        if process_set.process_set_id is None:
            raise InvalidArgument(
                f"{operation}: {process_set!r} is not known to the job: give it to hvd.init(process_sets=...) or to "
                "hvd.add_process_set()"
            ) from None
        raise


def _started(operation: str, handle: Handle[Any]) -> int:
    number = next(_next_handle)
    _handle_map[number] = handle
    if timeline._current is not None:
        timeline.started(operation, handle)
    return number


def _wire_name(operation: str, name: str | None) -> str | None:
    """Operations of different kinds may have the same name at the same time."""
    return None if name is None else f"{operation}.{name}"


def _op_of(op: Op | None, average: bool | None) -> Op:
    if op is not None:
        if average is not None:
            raise ValueError("The op parameter supersedes average. Please provide only one of them.")
        return op
    if average is None:
        return Average
    warnings.warn(
        "Parameter `average` has been replaced with `op` and will be removed in v1.0", DeprecationWarning, stacklevel=3
    )
    return Average if average else Sum


def _needs_gradient(*tensors: torch.Tensor) -> bool:
    try:
        return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    except AttributeError:
        for tensor in tensors:
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(
                    f"{type(tensor).__name__} {tensor!r} is no tensor; expected a torch.Tensor, such as torch.tensor(...) of it"
                ) from None
        raise


# --- what is under way ------------------------------------------------------------------------------------------------


def poll(handle: int) -> bool:
    """Whether the operation has completed, so that synchronize() will not block.

    Raises:
        ValueError: there is no such operation, or its result was taken.

    Example::

        while not hvd.poll(handle):
            do_something_else()
    """
    pending = _handle_map.get(handle)
    if pending is None:
        raise InvalidArgument(f"Handle {handle} was not created or has been cleared.")
    return pending.poll()


def synchronize(handle: int) -> Any:
    """Block until the operation has completed, and give its result. Other threads run meanwhile, and signal handlers.

    Returns:
        The output tensor; a tuple of them for a group; ``(output, received_splits)`` for an alltoall. None for a handle that is
        not known or whose result was taken.

    Raises:
        HorovodInternalError: what the operation failed with. The tensors are the caller's again.

    Example::

        handle = hvd.allreduce_async(loss)
        loss = hvd.synchronize(handle)
    """
    pending = _handle_map.get(handle)
    if pending is None:
        return None
    try:
        result = pending.result()
    except Exception as error:
        if not pending.poll():  # a signal's handler has ended the wait: the operation goes on
            raise
        _handle_map.pop(handle, None)
        if isinstance(error, InvalidArgument):
            raise Refused(f"{error}") from None
        if isinstance(error, errors.NotInitialized):
            raise NotInitialized(f"{error}") from None
        raise
    _handle_map.pop(handle, None)
    return result


# --- allreduce --------------------------------------------------------------------------------------------------------


def _allreduce_into(
    tensor: torch.Tensor,
    output: torch.Tensor,
    name: str | None,
    op: Op,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
) -> int:
    try:
        handle = _native.allreduce_async(
            tensor,
            output,
            None if name is None else f"allreduce.{name}",
            op,
            prescale_factor,
            postscale_factor,
            output,
            process_set.process_set_id,  # type: ignore[arg-type]
            0,
        )
    except (errors.NotInitialized, TypeError):
        with _as_horovod("allreduce", process_set):
            raise
    return _started("allreduce", handle)


def allreduce_async(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """allreduce() that returns a handle at once, and has no gradient.

    Example::

        handle = hvd.allreduce_async(loss, name="loss")
        loss = hvd.synchronize(handle)
    """
    op = _op_of(op, average)
    output = torch.empty_like(tensor, requires_grad=False)
    return _allreduce_into(tensor, output, name, op, prescale_factor, postscale_factor, process_set)


def allreduce_async_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """allreduce_() that returns a handle at once.

    Example::

        handles = [hvd.allreduce_async_(p.grad, name=name) for name, p in model.named_parameters()]
        for handle in handles:
            hvd.synchronize(handle)
    """
    op = _op_of(op, average)
    return _allreduce_into(tensor, tensor, name, op, prescale_factor, postscale_factor, process_set)


class HorovodAllreduce(torch.autograd.Function):
    """The gradient of an allreduce is the same allreduce of the gradient."""

    @staticmethod
    def forward(ctx, tensor, average, name, op, prescale_factor, postscale_factor, process_set):  # type: ignore[no-untyped-def]
        ctx.name, ctx.op = name, _op_of(op, average)
        ctx.factors = prescale_factor, postscale_factor
        ctx.process_set = process_set
        return synchronize(allreduce_async(tensor, None, name, ctx.op, prescale_factor, postscale_factor, process_set))

    @staticmethod
    def backward(ctx, grad_output):  # type: ignore[no-untyped-def]
        name = _gradient_name(ctx.name)
        reduced = allreduce(
            _plain(grad_output),
            name=name,
            op=ctx.op,
            prescale_factor=ctx.factors[0],
            postscale_factor=ctx.factors[1],
            process_set=ctx.process_set,
        )
        return reduced, None, None, None, None, None, None


def _plain(gradient: torch.Tensor) -> torch.Tensor:
    """As what operations take; of one that is that, itself."""
    return gradient.contiguous().resolve_neg()


def _gradient_name(name: str | None) -> str | None:
    return None if name is None else f"{name}.gradient"


def allreduce(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Element i of the result is the reduction, in the order of the ranks, of element i of every rank's tensor.

    Args:
        tensor: of the same shape and dtype on every rank.
        average: use ``op``.
        compression: a Compressor: what the tensor becomes before, and the result after.
        op: Average (default), Sum, Min, Max, Product or Adasum. Averages of integers truncate toward zero; 16-bit floats are
            accumulated in float32.
        prescale_factor: every rank's tensor is multiplied by it first.
        postscale_factor: the result is multiplied by it last.

    Returns:
        A new tensor of the same shape and dtype. Its gradient is the same allreduce of the gradient: right for Average and Sum;
        for the others it is what Horovod defines.

    Example::

        mean_loss = hvd.allreduce(loss, name="loss")
    """
    compressed, context = compression.compress(tensor)
    if _needs_gradient(compressed):
        reduced = HorovodAllreduce.apply(compressed, average, name, op, prescale_factor, postscale_factor, process_set)
    else:
        reduced = synchronize(
            allreduce_async(compressed, None, name, _op_of(op, average), prescale_factor, postscale_factor, process_set)
        )
    return compression.decompress(reduced, context)  # type: ignore[no-any-return]


def allreduce_(
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """allreduce() in place, without a gradient. Returns the tensor.

    Example::

        hvd.allreduce_(counts, op=hvd.Sum, name="counts")
    """
    op = _op_of(op, average)
    return synchronize(  # type: ignore[no-any-return]
        _allreduce_into(tensor, tensor, name, op, prescale_factor, postscale_factor, process_set)
    )


# --- groups of allreduces ---------------------------------------------------------------------------------------------


def _grouped_allreduce_into(
    inputs: list[torch.Tensor],
    outputs: list[torch.Tensor],
    name: str | None,
    op: Op,
    prescale_factor: float,
    postscale_factor: float,
    process_set: ProcessSet,
) -> int:
    if not inputs:
        raise InvalidArgument("grouped_allreduce: there are no tensors; expected at least one")
    with (
        _as_horovod("grouped_allreduce", process_set),
        _group_names.group_name(_wire_name("grouped_allreduce", name), _number(process_set)) as unique,
    ):
        return _started(
            "grouped_allreduce",
            _native.grouped_allreduce_async(
                inputs, outputs, unique, op, prescale_factor, postscale_factor, tuple(outputs), _number(process_set), 0
            ),
        )


def _number(process_set: ProcessSet) -> int:
    return process_set.process_set_id  # type: ignore[return-value]  # None is refused by the native call


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """grouped_allreduce() that returns one handle for all at once, and has no gradient.

    Example::

        handle = hvd.grouped_allreduce_async([weight, bias], name="layer1")
        weight, bias = hvd.synchronize(handle)
    """
    op = _op_of(op, average)
    outputs = [torch.empty_like(tensor, requires_grad=False) for tensor in tensors]
    return _grouped_allreduce_into(list(tensors), outputs, name, op, prescale_factor, postscale_factor, process_set)


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """grouped_allreduce_() that returns one handle for all at once.

    Example::

        hvd.synchronize(hvd.grouped_allreduce_async_([weight, bias], name="layer1"))
    """
    op = _op_of(op, average)
    own = list(tensors)
    return _grouped_allreduce_into(own, own, name, op, prescale_factor, postscale_factor, process_set)


class HorovodGroupedAllreduce(torch.autograd.Function):
    """As HorovodAllreduce, of several tensors."""

    @staticmethod
    def forward(ctx, average, name, op, prescale_factor, postscale_factor, process_set, *tensors):  # type: ignore[no-untyped-def]
        ctx.name, ctx.op = name, _op_of(op, average)
        ctx.factors = prescale_factor, postscale_factor
        ctx.process_set = process_set
        return synchronize(
            grouped_allreduce_async(tensors, None, name, ctx.op, prescale_factor, postscale_factor, process_set)
        )

    @staticmethod
    def backward(ctx, *grad_outputs):  # type: ignore[no-untyped-def]
        reduced = grouped_allreduce(
            [_plain(gradient) for gradient in grad_outputs],
            name=_gradient_name(ctx.name),
            op=ctx.op,
            prescale_factor=ctx.factors[0],
            postscale_factor=ctx.factors[1],
            process_set=ctx.process_set,
        )
        return (None, None, None, None, None, None, *reduced)


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: Any = Compression.none,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """An allreduce of each of the tensors, with one name; either all are started or none.

    Args:
        tensors: as many on every rank, at least one; shapes and dtypes may differ within the group.
        name: the members are called ``<name>_<i>of<count>``.

    Returns:
        A new tensor for each, with gradients as of allreduce().

    Example::

        weight, bias = hvd.grouped_allreduce([weight, bias], name="layer1")
    """
    compressed, contexts = zip(*map(compression.compress, tensors), strict=True) if tensors else ((), ())
    if _needs_gradient(*compressed):
        reduced = HorovodGroupedAllreduce.apply(
            average, name, op, prescale_factor, postscale_factor, process_set, *compressed
        )
    else:
        reduced = synchronize(
            grouped_allreduce_async(
                compressed, None, name, _op_of(op, average), prescale_factor, postscale_factor, process_set
            )
        )
    return [compression.decompress(tensor, context) for tensor, context in zip(reduced, contexts, strict=True)]


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: Op | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """grouped_allreduce() in place, without a gradient. Returns the tensors.

    Example::

        hvd.grouped_allreduce_([weight, bias], name="layer1")
    """
    op = _op_of(op, average)
    own = list(tensors)
    return list(
        synchronize(_grouped_allreduce_into(own, own, name, op, prescale_factor, postscale_factor, process_set))
    )


def sparse_allreduce_async(
    tensor: torch.Tensor, name: str | None, op: Op, process_set: ProcessSet = global_process_set
) -> Callable[[], torch.Tensor]:
    """The sum or the average of sparse tensors (torch.sparse_coo), by two allgathers, ``<name>.indices`` and ``<name>.values``.

    What several ranks have in one place stays several entries: ``coalesce()`` adds them.

    Args:
        op: Average, which divides by the number of ranks, or Sum.

    Returns:
        A function that waits and gives the sparse tensor.

    Example::

        total = hvd.sparse_allreduce_async(embedding.weight.grad, "embedding", hvd.Sum)
        gradient = total().coalesce()
    """
    if tensor.layout != torch.sparse_coo:
        raise InvalidArgument(
            f"sparse_allreduce_async: the tensor's layout is {tensor.layout}; expected torch.sparse_coo"
        )
    if op not in (Average, Sum):
        raise InvalidArgument(f"sparse_allreduce_async: op is {op!r}; expected hvd.Average or hvd.Sum")
    indices_of, values_of = (None, None) if name is None else (f"{name}.indices", f"{name}.values")
    # The values first: where these cannot be sent, nothing has been started.
    values = allgather_async(tensor._values().contiguous(), values_of, process_set)
    indices = allgather_async(tensor._indices().t().contiguous(), indices_of, process_set)

    def ended() -> torch.Tensor:
        # Both are waited for, also where the first has failed.
        try:
            where = synchronize(indices)
        finally:
            what = synchronize(values)
        if op == Average:
            what = what / process_set.size() if what.is_floating_point() else _truncated(what, process_set.size() or 1)
        return torch.sparse_coo_tensor(where.t(), what, tensor.size(), **_UNCHECKED)

    return _every_time(ended)


def _every_time(wait: Callable[[], T]) -> Callable[[], T]:
    """What a handle gives once, result or error, at every call."""
    outcome: Future[T] = Future()
    one_waits = threading.Lock()  # and the others for that

    def result() -> T:
        with one_waits:
            if not outcome.done():
                try:
                    outcome.set_result(wait())
                except HorovodInternalError as error:
                    outcome.set_exception(error)
        return outcome.result()

    return result


# What ranks have sent was a sparse tensor there. Newer versions warn where one does not say whether to check it again.
_UNCHECKED: dict[str, Any] = (
    {"check_invariants": False} if hasattr(torch.sparse, "check_sparse_tensor_invariants") else {}
)


def _truncated(total: torch.Tensor, count: int) -> torch.Tensor:
    return torch.div(total, count, rounding_mode="trunc")


# --- allgather --------------------------------------------------------------------------------------------------------


def allgather_async(tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> int:
    """allgather() that returns a handle at once, and has no gradient.

    Example::

        predictions = hvd.synchronize(hvd.allgather_async(predictions))
    """
    with _as_horovod("allgather", process_set):
        return _started(
            "allgather",
            _native.allgather_async(tensor, None, _wire_name("allgather", name), tensor_of, _number(process_set)),
        )


class HorovodAllgather(torch.autograd.Function):
    """The gradient is this rank's rows of the average of the ranks' gradients."""

    @staticmethod
    def forward(ctx, tensor, name, process_set):  # type: ignore[no-untyped-def]
        ctx.name, ctx.process_set = name, process_set
        gathered = synchronize(allgather_async(tensor, name, process_set))
        ctx.rows = tensor.shape[0]
        return gathered

    @staticmethod
    def backward(ctx, grad_output):  # type: ignore[no-untyped-def]
        (gradient,) = _own_rows([grad_output], [ctx.rows], ctx.name, ctx.process_set)
        return gradient, None, None


def _own_rows(
    gradients: Sequence[torch.Tensor], rows: Sequence[int], name: str | None, process_set: ProcessSet
) -> list[torch.Tensor]:
    """Of each of the gathered gradients, averaged over the ranks, the rows that came from this rank."""
    base = _gradient_name(name)
    everyones = allgather(torch.tensor([list(rows)]), None if base is None else f"{base}.rows", process_set)
    averages = grouped_allreduce(
        [_plain(gradient) for gradient in gradients], name=base, op=Average, process_set=process_set
    )
    before = everyones[: process_set.rank()].sum(dim=0).tolist()
    return [average.narrow(0, first, count) for average, first, count in zip(averages, before, rows, strict=True)]


def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """The ranks' tensors, one after the other along the first dimension, which may differ; the others must agree.

    Returns:
        A new tensor. Its gradient is Horovod's: this rank's rows of the *average* of the ranks' gradients.

    Example::

        everyones_predictions = hvd.allgather(predictions)
    """
    if _needs_gradient(tensor):
        return HorovodAllgather.apply(tensor, name, process_set)  # type: ignore[no-any-return]
    return synchronize(allgather_async(tensor, name, process_set))  # type: ignore[no-any-return]


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """grouped_allgather() that returns one handle for all at once, and has no gradient.

    Example::

        predictions, labels = hvd.synchronize(hvd.grouped_allgather_async([predictions, labels]))
    """
    if not tensors:
        raise InvalidArgument("grouped_allgather: there are no tensors; expected at least one")
    with (
        _as_horovod("grouped_allgather", process_set),
        _group_names.group_name(_wire_name("grouped_allgather", name), _number(process_set)) as unique,
    ):
        return _started(
            "grouped_allgather",
            _native.grouped_allgather_async(list(tensors), unique, tensors_of, _number(process_set)),
        )


class HorovodGroupedAllgather(torch.autograd.Function):
    """As HorovodAllgather, of several tensors."""

    @staticmethod
    def forward(ctx, name, process_set, *tensors):  # type: ignore[no-untyped-def]
        ctx.name, ctx.process_set = name, process_set
        gathered = synchronize(grouped_allgather_async(tensors, name, process_set))
        ctx.rows = [tensor.shape[0] for tensor in tensors]
        return gathered

    @staticmethod
    def backward(ctx, *grad_outputs):  # type: ignore[no-untyped-def]
        return (None, None, *_own_rows(grad_outputs, ctx.rows, ctx.name, ctx.process_set))


def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[torch.Tensor]:
    """An allgather of each of the tensors, with one name; either all are started or none.

    Example::

        predictions, labels = hvd.grouped_allgather([predictions, labels])
    """
    if _needs_gradient(*tensors):
        return list(HorovodGroupedAllgather.apply(name, process_set, *tensors))
    return list(synchronize(grouped_allgather_async(tensors, name, process_set)))


# --- broadcast --------------------------------------------------------------------------------------------------------


def _broadcast_into(
    tensor: torch.Tensor, output: torch.Tensor, root_rank: int, name: str | None, process_set: ProcessSet
) -> int:
    with _as_horovod("broadcast", process_set):
        return _started(
            "broadcast",
            _native.broadcast_async(
                tensor, output, root_rank, _wire_name("broadcast", name), output, _number(process_set)
            ),
        )


def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """broadcast() that returns a handle at once, and has no gradient.

    Example::

        weights = hvd.synchronize(hvd.broadcast_async(weights, 0))
    """
    return _broadcast_into(tensor, torch.empty_like(tensor, requires_grad=False), root_rank, name, process_set)


def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """broadcast_() that returns a handle at once.

    Example::

        hvd.synchronize(hvd.broadcast_async_(weights, 0))
    """
    return _broadcast_into(tensor, tensor, root_rank, name, process_set)


class HorovodBroadcast(torch.autograd.Function):
    """The gradient is the average of the ranks' gradients on the root, and zero elsewhere."""

    @staticmethod
    def forward(ctx, tensor, root_rank, name, process_set):  # type: ignore[no-untyped-def]
        ctx.name, ctx.process_set, ctx.root_rank = name, process_set, root_rank
        return synchronize(broadcast_async(tensor, root_rank, name, process_set))

    @staticmethod
    def backward(ctx, grad_output):  # type: ignore[no-untyped-def]
        gradient = allreduce(
            _plain(grad_output), name=_gradient_name(ctx.name), op=Average, process_set=ctx.process_set
        )
        if rank() != ctx.root_rank:
            gradient.zero_()
        return gradient, None, None, None


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """The root's tensor, on every rank.

    Args:
        tensor: of the same shape and dtype on every rank; read on the root only.
        root_rank: a rank of the job, also in a process set.

    Returns:
        A new tensor. Its gradient is the average of the ranks' gradients on the root, and zero elsewhere.

    Example::

        weights = hvd.broadcast(weights, root_rank=0)
    """
    if _needs_gradient(tensor):
        return HorovodBroadcast.apply(tensor, root_rank, name, process_set)  # type: ignore[no-any-return]
    return synchronize(broadcast_async(tensor, root_rank, name, process_set))  # type: ignore[no-any-return]


def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """broadcast() in place, without a gradient. Returns the tensor.

    Example::

        hvd.broadcast_(weights, root_rank=0)
    """
    return synchronize(broadcast_async_(tensor, root_rank, name, process_set))  # type: ignore[no-any-return]


# --- alltoall ---------------------------------------------------------------------------------------------------------


def _rows_of(splits: torch.Tensor | Sequence[int] | None) -> list[int] | None:
    """What was given as splits, as numbers."""
    if splits is None:
        return None
    if not isinstance(splits, torch.Tensor):
        return list(splits)
    if splits.dtype != torch.int32:
        raise InvalidArgument(
            f"alltoall expects a 32-bit integer splits tensor; its dtype is {splits.dtype}: give splits.int(), or a list"
        )
    if splits.dim() != 1:
        raise InvalidArgument(f"alltoall expects a 1D splits tensor; it has {splits.dim()} dimensions")
    return splits.tolist()  # type: ignore[no-any-return]


def alltoall_async(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """alltoall() that returns a handle at once, and has no gradient. synchronize() always gives ``(output, received_splits)``.

    Example::

        received, counts = hvd.synchronize(hvd.alltoall_async(rows, splits))
    """
    rows = _rows_of(splits)
    # Rows beyond the sum of the splits are sent to nobody.
    if rows is not None and tensor.dim() > 0 and all(count >= 0 for count in rows) and sum(rows) < tensor.shape[0]:
        tensor = tensor[: sum(rows)]
    with _as_horovod("alltoall", process_set):
        return _started(
            "alltoall",
            _native.alltoall_async(
                tensor, None, rows, _wire_name("alltoall", name), with_received_splits, _number(process_set)
            ),
        )


class HorovodAlltoall(torch.autograd.Function):
    """The gradients go back the way the rows came."""

    @staticmethod
    def forward(ctx, tensor, splits, name, process_set):  # type: ignore[no-untyped-def]
        ctx.name, ctx.process_set = name, process_set
        output, received = synchronize(alltoall_async(tensor, splits, name, process_set))
        ctx.rows = tensor.shape[0]
        ctx.received = received
        ctx.mark_non_differentiable(received)
        return output, received

    @staticmethod
    def backward(ctx, grad_output, _no_gradient):  # type: ignore[no-untyped-def]
        gradient, _ = alltoall(_plain(grad_output), ctx.received, _gradient_name(ctx.name), ctx.process_set)
        unsent = ctx.rows - gradient.shape[0]
        if unsent > 0:
            gradient = torch.cat([gradient, gradient.new_zeros((unsent, *gradient.shape[1:]))])
        return gradient, None, None, None


def alltoall(
    tensor: torch.Tensor,
    splits: torch.Tensor | Sequence[int] | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Every rank has some rows for each rank, and gets what the others have for it, in the order of the ranks.

    Args:
        splits: how many rows go to each rank of the set, a list or an int32 tensor of one dimension; rows beyond their sum go
            nowhere. None: as many to each.

    Returns:
        The output; with ``splits``, ``(output, received_splits)``: how many rows came from each rank, int32.

    Raises:
        ValueError: splits that cannot be.

    Example::

        received, counts = hvd.alltoall(rows, splits=[1] * hvd.size())
    """
    if _needs_gradient(tensor):
        output, received = HorovodAlltoall.apply(tensor, splits, name, process_set)
    else:
        output, received = synchronize(alltoall_async(tensor, splits, name, process_set))
    return output if splits is None else (output, received)


# --- reducescatter ----------------------------------------------------------------------------------------------------


def reducescatter_async(
    tensor: torch.Tensor,
    name: str | None = None,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """reducescatter() that returns a handle at once, and has no gradient.

    Example::

        mine = hvd.synchronize(hvd.reducescatter_async(gradient, op=hvd.Sum))
    """
    with _as_horovod("reducescatter", process_set):
        return _started(
            "reducescatter",
            _native.reducescatter_async(
                tensor,
                None,
                _wire_name("reducescatter", name),
                op,
                prescale_factor,
                postscale_factor,
                tensor_of,
                _number(process_set),
            ),
        )


class HorovodReducescatter(torch.autograd.Function):
    """The gradient is an allgather of the gradients, times what Horovod multiplies it with."""

    @staticmethod
    def forward(ctx, tensor, name, op, process_set, prescale_factor, postscale_factor):  # type: ignore[no-untyped-def]
        ctx.name, ctx.process_set = name, process_set
        ctx.factor = _gradient_factor(op, process_set, prescale_factor, postscale_factor)
        return synchronize(reducescatter_async(tensor, name, op, process_set, prescale_factor, postscale_factor))

    @staticmethod
    def backward(ctx, grad_output):  # type: ignore[no-untyped-def]
        gradient = allgather(_plain(grad_output * ctx.factor), _gradient_name(ctx.name), ctx.process_set)
        return gradient, None, None, None, None, None


def _gradient_factor(op: Op, process_set: ProcessSet, prescale_factor: float, postscale_factor: float) -> float:
    """Of a reducescatter. Horovod's: a sum's gradient is multiplied by the number of ranks."""
    return (process_set.size() or 1 if op == Sum else 1) * prescale_factor * postscale_factor


def reducescatter(
    tensor: torch.Tensor,
    name: str | None = None,
    compression: Any = Compression.none,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """The reduction of an allreduce, divided along the first dimension: every rank gets its rows.

    Where they cannot be shared evenly, the first ranks get one more.

    Args:
        op: Average (default), Sum, Min, Max or Product.

    Example::

        mine = hvd.reducescatter(gradient, op=hvd.Sum)
    """
    compressed, context = compression.compress(tensor)
    if _needs_gradient(compressed):
        reduced = HorovodReducescatter.apply(compressed, name, op, process_set, prescale_factor, postscale_factor)
    else:
        reduced = synchronize(reducescatter_async(compressed, name, op, process_set, prescale_factor, postscale_factor))
    return compression.decompress(reduced, context)  # type: ignore[no-any-return]


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """grouped_reducescatter() that returns one handle for all at once, and has no gradient.

    Example::

        weight, bias = hvd.synchronize(hvd.grouped_reducescatter_async([weight, bias]))
    """
    if not tensors:
        raise InvalidArgument("grouped_reducescatter: there are no tensors; expected at least one")
    with (
        _as_horovod("grouped_reducescatter", process_set),
        _group_names.group_name(_wire_name("grouped_reducescatter", name), _number(process_set)) as unique,
    ):
        return _started(
            "grouped_reducescatter",
            _native.grouped_reducescatter_async(
                list(tensors), unique, op, prescale_factor, postscale_factor, tensors_of, _number(process_set)
            ),
        )


class HorovodGroupedReducescatter(torch.autograd.Function):
    """As HorovodReducescatter, of several tensors."""

    @staticmethod
    def forward(ctx, name, op, process_set, prescale_factor, postscale_factor, *tensors):  # type: ignore[no-untyped-def]
        ctx.name, ctx.process_set = name, process_set
        ctx.factor = _gradient_factor(op, process_set, prescale_factor, postscale_factor)
        return synchronize(
            grouped_reducescatter_async(tensors, name, op, process_set, prescale_factor, postscale_factor)
        )

    @staticmethod
    def backward(ctx, *grad_outputs):  # type: ignore[no-untyped-def]
        gradients = grouped_allgather(
            [_plain(gradient * ctx.factor) for gradient in grad_outputs],
            _gradient_name(ctx.name),
            ctx.process_set,
        )
        return (None, None, None, None, None, *gradients)


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    compression: Any = Compression.none,
    op: Op = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """A reducescatter of each of the tensors, with one name; either all are started or none.

    Example::

        weight, bias = hvd.grouped_reducescatter([weight, bias])
    """
    compressed, contexts = zip(*map(compression.compress, tensors), strict=True) if tensors else ((), ())
    if _needs_gradient(*compressed):
        reduced = HorovodGroupedReducescatter.apply(
            name, op, process_set, prescale_factor, postscale_factor, *compressed
        )
    else:
        reduced = synchronize(
            grouped_reducescatter_async(compressed, name, op, process_set, prescale_factor, postscale_factor)
        )
    return [compression.decompress(tensor, context) for tensor, context in zip(reduced, contexts, strict=True)]


# --- without tensors --------------------------------------------------------------------------------------------------


def join(device: int = -1) -> int:
    """For ranks that have fewer batches than others: blocks until every rank has called it.

    Meanwhile the others' allreduces go on as if this rank gave zeros; what needs something of every rank (allgather, broadcast,
    alltoall, reducescatter) fails on theirs.

    Args:
        device: not used: a joined rank needs no memory.

    Returns:
        The rank that joined last, the same on all.

    Example::

        for batch in batches:  # more on some ranks than on others
            train(batch)
        hvd.join()
    """
    with _as_horovod("join", global_process_set):
        return rueda.join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of the set has called it.

    Example::

        hvd.barrier()
    """
    with _as_horovod("barrier", process_set):
        rueda.barrier(process_set=process_set)
