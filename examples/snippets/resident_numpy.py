# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import ctypes
import sys

import numpy as np

RUEDA_FLOAT32 = 6


class Tensor(ctypes.Structure):  # rueda_tensor of <rueda/rueda.h>
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
    ]


rueda = ctypes.CDLL("librueda.so.0")
rueda.rueda_last_error.restype = ctypes.c_char_p


def check(status: int) -> None:
    if status != 0:
        raise RuntimeError(rueda.rueda_last_error().decode())


def resident_array(*shape: int) -> np.ndarray:
    """Float32 zeros in resident memory, which is never given back."""
    memory = ctypes.c_void_p()
    check(rueda.rueda_allocate(ctypes.c_size_t(4 * int(np.prod(shape))), ctypes.byref(memory)))
    return np.ctypeslib.as_array((ctypes.c_float * int(np.prod(shape))).from_address(memory.value)).reshape(shape)


def allreduce(name: str, array: np.ndarray) -> None:
    """The average over all ranks, in place."""
    tensor = Tensor(array.ctypes.data, (ctypes.c_int64 * array.ndim)(*array.shape), array.ndim, RUEDA_FLOAT32)
    check(rueda.rueda_allreduce(name.encode(), ctypes.byref(tensor), ctypes.byref(tensor), None))


check(rueda.rueda_init())
rank, size = ctypes.c_int(), ctypes.c_int()
check(rueda.rueda_rank(ctypes.byref(rank)))
check(rueda.rueda_size(ctypes.byref(size)))

gradient = resident_array(300, 200)
gradient[:] = rank.value
allreduce("gradient", gradient)
right = bool((gradient == (size.value - 1) / 2).all())
check(rueda.rueda_shutdown())
sys.exit(0 if right else 1)
