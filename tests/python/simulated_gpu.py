# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Arrays in the memory of a GPU that tests/support/gpu_stand_in simulates. A test sets LD_LIBRARY_PATH to the stand-in's
folder, so that libcuda.so.1 is the stand-in's.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

_cuda = ctypes.CDLL("libcuda.so.1")
_address, _pointer = ctypes.c_ulonglong, ctypes.c_void_p
_cuda.gpu_stand_in_begin_work.restype = _pointer
_cuda.gpu_stand_in_take_violations.restype = ctypes.c_size_t


class _Range(ctypes.Structure):
    _fields_ = (("address", _address), ("bytes", ctypes.c_size_t), ("write", ctypes.c_bool))


def _call(name: str, *arguments: Any) -> None:
    status = getattr(_cuda, name)(*arguments)
    if status != 0:
        raise RuntimeError(f"{name} returned {status}")


class Gpu:
    """A simulated device with streams."""

    def __init__(self, index: int) -> None:
        self.index = index
        self._context = _pointer()
        _call("cuInit", ctypes.c_uint(0))
        _call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), ctypes.c_int(index))
        self.use()
        self.stream = self.new_stream()

    def use(self) -> None:
        """Makes the device the current one of this thread."""
        current = _pointer()
        _call("cuCtxGetCurrent", ctypes.byref(current))
        if current.value != self._context.value:
            _call("cuCtxPushCurrent_v2", self._context)

    def new_stream(self) -> int:
        self.use()
        stream = _pointer()
        _call("cuStreamCreateWithPriority", ctypes.byref(stream), ctypes.c_uint(1), ctypes.c_int(0))
        return stream.value or 0

    def allocate(self, size: int) -> int:
        self.use()
        address = _address()
        _call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
        return address.value

    def free(self, address: int) -> None:
        _call("cuMemFree_v2", _address(address))

    def take_violations(self) -> list[str]:
        """Returns the violations that the stand-in has found since the last call, and makes it forget them."""
        text = ctypes.create_string_buffer(1 << 16)
        _cuda.gpu_stand_in_take_violations(text, ctypes.c_size_t(len(text)))
        return text.value.decode().splitlines()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Holds back all work of the device within the scope."""
        _cuda._ZN5rueda5tests3gpu11hold_deviceEi(ctypes.c_int(self.index))
        try:
            yield
        finally:
            _cuda._ZN5rueda5tests3gpu14release_deviceEi(ctypes.c_int(self.index))

    @contextlib.contextmanager
    def work(self, stream: int, label: str, ranges: Iterable[tuple[int, int, bool]]) -> Iterator[None]:
        """Executes the body of the scope as work of the stream, after the earlier work of the stream. `ranges` are the
        ranges of memory that the body accesses: (address, size, whether the body writes). The stand-in reports a race
        if other work accesses them and could run at the same time. After the scope, the host program does not know that
        the work has ended: it must synchronise with the stream.
        """
        self.use()
        listed = [_Range(*each) for each in ranges]
        memory = (_Range * len(listed))(*listed)
        work = _cuda.gpu_stand_in_begin_work(_pointer(stream), label.encode(), memory, ctypes.c_size_t(len(listed)))
        if work is None:
            raise RuntimeError(f"stream {stream:#x} does not execute {label}")
        try:
            yield
        finally:
            _cuda.gpu_stand_in_end_work(_pointer(work))

    def copy(self, to: int, source: int, size: int, stream: int) -> None:
        self.use()
        if size > 0:
            _call("cuMemcpyAsync", _address(to), _address(source), ctypes.c_size_t(size), _pointer(stream))

    def synchronize(self, stream: int) -> None:
        self.use()
        _call("cuStreamSynchronize", _pointer(stream))

    def is_done(self, stream: int) -> bool:
        return _cuda.cuStreamQuery(_pointer(stream)) == 0

    def event_after(self, stream: int) -> int:
        self.use()
        event = _pointer()
        _call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(2))
        _call("cuEventRecord", event, _pointer(stream))
        return event.value or 0

    def wait_for(self, event: int, stream: int) -> None:
        self.use()
        _call("cuStreamWaitEvent", _pointer(stream), _pointer(event), ctypes.c_uint(0))

    def is_reached(self, event: int) -> bool:
        return _cuda.cuEventQuery(_pointer(event)) == 0

    def array(self, values: Any, stream: int | None = None) -> DeviceArray:
        """Returns an array with these values. The values are complete in the given stream; by default, this is the
        stream of this object."""
        host = np.ascontiguousarray(values)
        stream = self.stream if stream is None else stream
        array = DeviceArray(self, host.shape, host.dtype, stream)
        self.copy(array.address, host.ctypes.data, host.nbytes, stream)
        self.synchronize(stream)  # waits, because the values are in pageable memory, which may be freed after the call
        return array


class DeviceArray:
    """An array in the memory of a device."""

    def __init__(self, gpu: Gpu, shape: tuple[int, ...], dtype: np.dtype[Any], stream: int) -> None:
        self.gpu, self.shape, self.dtype, self.stream = gpu, tuple(shape), dtype, stream
        self.size = math.prod(shape) * dtype.itemsize
        self.address = gpu.allocate(self.size)

    def values(self, stream: int | None = None) -> np.ndarray[Any, Any]:
        """Copies the values to the CPU in the stream."""
        host = np.empty(self.shape, self.dtype)
        stream = self.stream if stream is None else stream
        self.gpu.copy(host.ctypes.data, self.address, self.size, stream)
        self.gpu.synchronize(stream)
        return host


class WithInterface(DeviceArray):
    """An array that offers only __cuda_array_interface__, as Numba's arrays do."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address, False),
            "version": 3,
            "strides": None,
            "stream": self.stream or None,
        }


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class WithDlpack(DeviceArray):
    """An array that has only DLPack. `asked` lists the streams for which other code has requested the array's
    memory."""

    device_type = 2

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.asked: list[int | None] = []
        self._kept: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device_type, self.gpu.index

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        self.asked.append(stream)
        if stream is not None and stream != self.stream:
            self.gpu.wait_for(self.gpu.event_after(self.stream), 0 if stream == 1 else stream)
        shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        kind = _DataType(_CODES[self.dtype.kind], 8 * self.dtype.itemsize, 1)
        tensor = _Tensor(self.address, _Device(*self.__dlpack_device__()), len(self.shape), kind, shape, None, 0)
        managed = _Managed(tensor, None, None)
        self._kept += [shape, managed]
        return _new_capsule(ctypes.addressof(managed), b"dltensor", None)


def filled(kind: type[Any], gpu: Gpu, values: Any, stream: int | None = None) -> Any:
    """Returns an array of the given class with these values."""
    host = np.ascontiguousarray(values)
    stream = gpu.stream if stream is None else stream
    array = kind(gpu, host.shape, host.dtype, stream)
    gpu.copy(array.address, host.ctypes.data, host.nbytes, stream)
    gpu.synchronize(stream)
    return array
