# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""CUDA tensors of PyTorch without a GPU: tensors whose memory is on a device that tests/support/gpu_stand_in simulates.

PyTorch sees tensors on the device "cuda:N", and calls this module for each of their operations. The operation waits on
the host for the current stream, and then computes on the memory, which the CPU can read. Rueda's work goes to the
simulated streams, and the stand-in delays this work.
"""

from __future__ import annotations

import contextlib
import ctypes
import pathlib
import sys
import threading
import weakref
from typing import Any

# The stand-in's NCCL must be loaded before PyTorch loads its own.
ctypes.CDLL("libnccl.so.2", ctypes.RTLD_GLOBAL)

import torch  # noqa: E402
from torch.utils._pytree import tree_map  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from simulated_gpu import Gpu  # noqa: E402

_state: Any = threading.local()
gpu: Gpu


class Event:
    """Has the methods of torch.cuda.Event that the package needs."""

    def __init__(self, address: int) -> None:
        self.address = address

    def query(self) -> bool:
        return gpu.is_reached(self.address)


class Stream:
    """Has the methods of torch.cuda.Stream that the package needs."""

    def __init__(self) -> None:
        self.cuda_stream = gpu.new_stream()

    def record_event(self) -> Event:
        return Event(gpu.event_after(self.cuda_stream))

    def wait_event(self, event: Event) -> None:
        gpu.wait_for(event.address, self.cuda_stream)

    def synchronize(self) -> None:
        gpu.synchronize(self.cuda_stream)


def current_stream(_index: int = 0) -> Stream:
    return getattr(_state, "stream", _first)


@contextlib.contextmanager
def on_stream(stream: Stream) -> Any:
    before, _state.stream = current_stream(), stream
    try:
        yield
    finally:
        _state.stream = before


#: Freed memory; the key is (stream, size). Like PyTorch's allocator, this module gives freed memory to the next tensor
#: of the same stream at once, without waiting for the GPU. If other work still uses the memory, the stand-in reports a
#: race.
_freed: dict[tuple[int, int], list[int]] = {}


def _on_device(cpu: torch.Tensor) -> torch.Tensor:
    """Returns a tensor over new memory of the device, with the values of a tensor of the CPU."""
    size = max(cpu.numel() * cpu.element_size(), 1)
    stream = current_stream().cuda_stream
    freed = _freed.setdefault((stream, size), [])
    address = freed.pop() if freed else gpu.allocate(size)
    memory = (ctypes.c_byte * size).from_address(address)
    weakref.finalize(memory, freed.append, address).atexit = False
    if cpu.numel() == 0:
        return cpu.contiguous()
    source = cpu.contiguous()
    gpu.copy(address, source.data_ptr(), size, stream)
    gpu.synchronize(stream)
    return torch.frombuffer(memory, dtype=cpu.dtype).view(cpu.shape)


class SimulatedTensor(torch.Tensor):
    """A tensor of the device. `memory` is a tensor of the CPU over the same memory."""

    memory: torch.Tensor

    @staticmethod
    def __new__(cls, memory: torch.Tensor, requires_grad: bool = False) -> Any:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            memory.size(),
            strides=memory.stride(),
            storage_offset=memory.storage_offset(),
            dtype=memory.dtype,
            layout=memory.layout,
            device=torch.device("cuda", gpu.index),
            requires_grad=requires_grad,
        )
        made.memory = memory
        return made

    def data_ptr(self) -> int:
        return self.memory.data_ptr() if self.memory.numel() else 0

    # PyTorch's own methods ask the driver for the current device, so the following methods replace them.

    def copy_(self, source: torch.Tensor, non_blocking: bool = False) -> Any:
        return _dispatched(torch.Tensor.copy_, (self, source), {})

    def contiguous(self, **_options: Any) -> Any:
        return _dispatched(torch.Tensor.contiguous, (self,), {})

    def split(self, sizes: Any, dim: int = 0) -> Any:
        return _dispatched(torch.Tensor.split, (self, sizes, dim), {})

    def __getitem__(self, index: Any) -> Any:
        return _dispatched(torch.Tensor.__getitem__, (self, index), {})

    def __repr__(self) -> str:
        return f"SimulatedTensor({self.memory!r})"

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        return _dispatched(function, arguments, options or {})


def _dispatched(function: Any, arguments: Any, options: dict[str, Any]) -> Any:
    gpu.synchronize(current_stream().cuda_stream)
    inputs: dict[int, SimulatedTensor] = {}
    is_copy_to_cpu = False

    def plain(value: Any) -> Any:
        nonlocal is_copy_to_cpu
        if isinstance(value, SimulatedTensor):
            inputs[id(value.memory)] = value
            return value.memory
        if isinstance(value, torch.device):
            is_copy_to_cpu = value.type == "cpu"
            return torch.device("cpu")
        return value

    arguments, options = tree_map(plain, arguments), tree_map(plain, options)
    storages = {one.memory.untyped_storage().data_ptr() for one in inputs.values() if one.memory.numel()}
    result = function(*arguments, **options)

    def wrapped(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in inputs:
            return inputs[id(value)]
        if is_copy_to_cpu:
            return value.clone() if value.untyped_storage().data_ptr() in storages else value
        if value.layout != torch.strided:
            return value
        is_view = value.numel() == 0 or value.untyped_storage().data_ptr() in storages
        return SimulatedTensor(value if is_view else _on_device(value))

    return tree_map(wrapped, result)


def cuda(tensor: torch.Tensor, requires_grad: bool = False) -> SimulatedTensor:
    """Returns a copy of a tensor of the CPU, on the simulated device."""
    gpu.synchronize(current_stream().cuda_stream)
    return SimulatedTensor(_on_device(tensor.detach().contiguous()), requires_grad)


def to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the values of a tensor, after the work of the current stream."""
    assert isinstance(tensor, SimulatedTensor), type(tensor)
    gpu.synchronize(current_stream().cuda_stream)
    return tensor.memory.clone()


def begin(index: int) -> None:
    """Uses the simulated device in this process."""
    global gpu, _first
    from rueda import _native
    from rueda.torch import _devices, _tensors

    gpu = Gpu(index)
    _first = Stream()
    sides: dict[str, Stream] = {}

    def side_stream(_index: int, purpose: str) -> Stream:
        return sides.setdefault(purpose, Stream())

    def raw_stream(_index: int) -> int:
        return current_stream().cuda_stream

    _devices.current_stream, _devices.on_stream = current_stream, on_stream
    _devices.raw_stream, _devices.side_stream = raw_stream, side_stream
    torch.cuda._lazy_init = lambda: None  # PyTorch must not look for a driver
    torch.cuda.get_device_capability = lambda _device=None: (8, 0)
    _native.set_torch(torch.Tensor, torch.strided, _tensors._NUMBERS, raw_stream)
