# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares torch.distributed on the backend "rueda" with Gloo. Both take turns in one run.

Usage: ruedarun --no-mpi -np 2 python benchmarks/python/torch_distributed_bench.py [--seconds S] [--largest BYTES]
[--json FILE] [--link BURST | --ddp | --small]

The backends run blocks of calls in turn. Each rank rewrites its input before each call. The table has medians of the
slower rank, in microseconds. Before the measurement, the results of both backends are compared. The row send/recv shows
half of the time for a message to the neighbour and back. All pairs of neighbours exchange messages at the same time.

--link is for two ranks on two hosts. It measures the goodput: the throughput of one TCP stream between the hosts, and of
two simultaneous streams in both directions. A backend needs at least the time of the bytes at this goodput. An idle link
lets BURST bytes pass at once.

--ddp measures training steps, in milliseconds, of a model with as many parameters as ResNet-50, and steps without
communication. The variants are plain DDP, DDP with gradients as views of the buckets, and DDP with a hook that copies
the buckets into resident memory. --small measures calls of all_reduce on 4 bytes, without work between the calls, in
microseconds.
"""

import argparse
import contextlib
import dataclasses
import json
import socket
import statistics
import threading
import time
from collections.abc import Callable, Iterator

import rueda
import rueda.torch.distributed
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

SCATTER = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
SIZES = [4, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]
#: A block has CALLS_OF_SMALL calls for tensors of up to SMALL bytes, and CALLS_OF_LARGE calls for larger tensors.
SMALL, CALLS_OF_SMALL, CALLS_OF_LARGE = 64 << 10, 32, 2


def slower(value: float, group: dist.ProcessGroup) -> float:
    """Returns the largest value of all ranks."""
    largest = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(largest, dist.ReduceOp.MAX, group=group)
    return largest.item()


@dataclasses.dataclass
class Row:
    """One operation on tensors of one size."""

    name: str
    bytes: int
    call: Callable[[dist.ProcessGroup], object]
    input: torch.Tensor
    output: torch.Tensor
    share: float = 1.0  # the call's time is multiplied by this factor, for example to get half of a round trip
    crosses: float = 1.0  # with two ranks: the part of the bytes that each of them, or the only sender, sends
    both_ways: bool = True  # with two ranks: whether both send at the same time

    def prepare(self) -> None:
        """Writes the input of the next call."""
        self.input.fill_(1.0)

    def result(self, group: dist.ProcessGroup) -> torch.Tensor:
        """Returns the operation's result for inputs that differ between elements and ranks, and whose sums are
        exact."""
        self.input.copy_(torch.arange(self.input.numel()).remainder_(251).add_(dist.get_rank()))
        self.call(group)
        return self.output.clone()


def has(row: Row, group: dist.ProcessGroup) -> bool:
    """Returns whether the backend has the operation (Gloo in PyTorch 1.13 has no reduce_scatter)."""
    try:
        row.call(group)
    except RuntimeError as error:
        if "support" not in str(error):
            raise
        return False
    return True


def compare(groups: dict[str, dist.ProcessGroup], row: Row, seconds: float) -> dict[str, float]:
    """Measures the row on each backend. Returns the medians in seconds."""
    there = {name: group for name, group in groups.items() if has(row, group)}
    results = [row.result(group) for group in there.values()]
    assert all(
        torch.equal(results[0], result) for result in results
    ), f"{row.name} of {row.bytes} bytes: unlike results"
    times: dict[str, list[float]] = {name: [] for name in there}
    calls = CALLS_OF_SMALL if row.bytes <= SMALL else CALLS_OF_LARGE
    end = time.monotonic() + seconds
    while slower(float(time.monotonic() < end or len(times["rueda"]) < 3 * calls), groups["gloo"]) > 0:
        for name, group in there.items():
            row.prepare()
            row.call(group)  # synchronises the ranks and fills the caches with this backend's data
            for _ in range(calls):
                row.prepare()
                begin = time.perf_counter()
                row.call(group)
                times[name].append((time.perf_counter() - begin) * row.share)
    return {name: slower(statistics.median(taken), groups["gloo"]) for name, taken in times.items()}


def there_and_back(tensor: torch.Tensor, group: dist.ProcessGroup) -> None:
    """Sends a message to the neighbour and back. With an odd number of ranks, the last rank has no neighbour."""
    rank = dist.get_rank()
    peer = rank ^ 1
    if peer >= dist.get_world_size():
        return
    if rank < peer:
        dist.send(tensor, peer, group=group)
        dist.recv(tensor, peer, group=group)
    else:
        dist.recv(tensor, peer, group=group)
        dist.send(tensor, peer, group=group)


def rows_of(count: int) -> Iterator[Row]:
    """Yields the rows for tensors of `count` bytes. If each rank has only a part of a tensor, all parts together have
    this size."""
    size = dist.get_world_size()
    tensor = torch.ones(count // 4)
    each = torch.ones(max(count // 4 // size, 1))
    whole, other = (torch.ones(each.numel() * size) for _ in range(2))
    parts = list(whole.view(size, -1).unbind())
    yield Row("all_reduce", count, lambda group: dist.all_reduce(tensor, group=group), tensor, tensor)
    yield Row("broadcast", count, lambda group: dist.broadcast(tensor, 0, group=group), tensor, tensor, both_ways=False)
    yield Row("all_gather", count, lambda group: dist.all_gather(parts, each, group=group), each, whole, crosses=0.5)
    yield Row("reduce_scatter", count, lambda group: SCATTER(each, whole, group=group), whole, each, crosses=0.5)
    yield Row(
        "all_to_all",
        count,
        lambda group: dist.all_to_all_single(other, whole, group=group),
        whole,
        other,
        crosses=0.5,
    )
    yield Row(
        "send/recv",
        count,
        lambda group: there_and_back(tensor, group),
        tensor,
        tensor,
        share=0.5,
        both_ways=False,
    )


def operations(largest: int) -> list[Row]:
    """Returns all rows by name and size."""
    nothing = torch.zeros(0)
    rows = [Row("barrier", 0, lambda group: dist.barrier(group=group), nothing, nothing)]
    for count in SIZES:
        if count <= largest:
            rows += rows_of(count)
    return sorted(rows, key=lambda row: row.name)


def goodput(group: dist.ProcessGroup, both_ways: bool) -> float:
    """Returns how many bytes per second rank 0 sends to rank 1, and at the same time rank 1 to rank 0 if `both_ways`."""
    count = 64 << 20
    address: list[object] = [None]
    with contextlib.ExitStack() as stack:
        if dist.get_rank() == 0:
            server = stack.enter_context(socket.create_server(("", 0)))
            address = [(socket.gethostname(), server.getsockname()[1])]
        dist.broadcast_object_list(address, 0, group=group)
        link = server.accept()[0] if dist.get_rank() == 0 else socket.create_connection(address[0])
        stack.enter_context(link)
        began = time.perf_counter()
        sends, receives = both_ways or dist.get_rank() == 0, both_ways or dist.get_rank() == 1
        sender = threading.Thread(target=link.sendall, args=(bytes(count if sends else 0),))
        sender.start()
        room = bytearray(1 << 20)
        received = 0
        while receives and received < count:
            received += link.recv_into(room) or count  # the other side never closes the connection before the end
        sender.join()
        return count / slower(time.perf_counter() - began, group)


def resnet() -> torch.nn.Module:
    """Returns a model whose parameters have the sizes of ResNet-50's convolutions. The model only adds up its
    parameters, so the backward pass is short and hides little communication."""

    class Sizes(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            shapes: list[int] = [9408, 64, 64]
            width = 64
            for stage, blocks in enumerate((3, 4, 6, 3)):
                planes = 64 << stage
                for block in range(blocks):
                    shapes += [width * planes, planes, planes, planes * planes * 9, planes, planes]
                    shapes += [planes * planes * 4, planes * 4, planes * 4]
                    if block == 0:
                        shapes += [width * planes * 4, planes * 4, planes * 4]
                    width = planes * 4
            shapes += [2048 * 1000, 1000]
            self.all = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(shape)) for shape in shapes)

        def forward(self, factor: torch.Tensor) -> torch.Tensor:
            return torch.stack([(parameter * factor).sum() for parameter in self.all]).sum()

    return Sizes()


class ResidentBuckets:
    """A communication hook that copies each bucket into resident memory and averages it there."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self.group = group
        self.memory: dict[int, torch.Tensor] = {}

    def __call__(self, _state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        given = bucket.buffer()
        memory = self.memory.get(bucket.index())
        # After the first step, DDP forms new buckets. A bucket may then have another size than before.
        if memory is None or memory.numel() != given.numel():
            memory = self.memory[bucket.index()] = torch.from_numpy(rueda.empty(given.numel(), "float32"))
        memory.copy_(given)
        work = dist.all_reduce(memory, dist.ReduceOp.AVG, group=self.group, async_op=True)
        return work.get_future().then(lambda done: done.value()[0])


def networks_of(groups: dict[str, dist.ProcessGroup]) -> dict[str, torch.nn.Module]:
    """Returns the variants of DDP, by name."""
    made: dict[str, torch.nn.Module] = {}
    for name, group in groups.items():
        made[name] = DistributedDataParallel(resnet(), process_group=group)
        made[f"{name}, views"] = DistributedDataParallel(resnet(), process_group=group, gradient_as_bucket_view=True)
    hooked = DistributedDataParallel(resnet(), process_group=groups["rueda"])
    hooked.register_comm_hook(None, ResidentBuckets(groups["rueda"]).__call__)
    made["rueda, resident buckets"] = hooked
    return made


def steps(groups: dict[str, dist.ProcessGroup], seconds: float) -> None:
    """Measures a step of each variant of DDP and of the model without DDP. Checks the gradients."""
    networks = networks_of(groups)
    alone = resnet()
    factor = torch.full((1,), float(dist.get_rank() + 1))
    mean = (dist.get_world_size() + 1) / 2
    times: dict[str, list[float]] = {name: [] for name in (*networks, "alone")}
    end = time.monotonic() + seconds
    while slower(float(time.monotonic() < end or len(times["alone"]) < 4), groups["gloo"]) > 0:
        for name in times:
            network = networks.get(name, alone)
            network.zero_grad(set_to_none=True)
            dist.barrier(group=groups["gloo"])
            begin = time.perf_counter()
            network(factor).backward()
            times[name].append(time.perf_counter() - begin)
            if name in networks:
                assert all(parameter.grad[-1].item() == mean for parameter in network.parameters()), name
    medians = {name: slower(statistics.median(taken[1:]), groups["gloo"]) * 1e3 for name, taken in times.items()}
    if dist.get_rank() == 0:
        parameters = sum(parameter.numel() for parameter in alone.parameters())
        print(f"DDP, {len(alone.all)} parameters, {parameters / 1e6:.1f} M float32; milliseconds a step")
        for name, median in medians.items():
            print(f"{name:<24} {median:10.1f}   not hidden {median - medians['alone']:10.1f}")


def small(groups: dict[str, dist.ProcessGroup], seconds: float) -> None:
    """Measures blocks of calls on each backend in turn. Prints the median of the blocks' means."""
    tensor = torch.zeros(1)
    means: dict[str, list[float]] = {name: [] for name in groups}
    end = time.monotonic() + seconds
    while slower(float(time.monotonic() < end), groups["gloo"]) > 0:
        for name, group in groups.items():
            dist.all_reduce(tensor, group=group)
            begin = time.perf_counter()
            for _ in range(200):
                dist.all_reduce(tensor, group=group)
            means[name].append((time.perf_counter() - begin) / 200)
    for name, taken in means.items():
        median, least = slower(statistics.median(taken), groups["gloo"]), slower(min(taken), groups["gloo"])
        if dist.get_rank() == 0:
            print(f"all_reduce of 4 bytes, {name}: {median * 1e6:.1f} us, {least * 1e6:.1f} in the best block")


def line(row: Row, medians: dict[str, float]) -> str:
    """Returns a line of the table."""
    mine = medians["rueda"] * 1e6
    theirs = medians["gloo"] * 1e6 if "gloo" in medians else None
    told = f"{theirs:.1f} | {theirs / mine:.1f}" if theirs is not None else "has none |"
    return f"| {row.name} | {row.bytes} | {mine:.1f} | {told} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each row")
    parser.add_argument("--largest", type=int, default=64 << 20, help="bytes")
    parser.add_argument("--json", metavar="FILE", help="for the table, on rank 0")
    parser.add_argument("--link", type=int, metavar="BURST", help="measure the link's goodput, too")
    parser.add_argument("--ddp", action="store_true")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("rueda")
    groups = {"rueda": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    if dist.get_rank() == 0:
        print(f"PyTorch {torch.__version__}, {dist.get_world_size()} ranks")
    if given.ddp:
        steps(groups, given.seconds)
    elif given.small:
        small(groups, given.seconds)
    else:
        if dist.get_rank() == 0:
            print("| operation | bytes | rueda | gloo | gloo / rueda |\n|---|---|---|---|---|")
        rows = []
        bytes_per_second = {ways: goodput(groups["gloo"], ways) for ways in (False, True) if given.link is not None}
        for row in operations(given.largest):
            medians = compare(groups, row, given.seconds)
            microseconds = {name: median * 1e6 for name, median in medians.items()}
            limited = row.bytes * row.crosses - given.link if given.link is not None else 0.0
            if limited > 0:
                microseconds["link"] = limited / bytes_per_second[row.both_ways] * 1e6
            rows.append({"operation": row.name, "bytes": row.bytes, **microseconds})
            if dist.get_rank() == 0:
                print(line(row, medians), flush=True)
        if dist.get_rank() == 0 and given.json:
            with open(given.json, "w", encoding="utf-8") as file:
                json.dump({"pytorch": torch.__version__, "rows": rows}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
