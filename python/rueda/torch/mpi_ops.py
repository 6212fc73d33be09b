# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# ruff: noqa: F401
"""Offers the operations under Horovod's module name. Rueda itself imports them from operations/."""

from rueda.errors import HorovodInternalError
from rueda.torch._basics import (
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
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
from rueda.torch.operations.allgather import (
    HorovodAllgather,
    HorovodGroupedAllgather,
    allgather,
    allgather_async,
    grouped_allgather,
    grouped_allgather_async,
)
from rueda.torch.operations.allreduce import (
    HorovodAllreduce,
    HorovodGroupedAllreduce,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
)
from rueda.torch.operations.alltoall import HorovodAlltoall, alltoall, alltoall_async
from rueda.torch.operations.broadcast import (
    HorovodBroadcast,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
)
from rueda.torch.operations.handles import _handle_map, poll, synchronize
from rueda.torch.operations.joining import barrier, join
from rueda.torch.operations.reducescatter import (
    HorovodGroupedReducescatter,
    HorovodReducescatter,
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)
from rueda.torch.operations.sparse import sparse_allreduce_async
from rueda.types import Adasum, Average, Max, Min, Product, Sum
