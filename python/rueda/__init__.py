# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Rueda: data-parallel training on many processes, for NumPy arrays and other objects with the buffer protocol or
DLPack.

Example::

    import numpy as np
    import rueda

    rueda.init()
    gradient = np.full(1000, rueda.rank(), np.float32)
    rueda.allreduce_(gradient, "gradient")  # the average over all ranks
    rueda.shutdown()

Start the program with ``ruedarun -np 2 python train.py``, with plain ``mpirun``, or alone.
"""

from __future__ import annotations

from rueda import _native
from rueda._awaiting import wait_in_loop as _wait_in_loop
from rueda._collectives import (
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall,
    alltoall_async,
    barrier,
    barrier_async,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    join,
    join_async,
    reducescatter,
    reducescatter_async,
)
from rueda._gpu import address_of_stream as _address_of_stream
from rueda._gpu import cuda_stream
from rueda._groups import (
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
)
from rueda._lifecycle import (
    abort,
    begin_step,
    blocked_seconds,
    busy,
    cross_rank,
    cross_size,
    init,
    is_homogeneous,
    is_initialized,
    local_device,
    local_rank,
    local_size,
    metrics,
    rank,
    shutdown,
    size,
    threads_per_rank,
)
from rueda._memory import empty
from rueda._messages import receive, receive_async, send, send_async
from rueda._native import Handle, TensorSlot, TensorView
from rueda._objects import allgather_object, broadcast_object, broadcast_parameters
from rueda._process_sets import (
    ProcessSet,
    add_process_set,
    add_process_set_among,
    global_process_set,
    leave_process_set,
    remove_process_set,
)
from rueda._roots import gather, gather_async, reduce, reduce_async, scatter, scatter_async
from rueda._sparse import sparse_allreduce, sparse_allreduce_async
from rueda._tensors import adapt as _adapt
from rueda._timeline import start_timeline, stop_timeline, timeline_scope
from rueda.errors import (
    BY_CODE as _ERRORS_BY_CODE,
)
from rueda.errors import (
    Aborted,
    DuplicateName,
    HorovodInternalError,
    Internal,
    InvalidArgument,
    Mismatch,
    NotInitialized,
    ResourceExhausted,
    RuedaError,
    Timeout,
    Unsupported,
)
from rueda.types import Adasum, Average, Compression, DType, Max, Min, Product, ReduceOp, Sum

_native.set_hooks(_ERRORS_BY_CODE, _adapt, _wait_in_loop, _address_of_stream)

__version__ = _native.version

__all__ = [
    "Aborted",
    "Adasum",
    "Average",
    "Compression",
    "DType",
    "DuplicateName",
    "Handle",
    "HorovodInternalError",
    "Internal",
    "InvalidArgument",
    "Max",
    "Min",
    "Mismatch",
    "NotInitialized",
    "ProcessSet",
    "Product",
    "ReduceOp",
    "ResourceExhausted",
    "RuedaError",
    "Sum",
    "TensorSlot",
    "TensorView",
    "Timeout",
    "Unsupported",
    "add_process_set",
    "add_process_set_among",
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
    "barrier_async",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_parameters",
    "abort",
    "begin_step",
    "blocked_seconds",
    "busy",
    "cuda_stream",
    "cross_rank",
    "cross_size",
    "empty",
    "gather",
    "gather_async",
    "global_process_set",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "join_async",
    "leave_process_set",
    "local_device",
    "local_rank",
    "local_size",
    "metrics",
    "rank",
    "receive",
    "receive_async",
    "reduce",
    "reduce_async",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "scatter",
    "scatter_async",
    "send",
    "send_async",
    "shutdown",
    "size",
    "sparse_allreduce",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "threads_per_rank",
    "timeline_scope",
]
