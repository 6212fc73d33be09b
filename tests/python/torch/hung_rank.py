# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""One rank of a job of test_distributed_faults.py. Rank 1 is stopped by a signal. Rank 0 makes calls that need rank 1,
prints how each call ends, and then kills rank 1."""

import datetime
import os
import pathlib
import signal
import time

import rueda
import rueda.torch.distributed  # noqa: F401
import torch
import torch.distributed as dist

SECONDS = 1.0


def network(**options):
    torch.manual_seed(0)
    return torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4), **options)


def hook(group, bucket):
    """A communication hook in Python whose callback starts another collective."""

    def again(done):
        return dist.all_reduce(done.value()[0], group=group, async_op=True).get_future().wait()[0]

    return dist.all_reduce(bucket.buffer(), group=group, async_op=True).get_future().then(again)


def begin(group):
    return dist.all_reduce(torch.ones(3), group=group, async_op=True)


def functional(group):
    import torch.distributed._functional_collectives as functional_collectives

    return functional_collectives.wait_tensor(functional_collectives.all_reduce(torch.ones(3), "sum", group))


def backward(network):
    network(torch.ones(2, 4)).sum().backward()


dist.init_process_group("rueda", timeout=datetime.timedelta(seconds=60))
rank = dist.get_rank()
names = [*"wait asynchronous future chained collected backward unused hook batch barrier objects".split()]
if rueda.torch.distributed.offers("functional collectives"):
    names.append("functional")
groups = {
    name: dist.new_group([0, 1]) for name in names
}  # each of these calls has its own group, because a group refuses operations after a Timeout
plain = network(process_group=groups["backward"])
unused = network(process_group=groups["unused"], find_unused_parameters=True)
hooked = network(process_group=groups["hook"])
hooked.register_comm_hook(groups["hook"], hook)
for one in (plain, unused, hooked):
    backward(one)
pids = [torch.zeros(1, dtype=torch.int64) for _ in range(2)]
dist.all_gather(pids, torch.tensor([os.getpid()]))
for group in groups.values():
    group.set_timeout(datetime.timedelta(seconds=SECONDS))
dist.barrier()
if rank == 1:
    os.kill(os.getpid(), signal.SIGSTOP)
late = int(pids[1].item())
while pathlib.Path(f"/proc/{late}/stat").read_text().rpartition(")")[2].split()[0] != "T":
    time.sleep(0.01)
calls = {
    "wait": lambda group: dist.all_reduce(torch.ones(3), group=group),
    "asynchronous": lambda group: begin(group).wait(),
    "future": lambda group: begin(group).get_future().wait(),
    "chained": lambda group: begin(group).get_future().then(lambda done: done.value()[0] + 1).wait(),
    "collected": lambda group: torch.futures.wait_all([begin(group).get_future() for _ in range(2)]),
    "backward": lambda _: backward(plain),
    "unused": lambda _: backward(unused),
    "hook": lambda _: backward(hooked),
    "batch": lambda group: [
        work.wait()
        for work in dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, torch.ones(100_000), 1, group), dist.P2POp(dist.irecv, torch.ones(3), 1, group)]
        )
    ],
    "barrier": lambda group: dist.barrier(group=group),
    "objects": lambda group: dist.all_gather_object([None, None], "mine", group=group),
    "functional": lambda group: functional(group),
}
for name in names:
    call = calls[name]
    began = time.monotonic()
    try:
        call(groups[name])
        end = "no error"
    except RuntimeError as error:
        named = "rank 1 has not" in str(error) and "stopped by a signal" in str(error)
        # PyTorch's C++ code turns errors of futures into RuntimeErrors, so the kind is read from the text.
        kind = (
            "Timeout"
            if isinstance(error, rueda.Timeout) or f"not completed after {SECONDS:g} s" in str(error)
            else "other"
        )
        end = f"{kind} named" if named else f"{kind} unnamed: {error}"
    seconds = time.monotonic() - began
    in_time = "in time" if SECONDS <= seconds < 15 else f"after {seconds:.1f} s"
    os.write(1, f"<{name}: {end} {in_time}>\n".encode())
os.kill(late, signal.SIGKILL)
os._exit(0)
