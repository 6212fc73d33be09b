# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Measures Gloo (through torch.distributed) or Horovod in the harness's measuring loop.

Usage: torch_peer.py PEER HARNESS
"""

import ctypes
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch

_POINTERS = ctypes.POINTER(ctypes.c_void_p)
_DOUBLES = ctypes.POINTER(ctypes.c_double)
_BEGIN = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint64), _DOUBLES, _POINTERS)
_PLAIN = ctypes.CFUNCTYPE(None)
_OUTPUTS = ctypes.CFUNCTYPE(None, _POINTERS)


class _Callbacks(ctypes.Structure):
    _fields_ = [("begin", _BEGIN), ("run", _PLAIN), ("outputs", _OUTPUTS), ("end", _PLAIN)]


class Peer:
    """Runs collectives on float32 tensors. Submits the tensors of a set by name when they are ready, and then waits for
    all of them."""

    rank: int
    size: int

    def __init__(self) -> None:
        self.operation = ""
        self.inputs: list[torch.Tensor] = []
        self.results: list[torch.Tensor] = []
        self.compute: Callable[[float], None]  # the harness's function compare_compute()
        self.compute_us: list[float] = []

    def arriving(self) -> Iterator[torch.Tensor]:
        """Yields each input when the simulated backward pass has computed it. The simulation does not hold the GIL,
        like PyTorch's backward pass between two gradients."""
        for index, tensor in enumerate(self.inputs):
            if self.compute_us:
                self.compute(self.compute_us[index])
            yield tensor

    def begin(self, operation: str, counts: list[int]) -> None:
        self.operation = operation
        self.inputs = [torch.zeros(count) for count in counts]
        self.results = self.inputs

    def run(self) -> None:
        self.results = self.reduce_all() if self.operation == "allreduce" else [getattr(self, self.operation)()]

    def reduce_all(self) -> list[torch.Tensor]:
        raise NotImplementedError


class Gloo(Peer):
    def __init__(self) -> None:
        super().__init__()
        import torch.distributed as dist

        self.dist = dist
        self.rank, self.size = int(os.environ["COMPARE_RANK"]), int(os.environ["COMPARE_SIZE"])
        rendezvous = f"file://{os.environ['COMPARE_RENDEZVOUS']}"
        dist.init_process_group("gloo", init_method=rendezvous, rank=self.rank, world_size=self.size)

    def begin(self, operation: str, counts: list[int]) -> None:
        super().begin(operation, counts)
        self.gathered = torch.zeros(counts[0] * self.size) if operation == "allgather" else torch.zeros(0)
        self.parts = list(self.gathered.chunk(self.size))

    def reduce_all(self) -> list[torch.Tensor]:
        if len(self.inputs) == 1:
            self.dist.all_reduce(self.inputs[0])
            return self.inputs
        for work in [self.dist.all_reduce(tensor, async_op=True) for tensor in self.arriving()]:
            work.wait()
        return self.inputs

    def broadcast(self) -> torch.Tensor:
        self.dist.broadcast(self.inputs[0], 0)
        return self.inputs[0]

    def allgather(self) -> torch.Tensor:
        self.dist.all_gather(self.parts, self.inputs[0])
        return self.gathered


class Horovod(Peer):
    def __init__(self) -> None:
        super().__init__()
        import horovod.torch as hvd

        self.hvd = hvd
        hvd.init()
        self.rank, self.size = hvd.rank(), hvd.size()

    def begin(self, operation: str, counts: list[int]) -> None:
        super().begin(operation, counts)
        self.names = [f"{operation}.{counts[0]}.{len(counts)}.{index}" for index in range(len(counts))]

    def reduce_all(self) -> list[torch.Tensor]:
        started = [
            self.hvd.allreduce_async_(tensor, name=name, op=self.hvd.Sum)
            for tensor, name in zip(self.arriving(), self.names)
        ]
        for handle in started:
            self.hvd.synchronize(handle)
        return self.inputs

    def broadcast(self) -> torch.Tensor:
        return self.hvd.broadcast_(self.inputs[0], 0, name=self.names[0])

    def allgather(self) -> torch.Tensor:
        return self.hvd.allgather(self.inputs[0], name=self.names[0])

    def reducescatter(self) -> torch.Tensor:
        return self.hvd.reducescatter(self.inputs[0], name=self.names[0], op=self.hvd.Sum)

    def alltoall(self) -> torch.Tensor:
        return self.hvd.alltoall(self.inputs[0], name=self.names[0])


def _or_end(body: Callable[..., None]) -> Callable[..., None]:
    """Prints an exception of a callback and ends the process, so that the conductor (the script that starts the ranks)
    notices the failure. ctypes itself would ignore the exception."""

    def guarded(*arguments: Any) -> None:
        try:
            body(*arguments)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    return guarded


def _callbacks(peer: Peer) -> _Callbacks:
    def fill(pointers: Any, tensors: list[torch.Tensor]) -> None:
        for index, tensor in enumerate(tensors):
            pointers[index] = tensor.data_ptr()

    def begin(operation: bytes, tensors: int, counts: Any, compute_us: Any, inputs: Any) -> None:
        peer.begin(operation.decode(), counts[:tensors])
        peer.compute_us = compute_us[:tensors] if compute_us else []
        fill(inputs, peer.inputs)

    def end() -> None:
        peer.inputs = peer.results = []

    return _Callbacks(
        _BEGIN(_or_end(begin)),
        _PLAIN(_or_end(peer.run)),
        _OUTPUTS(_or_end(lambda outputs: fill(outputs, peer.results))),
        _PLAIN(_or_end(end)),
    )


def main() -> int:
    name, library = sys.argv[1:]
    harness = ctypes.CDLL(library)
    harness.compare_compute.argtypes = [ctypes.c_double]
    harness.compare_compute.restype = None
    harness.compare_proportional_bytes.restype = ctypes.c_uint64
    torch.set_num_threads(1)
    before = harness.compare_proportional_bytes()
    peer = {"gloo": Gloo, "horovod": Horovod}[name]()
    peer.compute = harness.compare_compute
    callbacks = _callbacks(peer)
    status = harness.compare_run_plan(ctypes.byref(callbacks), peer.rank, peer.size, ctypes.c_uint64(before))
    sys.stdout.flush()
    if status:
        os._exit(1)  # the library's own shutdown may wait for the other ranks
    return 0


if __name__ == "__main__":
    sys.exit(main())
