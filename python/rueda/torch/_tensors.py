# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Makes PyTorch tensors usable by the native module, and makes PyTorch tensors from Rueda's memory."""

from __future__ import annotations

import math

import torch

from rueda import _native
from rueda._native import Memory
from rueda.torch._devices import raw_stream
from rueda.types import DType

# Older versions of PyTorch do not have all of these dtypes.
_NUMBERS = {getattr(torch, dtype.name): int(dtype) for dtype in DType if hasattr(torch, dtype.name)}
_DTYPES = {number: dtype for dtype, number in _NUMBERS.items()}

_native.set_torch(torch.Tensor, torch.strided, _NUMBERS, raw_stream)


def is_float8(tensor: torch.Tensor) -> bool:
    """Whether the tensor has an 8-bit floating-point dtype. PyTorch cannot add such tensors."""
    return tensor.dtype.is_floating_point and tensor.element_size() == 1


def tensor_of(
    memory: Memory | None, shape: tuple[int, ...] | None, dtype: int | None, _splits: tuple[int, ...] | None = None
) -> torch.Tensor:
    """Returns the output that Rueda allocated, as a tensor without a copy. The tensor keeps the memory alive. The
    tensor is on the CPU, even if the program has set another default device (torch.set_default_device).
    """
    assert memory is not None and shape is not None and dtype is not None
    kind = _DTYPES[dtype]
    if math.prod(shape) == 0:
        return torch.empty(shape, dtype=kind, device="cpu")
    return torch.frombuffer(memory, dtype=kind).view(shape)


def tensors_of(outputs: list[tuple[Memory, tuple[int, ...], int]]) -> tuple[torch.Tensor, ...]:
    """Returns the outputs that Rueda allocated for a group."""
    return tuple(tensor_of(*output) for output in outputs)


def with_received_splits(
    memory: Memory | None, shape: tuple[int, ...] | None, dtype: int | None, splits: tuple[int, ...] | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the result of an alltoall: (output, number of rows from each rank)."""
    return tensor_of(memory, shape, dtype), torch.tensor(splits, dtype=torch.int32, device="cpu")
