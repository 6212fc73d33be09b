# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Horovod's interface for PyTorch, with the same names. Write ``import rueda.torch as hvd`` instead of ``import
horovod.torch as hvd``.

Example::

    import torch
    import rueda.torch as hvd

    hvd.init()
    model = torch.nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

Start the program with ``ruedarun -np 2 python train.py``, with plain ``mpirun``, or alone. See docs/pytorch.md.
"""

from __future__ import annotations

import importlib
import importlib.util

import torch

from rueda.errors import HorovodInternalError
from rueda.torch import elastic
from rueda.torch._basics import (
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    init,
    is_initialized,
    local_device,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    rocm_built,
    shutdown,
    size,
)
from rueda.torch.compression import Compression
from rueda.torch.functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from rueda.torch.operations.allgather import (
    allgather,
    allgather_async,
    grouped_allgather,
    grouped_allgather_async,
)
from rueda.torch.operations.allreduce import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
)
from rueda.torch.operations.alltoall import alltoall, alltoall_async
from rueda.torch.operations.broadcast import (
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
)
from rueda.torch.operations.handles import poll, synchronize
from rueda.torch.operations.joining import barrier, join
from rueda.torch.operations.reducescatter import (
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)
from rueda.torch.operations.sparse import sparse_allreduce_async
from rueda.torch.optimizer import DistributedOptimizer
from rueda.torch.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from rueda.torch.sync_batch_norm import SyncBatchNorm
from rueda.torch.timeline import start_timeline, stop_timeline
from rueda.types import Adasum, Average, Max, Min, Product, Sum

_MPI_LIB_AVAILABLE = True


def _check_has_gpu() -> bool:
    """Returns True if PyTorch can use a GPU. The gpu_available() of Horovod calls this function."""
    return torch.cuda.is_available()


__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "SyncBatchNorm",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_initialized",
    "join",
    "local_device",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]

# The import registers the backend with torch.distributed. If this PyTorch accepts no backends of other packages,
# nothing is imported.
if (
    torch.distributed.is_available()
    and hasattr(torch.distributed.Backend, "register_backend")
    and importlib.util.find_spec("rueda.torch.distributed") is not None
):
    importlib.import_module("rueda.torch.distributed")
