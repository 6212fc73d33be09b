# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Uses the C interface from Python without the package rueda. Computes the sum of rank + 1 over the ranks.

Usage: outside.py LIBRARY
"""

import ctypes
import sys

FLOAT64 = 7


class Tensor(ctypes.Structure):
    """The struct rueda_tensor of rueda.h."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
    ]


library = ctypes.CDLL(sys.argv[1])
library.rueda_last_error.restype = ctypes.c_char_p


def call(function: str, *arguments: object) -> None:
    if getattr(library, function)(*arguments) != 0:
        raise SystemExit(f"{function} failed: {library.rueda_last_error().decode()}")


call("rueda_init")
rank, size = ctypes.c_int(), ctypes.c_int()
call("rueda_rank", ctypes.byref(rank))
call("rueda_size", ctypes.byref(size))
# The default reduction is the average. Because the values are multiplied by the number of ranks, the result is the sum.
value = (ctypes.c_double * 1)((rank.value + 1) * size.value)
shape = (ctypes.c_int64 * 1)(1)
tensor = Tensor(ctypes.addressof(value), shape, 1, FLOAT64)
call("rueda_allreduce", b"sum", ctypes.byref(tensor), ctypes.byref(tensor), None)
# An error inside the library must become a status and a text.
if library.rueda_allreduce(None, None, None, None) == 0 or not library.rueda_last_error():
    raise SystemExit("rueda_allreduce without a tensor did not fail")
print(f"rank {rank.value} of {size.value}: {value[0]}", flush=True)
call("rueda_shutdown")
