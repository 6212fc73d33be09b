# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The module ``horovod.common.util``: those public helpers that are useful without Horovod's own extension modules.

The functions that describe the installation call rueda.torch, which imports PyTorch.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ccl_built",
    "check_extension",
    "cuda_built",
    "ddl_built",
    "extension_available",
    "gloo_built",
    "gpu_available",
    "is_iterable",
    "mpi_built",
    "nccl_built",
    "num_rank_is_power_2",
    "rocm_built",
    "split_list",
]


def extension_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Returns True if this package replaces Horovod for the framework ("torch", "tensorflow", "mxnet"). This package
    replaces Horovod only for PyTorch.
    """
    return ext_base_name == "torch"


def check_extension(ext_name: str, ext_env_var: str, pkg_path: str, *args: str) -> None:
    """Does nothing for "horovod.torch", because Rueda needs no extension module for it.

    Raises:
        ImportError: the extension belongs to another framework, which Rueda does not support.
    """
    if ext_name != "horovod.torch":
        raise ImportError(
            f"Extension {ext_name} has not been built: Rueda stands for Horovod here, and has horovod.torch only",
            name=ext_name,
        )


def gpu_available(ext_base_name: str, verbose: bool = False) -> bool:
    """Returns True if PyTorch can use a GPU."""
    if ext_base_name != "torch":
        return False
    import rueda.torch

    return rueda.torch._check_has_gpu()


def mpi_built(verbose: bool = False) -> bool:
    """Returns True if this installation has a plugin for MPI."""
    import rueda.torch

    return rueda.torch.mpi_built()


def gloo_built(verbose: bool = False) -> bool:
    """Returns False, because Rueda does not use Gloo. The ranks of one host can form a job without MPI as well."""
    import rueda.torch

    return rueda.torch.gloo_built()


def nccl_built(verbose: bool = False) -> int:
    """Returns the version of NCCL that this installation was built with; 0 without NCCL."""
    import rueda.torch

    return rueda.torch.nccl_built()


def ddl_built(verbose: bool = False) -> bool:
    """Returns False, because Rueda does not use IBM's DDL."""
    import rueda.torch

    return rueda.torch.ddl_built()


def ccl_built(verbose: bool = False) -> bool:
    """Returns False, because Rueda does not use oneCCL."""
    import rueda.torch

    return rueda.torch.ccl_built()


def cuda_built(verbose: bool = False) -> bool:
    """Returns True if this installation supports tensors in the memory of NVIDIA GPUs."""
    import rueda.torch

    return rueda.torch.cuda_built()


def rocm_built(verbose: bool = False) -> bool:
    """Returns True if this installation supports tensors in the memory of AMD GPUs."""
    import rueda.torch

    return rueda.torch.rocm_built()


def num_rank_is_power_2(num_rank: int) -> bool:
    """Returns True if the number is a power of two. Horovod's Adasum needs such a number of ranks. Rueda's Adasum works
    with any number.
    """
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def split_list(items: list[Any], num_parts: int) -> list[list[Any]]:
    """Splits the list into the given number of parts. The items stay in order, and the parts are as equal in length as
    possible.
    """
    count, more = divmod(len(items), num_parts)
    ends = [index * count + min(index, more) for index in range(num_parts + 1)]
    return [items[begin:end] for begin, end in zip(ends, ends[1:], strict=False)]


def is_iterable(x: object) -> bool:
    """Returns True if iter() accepts the object."""
    try:
        iter(x)  # type: ignore[call-overload]
    except TypeError:
        return False
    return True
