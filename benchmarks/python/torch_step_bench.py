# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Measures training steps with the gradients of a model, to find how much of the communication is not hidden by the
backward pass.

Usage:
    ruedarun --no-mpi -np 2 python benchmarks/python/torch_step_bench.py
    mpirun -np 2 --bind-to none python benchmarks/python/torch_step_bench.py --library horovod

The gradients are those of ResNet-50 (161 tensors, 25.6 million float32), those of AlexNet (16 tensors, 61.1 million,
mostly in three tensors), or 161 small tensors. The backward pass is simulated: for each parameter it computes in the L1
and L2 caches, and writes a new gradient. In one run these candidates take turns: no communication, rueda.torch with
each value of `gradient_storage` ("auto" is the default), and DDP over Gloo if this PyTorch has it. Horovod has a
separate run with its own step without communication, because Horovod's thread works even if there is nothing to reduce.

For each candidate, the output has the median time of a step on the slower rank, and the additional time, CPU time and
context switches compared with steps without communication. All gradients are checked after every step.
"""

import argparse
import contextlib
import importlib
import json
import os
import resource
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist


def resnet50() -> list[tuple[int, ...]]:
    """Returns the shapes of ResNet-50's parameters in the order of the layers."""
    made: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    inputs = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            outputs = 4 * width
            convolutions = [(width, inputs, 1, 1), (width, width, 3, 3), (outputs, width, 1, 1)]
            if block == 0:
                convolutions.append((outputs, inputs, 1, 1))
            for shape in convolutions:
                made += [shape, shape[:1], shape[:1]]
            inputs = outputs
    return [*made, (1000, inputs), (1000,)]


def alexnet() -> list[tuple[int, ...]]:
    convolutions = [(64, 3, 11, 11), (192, 64, 5, 5), (384, 192, 3, 3), (256, 384, 3, 3), (256, 256, 3, 3)]
    linear = [(4096, 9216), (4096, 4096), (1000, 4096)]
    return [part for shape in [*convolutions, *linear] for part in (shape, shape[:1])]


def small() -> list[tuple[int, ...]]:
    """Returns the shapes of tiny tensors. There are as many of them as ResNet-50 has parameters, so that only the
    number of tensors matters."""
    return [(8, 8)] * len(resnet50())


MODELS = {"resnet50": resnet50, "alexnet": alexnet, "small": small}


class Layer(torch.autograd.Function):
    """A layer whose backward pass makes `work` matrix multiplications, and sets all elements of the parameter's
    gradient to the same value."""

    @staticmethod
    def forward(ctx, x, parameter, work, value):
        ctx.shape, ctx.work, ctx.value = parameter.shape, work, value
        return x

    @staticmethod
    def backward(ctx, grad):
        multiply(ctx.work)
        return grad, torch.full(ctx.shape, ctx.value), None, None


MATRIX, PRODUCT = torch.randn(96, 96), torch.empty(96, 96)


def multiply(times: int) -> None:
    for _ in range(times):
        torch.mm(MATRIX, MATRIX, out=PRODUCT)


class Model(torch.nn.Module):
    def __init__(self, shapes: list[tuple[int, ...]], work: list[int]) -> None:
        super().__init__()
        self.layers = torch.nn.ParameterList([torch.nn.Parameter(torch.zeros(shape)) for shape in shapes])
        self.work = work

    def forward(self, x, value):
        for parameter, work in zip(self.layers, self.work, strict=True):
            x = Layer.apply(x, parameter, work, value)
        return x


def work_of(milliseconds: float, shapes: list[tuple[int, ...]], hvd: Any) -> list[int]:
    """Returns the number of multiplications for each parameter, so that all multiplications together take
    `milliseconds`. A parameter with one dimension gets none. All ranks use the same numbers."""
    multiply(2000)
    begin = time.perf_counter()
    multiply(2000)
    each = (time.perf_counter() - begin) / 2000
    everyone = hvd.allreduce(torch.tensor([each]), name="each", op=hvd.Average).item()
    large = [len(shape) > 1 for shape in shapes]
    return [int(milliseconds / 1000 / everyone / sum(large)) if is_large else 0 for is_large in large]


class Candidate(NamedTuple):
    model: Model
    wrapped: Any
    optimizer: torch.optim.Optimizer
    #: Returns a context manager for the backward passes of a step. Only the last pass runs outside of it.
    earlier_pass: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    communicates: bool = True
    #: Whether a step calls zero_grad() of the model. The zero_grad() of Horovod's optimizer accepts no arguments.
    zeroed_by_model: bool = False


class Sample(NamedTuple):
    seconds: float
    cpu_seconds: float
    switches: float


NONE = "no communication"


def candidates_of(given: argparse.Namespace, hvd: Any, work: list[int]) -> Iterator[tuple[str, Candidate]]:
    shapes = MODELS[given.model]()

    def model_and_optimizer() -> tuple[Model, torch.optim.Optimizer]:
        model = Model(shapes, work)
        return model, torch.optim.SGD(model.parameters(), lr=1e-3)

    def of_library(**keywords: Any) -> Candidate:
        model, optimizer = model_and_optimizer()
        named = model.named_parameters()
        distributed = hvd.DistributedOptimizer(optimizer, named, backward_passes_per_step=given.passes, **keywords)
        return Candidate(model, model, distributed, zeroed_by_model=given.library == "horovod")

    def of_ddp(**keywords: Any) -> Candidate:
        model, optimizer = model_and_optimizer()
        wrapped = torch.nn.parallel.DistributedDataParallel(model, **keywords)
        return Candidate(model, wrapped, optimizer, wrapped.no_sync)

    model, optimizer = model_and_optimizer()
    yield NONE, Candidate(model, model, optimizer, communicates=False)
    if given.library == "horovod":
        yield "Horovod", of_library()
        return
    for storage in ("auto", "private", "copied", "view"):
        yield f"rueda.torch, {storage}", of_library(gradient_storage=storage)
    if dist.is_available() and dist.is_gloo_available():
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = hvd.broadcast_object(one.getsockname()[1])
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo", rank=hvd.rank(), world_size=hvd.size())
        yield "DDP, Gloo", of_ddp()
        yield "DDP, Gloo, bucket views", of_ddp(gradient_as_bucket_view=True)


def step(candidate: Candidate, value: float, passes: int, *, to_none: bool) -> Sample:
    x = torch.ones(1, requires_grad=True)
    before = resource.getrusage(resource.RUSAGE_SELF)
    begin = time.perf_counter()
    (candidate.model if candidate.zeroed_by_model else candidate.optimizer).zero_grad(set_to_none=to_none)
    for number in range(passes):
        with candidate.earlier_pass() if number < passes - 1 else contextlib.nullcontext():
            candidate.wrapped(x, value).sum().backward()
    candidate.optimizer.step()
    seconds = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Sample(seconds, cpu_seconds, after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", choices=("rueda", "horovod"), default="rueda")
    parser.add_argument("--model", choices=MODELS, default="resnet50")
    parser.add_argument("--compute", type=float, default=300, help="milliseconds of a backward pass, without memory")
    parser.add_argument("--passes", type=int, default=1, help="backward passes of a step")
    parser.add_argument("--zero", action="store_true", help="zero gradients in place of None")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", metavar="FILE", help="for the results, on rank 0")
    parser.add_argument("--only", default="", help="those whose names have this in them, and no communication")
    given = parser.parse_args()
    hvd = importlib.import_module(f"{given.library}.torch")
    hvd.init()
    torch.set_num_threads(1)
    work = work_of(given.compute / given.passes, MODELS[given.model](), hvd)
    candidates = {
        name: candidate
        for name, candidate in candidates_of(given, hvd, work)
        if given.only in name or not candidate.communicates
    }
    samples: dict[str, list[Sample]] = {name: [] for name in candidates}
    value = hvd.rank() + 1.0
    average = sum(range(1, hvd.size() + 1)) / hvd.size()
    for number in range(given.rounds + 2):
        for name, candidate in candidates.items():
            hvd.allreduce(torch.ones(1), name="begin together")
            sample = step(candidate, value, given.passes, to_none=not given.zero)
            if number >= 2:
                samples[name].append(sample)
            expected = given.passes * (average if candidate.communicates else value)
            assert all(bool((p.grad == expected).all()) for p in candidate.model.parameters()), name

    def of_ranks(name: str, field: int, op: int) -> float:
        median = statistics.median(sample[field] for sample in samples[name])
        return hvd.allreduce(torch.tensor([median], dtype=torch.float64), name=f"{name} {field}", op=op).item()

    if hvd.rank() == 0:
        print(
            f"PyTorch {torch.__version__}, {hvd.size()} ranks, {given.model}, {given.passes} passes, zero={given.zero}"
        )
    rows = {
        name: (of_ranks(name, 0, hvd.Max), *(of_ranks(name, field, hvd.Average) for field in (1, 2)))
        for name in samples
    }
    for name, (seconds, cpu, switches) in rows.items():
        if hvd.rank() == 0:
            print(
                f"{name:<24} {seconds * 1000:8.1f} ms  not hidden {(seconds - rows[NONE][0]) * 1000:7.1f} ms  "
                f"CPU {(cpu - rows[NONE][1]) * 1000:+7.1f} ms  switches {switches - rows[NONE][2]:+6.0f}",
                flush=True,
            )
    if hvd.rank() == 0 and given.json:
        not_hidden = {name: (row[0] - rows[NONE][0]) * 1000 for name, row in rows.items() if name != NONE}
        alone = rows[NONE][0] * 1000
        with open(given.json, "w", encoding="utf-8") as file:
            json.dump({"pytorch": torch.__version__, "alone": alone, "not_hidden": not_hidden}, file)
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main()
