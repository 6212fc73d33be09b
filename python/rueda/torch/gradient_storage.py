# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The memory of gradients while they are reduced: PyTorch's own memory, or memory that the ranks of a host share."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

import torch

from rueda import _native
from rueda._lifecycle import job_number
from rueda.errors import InvalidArgument, NotInitialized, ResourceExhausted

Kind: TypeAlias = Literal["auto", "private", "copied", "view"]

#: The alignment in bytes of the memory for each gradient. With this alignment, each gradient begins on a cache line.
_ALIGNMENT = 64


def check(kind: str) -> None:
    """Raises InvalidArgument if `kind` is not one of the kinds of storage."""
    if kind not in get_args(Kind):
        raise InvalidArgument(f"gradient_storage is {kind!r}; expected 'auto', 'private', 'copied' or 'view'")


class ResidentStorage:
    """Memory for gradients that the ranks of a host share ("resident" memory). Each gradient has a place (its own part
    of this memory). The places are allocated when the first gradient needs a place. A place stays allocated as long as
    anything refers to it.

    tensor_for() makes a new tensor in a place, but only if nothing still refers to the earlier tensor there. So a
    gradient to which the program still refers does not change. This check works in every version of PyTorch, because a
    tensor holds a reference to its place as long as anything uses the tensor's memory.

    Threads: any thread, but only one at a time.
    """

    def __init__(self, *, expected: bool = True) -> None:
        """`expected` says whether the user asked for resident memory, which the ranks of a host share. In this case the
        user gets a warning if there is not enough of this memory.
        """
        self._places: dict[torch.Tensor, _Place] = {}
        self._expected = expected
        self._exhausted = False

    def holds(self, parameter: torch.Tensor, gradient: torch.Tensor) -> bool:
        """Returns True if the gradient lies in the place (the part of the shared memory) of its parameter."""
        place = self._places.get(parameter)
        return place is not None and gradient.data_ptr() == place.address

    def tensor_for(self, parameter: torch.Tensor, all_parameters: Iterable[torch.Tensor]) -> torch.Tensor | None:
        """Returns a tensor in the parameter's place, with the parameter's shape and dtype. The values of this tensor
        are not initialised. The first call makes the places of all parameters.

        Returns None in three cases. There is no memory left. The gradient has no elements. Or something still refers to
        the tensor that an earlier call made in this place.
        """
        if parameter.numel() == 0:
            return None
        place = self._places.get(parameter)
        if place is not None and not place.fits(parameter):
            del self._places[parameter]
            place = None
        if place is None and not self._exhausted:
            self._make(list(all_parameters))
            place = self._places.get(parameter)
        return place.tensor() if place is not None and place.references() <= _references_of_unused() else None

    def _has_place(self, parameter: torch.Tensor) -> bool:
        place = self._places.get(parameter)
        return place is not None and place.fits(parameter)

    def _make(self, parameters: list[torch.Tensor]) -> None:
        new = [parameter for parameter in parameters if parameter.numel() > 0 and not self._has_place(parameter)]
        begins, total = [], 0
        for parameter in new:
            begins.append(total)
            size = parameter.numel() * parameter.element_size()
            total += -(-size // _ALIGNMENT) * _ALIGNMENT
        try:
            memory = memoryview(_native.allocate(total))
        except ResourceExhausted as error:
            self._exhausted = True
            if self._expected:
                warnings.warn(f"rueda: gradients stay in private memory: {error}", stacklevel=2)
            return
        except NotInitialized:
            # The job has ended, so the ranks share no memory. This is an error only if the user asked for shared
            # memory. Otherwise the program must still be able to set a gradient to zero, because this needs no other
            # rank.
            if self._expected:
                raise
            return
        for parameter, begin in zip(new, begins, strict=True):
            end = begin + parameter.numel() * parameter.element_size()
            self._places[parameter] = _Place(memory[begin:end], parameter)


class _Place:
    """Memory for one gradient, with the gradient's shape and dtype."""

    __slots__ = ("address", "dtype", "job", "memory", "shape")

    def __init__(self, memory: memoryview, like: torch.Tensor) -> None:
        self.memory, self.shape, self.dtype, self.job = memory, like.shape, like.dtype, job_number()
        self.address = self.tensor().data_ptr()

    def fits(self, parameter: torch.Tensor) -> bool:
        # The ranks of a later job do not share the memory of an earlier job. Reductions in such memory would be slower.
        return parameter.shape == self.shape and parameter.dtype == self.dtype and self.job == job_number()

    def tensor(self) -> torch.Tensor:
        return torch.frombuffer(self.memory, dtype=self.dtype).view(self.shape)

    def references(self) -> int:
        """Returns the number of references to this object's memory. Each tensor that uses this memory adds one
        reference.
        """
        return sys.getrefcount(self.memory)


@functools.cache
def _references_of_unused() -> int:
    return _Place(memoryview(bytearray(4)), torch.zeros(1, device="cpu")).references()


def _uses_of_gradient(parameter: torch.Tensor) -> tuple[int, ...]:
    """Counts the references to a gradient: to its Python object, to the tensor, to its memory, and to the memory's
    Python object. The caller must not hold its own reference to the gradient. This reference would be counted, too.
    """
    gradient = parameter.grad
    assert gradient is not None
    memory = gradient.untyped_storage()
    counted: int = torch._C._storage_Use_Count(memory._cdata)
    return sys.getrefcount(gradient), gradient._use_count(), counted, sys.getrefcount(memory)


def knows_who_refers() -> bool:
    """Returns True if this version of PyTorch counts the references to tensors and to their memory. PyTorch 2.3 and
    later versions count them.
    """
    return hasattr(torch.Tensor, "_use_count") and hasattr(torch._C, "_storage_Use_Count")


@functools.cache
def _uses_of_unshared() -> tuple[int, ...]:
    """Returns the counts that a gradient has if only its parameter refers to it. The counts depend on the versions of
    PyTorch and Python.
    """
    with torch.inference_mode(False):
        parameter = torch.zeros(1, requires_grad=True, device="cpu")
        parameter.grad = torch.zeros(1, device="cpu")
    return _uses_of_gradient(parameter)


def is_unshared(parameter: torch.Tensor) -> bool:
    """Returns True if only the parameter refers to its gradient and to the gradient's memory. In this case no other
    tensor (a view, a part or ``.data``), no array and no other process uses the memory. Call it only if
    knows_who_refers() is true.
    """
    if any(uses > alone for uses, alone in zip(_uses_of_gradient(parameter), _uses_of_unshared(), strict=True)):
        return False
    gradient = parameter.grad
    assert gradient is not None
    # Memory that PyTorch did not allocate belongs to another library, such as NumPy.
    return gradient.untyped_storage().resizable() and not gradient.is_shared()
