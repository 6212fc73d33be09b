# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""What a tensor becomes before it is reduced, and back. Any class with the same two methods will do.

These work on the whole tensor, on one host as well. ``RUEDA_COMPRESSION`` is the cheaper way where the network between hosts is what
takes long: it compresses on the way only, and accumulates in full precision (docs/compression.md).
"""

from __future__ import annotations

from typing import Any

import torch


class Compressor:
    """Interface: ``compress`` gives the tensor that travels and what ``decompress`` needs to give it back."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        """The tensor to reduce in place of this one, and a context for decompress()."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """The reduced tensor as the original was."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """Leaves tensors as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor


class _Narrowing(Compressor):
    """Floating-point tensors as ``narrow``; others as they are."""

    narrow: torch.dtype

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> tuple[torch.Tensor, Any]:
        if not tensor.dtype.is_floating_point:
            return tensor, None
        return tensor.to(cls.narrow), tensor.dtype

    @classmethod
    def decompress(cls, tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        return tensor if ctx is None else tensor.to(ctx)


class FP16Compressor(_Narrowing):
    """Floating-point tensors as float16."""

    narrow = torch.float16


class BF16Compressor(_Narrowing):
    """Floating-point tensors as bfloat16: the range of float32."""

    narrow = torch.bfloat16


class Compression:
    """The compressors that come with Rueda. ``bf16`` is not Horovod's."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
