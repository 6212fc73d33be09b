# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Implements ``init_process_group("rueda")`` for launchers whose job Rueda can join: ruedarun, mpirun, srun.

The process first joins the job, which gives it its rank and the number of ranks. Then rank 0 makes the store that
PyTorch needs.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlparse

import torch.distributed as dist

import rueda
from rueda.torch.distributed import _joining

# Imported under another name, because torch.distributed has a function of the same name.
_torch_rendezvous = importlib.import_module("torch.distributed.rendezvous")

#: The environment variables of different launchers that contain the rank in the job.
_RANKS = ("RUEDA_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")

_Handler = Callable[..., Iterator[tuple[Any, int, int]]]


def from_job(url: str, timeout: timedelta = timedelta(minutes=30), **_: Any) -> Iterator[tuple[Any, int, int]]:
    """Yields the store, the rank and the size for ``init_method="rueda://"``."""
    rueda.init()
    rank, size = rueda.rank(), rueda.size()
    asked = _asked(url)
    if asked.get("world_size", size) != size or asked.get("rank", rank) != rank:
        raise ValueError(
            f"init_process_group: rank {asked.get('rank', rank)} of {asked.get('world_size', size)} was asked for; this "
            f"process is rank {rank} of {size} of Rueda's job"
        )
    yield _store(rank, size, timeout), rank, size
    raise RuntimeError("rueda://: a job cannot meet a second time")


def _asked(url: str) -> dict[str, int]:
    """Returns the rank and world_size that the program passed to init_process_group. Values that the program did not
    pass are left out. The URL that PyTorch makes has -1 for such values.
    """
    given = {
        name: int(values[0]) for name, values in parse_qs(urlparse(url).query).items() if name in ("rank", "world_size")
    }
    return {name: value for name, value in given.items() if value >= 0}


def _store(rank: int, size: int, timeout: timedelta) -> Any:
    """Makes rank 0's store. If all ranks are on this host, the store listens only on the loopback interface."""
    is_one_host = rueda.local_size() == size
    made = _listening(size, timeout, "127.0.0.1" if is_one_host else _address()) if rank == 0 else None
    place: Any = rueda.broadcast_object((made.host, made.port) if made is not None else None)
    return made if made is not None else dist.TCPStore(place[0], place[1], size, False, timeout)


def _listening(size: int, timeout: timedelta, address: str) -> Any:
    if address == "127.0.0.1":
        with socket.create_server((address, 0)) as listener:
            port = listener.getsockname()[1]
            # PyTorch may have two implementations of the store's server. Only the implementation without libuv accepts
            # an existing socket.
            for more in ({"use_libuv": False}, {}):
                options: dict[str, Any] = {"master_listen_fd": listener.fileno(), **more}
                with contextlib.suppress(TypeError):  # older versions of PyTorch do not have these options
                    store = dist.TCPStore(address, port, size, True, timeout, wait_for_workers=False, **options)
                    listener.detach()  # the store owns the socket now
                    return store
    return dist.TCPStore(address, 0, size, True, timeout, wait_for_workers=False)


def _address() -> str:
    """Returns a name of this host that other hosts can resolve."""
    return os.environ.get("MASTER_ADDR") or socket.getfqdn()


def _is_ours(url: str) -> bool:
    """Returns True if the rendezvous must use Rueda's job instead of PyTorch's environment variables. There are two
    such cases. In the first, one of the variables is missing. In the second, ruedarun started all ranks on this host,
    where PyTorch's own rendezvous would listen on all interfaces.
    """
    started_by = _joining.launcher()
    if started_by is None:
        return False
    asked = _asked(url)
    needed = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} - {name.upper() for name in asked}
    return not needed <= os.environ.keys() or (not asked and _is_ruedarun_on_one_host(started_by[1]))


def _is_ruedarun_on_one_host(size: int) -> bool:
    """Returns True if ruedarun started all ranks on this host, and RANK and the other variables still have the values
    that ruedarun set.
    """
    if "RUEDA_LAUNCHER_FD" not in os.environ:
        return False
    rank = next((os.environ[name] for name in _RANKS if name in os.environ), None)
    expected = {"RANK": rank, "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
    return all(os.environ.get(name) == value for name, value in expected.items())


def install() -> None:
    """Registers ``rueda://`` with PyTorch, and makes ``env://`` use Rueda's rendezvous if _is_ours() is true."""
    handlers: dict[str, _Handler] | None = getattr(_torch_rendezvous, "_rendezvous_handlers", None)
    if handlers is None:
        _torch_rendezvous.register_rendezvous_handler("rueda", from_job)
        return
    if "rueda" in handlers:
        return
    handlers["rueda"] = from_job
    from_environment = handlers.get("env")
    if from_environment is None:
        return

    def from_environment_or_job(url: str, **options: Any) -> Iterator[tuple[Any, int, int]]:
        return from_job(url, **options) if _is_ours(url) else from_environment(url, **options)

    handlers["env"] = from_environment_or_job
