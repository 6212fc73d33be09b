# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Converts PyTorch's tensors and reduce operators to those of the native module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch.distributed import ReduceOp as TorchReduceOp

from rueda._native import TensorView
from rueda.torch import _devices
from rueda.types import DType, ReduceOp

Tensor: TypeAlias = torch.Tensor

#: Rueda's number of each dtype. Dtypes that this version of PyTorch does not have are left out.
NUMBERS: dict[torch.dtype, int] = {
    getattr(torch, dtype.name): int(dtype) for dtype in DType if hasattr(torch, dtype.name)
}
_BITWISE = {"BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}
_BY_NAME = {
    "SUM": ReduceOp.Sum,
    "AVG": ReduceOp.Average,
    "PRODUCT": ReduceOp.Product,
    "MIN": ReduceOp.Min,
    "MAX": ReduceOp.Max,
}
# For bool, a sum is "or" and a product is "and", as in PyTorch's other backends.
_OF_BOOL = {
    "SUM": ReduceOp.Max,
    "PRODUCT": ReduceOp.Min,
    "MIN": ReduceOp.Min,
    "MAX": ReduceOp.Max,
    "BAND": ReduceOp.Min,
    "BOR": ReduceOp.Max,
}
_NAMES = (*_BY_NAME, *_BITWISE)
_OPERATORS = [(getattr(TorchReduceOp, name), name) for name in _NAMES if hasattr(TorchReduceOp, name)]


def view(tensor: Tensor) -> TensorView:
    """Returns a view of a contiguous tensor whose dtype Rueda supports. The view keeps the tensor alive. For a tensor
    on a GPU, the view also contains the current stream.
    """
    if tensor.is_cpu:
        return TensorView(tensor.data_ptr(), tuple(tensor.shape), NUMBERS[tensor.dtype], tensor)
    return _view_on_device(tensor, tuple(tensor.shape))


def flat_view(tensor: Tensor) -> TensorView:
    """Like view(), but the view has one dimension. Operations on rows then treat each element as a row."""
    if tensor.is_cpu:
        return TensorView(tensor.data_ptr(), (tensor.numel(),), NUMBERS[tensor.dtype], tensor)
    return _view_on_device(tensor, (tensor.numel(),))


def view_as(tensor: Tensor, shape: tuple[int, ...]) -> TensorView:
    """Like view(), but the view has another shape with the same number of elements."""
    if tensor.is_cpu:
        return TensorView(tensor.data_ptr(), shape, NUMBERS[tensor.dtype], tensor)
    return _view_on_device(tensor, shape)


def _view_on_device(tensor: Tensor, shape: tuple[int, ...]) -> TensorView:
    index, number = tensor.get_device(), NUMBERS[tensor.dtype]
    return TensorView(tensor.data_ptr(), shape, number, tensor, True, index, _devices.raw_stream(index))


def check(tensor: Any, operation: str) -> Tensor:
    """Returns the tensor if it is dense, and in the memory of the CPU or of a CUDA device. Otherwise raises an error
    that says what kind of tensor it is.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{operation}: {type(tensor).__name__} is no torch.Tensor")
    if not tensor.is_cpu and not tensor.is_cuda:
        raise ValueError(
            f"{operation}: the tensor is on {tensor.device}; the backend rueda works on tensors of the CPU and of CUDA devices: "
            "copy it with .cpu(), or give that device another backend"
        )
    if tensor.layout is not torch.strided:
        raise ValueError(f"{operation}: the tensor's layout is {tensor.layout}; expected a dense one (.to_dense())")
    return tensor


def only(tensors: Sequence[Any], operation: str) -> Any:
    """Returns the only tensor of a list. In c10d, such a list has one tensor for each device of a process."""
    if len(tensors) != 1:
        raise ValueError(f"{operation}: {len(tensors)} tensors; expected one")
    return tensors[0]


def movable(tensor: Tensor) -> Tensor:
    """Returns the tensor's memory as a tensor of a dtype that Rueda can send. If Rueda does not have the tensor's own
    dtype, the result is a tensor of bytes. The tensor must be contiguous.
    """
    return tensor if tensor.dtype in NUMBERS else tensor.detach().view(-1).view(torch.uint8)


def name_of(operator: Any) -> str:
    """Returns the name of a torch.distributed.ReduceOp."""
    for known, name in _OPERATORS:
        if operator == known:
            return name
    plain = getattr(operator, "op", operator)
    return getattr(plain, "name", None) or str(plain)


class Reduction:
    """The reduction for tensors of one dtype. `number` is its number in Rueda. If Rueda does not have the reduction,
    `function` computes it from two tensors. Inputs are multiplied by `factor` before the reduction.
    """

    __slots__ = ("factor", "function", "number")

    def __init__(self, number: int, function: Any = None, factor: float = 1.0) -> None:
        self.number = number
        self.function = function
        self.factor = factor


_known: dict[tuple[int, torch.dtype], Reduction] = {}
# The keys are the operators' hashes. In all versions of PyTorch until now, the hash of an operator is its number. A
# dict with the operators themselves as keys would be slow, because it would also compare operators.
_HASHES = {hash(operator): name for operator, name in _OPERATORS}
_hashes_tell = len(_HASHES) == len(_OPERATORS) and max(_HASHES) < 100


def reduction(operator: Any, dtype: torch.dtype, operation: str) -> Reduction:
    """Returns the reduction for an operator and a dtype.

    Raises:
        ValueError: the operator is not supported, or not for this dtype.
        TypeError: Rueda does not reduce this dtype.
    """
    key = (hash(operator), dtype)
    found = _known.get(key) if _hashes_tell else None
    if found is None:
        found = _make_reduction(operator, dtype, operation)
        # an operator with its own factor is not in _HASHES. Its reduction must not be cached.
        if _hashes_tell and key[0] in _HASHES:
            _known[key] = found
    return found


def _make_reduction(operator: Any, dtype: torch.dtype, operation: str) -> Reduction:
    name = name_of(operator)
    if name == "PREMUL_SUM":
        return _scaled_sum(operator, dtype, operation)
    if dtype not in NUMBERS:
        known = ", ".join(one.name for one in DType)
        raise TypeError(f"{operation}: tensors of {dtype} are not reduced; the backend rueda reduces {known}")
    numbers = _OF_BOOL if dtype == torch.bool else _BY_NAME
    if name in numbers:
        return Reduction(int(numbers[name]))
    if name in _BITWISE and not dtype.is_floating_point:
        return Reduction(-1, _BITWISE[name])
    raise ValueError(f"{operation}: {name} of {dtype} is not offered by the backend rueda")


def _scaled_sum(operator: Any, dtype: torch.dtype, operation: str) -> Reduction:
    """Returns the reduction for PREMUL_SUM with its factor. PyTorch has no attribute for the factor, but the pickled
    operator contains it.
    """
    state = operator.__getstate__() if hasattr(operator, "__getstate__") else None
    factor = state[1] if isinstance(state, tuple) and len(state) == 2 else None
    if isinstance(factor, torch.Tensor) and factor.numel() == 1:
        factor = factor.item()
    if not isinstance(factor, float):
        raise ValueError(
            f"{operation}: PREMUL_SUM has the factor {factor}; the backend rueda needs one number, and a PyTorch that tells it "
            f"(this is {torch.__version__}): multiply the tensor first, and use SUM"
        )
    if not dtype.is_floating_point or dtype not in NUMBERS:
        raise TypeError(f"{operation}: PREMUL_SUM of {dtype}; expected a floating-point dtype that Rueda reduces")
    return Reduction(int(ReduceOp.Sum), factor=factor)
