# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Measures the seconds from the SIGKILL of a rank to the next step that the job completes. Compares elastic jobs of
ruedarun with restarts by torchrun. Both train the same model with PyTorch on the CPU. The two launchers take turns.

Usage: python elastic_bench.py [--ruedarun PATH] [--ranks 2] [--rounds 10]

With ruedarun, the other ranks go on in their processes from the commit of the last step. torchrun ends all ranks and starts them again;
they read a checkpoint of the last step. torchrun runs with --monitor-interval 0.1 (its default), so that it notices the death early.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from typing import IO

import torch

_MANY_STEPS = 100_000


def model_and_data() -> tuple[torch.nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 1))
    return model, torch.randn(16, 64)


def show_step(rank: int, step: int) -> None:
    life = os.environ.get("RUEDARUN_GENERATION", os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    print(f"step {step} rank {rank} life {life} pid {os.getpid()} time {time.monotonic()}", flush=True)


def train_with_rueda() -> None:
    import rueda.torch as hvd

    hvd.init()
    model, data = model_and_data()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.01), model.named_parameters())

    @hvd.elastic.run
    def train(state: hvd.elastic.TorchState) -> None:
        while state.step < _MANY_STEPS:
            optimizer.zero_grad()
            model(data).square().mean().backward()
            optimizer.step()
            time.sleep(0.01)
            state.step += 1
            state.commit()
            show_step(hvd.rank(), state.step)

    train(hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0))


def train_with_torchrun(checkpoint: pathlib.Path) -> None:
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model, data = model_and_data()
    step = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        step = saved["step"]
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01)
    while step < _MANY_STEPS:
        optimizer.zero_grad()
        parallel(data).square().mean().backward()
        optimizer.step()
        time.sleep(0.01)
        step += 1
        if rank == 0:
            new = checkpoint.with_suffix(".new")
            torch.save({"model": model.state_dict(), "step": step}, new)
            new.replace(checkpoint)
        show_step(rank, step)


def read_step(lines: IO[str]) -> dict[str, float]:
    """Reads up to the next line that reports a step, and returns the values in this line by name."""
    for line in lines:
        words = line.split()
        if "step" in words and "time" in words:
            words = words[words.index("step") :]
            return {words[i]: float(words[i + 1]) for i in range(0, len(words), 2)}
    raise SystemExit("the job has ended too early")


def measure(command: list[str]) -> float:
    """Starts a job, kills rank 1 after 20 steps, and returns the seconds until a later step is complete."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    job = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert job.stdout is not None
    try:
        pid = step = 0
        while step < 20 or pid == 0:
            seen = read_step(job.stdout)
            step = int(seen["step"])
            pid = int(seen["pid"]) if seen["rank"] == 1 else pid
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        # waits for the first step that the new generation (or the restarted processes) completes
        while True:
            seen = read_step(job.stdout)
            if seen["life"] > 0:
                return seen["time"] - killed
    finally:
        job.send_signal(signal.SIGINT)
        try:
            job.communicate(timeout=30)  # reads the rest of the output; otherwise the launcher would wait for a reader
        except subprocess.TimeoutExpired:
            job.kill()
            job.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ruedarun", default="ruedarun", metavar="PATH")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--train", choices=("rueda", "torchrun"), help=argparse.SUPPRESS)
    parser.add_argument("--checkpoint", type=pathlib.Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train == "rueda":
        train_with_rueda()
        return
    if given.train == "torchrun":
        train_with_torchrun(given.checkpoint)
        return
    ranks = str(given.ranks)
    least = str(max(1, given.ranks - 1))
    times: dict[str, list[float]] = {"ruedarun": [], "torchrun": []}
    for _ in range(given.rounds):
        worker = [sys.executable, "-B", __file__, "--train", "rueda"]
        times["ruedarun"].append(measure([given.ruedarun, "--no-mpi", "-np", ranks, "--min-np", least, *worker]))
        with tempfile.TemporaryDirectory() as folder:
            times["torchrun"].append(
                measure(
                    [
                        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks),
                        *("--max-restarts", "3", "--monitor-interval", "0.1", __file__, "--train", "torchrun"),
                        *("--checkpoint", f"{folder}/checkpoint.pt"),
                    ]
                )
            )
    print(f"seconds from SIGKILL to the next completed step, {ranks} ranks, {given.rounds} rounds")
    for launcher, seconds in times.items():
        print(
            f"{launcher}: median {statistics.median(seconds):.2f}, from {min(seconds):.2f} to {max(seconds):.2f}",
            flush=True,
        )
    print(f"ratio of the medians: {statistics.median(times['ruedarun']) / statistics.median(times['torchrun']):.3f}")


if __name__ == "__main__":
    main()
