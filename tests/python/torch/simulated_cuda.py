# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""CUDA tensors of PyTorch without a GPU: tensors whose memory is on a device that tests/support/gpu_stand_in simulates.

PyTorch sees tensors on the device "cuda:N", and calls this module for each of their operations. The module executes the
operation on the CPU, as work of the current stream: after the earlier work of this stream, and before its later work.
It tells the stand-in which memory the operation reads and writes. So the stand-in reports a race if Rueda's work, in
Rueda's streams, accesses the same memory, and no event orders the two.

PyTorch's C++ code must not ask CUDA for a stream or a device, because there is no driver. So some methods are replaced
here, and tests cannot run backward passes: autograd asks for the stream of each CUDA tensor in its graph.
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
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_flatten, tree_map  # noqa: E402

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
    with gpu.work(stream, "the output of an operation of PyTorch", [(address, size, True)]):
        ctypes.memmove(address, source.data_ptr(), size)
    return torch.frombuffer(memory, dtype=cpu.dtype).view(cpu.shape)


def _range_of(memory: torch.Tensor, write: bool) -> tuple[int, int, bool]:
    """Returns the smallest range that contains all elements of a tensor, as Gpu.work() needs it."""
    if memory.numel() == 0:
        return (0, 0, write)
    last = sum((extent - 1) * stride for extent, stride in zip(memory.shape, memory.stride(), strict=True))
    return (memory.data_ptr(), (last + 1) * memory.element_size(), write)


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

    def new_tensor(self, data: Any, dtype: Any = None, **_options: Any) -> Any:
        return cuda(torch.tensor(data, dtype=dtype or self.dtype, device="cpu"))

    def __getitem__(self, index: Any) -> Any:
        return _dispatched(torch.Tensor.__getitem__, (self, index), {})

    def __float__(self) -> float:
        return float(to_cpu(self))

    def __repr__(self) -> str:
        return f"SimulatedTensor({self.memory!r})"

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        return _dispatched(function, arguments, options or {})


#: Operations that take the shape and the type of a tensor, but do not read its elements.
_WITHOUT_READING = {
    "empty_like",
    "full_like",
    "new_empty",
    "new_empty_strided",
    "new_full",
    "new_ones",
    "new_zeros",
    "ones_like",
    "zeros_like",
}


def _name_of(function: Any) -> str:
    """Returns the name of an operation without its namespace and overload, such as "add_"."""
    name = function.overloadpacket.__name__ if hasattr(function, "overloadpacket") else function.__name__
    return str(name)


def _makes_views(function: Any, arguments: Any) -> bool:
    """Returns True if the results of the operation are views of its inputs, so that it accesses no memory."""
    if hasattr(function, "_schema"):
        return any(each.alias_info is not None and not each.alias_info.is_write for each in function._schema.returns)
    name = _name_of(function)
    return name in ("split", "__getitem__") or (name == "contiguous" and arguments[0].is_contiguous())


def _written_by(function: Any, arguments: Any, options: dict[str, Any]) -> list[Any]:
    """Returns the arguments whose elements the operation writes."""
    if not hasattr(function, "_schema"):
        return [arguments[0]] if _name_of(function) == "copy_" else []
    written = []
    for index, parameter in enumerate(function._schema.arguments):
        if parameter.alias_info is not None and parameter.alias_info.is_write:
            written.append(arguments[index] if index < len(arguments) else options.get(parameter.name))
    return tree_flatten(written)[0]


def _dispatched(function: Any, arguments: Any, options: dict[str, Any]) -> Any:
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

    ranges: list[tuple[int, int, bool]] = []
    makes_views = _makes_views(function, arguments)
    if not makes_views:
        written = [each for each in _written_by(function, arguments, options) if isinstance(each, SimulatedTensor)]
        ranges += [_range_of(each.memory, True) for each in written]
        if _name_of(function) not in _WITHOUT_READING:
            given = [each for each in tree_flatten((arguments, options))[0] if isinstance(each, SimulatedTensor)]
            ranges += [_range_of(each.memory, False) for each in given]
    arguments, options = tree_map(plain, arguments), tree_map(plain, options)
    storages = {one.memory.untyped_storage().data_ptr() for one in inputs.values() if one.memory.numel()}

    def is_view(value: torch.Tensor) -> bool:
        return value.numel() == 0 or value.untyped_storage().data_ptr() in storages

    def computed(value: Any) -> Any:
        if isinstance(value, torch.Tensor) and is_copy_to_cpu and id(value) not in inputs and is_view(value):
            return value.clone()
        return value

    if not ranges:
        result = function(*arguments, **options)
    else:
        stream = current_stream().cuda_stream
        with gpu.work(stream, _name_of(function), ranges):
            result = tree_map(computed, function(*arguments, **options))
        # As in PyTorch, the host waits if the operation returns values to the host instead of a tensor on the device.
        if is_copy_to_cpu or not any(isinstance(each, torch.Tensor) for each in tree_flatten(result)[0]):
            gpu.synchronize(stream)

    def wrapped(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) in inputs:
            return inputs[id(value)]
        if is_copy_to_cpu or value.layout != torch.strided:
            return value
        return SimulatedTensor(value if is_view(value) else _on_device(value))

    return tree_map(wrapped, result)


class NewTensors(TorchDispatchMode):
    """A scope in which functions of PyTorch such as torch.zeros() make their tensors on the simulated device, if they are
    called with a CUDA device. Outside of this scope, such calls fail, because PyTorch finds no driver.
    """

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = options or {}
        device = options.get("device")
        is_on_device = any(isinstance(each, SimulatedTensor) for each in tree_flatten((arguments, options))[0])
        if is_on_device or device is None or torch.device(device).type != "cuda":
            return function(*arguments, **options)
        return cuda(function(*arguments, **{**options, "device": torch.device("cpu")}))


def cuda(tensor: torch.Tensor, requires_grad: bool = False) -> SimulatedTensor:
    """Returns a copy of a tensor of the CPU, on the simulated device."""
    return SimulatedTensor(_on_device(tensor.detach().contiguous()), requires_grad)


def to_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the values of a tensor, after the work of the current stream."""
    assert isinstance(tensor, SimulatedTensor), type(tensor)
    stream = current_stream().cuda_stream
    with gpu.work(stream, "a copy to the host", [_range_of(tensor.memory, False)]):
        values = tensor.memory.clone()
    gpu.synchronize(stream)
    return values


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
