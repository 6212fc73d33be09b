# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Reductions and element types, with the numbers of the C interface."""

from __future__ import annotations

import enum


class ReduceOp(enum.IntEnum):
    """The ways to reduce the ranks' elements to one element. Horovod uses the same numbers."""

    Average = 0
    Sum = 1
    Adasum = 2
    Min = 3
    Max = 4
    Product = 5


class Compression(enum.IntEnum):
    """The format in which float32 and float64 elements are sent between hosts. Horovod uses the same names."""

    none = 0
    fp16 = 1
    bf16 = 2


class DType(enum.IntEnum):
    """The types of a tensor's elements."""

    uint8 = 0
    int8 = 1
    int32 = 2
    int64 = 3
    float16 = 4
    bfloat16 = 5
    float32 = 6
    float64 = 7
    bool = 8
    int16 = 9
    uint16 = 10
    uint32 = 11
    uint64 = 12
    float8_e4m3fn = 13
    float8_e5m2 = 14


Average = ReduceOp.Average
Sum = ReduceOp.Sum
#: Adds the components in which the ranks' tensors differ, and averages the components in which they agree. Only for
#: floats (docs/operations.md).
Adasum = ReduceOp.Adasum
Min = ReduceOp.Min
Max = ReduceOp.Max
Product = ReduceOp.Product
