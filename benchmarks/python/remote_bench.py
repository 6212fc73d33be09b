# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Measures batches of 48 MB from a producer that is reached over TCP (rueda.data.serve and rueda.data.remote).

    python benchmarks/python/remote_bench.py [--rate 1gbit] [--batches N] [--workers N] [--rounds N]

Without --rate, the producer runs on this host and is reached over the loopback interface. With --rate, producer and
trainer are on two test hosts (tests/support/hosts, which needs root), and tc limits the link of each host to this rate.

The producers only fill the arrays that worker.empty() returns. Each round has three measurements, each in new
processes:

- bound: two plain Python programs send the same bytes over one TCP connection, from one array into another array.
- rate: the trainer takes batches as fast as it can. The first batches do not count.
- full queue: the trainer needs 1.5 times as long for a step as a batch needs at the measured rate. The table has the
  median and the longest time that the trainer waited for a batch.

The last rows have the rates of worker processes on the trainer's host: rueda.data.workers, and PyTorch's DataLoader if
PyTorch is installed. The table has the medians of the rounds. --make is the time in seconds that a producer waits for each
batch, as if it waited for a disk.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

import numpy as np
import rueda.data
from workers_bench import MEGABYTES, SHAPE, batches_in_place, take, torch_loader

SECRET = "the same text in both programs"
HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "support" / "hosts"))


def produce(address: str) -> None:
    with rueda.data.serve(batches_in_place, address, secret=SECRET) as producer:
        print(producer.address, flush=True)
        sys.stdin.read()


def send(address: str, batches: int) -> None:
    """The sender in the measurement `bound`: a plain program that sends over one TCP connection."""
    host, _, port = address.rpartition(":")
    with socket.create_server((host, int(port))) as listener:
        shown = socket.gethostname() if host == "0.0.0.0" else host
        print(f"{shown}:{listener.getsockname()[1]}", flush=True)
        connected, _ = listener.accept()
        view = memoryview(np.ones(SHAPE, "float32")).cast("B")
        with connected:
            for _ in range(batches):
                connected.sendall(view)


def receive(address: str, batches: int) -> dict[str, float]:
    """The receiver in the measurement `bound`: a plain program that receives over one TCP connection."""
    host, _, port = address.rpartition(":")
    view = memoryview(np.zeros(SHAPE, "float32")).cast("B")
    with socket.create_connection((host, int(port))) as connected:
        for number in range(batches):
            if number == 1:
                began = time.monotonic()
            left = view
            while len(left) > 0:
                left = left[connected.recv_into(left, flags=socket.MSG_WAITALL) :]
    return {"rate": (batches - 1) * MEGABYTES / (time.monotonic() - began)}


def train(batches, workers: int, step: float) -> dict[str, float]:
    skipped = 3 * workers
    times = take(batches, step)
    waits = [received - asked for asked, received, _, _ in times[skipped:]]
    seconds = times[-1][1] - times[skipped - 1][1]
    return {
        "rate": len(waits) * MEGABYTES / seconds,
        "wait": statistics.median(waits),
        "longest": max(waits),
    }


def trainer(arguments) -> dict[str, float]:
    if arguments.role == "receive":
        return receive(arguments.address, arguments.batches)
    args = [arguments.batches, arguments.make]
    if arguments.role == "local":
        return train(rueda.data.workers(batches_in_place, arguments.workers, args=args), arguments.workers, 0.0)
    if arguments.role == "torch":
        return train(torch_loader(arguments), arguments.workers, 0.0)
    batches = rueda.data.remote([arguments.address], secret=SECRET, count=arguments.workers, args=args)
    return train(batches, arguments.workers, arguments.step)


def run(arguments, hosts, producer: str, consumer: str, step: float = 0.0) -> dict[str, float]:
    """Runs a producing program and a trainer, each on its host, and returns what the trainer measured."""
    listen = "127.0.0.1:0" if hosts is None else "0.0.0.0:0"
    command = [sys.executable, str(HERE / "remote_bench.py"), "--batches", str(arguments.batches)]
    command += ["--workers", str(arguments.workers), "--make", str(arguments.make)]
    producing = [*command, "--role", producer, "--address", listen]
    with contextlib.ExitStack() as stack:
        address = ""
        if producer:
            line = producing if hosts is None else hosts.on_host(1, producing)
            process = stack.enter_context(
                subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            address = process.stdout.readline().strip()
        training = [*command, "--role", consumer, "--address", address, "--step", str(step)]
        line = training if hosts is None else hosts.on_host(0, training)
        done = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", help="of each host's link, as tc writes it: 1gbit")
    parser.add_argument("--batches", type=int, default=24)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--make", type=float, default=0.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--role", default="", help=argparse.SUPPRESS)
    parser.add_argument("--address", default="", help=argparse.SUPPRESS)
    parser.add_argument("--step", type=float, default=0.0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role == "produce":
        return produce(arguments.address)
    if arguments.role == "send":
        return send(arguments.address, arguments.batches)
    if arguments.role:
        return print(json.dumps(trainer(arguments)))
    with contextlib.ExitStack() as stack:
        hosts = None
        if arguments.rate:
            import hosts as test_hosts

            if reason := test_hosts.why_not() or test_hosts.why_no_limits():
                sys.exit(f"--rate cannot be used here: {reason}")
            hosts = stack.enter_context(test_hosts.Hosts(2, arguments.rate))
            os.environ.update(hosts.environment())
        results: dict[str, list[dict[str, float]]] = {}
        for _ in range(arguments.rounds):
            results.setdefault("bound", []).append(run(arguments, hosts, "send", "receive"))
            results.setdefault("remote", []).append(run(arguments, hosts, "produce", "remote"))
            step = 1.5 * MEGABYTES / results["remote"][-1]["rate"]
            results.setdefault("full", []).append(run(arguments, hosts, "produce", "remote", step))
            results.setdefault("local", []).append(run(arguments, hosts, "", "local"))
            if importlib.util.find_spec("torch"):
                results.setdefault("torch", []).append(run(arguments, hosts, "", "torch"))
    middle = {
        name: {key: statistics.median(one[key] for one in found) for key in found[0]} for name, found in results.items()
    }
    where = f"two hosts, links of {arguments.rate}" if arguments.rate else "one host, loopback"
    print(f"batches of {MEGABYTES:.1f} MB, {arguments.workers} workers, {where}, medians of {arguments.rounds} rounds")
    print("| what | MB/s | of the bound | waiting with a full queue, ms | longest wait, ms |")
    print("|---|---|---|---|---|")
    bound = middle["bound"]["rate"]
    print(f"| a plain TCP connection (bound) | {bound:.0f} | | | |")
    print(
        f"| `rueda.data.remote` | {middle['remote']['rate']:.0f} | {100 * middle['remote']['rate'] / bound:.0f} % | "
        f"{1e3 * middle['full']['wait']:.1f} | {1e3 * middle['full']['longest']:.1f} |"
    )
    print(f"| `rueda.data.workers` (no network) | {middle['local']['rate']:.0f} | | | |")
    if "torch" in middle:
        print(f"| torch DataLoader, tensors (no network) | {middle['torch']['rate']:.0f} | | | |")
    else:
        print("PyTorch is not installed, so the row of its DataLoader is missing.")


if __name__ == "__main__":
    main()
