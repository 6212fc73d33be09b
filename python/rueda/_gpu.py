# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""CUDA streams of a Python program, and arrays in the memory of a GPU that have no DLPack (docs/gpu.md)."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rueda._native import TensorView
from rueda.errors import InvalidArgument, Unsupported
from rueda.types import DType

# The driver's CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, which asks for the number of the device to which an address belongs.
_DEVICE_ORDINAL = 9
# The numbers by which DLPack names device types.
_CUDA_DEVICES = (2, 13)

#: The types of elements, by the text in __cuda_array_interface__.
_DTYPES = {
    "b1": DType.bool,
    "u1": DType.uint8,
    "i1": DType.int8,
    "u2": DType.uint16,
    "i2": DType.int16,
    "f2": DType.float16,
    "u4": DType.uint32,
    "i4": DType.int32,
    "f4": DType.float32,
    "u8": DType.uint64,
    "i8": DType.int64,
    "f8": DType.float64,
}


class _Here(threading.local):
    """The state of this thread."""

    stream = 0  # the address of the stream that cuda_stream() has set; 0 is the default stream


_here = _Here()


@contextmanager
def cuda_stream(stream: Any) -> Iterator[None]:
    """Sets the CUDA stream of this thread's operations within a scope. Outside of such a scope, operations use the
    default stream. If an array names its own stream (``__cuda_array_interface__``), operations use that stream. If an
    array supports DLPack, its library makes the operation's stream wait for the stream that computes the array.

    Rueda reads a tensor only after the GPU has done the work that was in this stream before the call. The scope does
    not matter for tensors of PyTorch if ``rueda.torch`` was imported: for these, Rueda uses PyTorch's current stream.

    Args:
        stream: a stream of CuPy, Numba, PyTorch or cuda.core, or its address.

    Example::

        with rueda.cuda_stream(stream):
            handle = rueda.allreduce_async_(gradient, "gradient")
        handle.wait_on_stream(stream)
    """
    before, _here.stream = _here.stream, address_of_stream(stream)
    try:
        yield
    finally:
        _here.stream = before


def address_of_stream(stream: Any) -> int:
    """Returns the address of a stream, which may be an object of another library."""
    if stream is None:
        return 0
    address = _described_address(stream)
    if isinstance(address, ctypes.c_void_p):
        address = address.value or 0
    elif not isinstance(address, int | str | bytes | float) and hasattr(address, "__int__"):
        address = int(address)  # Numba's handle can be a CUstream of NVIDIA's bindings; int() gives its address
    if not isinstance(address, int) or address < 0:
        raise TypeError(
            f"{type(stream).__name__} is no CUDA stream: expected a stream of CuPy, Numba or PyTorch, or its address"
        )
    # In DLPack and __cuda_array_interface__, the number 1 stands for the legacy default stream. In CUDA, the number of
    # this stream is 0.
    return 0 if address == 1 else address


def _described_address(stream: Any) -> Any:
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return (protocol() if callable(protocol) else protocol)[1]  # (version of the protocol, address)
    for name in ("cuda_stream", "ptr", "handle"):  # PyTorch, CuPy, Numba
        if hasattr(stream, name):
            return getattr(stream, name)
    return stream


def current_stream() -> int:
    """Returns the address of the stream that cuda_stream() has set on this thread."""
    return _here.stream


def stream_for_dlpack(tensor: Any) -> int | None:
    """Returns the argument `stream` for the tensor's __dlpack__(). Returns None if the tensor is not on a GPU."""
    described = getattr(tensor, "__dlpack_device__", None)
    if described is None or described()[0] not in _CUDA_DEVICES:
        return None
    return _here.stream or 1  # DLPack does not allow 0


def view_of_cuda_array(tensor: Any, writable: bool) -> TensorView:
    """Makes a view of an array that has __cuda_array_interface__, version 2 or 3."""
    interface = tensor.__cuda_array_interface__
    address, read_only = interface["data"]
    shape = tuple(interface["shape"])
    kind, size = interface["typestr"][1:2], interface["typestr"][2:]
    dtype = _DTYPES.get(f"{kind}{size}")
    if dtype is None or interface["typestr"][0] == ">":
        raise TypeError(
            f"the array's type is {interface['typestr']!r}; __cuda_array_interface__ can have the types "
            f"{', '.join(one.name for one in _DTYPES.values())}, and DLPack all types that Rueda takes"
        )
    if interface.get("mask") is not None:
        raise InvalidArgument("the array has a mask; give its values without the mask")
    if writable and read_only:
        raise InvalidArgument("the array is read-only and cannot be an output; give one that can be written")
    if not _is_dense(shape, interface.get("strides"), int(size)):
        raise InvalidArgument("the array's elements do not lie one after the other; give a contiguous one")
    # If the array names a stream, its memory is ready in this stream (version 3 of the interface).
    stream = interface.get("stream")
    ready = _here.stream if stream is None else address_of_stream(stream)
    return TensorView(address or 0, shape, dtype, tensor, writable, _device_of(address or 0), ready)


def _is_dense(shape: tuple[int, ...], strides: tuple[int, ...] | None, size: int) -> bool:
    if strides is None or 0 in shape:
        return True
    expected = size
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


@functools.cache
def _driver() -> Any:
    """Returns the library of NVIDIA's driver."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise Unsupported(
            f"the array is in the memory of a GPU, and NVIDIA's driver cannot be used in this process: {error}"
        ) from error


def _device_of(address: int) -> int:
    """Returns the number of the device that has this memory. An array without elements may have no memory; the current
    device counts as its device.
    """
    device = ctypes.c_int(-1)
    if address == 0:
        status = _driver().cuCtxGetDevice(ctypes.byref(device))
        # if the thread has no context, the current device of the CUDA runtime is device 0
        return device.value if status == 0 else 0
    status = _driver().cuPointerGetAttribute(ctypes.byref(device), _DEVICE_ORDINAL, ctypes.c_ulonglong(address))
    if status != 0 or device.value < 0:
        raise InvalidArgument(
            f"the array's address {address:#x} is no memory of a GPU, although the array has __cuda_array_interface__ "
            f"(CUDA error {status})"
        )
    return device.value
