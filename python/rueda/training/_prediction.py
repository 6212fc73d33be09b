# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Prediction on all ranks, with the outputs in the order of the inputs."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from rueda import _collectives, _lifecycle, _objects, _roots
from rueda._tensors import Tensor, numpy
from rueda.errors import Internal, InvalidArgument, Mismatch
from rueda.training import _trees
from rueda.training._sampler import shard


def predict(
    function: Callable[[range], Tensor], count: int, *, batch_size: int = 256, root_rank: int | None = None
) -> Tensor | None:
    """Divides inputs among the ranks, and merges the outputs in the order of the inputs. All ranks must make the call.

    Each rank predicts its contiguous share (see shard()), batch by batch. The shares may differ by one input, and ranks
    without inputs are allowed.

    Args:
        function: is called with a batch of inputs, as a range of their indices. It returns a NumPy array or a PyTorch
            tensor with one row for each input. It must not call operations of Rueda, because the ranks may have
            different numbers of batches.
        count: the number of inputs.
        batch_size: the largest number of inputs in a call of ``function``.
        root_rank: the rank that gets the outputs. If it is None, all ranks get them.

    Returns:
        The outputs, in the CPU's memory: a PyTorch tensor if ``function`` returns those, otherwise a NumPy array. None on
        ranks other than the root.

    Raises:
        If ``function`` fails on some ranks, these ranks raise its exception. The other ranks raise Internal, which
        names the first rank that failed and its error.
        InvalidArgument: an argument is out of its range, or an output has another number of rows than its batch.
        Mismatch: the ranks' outputs have different dtypes or shapes of rows. All ranks raise it.

    Example::

        scores = rueda.training.predict(lambda batch: model(inputs[list(batch)]), len(inputs))
    """
    if batch_size < 1:
        raise InvalidArgument(f"predict: batch_size is {batch_size}; it must be at least 1")
    try:
        mine = shard(operator.index(count))
    except TypeError as error:
        raise InvalidArgument(
            f"predict: count is {count!r}; expected the number of inputs, for example len(inputs)"
        ) from error
    outputs: list[Any] = []
    failure: Exception | None = None
    rows, kind = None, ""
    try:
        with _lifecycle.busy("predict"):
            for begin in range(mine.start, mine.stop, batch_size):
                batch = range(begin, min(begin + batch_size, mine.stop))
                outputs.append(_checked(function(batch), batch))
        rows, kind = _concatenated(outputs)
    except Exception as error:  # catches every exception, because the other ranks must be told
        failure = error
    form = None if rows is None else (str(rows.dtype), tuple(rows.shape[1:]), kind)
    text = None if failure is None else f"{type(failure).__name__}: {failure}"
    everyones = _objects.allgather_object((form, text), "rueda.training.predict.forms")
    if failure is not None:
        raise failure
    forms = []
    for rank, (theirs, problem) in enumerate(everyones):
        if problem is not None:
            raise Internal(f"predict: the function failed on rank {rank}: {problem}")
        if theirs is not None:
            forms.append((rank, theirs))
    for rank, theirs in forms:
        if theirs != forms[0][1]:
            raise Mismatch(
                f"predict: rank {forms[0][0]} has rows of {_text(forms[0][1])}, and rank {rank} has rows of "
                f"{_text(theirs)}; return the same form on every rank"
            )
    if not forms:
        return numpy().empty((0,)) if root_rank in (None, _lifecycle.rank()) else None
    dtype, shape, kind = forms[0][1]
    if rows is None:
        rows = numpy().empty((0, *shape), dtype)
    merged: Any
    if root_rank is None:
        merged = _collectives.allgather(rows, "rueda.training.predict")
    else:
        merged = _roots.gather(rows, root_rank, "rueda.training.predict")
    return _as_torch(merged) if kind == "torch" and merged is not None else merged


def _checked(output: Any, batch: range) -> Any:
    if not (_trees.is_torch(output) or _trees.is_array(output)):
        raise InvalidArgument(
            f"predict: the function returned a {type(output).__name__} for the inputs {batch.start} to {batch.stop - 1}; "
            "expected a NumPy array or a PyTorch tensor"
        )
    if output.ndim == 0 or len(output) != len(batch):
        raise InvalidArgument(
            f"predict: the function returned the shape {list(output.shape)} for {len(batch)} inputs; expected one row for "
            "each input"
        )
    return output


def _concatenated(outputs: list[Any]) -> tuple[Any, str]:
    """Returns all rows as one NumPy array, and the library of the outputs: "torch" or "numpy"."""
    if not outputs:
        return None, ""
    if _trees.is_torch(outputs[0]):
        return _trees.torch_if_loaded().cat([each.detach().cpu() for each in outputs]).numpy(), "torch"
    return numpy().concatenate(outputs), "numpy"


def _as_torch(rows: Any) -> Any:
    # The array may lie in Rueda's memory, which is read-only for PyTorch, so the rows are copied.
    return _trees.torch_if_loaded().tensor(rows, device="cpu") if _trees.torch_if_loaded() is not None else rows


def _text(form: tuple[str, tuple[int, ...], str]) -> str:
    return f"{form[0]} {list(form[1])}"
