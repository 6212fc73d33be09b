# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Divides the cores of a machine among the threads of its processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rueda import _lifecycle

_COUNT = "OMP_NUM_THREADS"
_set_here: str | None = None  # the value to which use_cores() has set OMP_NUM_THREADS


@dataclass(frozen=True)
class Cores:
    """The threads with which this rank computes.

    ``threads`` is the number of threads of an operation (intra-op). ``interop_threads`` is the number of operations
    that PyTorch may run at the same time. It is None if use_cores() did not set it. ``is_set_by_user`` says that
    OMP_NUM_THREADS was set, so that ``threads`` was not changed. ``summary`` is one line for the log.

    Example::

        cores: rueda.training.Cores = rueda.training.use_cores()
    """

    threads: int
    interop_threads: int | None
    is_set_by_user: bool
    summary: str


def use_cores(say: Callable[[str], None] | None = None) -> Cores:
    """Sets the number of threads of the libraries that compute, so that the ranks of a machine together have no more
    threads than cores (rueda.threads_per_rank()).

    Call it after init(), and before the first computation. Use it in programs that mpirun, srun or torchrun starts;
    ruedarun sets OMP_NUM_THREADS itself. If the user has set OMP_NUM_THREADS to a number above 0, this number is used.
    Any other text is replaced, and the summary names it. If the user has not set the variable, torchrun sets it to 1.
    use_cores() replaces this 1, too.

    If PyTorch was imported, the function sets PyTorch's two numbers of threads (``threads`` and ``interop_threads`` of
    the result). A number that the program has set with torch.set_num_threads(), or by MKL_NUM_THREADS, stays. For
    libraries that are loaded later, and for child processes, the function sets OMP_NUM_THREADS, and KMP_BLOCKTIME if it
    is not set. NumPy reads these variables when it is imported. The call does not communicate.

    Args:
        say: is called on rank 0 with a line that says what was set; by default the line goes to standard error.

    Raises:
        NotInitialized: before init().

    Example::

        import rueda.torch as hvd
        import torch

        hvd.init()
        rueda.training.use_cores()
    """
    global _set_here
    threads = _lifecycle.threads_per_rank()
    value = os.environ.get(_COUNT, "")
    outermost = value.split(",")[0].strip()  # the variable may have several numbers, one for each level of nesting
    is_number = outermost.isdecimal() and int(outermost) > 0
    is_set_by_user = is_number and value != _set_here and not _is_of_torchrun(value)
    torch = sys.modules.get("torch")
    if is_set_by_user:
        threads = int(outermost)
        found = f"{_COUNT}={value} stays as it is"
    else:
        kept = None if torch is None else _threads_of_the_user(torch, value)
        _set_here = os.environ[_COUNT] = str(threads)
        if threads > 1:
            os.environ.setdefault("KMP_BLOCKTIME", "1")
        if torch is not None and kept is None:
            torch.set_num_threads(threads)
        ranks = _lifecycle.local_size()
        found = (
            f"{threads} thread{'' if threads == 1 else 's'} on each rank, because {ranks} "
            f"{'rank shares' if ranks == 1 else 'ranks share'} the cores of this host"
        )
        if kept is not None:
            found += f"; PyTorch keeps the {kept} thread{'' if kept == 1 else 's'} that the program has chosen"
            threads = kept
        if value and not is_number:
            found += f"; {_COUNT}={value} had no effect, because it is no number above 0"
    interop = None if torch is None else _set_interop_threads(torch, threads)
    if interop is not None:
        found += f"; PyTorch runs at most {interop} operation{'' if interop == 1 else 's'} at the same time"
    cores = Cores(threads, interop, is_set_by_user, f"cores: {found}")
    if _lifecycle.rank() == 0:
        (say or _print_to_stderr)(cores.summary)
    return cores


def _print_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _is_of_torchrun(value: str) -> bool:
    """Returns True if OMP_NUM_THREADS was set by torchrun, and not by the user. torchrun sets it to 1 if it starts
    several processes and the variable is not set. This function therefore reads, in /proc, the environment with which
    torchrun itself was started: the variable is there only if the user has set it.
    """
    if value != "1" or "TORCHELASTIC_RUN_ID" not in os.environ:
        return False
    try:
        with open(f"/proc/{os.getppid()}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return False  # the parent belongs to another user, so it is not torchrun
    return not any(variable.startswith(_COUNT.encode() + b"=") for variable in variables)


def _physical_cores(cores: Iterable[int]) -> int:
    """Returns the number of cores without hyper-threads; 0 if the system does not tell."""
    siblings = set()
    for core in cores:
        try:
            with open(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list") as file:
                siblings.add(file.read())
        except OSError:
            return 0
    return len(siblings)


def _threads_of_the_user(torch: Any, value: str) -> int | None:
    """Returns PyTorch's number of threads if the program has chosen it, and None if PyTorch has chosen it. PyTorch
    chooses the number of cores, with or without hyper-threads, or the value that OMP_NUM_THREADS had when PyTorch was
    loaded.

    Args:
        value: the value of OMP_NUM_THREADS. It may come from torchrun or from an earlier use_cores().
    """
    threads: int = torch.get_num_threads()
    usable = os.sched_getaffinity(0)
    everything = range(os.cpu_count() or 1)
    own = {len(usable), len(everything), _physical_cores(usable), _physical_cores(everything)}
    if value.isdigit():
        own.add(int(value))
    return threads if os.environ.get("MKL_NUM_THREADS") or threads not in own else None


def _set_interop_threads(torch: Any, threads: int) -> int | None:
    """Sets how many operations PyTorch may run at the same time. By default this is the number of cores. Each operation
    may use all threads of the rank, so two operations at the same time are enough: one computes while the other waits.
    Returns None if the program has set another number, or if PyTorch has already started these threads.
    """
    wanted = min(2, threads)
    before: int = torch.get_num_interop_threads()
    if before == wanted:
        return wanted
    if before not in (os.cpu_count(), len(os.sched_getaffinity(0))):
        return None
    try:
        torch.set_num_interop_threads(wanted)
    except RuntimeError:
        return None
    return wanted
