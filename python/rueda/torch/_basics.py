# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Functions to join and to leave the job, with Horovod's arguments and results. Also functions that describe this
installation.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable, Iterable
from typing import Any

import torch.utils.data

import rueda
from rueda._native import (
    cross_rank,
    cross_size,
    is_homogeneous,
    is_initialized,
    local_device,
    local_rank,
    local_size,
    rank,
    size,
)
from rueda.errors import InvalidArgument, NotInitialized, RuedaError
from rueda.torch import process_sets as sets_of_job
from rueda.torch.process_sets import ProcessSet

__all__ = [
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_device",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "rocm_built",
    "shutdown",
    "size",
]

#: The value that MPI_Query_thread returns if every thread may call MPI. It is the same in Open MPI and MPICH.
_MPI_THREAD_MULTIPLE = 3

#: The oldest version of NCCL with which Rueda works, in the form of NCCL_VERSION_CODE.
_OLDEST_NCCL = 21800

#: Whether the program has called this module's init() in the current job.
_begun = False
#: When a job has ended, these functions are called, so that modules forget what they stored for this job.
_at_end: list[Callable[[], None]] = [sets_of_job.end_job]


def init(comm: Iterable[int] | Any | None = None, process_sets: Iterable[ProcessSet] | str | None = None) -> None:
    """Joins the other processes of the job. All of them must call this function. A second call does nothing.

    Args:
        comm: the processes of the job. None: all launched processes. A list of ranks: the processes with these ranks.
            An mpi4py communicator: its processes; Rueda duplicates the communicator.
        process_sets: ProcessSet objects or lists of ranks. All ranks make these sets now, in this order. The value
            "dynamic" is also allowed: Horovod needs it if a program adds sets later; in Rueda it has no effect.

    Raises:
        ValueError: an argument is invalid (InvalidArgument), or two sets are the same.
        NotImplementedError: ``process_sets`` contains an mpi4py communicator, but ``comm`` is not one.
        HorovodInternalError: the ranks could not form a job; the message says why.

    Example::

        hvd.init()
        torch.manual_seed(hvd.rank())
    """
    global _begun
    if torch.utils.data.get_worker_info() is not None:
        raise NotInitialized(
            "init: this process is a worker of a DataLoader, which is no rank of the job; call Rueda in the process that "
            "trains, and give workers what they need, such as the rank, in the dataset"
        )
    wanted = _sets_to_make(process_sets)
    if not is_initialized():
        # If rueda.shutdown() ended the last job, the state of this module was not reset yet.
        _ended()
    rueda.init(comm)
    if _begun:
        return
    # This is the first call of this module's init() in the job. The job itself may have begun earlier, by rueda.init().
    _begun = True
    sets_of_job.begin_job(comm)
    try:
        for process_set in wanted:
            sets_of_job.add_process_set(process_set)
    except (RuedaError, NotImplementedError):
        shutdown()  # every rank gets this error, so every rank shuts down
        raise


def _sets_to_make(given: Iterable[ProcessSet] | str | None) -> list[ProcessSet]:
    if given is None or given == "dynamic":
        return []
    if isinstance(given, str):
        raise InvalidArgument(f'init: process_sets is {given!r}; expected a list, or "dynamic"')
    return [one if isinstance(one, ProcessSet) else ProcessSet(one) for one in given]


def shutdown() -> None:
    """Leaves the job. Returns when every rank has called it, or when a rank has died. When the interpreter ends, it
    also calls this function.

    Example::

        hvd.shutdown()
    """
    rueda.shutdown()
    _ended()


def _ended() -> None:
    global _begun
    _begun = False
    for forget in _at_end:
        forget()


@functools.cache
def _beside_the_library() -> set[str]:
    """Returns the names of the files in the folder of librueda.so."""
    for path in _mapped():
        if os.path.basename(path).startswith("librueda.so"):
            return set(os.listdir(os.path.dirname(path)))
    return set()


def _mapped() -> set[str]:
    """Returns the files that this process has mapped into memory."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        return {fields[5].strip() for fields in (line.split(maxsplit=5) for line in maps) if len(fields) == 6}


def mpi_built() -> bool:
    """Returns True if this installation has a plugin for MPI."""
    return bool(_beside_the_library() & {"librueda_mpi.so", "librueda_mpich.so"}) or "RUEDA_MPI_PLUGIN" in os.environ


def mpi_enabled() -> bool:
    """Returns True if the ranks of this job use MPI. If ruedarun connected the ranks of one host by its socket, the
    ranks do not use MPI.
    """
    return any(os.path.basename(path).startswith(("librueda_mpi.", "librueda_mpich.")) for path in _mapped())


def mpi_threads_supported() -> bool:
    """Returns True if MPI was initialised so that every thread may call MPI. In this case the program may call MPI
    itself at any time, for example by mpi4py.

    Raises:
        ValueError: before init(), or in a job without MPI.
    """
    if not is_initialized():
        raise NotInitialized("mpi_threads_supported: rueda is not initialized; call hvd.init() first")
    if not mpi_enabled():
        raise InvalidArgument(
            "mpi_threads_supported: this job runs without MPI; start it with mpirun, or ask mpi_enabled()"
        )
    for path in _mapped():
        if os.path.basename(path).startswith(("libmpi.", "libmpich.")):
            level = ctypes.c_int(-1)
            ctypes.CDLL(path).MPI_Query_thread(ctypes.byref(level))
            return level.value == _MPI_THREAD_MULTIPLE
    return False


def gloo_enabled() -> bool:
    """Returns False, because Rueda does not use Gloo. A job on one host needs no MPI either."""
    return False


def gloo_built() -> bool:
    """Returns False, because Rueda does not use Gloo."""
    return False


def nccl_built() -> int:
    """Returns the oldest version of NCCL with which this installation works, 21800 for 2.18; 0 without the plugin for
    GPUs. Rueda loads NCCL with the first operation on a GPU.
    """
    return _OLDEST_NCCL if cuda_built() else 0


def ddl_built() -> bool:
    """Returns False, because Rueda does not use IBM's DDL."""
    return False


def ccl_built() -> bool:
    """Returns False, because Rueda does not use oneCCL."""
    return False


def cuda_built() -> bool:
    """Returns True if this installation has the plugin for tensors in the memory of NVIDIA GPUs."""
    return "librueda_cuda.so" in _beside_the_library() or "RUEDA_CUDA_PLUGIN" in os.environ


def rocm_built() -> bool:
    """Returns True if this installation supports tensors in the memory of AMD GPUs."""
    return False
