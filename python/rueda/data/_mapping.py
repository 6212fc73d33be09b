# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Memory that processes share, without a file descriptor.

The class mmap.mmap of Python keeps a copy of the descriptor for as long as the memory is mapped. (Python 3.13 and
later can avoid this.) A program that keeps many batches would have too many open descriptors, so this module calls the
functions of the C library.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

_library = ctypes.CDLL(None, use_errno=True)
_library.mmap.restype = ctypes.c_void_p
_library.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,  # off_t of this symbol
)
_library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_library.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_FAILED = ctypes.c_void_p(-1).value


class SharedMapping:
    """Maps a file for reading and writing. The caller may close the descriptor. The memory is unmapped when this object dies,
    so arrays in it must keep the object as their base.
    """

    def __init__(self, descriptor: int, size: int, flags: int = 0) -> None:
        address = _library.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED | flags, descriptor, 0)
        if address is None or address == _FAILED:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        self.address: int = address
        self.size = size

    def array(self) -> npt.NDArray[np.uint8]:
        """Returns all bytes as an array, which keeps this object alive."""
        return np.asarray(self)

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"data": (self.address, False), "shape": (self.size,), "typestr": "|u1", "version": 3}

    def prefer_huge_pages(self) -> None:
        """Asks the system for huge pages. If the system has no huge pages for shared memory, it uses small pages."""
        advice = getattr(mmap, "MADV_HUGEPAGE", None)
        if advice is not None:
            _library.madvise(self.address, self.size, advice)

    # At its end, Python may clear the module's names before the last array is destroyed. The default argument keeps the
    # function.
    def __del__(self, unmap: Callable[[int, int], int] = _library.munmap) -> None:
        if hasattr(self, "address"):
            unmap(self.address, self.size)
