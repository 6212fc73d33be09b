# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The few functions of PyTorch that deal with CUDA streams. The rest of the package uses streams only through these
functions, so that tests can replace them on machines without a GPU.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

#: PyTorch's own function, which exists in builds for CUDA.
_direct: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def raw_stream(index: int) -> int:
    """Returns the address of the current stream of a CUDA device."""
    if _direct is not None:
        return _direct(index)
    return int(torch.cuda.current_stream(index).cuda_stream)


def current_stream(index: int) -> Any:
    """Returns the current stream of a CUDA device, a torch.cuda.Stream."""
    return torch.cuda.current_stream(index)


@contextlib.contextmanager
def on_stream(stream: Any) -> Iterator[None]:
    """A scope in which the stream is the current stream of its device, on this thread."""
    # A thread that has never chosen a device has device 0. At the end of a scope of torch.cuda.stream(), PyTorch
    # returns to the thread's previous device by cudaSetDevice(). Since CUDA 12, this call creates a context on the
    # previous device (about 500 MB). To avoid this, the outer scope, torch.cuda.device(), changes the device, and later
    # restores it without creating a context. So for the inner scope, the previous device is the stream's own device.
    with torch.cuda.device(stream.device), torch.cuda.stream(stream):
        yield


@functools.cache
def side_stream(index: int, _purpose: str) -> Any:
    """Returns a stream for work that belongs to no stream of the program. There is one such stream for each purpose."""
    return torch.cuda.Stream(device=index)


def recorded_event(stream: Any) -> Any:
    """Returns an event that is reached when all work that the stream has now is done."""
    return stream.record_event()
