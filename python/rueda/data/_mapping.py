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

from rueda import _native

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


class Pin:
    """A mapping that gets this object pins its memory for a GPU."""

    def __init__(self, device: int) -> None:
        """Pins one page as a test, and unpins it. Raises an error of Rueda if the program cannot use a GPU."""
        self.device = device
        with mmap.mmap(-1, mmap.PAGESIZE) as trial:
            _native.data_unpin(_native.data_pin(ctypes.addressof(ctypes.c_char.from_buffer(trial)), len(trial), device))


class SharedMapping:
    """Maps a file for reading and writing. The caller may close the descriptor. The memory is unmapped when this object dies,
    so arrays in it must keep the object as their base.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        address = _library.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, descriptor, 0)
        if address is None or address == _FAILED:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))
        self.address: int = address
        self.size = size
        self._pinned: object | None = None
        self._process = os.getpid()

    def pin(self, pin: Pin) -> None:
        """Registers the memory with the driver of a GPU. Raises an error of Rueda if the driver refuses it."""
        self._pinned = _native.data_pin(self.address, self.size, pin.device)

    def note_work(self) -> None:
        """Records that the work which is now in the GPU's default stream may use the memory. Does nothing if the memory
        is not pinned. Raises an error of Rueda if the driver fails.
        """
        if self._pinned is not None:
            _native.data_pinned_note_work(self._pinned)

    def is_idle(self) -> bool:
        """Returns whether the GPU has done all work that note_work() has recorded. Raises an error of Rueda if the
        driver fails.
        """
        return self._pinned is None or _native.data_pinned_is_idle(self._pinned)

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

    # When Python ends, it may clear the names of this module before the last array is destroyed. The default arguments
    # keep references to the functions, so that __del__() can still call them.
    def __del__(
        self,
        unmap: Callable[[int, int], int] = _library.munmap,
        unpin: Callable[[object], None] = _native.data_unpin,
        getpid: Callable[[], int] = os.getpid,
    ) -> None:
        if not hasattr(self, "address"):
            return
        if getattr(self, "_pinned", None) is not None and getpid() == self._process:
            try:
                unpin(self._pinned)
            except Exception:  # the GPU may still use the memory, so it stays mapped
                return
        unmap(self.address, self.size)
