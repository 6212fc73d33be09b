# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Measures training steps of real models on GPUs: without communication, with rueda.torch, and with DDP.

Usage:
    ruedarun --no-mpi -np 1 python benchmarks/python/torch_gpu_bench.py
    ruedarun --no-mpi -np 2 --share-gpu python benchmarks/python/torch_gpu_bench.py
    ruedarun --no-mpi -np 2 python benchmarks/python/torch_gpu_bench.py --device cpu --models mlp    # does it work?

The models are a small network for images of digits, and ResNet-50 on noise, in float32 and with bfloat16 where autocast
chooses it. The candidates take turns, step by step. DDP uses NCCL if each rank has a GPU, and otherwise Gloo, which
copies the gradients to the host.

For each candidate, the output has the median time of a step on the slowest rank, and the additional
time compared with steps without communication. "alone" is the time in which rueda.torch reduces the
same gradients while nothing is computed. If the additional time is shorter than "alone", the
backward pass hides the rest of the communication. One more step is recorded in a timeline. From it,
the output says how much of the GPU's communication lies before the end of the backward pass. After
the last step, each candidate that communicates must have the same parameters on all ranks.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import pathlib
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import rueda.torch as hvd
import torch
import torch.distributed as dist
from rueda.torch.timeline import scope
from torch import nn
from torch.nn.functional import cross_entropy

NONE = "no communication"
RUEDA = "rueda.torch"


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def resnet50() -> nn.Module:
    """Returns the model of examples/pytorch/resnet50.py."""
    path = pathlib.Path(__file__).resolve().parents[2] / "examples" / "pytorch" / "resnet50.py"
    spec = importlib.util.spec_from_file_location("resnet50_example", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.resnet50(1000)


class Task(NamedTuple):
    model: Callable[[], nn.Module]
    sample: tuple[int, ...]
    classes: int
    batch: int


TASKS = {"mlp": Task(mlp, (64,), 10, 64), "resnet50": Task(resnet50, (3, 224, 224), 1000, 32)}
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16}


class Candidate(NamedTuple):
    model: nn.Module
    wrapped: nn.Module
    optimizer: Any


def ranks_share_gpu(device: torch.device) -> bool:
    everyones = hvd.allgather_object(str(torch.cuda.get_device_properties(device).uuid))
    return len(set(everyones)) < hvd.size()


def begin_ddp(device: torch.device) -> str:
    """Starts torch.distributed and returns the name of its backend. NCCL does not accept two ranks on one GPU."""
    own_gpu = device.type == "cuda" and not ranks_share_gpu(device)
    backend = "nccl" if own_gpu and dist.is_nccl_available() else "gloo"
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = hvd.broadcast_object(one.getsockname()[1])
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group(backend, rank=hvd.rank(), world_size=hvd.size())
    return backend


def candidates_of(task: Task, device: torch.device, backend: str) -> dict[str, Candidate]:
    def model_and_optimizer() -> tuple[nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = task.model().to(device)
        return model, torch.optim.SGD(model.parameters(), lr=1e-3)

    model, optimizer = model_and_optimizer()
    made = {NONE: Candidate(model, model, optimizer)}
    model, optimizer = model_and_optimizer()
    made[RUEDA] = Candidate(model, model, hvd.DistributedOptimizer(optimizer, model.named_parameters()))
    model, optimizer = model_and_optimizer()
    made[f"DDP, {backend}"] = Candidate(model, nn.parallel.DistributedDataParallel(model), optimizer)
    return made


def finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def step(
    candidate: Candidate, x: torch.Tensor, y: torch.Tensor, dtype: torch.dtype | None, *, in_timeline: bool = False
) -> float:
    """Returns the duration of a training step in seconds. The GPU has no work when the step begins and when it ends."""
    finish(x.device)
    begin = time.perf_counter()
    candidate.optimizer.zero_grad(set_to_none=True)
    lower = torch.autocast(x.device.type, dtype) if dtype is not None else contextlib.nullcontext()
    with lower:
        loss = cross_entropy(candidate.wrapped(x), y)
    with scope("backward pass"):
        loss.backward()
        if in_timeline and x.device.type == "cuda":
            # This wait makes the scope end when the GPU has done the backward pass. It does not wait for the
            # reductions, which Rueda has put into a stream of its own.
            torch.cuda.current_stream(x.device).synchronize()
    candidate.optimizer.step()
    finish(x.device)
    return time.perf_counter() - begin


def reduce_alone(gradients: list[torch.Tensor], name: str) -> float:
    """Returns the seconds in which all gradients are averaged while nothing is computed."""
    finish(gradients[0].device)
    begin = time.perf_counter()
    handles = [hvd.allreduce_async_(gradient, name=f"{name}.{i}") for i, gradient in enumerate(gradients)]
    for handle in handles:
        hvd.synchronize(handle)
    finish(gradients[0].device)
    return time.perf_counter() - begin


def hidden_in(path: pathlib.Path) -> str:
    """Returns a text that says how much of the communication of rank 0's GPU lies before the end of the backward pass.
    Reads the times from the timeline.
    """
    events = [event for event in json.loads(path.read_text(encoding="utf-8")) if event.get("pid") == 0]
    ends = [event["ts"] + event["dur"] for event in events if event["name"] == "backward pass" and "dur" in event]
    spans = [(event["ts"], event["ts"] + event["dur"]) for event in events if "gpu" in event.get("args", {})]
    total = sum(end - begin for begin, end in spans)
    if not ends or not total:
        return "no times of a GPU, which batches through the host's memory do not have"
    hidden = sum(max(0, min(end, max(ends)) - begin) for begin, end in spans)
    return f"{len(spans)} spans on the GPU, {total / 1000:.2f} ms, {hidden / total:.0%} before the backward pass ends"


def record_step(candidate: Candidate, x: torch.Tensor, y: torch.Tensor, dtype: torch.dtype | None, kept: str) -> str:
    """Records the timeline of a step. If `kept` is the name of a file, the timeline stays there."""
    with tempfile.TemporaryDirectory() as folder:
        path = hvd.broadcast_object(kept or str(pathlib.Path(folder) / "step.json"))
        hvd.start_timeline(path)
        step(candidate, x, y, dtype, in_timeline=True)
        hvd.stop_timeline()
        hvd.barrier()
        return hidden_in(pathlib.Path(path)) if hvd.rank() == 0 else ""


def slowest(name: str, seconds: list[float]) -> float:
    """Returns the median, over the steps, of the slowest rank's time."""
    times = hvd.allreduce(torch.tensor(seconds, dtype=torch.float64), name=name, op=hvd.Max)
    return statistics.median(times.tolist())


def check_equal(name: str, model: nn.Module) -> None:
    sums = torch.stack([p.detach().double().sum() for p in model.parameters()]).cpu()
    everyone = hvd.allgather(sums.unsqueeze(0), name=f"{name}.sums")
    assert bool(torch.isfinite(everyone).all()), f"{name}: a parameter is not finite"
    assert bool((everyone == everyone[0]).all()), f"{name}: the ranks have different parameters"


def measure(
    name: str, task: Task, precision: str, device: torch.device, backend: str, given: argparse.Namespace
) -> None:
    dtype = PRECISIONS[precision]
    candidates = candidates_of(task, device, backend)
    torch.manual_seed(1 + hvd.rank())
    x = torch.randn(given.batch or task.batch, *task.sample, device=device)
    y = torch.randint(task.classes, (len(x),), device=device)
    times: dict[str, list[float]] = {one: [] for one in candidates}
    alone: list[float] = []
    for number in range(given.warm_up + given.steps):
        for one, candidate in candidates.items():
            hvd.allreduce(torch.ones(1), name="begin together")
            seconds = step(candidate, x, y, dtype)
            if number >= given.warm_up:
                times[one].append(seconds)
        gradients = [torch.ones_like(p) for p in candidates[RUEDA].model.parameters()]
        hvd.allreduce(torch.ones(1), name="begin together")
        seconds = reduce_alone(gradients, f"{name}.{precision}.alone")
        if number >= given.warm_up:
            alone.append(seconds)
        assert all(bool((gradient == 1).all()) for gradient in gradients), "the average of ones is not 1"
    prefix = f"{name}.{precision}"
    medians = {one: slowest(f"{prefix}.{one}", values) for one, values in times.items()}
    communication = slowest(f"{prefix}.alone", alone)
    for one, candidate in candidates.items():
        if one != NONE:
            check_equal(f"{prefix}.{one}", candidate.model)
    kept = f"{given.timeline}-{prefix}.json" if given.timeline else ""
    timeline = record_step(candidates[RUEDA], x, y, dtype, kept)
    if hvd.rank() == 0:
        for one, seconds in medians.items():
            more = seconds - medians[NONE]
            note = ""
            if one != NONE:
                note = f"  {more * 1000:+8.2f} ms"
            if one == RUEDA:
                hidden = min(max(1 - more / communication, 0.0), 1.0)
                note += f"  alone {communication * 1000:.2f} ms, {hidden:.0%} of it hidden; timeline: {timeline}"
            print(f"{name:<9} {precision:<9} {one:<18} {seconds * 1000:9.2f} ms{note}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=list(PRECISIONS))
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--batch", type=int, default=0, help="samples of a rank and step (default: by the model)")
    parser.add_argument("--steps", type=int, default=11)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--timeline", default="", help="keep the timelines; the names of the files begin with this")
    given = parser.parse_args()
    hvd.init()
    device = torch.device("cpu")
    if given.device == "cuda":
        torch.cuda.set_device(hvd.local_device())
        device = torch.device("cuda", torch.cuda.current_device())
    else:
        torch.set_num_threads(1)
    backend = begin_ddp(device)
    if hvd.rank() == 0:
        where = torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"
        print(f"PyTorch {torch.__version__}, {hvd.size()} ranks, {where}; median of {given.steps} steps", flush=True)
    for name in given.models:
        for precision in given.precisions:
            measure(name, TASKS[name], precision, device, backend, given)
    dist.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main()
