# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Lets the processes of a PyTorch group join a Rueda job as its ranks (docs/design/0013-torch-distributed.md)."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import uuid
from collections.abc import Iterator
from typing import Any

import rueda
from rueda import _native
from rueda.errors import Aborted
from rueda.torch.distributed._tcp_offer import TcpOffer

#: The tag of the messages that check_job() sends in the process set of all ranks. Programs do not use this tag.
_CHECK_TAG = -(2**31)

#: The name of each launcher. The key is the environment variable in which the launcher gives the number of processes.
#: Slurm is handled separately, because Slurm's variable gives this number only if Slurm's PMI is present.
_LAUNCHERS = {
    "RUEDA_SIZE": "ruedarun",
    "OMPI_COMM_WORLD_SIZE": "mpirun",
    "PMI_SIZE": "an MPI launcher",
}


def launcher() -> tuple[str, int] | None:
    """Returns the name of the launcher that started this process, and the number of its processes. Returns None if
    there is no launcher whose job Rueda can join by itself.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return None  # torchrun started this process, so variables of other launchers describe torchrun's own process
    if _is_number("SLURM_STEP_NUM_TASKS") and ("PMIX_RANK" in os.environ or "PMI_FD" in os.environ):
        return "srun", int(os.environ["SLURM_STEP_NUM_TASKS"])
    for variable, name in _LAUNCHERS.items():
        if _is_number(variable):
            return name, int(os.environ[variable])
    return None


def _is_number(variable: str) -> bool:
    return os.environ.get(variable, "").isdigit()


def host() -> str:
    """Returns a text that is the same in all processes that can connect to each other by an abstract Unix socket. Such
    processes run on the same machine and in the same network namespace, and the machine was not rebooted between their
    starts.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        namespace = os.readlink("/proc/self/ns/net")
    except OSError:
        boot = namespace = ""
    return f"{os.environ.get('RUEDA_HOSTNAME') or socket.gethostname()} {boot} {namespace}"


def join_job(rendezvous: Any, rank: int, size: int) -> None:
    """Initialises Rueda if it is not initialised. All members of the new group must call this function."""
    started_by = launcher()
    if rueda.is_initialized():
        way = f"a job of {rueda.size()} ranks"
    elif started_by is not None and started_by[1] == size:
        way = started_by[0]
    else:
        way = "store"
    offer = f"@rueda-{uuid.uuid4().hex}" if rank == 0 else ""
    said = rendezvous.exchange([way, host(), offer])
    ways = sorted({one[0] for one in said})
    if len(ways) > 1:
        raise RuntimeError(
            f"backend rueda: the ranks of the group do not join the same job: {'; '.join(_who(said, 0))} (store: by the "
            "store of the group). Make rueda the backend of the default group, or call hvd.init() on all ranks before"
        )
    if way == "store":
        place = {"RUEDA_RENDEZVOUS": said[0][2]}
        with contextlib.ExitStack() as until_met:
            if len({one[1] for one in said}) > 1:
                place = _meet_over_tcp(rendezvous, rank, until_met)
            until_met.enter_context(_environment(RUEDA_RANK=str(rank), RUEDA_SIZE=str(size), **place))
            rueda.init()
    elif not rueda.is_initialized():
        rueda.init()


def _meet_over_tcp(rendezvous: Any, rank: int, until_met: contextlib.ExitStack) -> dict[str, str]:
    """Returns the environment variables that ranks on several hosts need to connect to each other. On rank 0, this
    function reserves a port, until the caller's scope `until_met` ends.

    Raises:
        RuntimeError: rank 0 cannot reserve a port. All ranks raise this error.
    """
    mine: dict[str, str] = {}
    if rank == 0:
        try:
            offer = until_met.enter_context(contextlib.closing(TcpOffer()))
            mine = {"RUEDA_RENDEZVOUS": offer.rendezvous, "RUEDA_RENDEZVOUS_SECRET": offer.secret}
        except (OSError, RuntimeError) as error:
            mine = {"error": str(error)}  # without this entry, the other ranks would wait until the store's timeout
    place = dict(rendezvous.exchange(mine)[0])
    if "error" in place:
        raise RuntimeError(
            f"backend rueda: rank 0 cannot reserve a port at which the ranks of other hosts could connect: {place['error']}"
        )
    return place


def check_job() -> None:
    """Raises the error that ended this process's job, if the job has ended. To find out, this rank sends a message to
    itself. This works without the other ranks.
    """
    if not rueda.is_initialized():
        return
    me = rueda.rank()
    try:
        arrival = _native.receive_async(bytearray(1), me, _CHECK_TAG, 0)
        _native.send_async(b"\0", me, _CHECK_TAG, 0).wait()
        arrival.wait()
    except Aborted as error:
        cause = re.sub(rf"^(send|receive) [^:]*tag {_CHECK_TAG}: ", "", str(error))
        raise Aborted(f"the job has ended while a group was made: {cause}") from None


def _who(said: list[list[str]], index: int) -> list[str]:
    """Returns one text for each different message. The text has the message and the ranks that wrote it."""
    ranks: dict[str, list[str]] = {}
    for rank, one in enumerate(said):
        ranks.setdefault(one[index], []).append(str(rank))
    return [f"{what}: rank {', '.join(who)}" for what, who in ranks.items()]


@contextlib.contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Sets environment variables that init() reads, and restores their old values at the end of the scope. Otherwise
    child processes would behave like ranks.
    """
    forced = {**variables, "RUEDA_CONTROL_PLANE": "socket"}
    # WORLD_SIZE is removed, because it counts all processes, but the group may contain only some of them.
    taken = {"RUEDA_LOCAL_RANK", "RUEDA_LOCAL_SIZE", "HOROVOD_RANK", "HOROVOD_SIZE", "WORLD_SIZE"}
    before = {name: os.environ.get(name) for name in {*forced, *taken}}
    for name in taken:
        os.environ.pop(name, None)
    os.environ.update(forced)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
