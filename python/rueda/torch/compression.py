# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compressors change a tensor before it is reduced, and change the result back. Any class with the two methods of
Compressor can be a compressor.

Compressors work on the whole tensor, also within one host. If only the network between hosts is slow, the setting
``RUEDA_COMPRESSION`` costs less. It compresses only the data that is sent between hosts, and accumulates in full
precision (docs/compression.md).
"""

from __future__ import annotations

from typing import Any

import torch

from rueda.torch._tensors import is_float8


class Compressor:
    """The interface of a compressor. ``compress`` returns the tensor to reduce, and a context. ``decompress`` gets this
    context and changes the result back.
    """

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """Returns the tensor that is reduced instead of the given tensor, and a context for decompress()."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Returns the reduced tensor in the dtype and form of the original tensor."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Leaves tensors unchanged."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor


class _Narrowing(Compressor):
    """Converts floating-point tensors to the dtype ``narrow``. Other tensors stay unchanged. 8-bit floats stay
    unchanged, too, because they are already narrower.
    """

    narrow: torch.dtype

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        if not tensor.dtype.is_floating_point or is_float8(tensor):
            return tensor, None
        return tensor.to(cls.narrow), tensor.dtype

    @classmethod
    def decompress(cls, tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor if ctx is None else tensor.to(ctx)


class FP16Compressor(_Narrowing):
    """Converts floating-point tensors to float16."""

    narrow = torch.float16


class BF16Compressor(_Narrowing):
    """Converts floating-point tensors to bfloat16, which has the range of float32."""

    narrow = torch.bfloat16


class Compression:
    """The compressors that Rueda provides. ``bf16`` does not exist in Horovod."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
