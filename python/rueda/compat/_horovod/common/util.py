# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""``horovod.common.util``, as far as PyTorch's users import from it."""

from __future__ import annotations

from typing import Any

__all__ = ["extension_available", "gpu_available", "split_list"]


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether there is Horovod for a framework: for PyTorch."""
    return ext_base_name == "torch"


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Whether the framework, PyTorch, has a GPU."""
    if ext_base_name != "torch":
        return False
    import rueda.torch

    return rueda.torch._check_has_gpu()


def split_list(items: list[Any], num_parts: int) -> list[list[Any]]:
    """The list in so many parts, in order, as evenly as can be."""
    count, more = divmod(len(items), num_parts)
    ends = [index * count + min(index, more) for index in range(num_parts + 1)]
    return [items[begin:end] for begin, end in zip(ends, ends[1:], strict=False)]
