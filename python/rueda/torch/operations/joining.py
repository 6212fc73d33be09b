# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Operations without tensors: join and barrier."""

from __future__ import annotations

import contextlib

import rueda
from rueda.torch import _profiling
from rueda.torch.operations.handles import as_horovod
from rueda.torch.process_sets import ProcessSet, global_process_set


def join(device: int = -1) -> int:
    """Call this function on a rank that has no more batches while other ranks still have some. Blocks until every rank
    has called this function.

    Meanwhile the allreduces of the other ranks complete as if this rank contributed zeros. Operations that need data
    from every rank (allgather, broadcast, alltoall, reducescatter) fail on the other ranks.

    Args:
        device: not used, because a rank that has joined needs no memory.

    Returns:
        The rank that joined last; the same value on all ranks.

    Example::

        for batch in batches:  # some ranks have more batches than others
            train(batch)
        hvd.join()
    """
    recording = _profiling.region("rueda:join") if _profiling.is_active() else contextlib.nullcontext()
    with as_horovod("join", global_process_set), recording:
        return rueda.join()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of the set has called barrier().

    Example::

        hvd.barrier()
    """
    recording = _profiling.region("rueda:barrier") if _profiling.is_active() else contextlib.nullcontext()
    with as_horovod("barrier", process_set), recording:
        rueda.barrier(process_set=process_set)
