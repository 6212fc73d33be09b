# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Checks rueda with PyTorch's CUDA tensors on a machine with a GPU.

    PYTHONPATH=build/ci/python ruedarun --no-mpi -np 1 python tests/gpu/torch_cuda_check.py
    PYTHONPATH=build/ci/python ruedarun --no-mpi -np 2 --share-gpu python tests/gpu/torch_cuda_check.py

Prints one line for each check, and a last line with the numbers of checks. The exit status is 0 if no check failed, 1
if one failed, and 77 if there is no GPU. Each argument is a part of a name: only checks whose names contain an argument
are run.
"""

from __future__ import annotations

import contextlib
import copy
import faulthandler
import importlib.util
import os
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

if not torch.cuda.is_available():
    print("torch_cuda_check: skipped: PyTorch finds no GPU here")
    sys.exit(77)

import rueda
import rueda.torch as hvd
import torch.distributed as dist
from rueda import training

faulthandler.dump_traceback_later(150, exit=True)  # if a check hangs, this prints where it hangs
hvd.init()
torch.cuda.set_device(hvd.local_device())
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
DEVICE = torch.device("cuda", torch.cuda.current_device())
RANK, SIZE = hvd.rank(), hvd.size()
_EVERYONES = hvd.allgather_object(str(torch.cuda.get_device_properties(DEVICE).uuid))
#: Whether ranks share a GPU. If they do, tensors may go through the host's memory, and a wait may last until the GPU is
#: done. The number of GPUs that a rank sees does not show whether ranks share one: with --gpus-per-rank, each rank sees
#: only its own GPUs.
SHARED = len(set(_EVERYONES)) < SIZE
CHECKS: list[Callable[[], str | None]] = []
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.int64, torch.int32, torch.uint8]


class Skipped(Exception):
    """Raised by a check that cannot run here."""


def check(function: Callable[[], str | None]) -> Callable[[], str | None]:
    CHECKS.append(function)
    return function


def values(rank: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Returns a rank's input: small integers, whose sums are exact in every dtype."""
    count = int(torch.Size(shape).numel())
    numbers = (torch.arange(count, device=DEVICE) + rank) % 3
    return (numbers + (dtype != torch.bool)).reshape(shape).to(dtype)


def everyones(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.stack([values(rank, shape, dtype).double() for rank in range(SIZE)])


def same(result: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    if result.device != DEVICE:
        raise AssertionError(f"{what}: the result is on {result.device}, and not on {DEVICE}")
    if tuple(result.shape) != tuple(expected.shape):
        raise AssertionError(f"{what}: shape {tuple(result.shape)}, expected {tuple(expected.shape)}")
    if not torch.equal(result.double(), expected.double().to(DEVICE)):
        raise AssertionError(f"{what}: {result.flatten()[:5].tolist()}, expected {expected.flatten()[:5].tolist()}")


def near(result: torch.Tensor, expected: torch.Tensor, what: str, tolerance: float = 1e-5) -> None:
    difference = (result.detach().double() - expected.detach().double()).abs().max().item() if result.numel() else 0.0
    if not difference <= tolerance * max(1.0, expected.detach().double().abs().max().item()):
        raise AssertionError(f"{what}: differs by {difference:g}")


def refuses(part: str, call: Callable[[], Any], kind: type[Exception] = Exception) -> None:
    try:
        call()
    except kind as error:
        if part not in str(error):
            raise AssertionError(f"the error has no {part!r}: {error}") from error
        return
    raise AssertionError(f"no error; expected one with {part!r}")


# --- operations -------------------------------------------------------------------------------------------------------


@check
def allreduce_of_all_dtypes() -> str:
    for dtype in [*FLOATS, *INTEGERS]:
        total = everyones((257,), dtype).sum(0)
        mine = values(RANK, (257,), dtype)
        same(hvd.allreduce(mine, op=hvd.Sum, name=f"sum.{dtype}"), total, f"sum of {dtype}")
        same(mine, values(RANK, (257,), dtype), f"the input of {dtype}")
        for name, op in (("amin", hvd.Min), ("amax", hvd.Max)):
            expected = getattr(everyones((257,), dtype), name)(0)
            same(hvd.allreduce(mine, op=op, name=f"{name}.{dtype}"), expected, f"{name} of {dtype}")
        hvd.allreduce_(mine, op=hvd.Sum, name=f"in.place.{dtype}")
        same(mine, total, f"in place, {dtype}")
    for dtype in (torch.float32, torch.float64):
        mean = everyones((5, 3), dtype).mean(0)
        near(hvd.allreduce(values(RANK, (5, 3), dtype), name=f"mean.{dtype}"), mean, f"average of {dtype}")
    flags = values(RANK, (64,), torch.bool)
    same(hvd.allreduce(flags, op=hvd.Max, name="or"), everyones((64,), torch.bool).amax(0), "or of bool")
    same(hvd.allreduce(flags, op=hvd.Min, name="and"), everyones((64,), torch.bool).amin(0), "and of bool")
    return f"{len(FLOATS) + len(INTEGERS) + 1} dtypes"


@check
def allreduce_factors_and_shapes() -> None:
    mine = values(RANK, (33,), torch.float32)
    got = hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0, name="factors")
    near(got, everyones((33,), torch.float32).sum(0) * 2, "factors")
    for shape in ((), (0,), (1,), (3, 0, 2), (2, 3, 4), (1 << 20,)):
        expected = everyones(shape, torch.float32).sum(0)
        same(hvd.allreduce(values(RANK, shape, torch.float32), op=hvd.Sum, name=f"{shape}"), expected, f"{shape}")
    refuses("contiguous", lambda: hvd.allreduce(torch.ones(4, 4, device=DEVICE).t(), name="transposed"))


@check
def grouped_allreduce() -> None:
    tensors = [values(RANK, (7,), torch.float32), values(RANK, (2, 2), torch.float64), values(RANK, (9,), torch.int64)]
    expected = [everyones(tuple(one.shape), one.dtype).sum(0) for one in tensors]
    for got, want in zip(hvd.grouped_allreduce(tensors, op=hvd.Sum, name="group"), expected, strict=True):
        same(got, want, "group")
    handle = hvd.grouped_allreduce_async_(tensors, op=hvd.Sum)
    hvd.synchronize(handle)
    for got, want in zip(tensors, expected, strict=True):
        same(got, want, "group in place")
    mixed = [torch.ones(2, device=DEVICE), torch.ones(2)]
    refuses("one device", lambda: hvd.grouped_allreduce(mixed, name="mixed"), ValueError)


@check
def allgather() -> None:
    for dtype in [*FLOATS, *INTEGERS, torch.bool, torch.int16]:
        rows = [torch.full((rank + 1, 3), rank, device=DEVICE).to(dtype) for rank in range(SIZE)]
        same(hvd.allgather(rows[RANK], name=f"rows.{dtype}"), torch.cat(rows), f"allgather of {dtype}")
    got = hvd.allgather(torch.full((0 if RANK == 0 else 2,), RANK, device=DEVICE))
    same(got, torch.cat([torch.full((0 if rank == 0 else 2,), rank) for rank in range(SIZE)]), "no rows of rank 0")
    handles = [hvd.allgather_async(torch.full((2,), 10 * RANK + index, device=DEVICE)) for index in range(8)]
    for index, handle in enumerate(handles):
        expected = torch.cat([torch.full((2,), 10 * rank + index) for rank in range(SIZE)])
        same(hvd.synchronize(handle), expected, "without names")
    pair = hvd.grouped_allgather([torch.full((RANK + 1,), RANK, device=DEVICE), torch.ones(1, 2, device=DEVICE)])
    same(pair[0], torch.cat([torch.full((rank + 1,), rank) for rank in range(SIZE)]), "group")
    same(pair[1], torch.ones(SIZE, 2), "group")


@check
def broadcast() -> None:
    for dtype in [*FLOATS, *INTEGERS, torch.bool, torch.int16]:
        root = SIZE - 1
        got = hvd.broadcast(values(RANK, (65,), dtype), root, name=f"broadcast.{dtype}")
        same(got, values(root, (65,), dtype), f"broadcast of {dtype}")
    mine = torch.full((3,), float(RANK), device=DEVICE)
    hvd.broadcast_(mine, 0)
    same(mine, torch.zeros(3), "in place")


@check
def alltoall() -> None:
    rows = torch.arange(2 * SIZE, device=DEVICE) + 100 * RANK
    expected = torch.cat([torch.arange(2 * RANK, 2 * RANK + 2) + 100 * rank for rank in range(SIZE)])
    same(hvd.alltoall(rows, name="equal"), expected, "equal splits")
    splits = torch.arange(1, SIZE + 1, dtype=torch.int32)
    mine = torch.full((int(splits.sum()), 2), float(RANK), device=DEVICE)
    got, received = hvd.alltoall(mine, splits, name="unequal")
    same(got, torch.cat([torch.full((RANK + 1, 2), float(rank)) for rank in range(SIZE)]), "splits")
    assert received.tolist() == [RANK + 1] * SIZE, received
    with_more = torch.cat([mine, mine])
    got, received = hvd.alltoall(with_more, splits, name="rows that are not sent")
    same(got, torch.cat([torch.full((RANK + 1, 2), float(rank)) for rank in range(SIZE)]), "rows that are not sent")


@check
def reducescatter() -> None:
    count = 2 * SIZE + 1
    for dtype in FLOATS:
        total = everyones((count, 2), dtype).sum(0)
        begin = RANK * (count // SIZE) + min(RANK, count % SIZE)
        mine = count // SIZE + (count % SIZE > RANK)
        got = hvd.reducescatter(values(RANK, (count, 2), dtype), op=hvd.Sum, name=f"reducescatter.{dtype}")
        same(got, total[begin : begin + mine], f"reducescatter of {dtype}")
    tensors = [values(RANK, (SIZE,), torch.float32), values(RANK, (SIZE, 2), torch.float32)]
    for got, one in zip(hvd.grouped_reducescatter(tensors, op=hvd.Sum), tensors, strict=True):
        same(got, everyones(tuple(one.shape), one.dtype).sum(0)[RANK : RANK + 1], "group")


@check
def sparse_allreduce() -> None:
    mine = torch.sparse_coo_tensor([[RANK, RANK + 1]], [1.0, 2.0], (SIZE + 1,), device=DEVICE)
    total = hvd.sparse_allreduce_async(mine, "sparse", hvd.Sum)()
    expected = torch.zeros(SIZE + 1)
    for rank in range(SIZE):
        expected[rank] += 1
        expected[rank + 1] += 2
    same(total.to_dense(), expected, "sparse")


@check
def gradients_of_operations() -> None:
    x = torch.ones(3, device=DEVICE, requires_grad=True)
    hvd.allreduce(x, op=hvd.Sum, name="differentiated").sum().backward()
    same(x.grad, torch.full((3,), float(SIZE)), "allreduce")
    y = torch.ones(RANK + 1, 2, device=DEVICE, requires_grad=True)
    hvd.allgather(y, name="gathered").sum().backward()
    same(y.grad, torch.ones(RANK + 1, 2), "allgather")


@check
def refusals() -> None:
    refuses("device 'meta'", lambda: hvd.allreduce(torch.ones(2, device="meta")), ValueError)
    try:  # with NCCL, Adasum must be refused; ranks that share a GPU may support it
        got = hvd.allreduce(torch.ones(2, device=DEVICE), op=hvd.Adasum, name="adasum")
    except hvd.HorovodInternalError as error:
        assert "dasum" in str(error), error
    else:
        same(got, torch.ones(2), "Adasum of equal tensors")
    refuses("out=", lambda: rueda.allreduce(rueda.TensorView(0, (0,), rueda.DType.float32, None, True, DEVICE.index)))


@check
def graph_capture_is_refused() -> None:
    tensor = torch.full((9,), float(RANK), device=DEVICE)

    def capture() -> None:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            hvd.allreduce_async(tensor, name="in a capture", op=hvd.Sum)

    refuses("captures a CUDA graph", capture)
    got = hvd.allreduce(tensor, name="in a capture", op=hvd.Sum)  # the refused call has left nothing behind
    same(got, torch.full((9,), float(sum(range(SIZE)))), "the sum after a refused capture")


# --- streams and memory -----------------------------------------------------------------------------------------------


@check
def host_does_not_wait() -> str:
    hvd.allreduce(torch.ones(1, device=DEVICE), name="warm")
    torch.cuda.synchronize()
    begin = time.perf_counter()
    torch.cuda._sleep(1_000_000_000)  # half a second or more
    handle = hvd.allreduce_async(torch.ones(1 << 16, device=DEVICE), op=hvd.Sum, name="behind a long kernel")
    got = hvd.synchronize(handle)
    returned = time.perf_counter() - begin
    busy = not torch.cuda.current_stream().query()
    same(got, torch.full((1 << 16,), float(SIZE)), "behind a long kernel")
    done = time.perf_counter() - begin
    if not busy and not SHARED:
        raise AssertionError(f"synchronize() waited for the GPU: {1000 * returned:.0f} of {1000 * done:.0f} ms")
    return f"synchronize() returned after {1000 * returned:.1f} ms, the GPU was ready after {1000 * done:.0f} ms"


@check
def side_streams() -> None:
    side, other = torch.cuda.Stream(), torch.cuda.Stream()
    for step in range(30):
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)
            mine = torch.full((4096,), float(RANK + step), device=DEVICE)
            handle = hvd.allreduce_async(mine, op=hvd.Sum, name="side")
        with torch.cuda.stream(other):
            got = hvd.synchronize(handle)
            copied = got.clone()
        other.synchronize()
        same(copied, torch.full((4096,), float(sum(range(SIZE)) + SIZE * step)), f"step {step}")


@check
def memory_is_not_reused_too_early() -> str:
    rounds = 200
    for step in range(rounds):
        torch.cuda._sleep(200_000)
        handles = []
        for index in range(4):
            mine = torch.full((1 << 14,), float(RANK + step + index), device=DEVICE)
            handles.append(hvd.allreduce_async(mine, op=hvd.Sum, name=f"reuse.{index}"))
            del mine  # without a reference in Rueda, PyTorch would now give the tensor's memory to the next tensor
            torch.full((1 << 14,), -1e9, device=DEVICE)
        results = [hvd.synchronize(handle) for handle in handles]
        for index, got in enumerate(results):
            expected = float(sum(range(SIZE)) + SIZE * (step + index))
            if not bool((got == expected).all()):
                raise AssertionError(f"step {step}, tensor {index}: {got[:3].tolist()}, expected {expected}")
        del results
    dropped = [hvd.allreduce_async(torch.ones(1 << 12, device=DEVICE), name=f"dropped.{one}") for one in range(8)]
    for handle in dropped:
        hvd.synchronize(handle)  # the results are dropped
    torch.cuda.synchronize()
    hvd.barrier()
    return f"{4 * rounds} tensors"


@check
def memory_is_given_back() -> str:
    def step() -> None:
        for index in range(20):
            hvd.allreduce_(torch.ones(1 << 18, device=DEVICE), name=f"given.back.{index}")

    step()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    grown = torch.cuda.memory_allocated() - before
    if grown > 1 << 20:
        raise AssertionError(f"{grown >> 20} MiB are still allocated")
    return f"{grown} bytes more after 200 operations"


@check
def many_operations_in_flight() -> None:
    for _ in range(3):
        tensors = [torch.full((1000 + index,), float(RANK), device=DEVICE) for index in range(200)]
        handles = [hvd.allreduce_async_(one, op=hvd.Sum, name=f"flight.{index}") for index, one in enumerate(tensors)]
        for handle in handles:
            hvd.synchronize(handle)
        for one in tensors:
            same(one, torch.full(tuple(one.shape), float(sum(range(SIZE)))), "in flight")


@check
def polling() -> None:
    handle = hvd.allreduce_async(torch.ones(100, device=DEVICE), op=hvd.Sum, name="polled")
    end = time.monotonic() + 20
    while not hvd.poll(handle):
        if time.monotonic() > end:
            raise AssertionError("poll() did not become true within 20 s")
    same(hvd.synchronize(handle), torch.full((100,), float(SIZE)), "polled")


# --- training with hvd ------------------------------------------------------------------------------------------------


def network(seed: int = 0) -> torch.nn.Module:
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 8)]
    return torch.nn.Sequential(*layers).to(DEVICE)


def batches(steps: int, rank: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(100 + rank)
    made = [(torch.randn(4, 16, generator=generator), torch.randn(4, 8, generator=generator)) for _ in range(steps)]
    return [(x.to(DEVICE), y.to(DEVICE)) for x, y in made]


def single_process(steps: int, make: Callable[[Any], Any]) -> torch.nn.Module:
    """Trains with the batches of all ranks in this process."""
    model = network()
    optimizer = make(model.parameters())
    of_rank = [batches(steps, rank) for rank in range(SIZE)]
    for step in range(steps):
        optimizer.zero_grad()
        loss = sum(F.mse_loss(model(batch[step][0]), batch[step][1]) for batch in of_rank) / SIZE
        loss.backward()
        optimizer.step()
    return model


def compare(model: torch.nn.Module, expected: torch.nn.Module, what: str, tolerance: float = 1e-5) -> None:
    for (name, mine), theirs in zip(model.named_parameters(), expected.parameters(), strict=True):
        near(mine, theirs, f"{what}: {name}", tolerance)


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


@check
def distributed_optimizer() -> str:
    kinds: list[dict[str, Any]] = [
        {},
        {"groups": 2},
        {"gradient_predivide_factor": 2.0},
        {"compression": hvd.Compression.fp16},
    ]
    for kind in kinds:
        model = network(seed=RANK)
        optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=model.named_parameters(), **kind)
        if RANK == 0:
            model.load_state_dict(network().state_dict())
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        for x, y in batches(5, RANK):
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
        compare(model, single_process(5, sgd), f"{kind}", 2e-2 if "compression" in kind else 1e-5)
    return f"{len(kinds)} kinds, like one process with all batches"


@check
def distributed_optimizer_with_several_passes() -> None:
    model, expected = network(), network()
    optimizer = hvd.DistributedOptimizer(
        sgd(model.parameters()), named_parameters=model.named_parameters(), backward_passes_per_step=2
    )
    plain = sgd(expected.parameters())
    of_rank = [batches(6, rank) for rank in range(SIZE)]
    for step in range(0, 6, 2):
        for part in (step, step + 1):
            F.mse_loss(model(of_rank[RANK][part][0]), of_rank[RANK][part][1]).backward()
            (sum(F.mse_loss(expected(one[part][0]), one[part][1]) for one in of_rank) / SIZE).backward()
        for one in (optimizer, plain):
            one.step()
            one.zero_grad()
    compare(model, expected, "two passes per step")


@check
def state_of_optimizers() -> None:
    model = network()
    optimizer = adam(model.parameters())
    if RANK == 0:
        F.mse_loss(model(torch.ones(1, 16, device=DEVICE)), torch.zeros(1, 8, device=DEVICE)).backward()
        optimizer.step()
        optimizer.zero_grad()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for parameter in model.parameters():
        state = optimizer.state[parameter]
        if state["exp_avg"].device != DEVICE:
            raise AssertionError(f"exp_avg is on {state['exp_avg'].device}")
        everyone = hvd.allgather(state["exp_avg"].reshape(1, -1))
        near(everyone, everyone[:1].expand_as(everyone), "exp_avg")
    optimizer.step()
    assert hvd.broadcast_object({"epoch": RANK}, root_rank=0) == {"epoch": 0}
    gathered = hvd.allgather_object(torch.tensor(RANK, device=DEVICE))
    assert [int(one) for one in gathered] == list(range(SIZE))


@check
def grad_scaler() -> None:
    model, expected = network(), network()
    optimizer = hvd.DistributedOptimizer(sgd(model.parameters()), named_parameters=model.named_parameters())
    plain = sgd(expected.parameters())
    scaler, reference = torch.amp.GradScaler("cuda", 1024.0), torch.amp.GradScaler("cuda", 1024.0)
    of_rank = [batches(4, rank) for rank in range(SIZE)]
    for step in range(4):
        poison = float("inf") if step == 1 else 1.0  # rank 0's gradients are infinite: no rank may make this step
        optimizer.zero_grad()
        x, y = of_rank[RANK][step]
        scaler.scale(F.mse_loss(model(x), y) * (poison if RANK == 0 else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
        plain.zero_grad()
        losses = [F.mse_loss(expected(one[step][0]), one[step][1]) for one in of_rank]
        reference.scale(sum([losses[0] * poison, *losses[1:]]) / SIZE).backward()
        reference.step(plain)
        reference.update()
    compare(model, expected, "GradScaler")
    assert scaler.get_scale() == reference.get_scale() == 512.0, scaler.get_scale()


@check
def sync_batch_norm() -> None:
    torch.manual_seed(1)
    whole = torch.randn(SIZE * 6, 5, 4, 4).to(DEVICE)
    plain, synced = torch.nn.BatchNorm2d(5).to(DEVICE), hvd.SyncBatchNorm(5).to(DEVICE)
    x = whole.clone().requires_grad_()
    mine = whole[6 * RANK : 6 * RANK + 6].clone().requires_grad_()
    expected, got = plain(x), synced(mine)
    near(got, expected[6 * RANK : 6 * RANK + 6], "output")
    weights = torch.linspace(0.0, 1.0, expected.numel(), device=DEVICE).view_as(expected)
    (expected * weights).sum().backward()
    (got * weights[6 * RANK : 6 * RANK + 6]).sum().backward()
    near(mine.grad, x.grad[6 * RANK : 6 * RANK + 6], "gradient", 1e-4)
    near(synced.running_mean, plain.running_mean, "running mean")
    near(synced.running_var, plain.running_var, "running variance")


@check
def joining() -> None:
    if SIZE == 1:
        hvd.join()
        return
    for step in range(3 + RANK):
        got = hvd.allreduce(torch.full((10,), 1.0, device=DEVICE), op=hvd.Sum, name="uneven")
        active = sum(step < 3 + rank for rank in range(SIZE))
        same(got, torch.full((10,), float(active)), f"step {step}")
    assert hvd.join() in range(SIZE)


@check
def elastic_state() -> None:
    model = network(seed=RANK)
    optimizer = sgd(model.parameters())
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, batch=RANK)
    state.sync()
    compare(model, network(), "sync")
    assert state.batch == 0
    with torch.no_grad():
        next(model.parameters()).zero_()
    state.restore()
    compare(model, network(), "restore")


# --- other libraries --------------------------------------------------------------------------------------------------


@check
def checkpoints() -> None:
    folder = hvd.broadcast_object(tempfile.mkdtemp() if RANK == 0 else None)
    torch.manual_seed(RANK)
    model = torch.nn.Linear(300, 200).to(DEVICE)
    optimizer = adam(model.parameters())
    model(torch.ones(4, 300, device=DEVICE)).square().sum().backward()
    optimizer.step()
    weight = hvd.broadcast(model.weight.detach().clone(), 0)
    moment = hvd.broadcast(optimizer.state[model.weight]["exp_avg"].clone(), 0)
    manager = training.CheckpointManager(folder)
    manager.save(1, model, {"optimizer": optimizer})
    optimizer.step()  # this step changes the model while the manager's thread still writes the checkpoint
    if manager.last_failure() is not None:
        raise AssertionError(f"not saved: {manager.last_failure()}")
    manager.restore(model, {"optimizer": optimizer})
    same(model.weight.detach(), weight, "the restored weight")
    same(optimizer.state[model.weight]["exp_avg"], moment, "the restored state of the optimizer")
    hvd.barrier()
    if RANK == 0:
        shutil.rmtree(folder)


@check
def plain_rueda_with_torch_tensors() -> None:
    mine = torch.full((100,), float(RANK), device=DEVICE)
    rueda.allreduce_(mine, "plain", rueda.Sum)
    same(mine, torch.full((100,), float(sum(range(SIZE)))), "allreduce_")
    side = torch.cuda.Stream()
    handle = rueda.allreduce_async_(mine, "plain", rueda.Average)
    handle.wait_on_stream(side)
    with torch.cuda.stream(side):
        copied = mine.clone()
    side.synchronize()
    same(copied, torch.full((100,), float(sum(range(SIZE)))), "wait_on_stream")


class Interface:
    """An array in GPU memory. It offers only __cuda_array_interface__, as Numba's arrays do."""

    def __init__(self, tensor: torch.Tensor, stream: int | None) -> None:
        self.tensor = tensor
        self.__cuda_array_interface__ = {
            "shape": tuple(tensor.shape),
            "typestr": "<f4",
            "data": (tensor.data_ptr(), False),
            "version": 3,
            "stream": stream,
        }


class Capsule:
    """A tensor in GPU memory that offers only DLPack."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        return self.tensor.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


@check
def dlpack_and_cuda_array_interface() -> None:
    total = torch.full((50,), float(sum(range(SIZE))))
    for stream in (None, 1, 2):
        mine = torch.full((50,), float(RANK), device=DEVICE)
        torch.cuda.synchronize()
        rueda.allreduce_(Interface(mine, stream), "interface", rueda.Sum)
        same(mine, total, f"__cuda_array_interface__, stream {stream}")
    mine = torch.full((50,), float(RANK), device=DEVICE)
    rueda.allreduce_(Capsule(mine), "capsule", rueda.Sum)
    same(mine, total, "DLPack")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side), rueda.cuda_stream(side):
        torch.cuda._sleep(5_000_000)
        mine = torch.full((50,), float(RANK), device=DEVICE)
        rueda.allreduce_(Capsule(mine), "capsule", rueda.Sum)
    same(mine, total, "DLPack on a side stream")
    gathered = torch.empty(50 * SIZE, device=DEVICE)
    rueda.allgather(Capsule(torch.full((50,), float(RANK), device=DEVICE)), "gathered", out=Capsule(gathered))
    same(gathered, torch.arange(SIZE).float().repeat_interleave(50), "allgather with out=")
    refuses("allreduce_", lambda: rueda.allreduce(Capsule(mine)))


@check
def cupy() -> None:
    if importlib.util.find_spec("cupy") is None:
        raise Skipped("CuPy is not installed")
    import cupy as cp

    with cp.cuda.Device(DEVICE.index):
        mine = cp.full(100, float(RANK), cp.float32)
        rueda.allreduce_(mine, "cupy", rueda.Sum)
        assert bool((mine == sum(range(SIZE))).all()), mine[:3]


@check
def jax() -> None:
    if importlib.util.find_spec("jax") is None:
        raise Skipped("JAX is not installed")
    # without this variable, JAX would reserve most of the GPU's memory
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax.numpy as jnp

    mine = jnp.full(100, float(RANK), jnp.float32)
    if "cuda" not in str(next(iter(mine.devices()))).lower():
        raise Skipped("JAX has no GPU")
    got = torch.empty(100 * SIZE, device=DEVICE)
    rueda.allgather(mine, "jax", out=got)
    same(got, torch.arange(SIZE).float().repeat_interleave(100), "jax")


# --- torch.distributed ------------------------------------------------------------------------------------------------


def group() -> None:
    if not dist.is_initialized():
        dist.init_process_group("rueda")


@check
def dist_init_with_device_id() -> None:
    # If the job has already used GPUs, a new process set uses NCCL only after some batches. The earlier checks have
    # used GPUs, so this check begins a new job.
    hvd.shutdown()
    dist.init_process_group("rueda", device_id=DEVICE)
    assert dist.get_backend() == "rueda"


@check
def dist_collectives() -> None:
    group()
    total = float(sum(range(SIZE)))
    mine = torch.full((1000,), float(RANK), device=DEVICE)
    dist.all_reduce(mine)
    same(mine, torch.full((1000,), total), "all_reduce")
    mine = torch.full((4, 4), float(RANK), device=DEVICE).t()[:, :2]
    dist.all_reduce(mine)
    same(mine, torch.full((4, 2), total), "all_reduce of a part")
    for op, expected in ((dist.ReduceOp.MAX, SIZE - 1), (dist.ReduceOp.MIN, 0), (dist.ReduceOp.AVG, total / SIZE)):
        one = torch.full((3,), float(RANK), device=DEVICE)
        dist.all_reduce(one, op)
        near(one, torch.full((3,), float(expected), device=DEVICE), f"{op}")
    one = torch.full((5,), float(RANK), device=DEVICE)
    dist.broadcast(one, SIZE - 1)
    same(one, torch.full((5,), float(SIZE - 1)), "broadcast")
    parts = [torch.empty(2, device=DEVICE) for _ in range(SIZE)]
    dist.all_gather(parts, torch.full((2,), float(RANK), device=DEVICE))
    same(torch.stack(parts), torch.arange(SIZE).float()[:, None].expand(SIZE, 2), "all_gather")
    whole = torch.empty(2 * SIZE, device=DEVICE)
    dist.all_gather_into_tensor(whole, torch.full((2,), float(RANK), device=DEVICE))
    same(whole, torch.arange(SIZE).float().repeat_interleave(2), "all_gather_into_tensor")
    part = torch.empty(3, device=DEVICE)
    dist.reduce_scatter_tensor(part, torch.arange(3.0 * SIZE, device=DEVICE))
    same(part, SIZE * torch.arange(3.0 * RANK, 3.0 * RANK + 3), "reduce_scatter_tensor")
    dist.reduce_scatter(part, [torch.full((3,), float(rank), device=DEVICE) for rank in range(SIZE)])
    same(part, torch.full((3,), float(SIZE * RANK)), "reduce_scatter")
    got = torch.empty(SIZE, device=DEVICE)
    dist.all_to_all_single(got, torch.arange(SIZE, device=DEVICE) + 10.0 * RANK)
    same(got, torch.tensor([10.0 * rank + RANK for rank in range(SIZE)]), "all_to_all_single")
    reduced = torch.full((4,), float(RANK + 1), device=DEVICE)
    dist.reduce(reduced, 0)
    if RANK == 0:
        same(reduced, torch.full((4,), total + SIZE), "reduce")
    gathered = [torch.empty(2, device=DEVICE) for _ in range(SIZE)] if RANK == 0 else None
    dist.gather(torch.full((2,), float(RANK), device=DEVICE), gathered)
    if gathered is not None:
        same(torch.cat(gathered), torch.arange(SIZE).float().repeat_interleave(2), "gather")
    taken = torch.empty(2, device=DEVICE)
    dist.scatter(taken, [torch.full((2,), float(rank), device=DEVICE) for rank in range(SIZE)] if RANK == 0 else None)
    same(taken, torch.full((2,), float(RANK)), "scatter")
    objects: list[Any] = [None] * SIZE
    dist.all_gather_object(objects, {"rank": RANK})
    assert objects == [{"rank": rank} for rank in range(SIZE)]
    dist.barrier()


@check
def dist_messages() -> None:
    group()
    right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    if SIZE == 1:
        raise Skipped("one rank")
    got = torch.empty(3, device=DEVICE)
    sent = dist.isend(torch.full((3,), float(RANK), device=DEVICE), right)
    dist.recv(got, left)
    sent.wait()
    same(got, torch.full((3,), float(left)), "recv")


@check
def dist_work() -> str:
    group()
    mine = torch.full((1 << 16,), float(RANK), device=DEVICE)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    torch.cuda._sleep(500_000_000)
    work = dist.all_reduce(mine, async_op=True)
    work.wait()
    returned = time.perf_counter() - begin
    busy = not torch.cuda.current_stream().query()
    torch.cuda.synchronize()
    end = time.monotonic() + 20
    while not work.is_completed():
        if time.monotonic() > end:
            raise AssertionError("is_completed() did not become true within 20 s")
    same(mine, torch.full((1 << 16,), float(sum(range(SIZE)))), "all_reduce")
    if not busy and not SHARED:
        raise AssertionError(f"wait() waited for the GPU ({1000 * returned:.0f} ms)")
    future = dist.all_reduce(torch.full((10,), float(RANK), device=DEVICE), async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    same(doubled.wait(), torch.full((10,), 2.0 * sum(range(SIZE))), "then")
    return f"wait() returned after {1000 * returned:.1f} ms"


def train_ddp(hook: Callable[[Any], None] | None = None, **options: Any) -> torch.nn.Module:
    model = torch.nn.parallel.DistributedDataParallel(network(seed=RANK + 5), **options)
    with torch.no_grad():
        model.module.load_state_dict(network().state_dict())
    if hook is not None:
        hook(model)
    optimizer = sgd(model.parameters())
    for x, y in batches(5, RANK):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    torch.cuda.synchronize()
    return model.module


@check
def ddp() -> None:
    group()
    compare(train_ddp(device_ids=[DEVICE.index]), single_process(5, sgd), "DDP")
    compare(train_ddp(gradient_as_bucket_view=True), single_process(5, sgd), "gradient_as_bucket_view")
    compare(train_ddp(static_graph=True), single_process(5, sgd), "static_graph")
    compare(train_ddp(bucket_cap_mb=0.001), single_process(5, sgd), "small buckets")


@check
def ddp_with_hooks() -> None:
    group()
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    def plain(model: Any) -> None:
        model.register_comm_hook(None, default_hooks.allreduce_hook)

    def narrow(model: Any) -> None:
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)

    compare(train_ddp(plain), single_process(5, sgd), "allreduce_hook")
    compare(train_ddp(narrow), single_process(5, sgd), "bf16_compress_hook", 5e-2)


@check
def ddp_sync_batch_norm() -> None:
    group()
    torch.manual_seed(2)
    whole = torch.randn(SIZE * 4, 3, 5, 5).to(DEVICE)
    made = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).to(DEVICE)
    expected = copy.deepcopy(made)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.SyncBatchNorm.convert_sync_batchnorm(made))
    got = model(whole[4 * RANK : 4 * RANK + 4])
    want = expected(whole)
    near(got, want[4 * RANK : 4 * RANK + 4], "output", 1e-4)
    got.square().mean().backward()
    want.square().mean().backward()
    near(model.module[0].weight.grad, expected[0].weight.grad, "gradient", 1e-4)


@check
def fsdp2() -> None:
    group()
    from torch.distributed.device_mesh import init_device_mesh

    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        raise Skipped("this PyTorch has no fully_shard") from None
    mesh = init_device_mesh("cuda", (SIZE,))
    model, expected = network(), network()
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer, plain = adam(model.parameters()), adam(expected.parameters())
    of_rank = [batches(3, rank) for rank in range(SIZE)]
    for step in range(3):
        optimizer.zero_grad()
        F.mse_loss(model(of_rank[RANK][step][0]), of_rank[RANK][step][1]).backward()
        optimizer.step()
        plain.zero_grad()
        (sum(F.mse_loss(expected(one[step][0]), one[step][1]) for one in of_rank) / SIZE).backward()
        plain.step()
    for (name, mine), theirs in zip(model.named_parameters(), expected.parameters(), strict=True):
        near(mine.full_tensor(), theirs, name, 1e-4)


@check
def functional_collectives() -> None:
    group()
    import torch.distributed._functional_collectives as functional

    world = dist.group.WORLD
    got = functional.all_reduce(torch.full((6,), float(RANK), device=DEVICE), "sum", world)
    same(got + 0, torch.full((6,), float(sum(range(SIZE)))), "all_reduce")
    got = functional.all_gather_tensor(torch.full((2,), float(RANK), device=DEVICE), 0, world)
    same(got + 0, torch.arange(SIZE).float().repeat_interleave(2), "all_gather_tensor")


# ----------------------------------------------------------------------------------------------------------------------


def run(function: Callable[[], str | None]) -> str:
    """Runs a check and prints its line. Returns "ok", "skipped" or "failed"."""
    begin = time.perf_counter()
    outcome, remark = "ok", ""
    try:
        remark = function() or ""
        torch.cuda.synchronize()
    except Skipped as reason:
        outcome, remark = "skipped", str(reason)
    except Exception as error:
        outcome = "failed"
        last = traceback.extract_tb(error.__traceback__)[-1]
        own = [one for one in traceback.extract_tb(error.__traceback__) if one.filename == __file__]
        remark = f"{type(error).__name__}: {error} (line {own[-1].lineno if own else '?'}; {last.name}:{last.lineno})"
    passed = 1000 * (time.perf_counter() - begin)
    print(
        f"rank {RANK}: {outcome:7} {function.__name__} ({passed:.0f} ms){': ' + remark if remark else ''}", flush=True
    )
    return outcome


def main() -> int:
    wanted = [one for one in CHECKS if not sys.argv[1:] or any(part in one.__name__ for part in sys.argv[1:])]
    if RANK == 0:
        name = torch.cuda.get_device_name(DEVICE)
        print(f"torch_cuda_check: PyTorch {torch.__version__}, {name}, {SIZE} rank{'s'[:SIZE != 1]}", flush=True)
    warnings.simplefilter("ignore")
    outcomes = [run(one) for one in wanted]
    counts = ", ".join(f"{outcomes.count(one)} {one}" for one in ("ok", "skipped", "failed"))
    print(f"rank {RANK}: torch_cuda_check: {counts}", flush=True)
    with contextlib.suppress(Exception):
        if dist.is_initialized():
            dist.destroy_process_group()
        hvd.shutdown()
    return 1 if "failed" in outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
