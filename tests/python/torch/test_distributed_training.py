# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests DDP, FSDP2, ZeRO and checkpoints on the backend "rueda" against a single process that trains on the whole
batch. Runs with two or more ranks."""

import copy
import datetime
import os
import shutil
import tempfile
import threading
import unittest

import rueda
import rueda.torch.distributed
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

try:
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
except Exception:  # FSDP2 exists from 2.6 on; in 1.13 the import fails with Python 3.11
    fully_shard = None

STEPS = 3


def setUpModule():
    global RANK, SIZE
    dist.init_process_group("rueda", timeout=datetime.timedelta(seconds=60))
    RANK, SIZE = dist.get_rank(), dist.get_world_size()


def tearDownModule():
    dist.destroy_process_group()


def model(dtype=torch.float64):
    """Returns a model in float64. Many optimizers divide by the size of a gradient. If the gradient is almost zero, the
    rounding of the gradient decides the step. Sums of float32 are rounded differently on other processors and with
    other numbers of ranks."""
    torch.manual_seed(0)
    layers = nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4)
    return nn.Sequential(*layers).to(dtype)


def batch(step, dtype=torch.float64):
    """Returns the whole batch, which has 4 rows for each rank. The batch is the same on all ranks."""
    generator = torch.Generator().manual_seed(step)
    return tuple(torch.randn(4 * SIZE, width, generator=generator).to(dtype) for width in (8, 4))


def mine(rows):
    return rows[4 * RANK : 4 * RANK + 4]


def train(network, optimizer, shard, steps=STEPS):
    for step in range(steps):
        inputs, targets = batch(step, next(network.parameters()).dtype)
        if shard:
            inputs, targets = mine(inputs), mine(targets)
        optimizer.zero_grad()
        nn.functional.mse_loss(network(inputs), targets).backward()
        optimizer.step()


def alike(parameters, expected, rtol=1e-5, atol=1e-6):
    for one, other in zip(parameters, expected, strict=True):
        torch.testing.assert_close(one.detach(), other.detach(), rtol=rtol, atol=atol)


def optimizers():
    """Returns all optimizers of torch.optim that accept dense gradients of any shape and need no closure."""
    others = {"Optimizer", "LBFGS", "SparseAdam", "Muon"}
    kinds = [kind for kind in vars(torch.optim).values() if isinstance(kind, type)]
    return [kind for kind in kinds if issubclass(kind, torch.optim.Optimizer) and kind.__name__ not in others]


def of_matrices():
    """Returns a model for Muon, which only trains matrices. Muon computes in bfloat16, so a small difference between
    two inputs can become a large difference between the results. FSDP2 adds products in parts, which rounds
    differently. So the results of Muon with FSDP2 cannot be compared."""
    network = model()
    for parameter in network.parameters():
        parameter.requires_grad_(parameter.ndim == 2)
    return network


def muon(network):
    return torch.optim.Muon([parameter for parameter in network.parameters() if parameter.requires_grad], lr=0.05)


class Ddp(unittest.TestCase):
    def check(
        self,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        hook=None,
        dtype=torch.float64,
        **options,
    ):
        single = model(dtype)
        train(single, optimizer(single.parameters()), shard=False)
        # Each rank begins with different parameters. DDP must give all ranks the parameters of rank 0.
        mine = model(dtype)
        if RANK > 0:
            for parameter in mine.parameters():
                nn.init.zeros_(parameter)
        network = DistributedDataParallel(mine, **options)
        if hook is not None:
            network.register_comm_hook(None, hook)
        train(network, optimizer(network.parameters()), shard=True)
        alike(network.parameters(), single.parameters())

    def test_plain(self):
        for dtype in (torch.float32, torch.float64):
            with self.subTest(dtype=dtype):
                self.check(dtype=dtype)

    def test_many_buckets(self):
        self.check(bucket_cap_mb=0.001)

    def test_views_of_buckets(self):
        self.check(gradient_as_bucket_view=True)

    def test_static_graph(self):
        self.check(static_graph=True)

    def test_a_hook(self):
        def average(_, bucket):
            future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
            return future.then(lambda done: done.value()[0] / SIZE)

        self.check(hook=average)

    def test_every_optimizer(self):
        for kind in optimizers():
            with self.subTest(kind=kind.__name__):
                self.check(optimizer=lambda parameters, kind=kind: kind(parameters, lr=0.01))

    def test_muon(self):
        if not hasattr(torch.optim, "Muon"):
            self.skipTest("this PyTorch has no Muon")
        single, network = of_matrices(), DistributedDataParallel(of_matrices())
        train(single, muon(single), shard=False)
        train(network, muon(network), shard=True)
        alike(network.parameters(), single.parameters())

    def test_lbfgs(self):
        single, network = model(), DistributedDataParallel(model())
        inputs, targets = batch(0)
        for one, rows in ((single, (inputs, targets)), (network, (mine(inputs), mine(targets)))):
            optimizer = torch.optim.LBFGS(one.parameters(), lr=0.5, max_iter=4)

            def closure(one=one, rows=rows, optimizer=optimizer):
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(one(rows[0]), rows[1])
                loss.backward()
                mean = loss.detach().clone()
                dist.all_reduce(mean)
                return mean / SIZE

            optimizer.step(closure)
        alike(network.parameters(), single.parameters())

    def test_compressed(self):
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        network = DistributedDataParallel(model(torch.float32))
        network.register_comm_hook(None, default_hooks.fp16_compress_hook)
        single = model(torch.float32)
        optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (network, single)]
        train(network, optimizers[0], shard=True)
        train(single, optimizers[1], shard=False)
        alike(network.parameters(), single.parameters(), rtol=1e-2, atol=1e-3)

    def hooked(self, hook, state_of, dtype=torch.float64):
        """Trains with a hook whose callbacks start collectives, on Rueda and on Gloo. Gloo may run callbacks in any
        order, so with Gloo the hook waits for each bucket to end before the next one begins."""

        def one_by_one(state, bucket):
            future = hook(state, bucket)
            future.wait()
            return future

        inputs, targets = batch(0, dtype)
        losses, networks = [], []
        for group, used in ((dist.group.WORLD, hook), (dist.new_group(backend="gloo"), one_by_one)):
            network = DistributedDataParallel(model(dtype), process_group=group, bucket_cap_mb=0.001)
            network.register_comm_hook(state_of(group), used)
            train(network, torch.optim.SGD(network.parameters(), lr=0.1), shard=True, steps=12)
            networks.append(network)
            losses.append(nn.functional.mse_loss(network.module(inputs), targets).item())
        alike(networks[0].parameters(), networks[1].parameters())
        self.assertLess(losses[0], 0.95 * nn.functional.mse_loss(model(dtype)(inputs), targets).item())

    def test_power_sgd(self):
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

        def state_of(group):
            return powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=2, start_powerSGD_iter=3)

        self.hooked(powerSGD_hook.powerSGD_hook, state_of)

    def test_quantized(self):
        from torch.distributed.algorithms.ddp_comm_hooks import quantization_hooks

        if hasattr(quantization_hooks, "_quantize_per_tensor_cuda"):
            self.skipTest("this PyTorch's hook is for CUDA alone")
        self.hooked(quantization_hooks.quantization_pertensor_hook, lambda group: group, torch.float32)

    def test_accumulation(self):
        single, network = model(), DistributedDataParallel(model())
        inputs, targets = batch(0)
        for turn in range(2):
            nn.functional.mse_loss(single(inputs), targets).backward()
            if turn == 0:
                with network.no_sync():
                    nn.functional.mse_loss(network(mine(inputs)), mine(targets)).backward()
            else:
                nn.functional.mse_loss(network(mine(inputs)), mine(targets)).backward()
        alike([one.grad for one in network.parameters()], [one.grad for one in single.parameters()])

    def test_unused_parameters(self):
        class Either(nn.Module):
            def __init__(self):
                super().__init__()
                torch.manual_seed(1)
                self.first, self.second = nn.Linear(8, 4).double(), nn.Linear(8, 4).double()

            def forward(self, inputs, which):
                return (self.first if which else self.second)(inputs)

        network = DistributedDataParallel(Either(), find_unused_parameters=True)
        inputs, targets = batch(0)
        nn.functional.mse_loss(network(mine(inputs), RANK == 0), mine(targets)).backward()
        single = Either()
        for rank in range(SIZE):
            rows = slice(4 * rank, 4 * rank + 4)
            (nn.functional.mse_loss(single(inputs[rows], rank == 0), targets[rows]) / SIZE).backward()
        alike([one.grad for one in network.parameters()], [one.grad for one in single.parameters()])

    def test_sparse_gradients(self):
        torch.manual_seed(2)
        embedding = nn.Embedding(20, 3, sparse=True, dtype=torch.float64)
        single = copy.deepcopy(embedding)
        network = DistributedDataParallel(embedding)
        words = torch.randint(0, 20, (2 * SIZE,), generator=torch.Generator().manual_seed(3))
        network(words[2 * RANK : 2 * RANK + 2]).sum().backward()
        (single(words).sum() / SIZE).backward()
        alike([embedding.weight.grad.to_dense()], [single.weight.grad.to_dense()])
        optimizers = [torch.optim.SparseAdam(list(one.parameters()), lr=0.1) for one in (network, single)]
        for _ in range(STEPS):
            for one, rows, optimizer in (
                (network, words[2 * RANK : 2 * RANK + 2], optimizers[0]),
                (single, words, optimizers[1]),
            ):
                optimizer.zero_grad()
                one(rows).square().mean().backward()
                optimizer.step()
        alike(network.parameters(), single.parameters())

    def test_buffers(self):
        torch.manual_seed(RANK)
        network = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
        for _ in range(2):
            network(torch.randn(8, 4)).sum().backward()
        network(torch.randn(8, 4))  # before the forward pass, DDP copies rank 0's buffers to all ranks
        counts = [torch.empty_like(network.module[1].num_batches_tracked) for _ in range(SIZE)]
        dist.all_gather(counts, network.module[1].num_batches_tracked)
        self.assertEqual([int(one) for one in counts], [3] * SIZE)

    def test_join(self):
        network = DistributedDataParallel(model())
        with network.join():
            for _ in range(RANK + 1):  # the ranks have different numbers of inputs
                network(torch.randn(4, 8, dtype=torch.float64)).sum().backward()
        dist.barrier()

    def test_a_failure_in_backward_is_an_error(self):
        network = DistributedDataParallel(nn.Linear(4, 4))

        def mismatch(_, bucket):
            future = dist.all_reduce(torch.ones(3 + RANK), async_op=True).get_future()
            return future.then(lambda done: bucket.buffer() * done.value()[0].sum())

        network.register_comm_hook(None, mismatch)
        with self.assertRaises(RuntimeError):
            network(torch.ones(2, 4)).sum().backward()


class Sharded(unittest.TestCase):
    def test_zero(self):
        from torch.distributed.optim import ZeroRedundancyOptimizer

        single, network = model(), DistributedDataParallel(model())
        train(single, torch.optim.Adam(single.parameters(), lr=0.01), shard=False)
        optimizer = ZeroRedundancyOptimizer(network.parameters(), torch.optim.Adam, lr=0.01)
        train(network, optimizer, shard=True)
        alike(network.parameters(), single.parameters())
        optimizer.consolidate_state_dict(to=0)
        if RANK == 0:
            self.assertEqual(len(optimizer.state_dict()["state"]), len(list(single.parameters())))

    def need(self, feature):
        if not rueda.torch.distributed.offers(feature) or fully_shard is None:
            self.skipTest(f"{feature}: not with this PyTorch")

    def sharded(self):
        network = model()
        for layer in network:
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        return fully_shard(network)

    def test_fsdp2(self):
        self.need("functional collectives")
        for kind in optimizers():
            if kind.__name__ == "Adafactor":
                # Adafactor is left out, because PyTorch's Adafactor changes a norm in place, which DTensor does not
                # allow
                continue
            single, network = model(), self.sharded()
            train(single, kind(single.parameters(), lr=0.01), shard=False)
            train(network, kind(network.parameters(), lr=0.01), shard=True)
            alike([one.full_tensor() for one in network.parameters()], single.parameters())

    def test_fsdp2_lbfgs(self):
        self.need("functional collectives")
        inputs, targets = batch(0)
        single, network = model(), self.sharded()
        for one, rows in ((single, (inputs, targets)), (network, (mine(inputs), mine(targets)))):
            optimizer = torch.optim.LBFGS(one.parameters(), lr=0.5, max_iter=4)

            def closure(one=one, rows=rows, optimizer=optimizer):
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(one(rows[0]), rows[1])
                loss.backward()
                mean = loss.detach().clone()
                dist.all_reduce(mean)
                return mean / SIZE

            optimizer.step(closure)
        alike([one.full_tensor() for one in network.parameters()], single.parameters())

    def test_fsdp2_mixed_precision(self):
        self.need("functional collectives")
        network = fully_shard(model(torch.float32), mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
        single = model(torch.float32)
        train(network, torch.optim.SGD(network.parameters(), lr=0.1), shard=True)
        train(single, torch.optim.SGD(single.parameters(), lr=0.1), shard=False)
        alike([one.full_tensor() for one in network.parameters()], single.parameters(), rtol=3e-2, atol=1e-2)

    def test_hybrid(self):
        self.need("functional collectives")
        if SIZE % 2:
            self.skipTest("an even number of ranks")
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (SIZE // 2, 2), mesh_dim_names=("replicate", "shard"))
        single, network = model(), fully_shard(model(), mesh=mesh)
        train(single, torch.optim.SGD(single.parameters(), lr=0.1), shard=False)
        train(network, torch.optim.SGD(network.parameters(), lr=0.1), shard=True)
        alike([one.full_tensor() for one in network.parameters()], single.parameters())

    def test_dtensor(self):
        self.need("functional collectives")
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

        mesh = init_device_mesh("cpu", (SIZE,))
        whole = torch.arange(float(6 * SIZE * SIZE)).view(2 * SIZE, 3 * SIZE)
        shards = distribute_tensor(whole, mesh, [Shard(0)])
        alike([shards.full_tensor()], [whole])
        alike([shards.redistribute(mesh, [Shard(1)]).to_local()], [whole[:, 3 * RANK : 3 * RANK + 3]])
        alike([shards.redistribute(mesh, [Replicate()]).to_local()], [whole])
        total = (shards * 2).sum()
        self.assertEqual(total.full_tensor().item(), 2 * whole.sum().item())
        del Partial

    def test_functional_collectives(self):
        self.need("functional collectives")
        from torch.distributed import _functional_collectives as functional

        ones = functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD)
        alike([ones + 0], [torch.full((3,), float(SIZE))])
        rows = functional.all_gather_tensor(torch.full((2,), float(RANK)), 0, dist.group.WORLD)
        alike([rows + 0], [torch.arange(float(SIZE)).repeat_interleave(2)])

    def test_checkpoint(self):
        self.need("functional collectives")
        import torch.distributed.checkpoint as checkpoint

        folder = [tempfile.mkdtemp() if RANK == 0 else None]
        dist.broadcast_object_list(folder)
        try:
            network = self.sharded()
            train(network, torch.optim.SGD(network.parameters(), lr=0.1), shard=True)
            saved = [one.full_tensor() for one in network.parameters()]
            checkpoint.save({"model": network.state_dict()}, checkpoint_id=folder[0])
            other = self.sharded()
            state = {"model": other.state_dict()}
            checkpoint.load(state, checkpoint_id=folder[0])
            other.load_state_dict(state["model"])
            alike([one.full_tensor() for one in other.parameters()], saved)
            # The training continues during the checkpoint, so the checkpoint needs its own group.
            kept = dict(checkpoint_id=f"{folder[0]}/async", process_group=dist.new_group())
            under_way = checkpoint.async_save({"model": network.state_dict()}, **kept)
            train(network, torch.optim.SGD(network.parameters(), lr=0.1), shard=True)
            under_way.result()
            state = {"model": other.state_dict()}
            checkpoint.load(state, checkpoint_id=kept["checkpoint_id"])
            other.load_state_dict(state["model"])
            alike([one.full_tensor() for one in other.parameters()], saved)
        finally:
            dist.barrier()
            if RANK == 0:
                shutil.rmtree(folder[0])


class Beside(unittest.TestCase):
    def test_compiled(self):
        if not hasattr(torch, "compile") or not rueda.torch.distributed.offers("functional collectives"):
            self.skipTest("not with this PyTorch")
        single, network = model(), DistributedDataParallel(model())
        compiled = torch.compile(network, backend="aot_eager")
        train(single, torch.optim.SGD(single.parameters(), lr=0.1), shard=False)
        train(compiled, torch.optim.SGD(network.parameters(), lr=0.1), shard=True)
        alike(network.parameters(), single.parameters())

    def test_workers_of_a_data_loader(self):
        samples = torch.utils.data.TensorDataset(torch.arange(8.0 * SIZE).view(-1, 1))
        sampler = torch.utils.data.DistributedSampler(samples, shuffle=False)
        for context in ("fork", "spawn"):
            loader = torch.utils.data.DataLoader(
                samples, batch_size=2, sampler=sampler, num_workers=1, multiprocessing_context=context
            )
            total = torch.zeros(1)
            for (batch,) in loader:
                total += batch.sum()
                dist.all_reduce(torch.ones(1))
            dist.all_reduce(total)
            self.assertEqual(total.item(), sum(range(8 * SIZE)))

    def test_threads_with_groups_of_their_own(self):
        groups = [dist.new_group() for _ in range(3)]
        wrong = []

        def work(index):
            for turn in range(100):
                total = torch.full((50 + index,), float(RANK + turn))
                dist.all_reduce(total, group=groups[index])
                future = dist.all_reduce(torch.ones(2), group=groups[index], async_op=True).get_future()
                doubled = future.then(lambda done: done.value()[0] * 2).wait()
                if total[0].item() != sum(range(SIZE)) + turn * SIZE or doubled[1].item() != 2 * SIZE:
                    wrong.append((index, turn))

        threads = [threading.Thread(target=work, args=(index,)) for index in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_forked_child_is_told(self):
        # Rank 0 runs PyTorch's store server. A child that releases its copy of the store must not stop the server.
        store = dist.distributed_c10d._get_default_store()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                dist.all_reduce(torch.ones(1))
            except rueda.NotInitialized as error:
                os.write(writing, str(error).encode())
            finally:
                dist.destroy_process_group()  # the parent's group must still work afterwards
                os._exit(0)
        os.close(writing)
        os.waitpid(child, 0)
        self.assertIn(b"this process was forked from one that uses Rueda", os.read(reading, 1000))
        os.close(reading)
        ones = torch.ones(1)
        dist.all_reduce(ones)
        self.assertEqual(ones.item(), SIZE)
        del store


class Groups(unittest.TestCase):
    def test_of_some(self):
        groups = [dist.new_group([rank, (rank + 1) % SIZE]) for rank in range(SIZE - 1)]
        for first, group in enumerate(groups):
            if RANK in (first, first + 1):
                total = torch.tensor([10.0**RANK])
                dist.all_reduce(total, group=group)
                self.assertEqual(total.item(), 10.0**first + 10.0 ** (first + 1))
                self.assertEqual(group.rank(), RANK - first)
                root = torch.tensor([float(RANK)])
                dist.broadcast(root, first + 1, group=group)  # the root is a rank of the job, not of the group
                self.assertEqual(root.item(), first + 1)
                dist.destroy_process_group(group)

    def test_twins_have_orders_of_their_own(self):
        twins = [dist.new_group() for _ in range(2)]
        tensors = [torch.full((4,), float(index + 1)) for index in range(2)]
        order = (0, 1) if RANK % 2 == 0 else (1, 0)
        works = [dist.all_reduce(tensors[index], group=twins[index], async_op=True) for index in order]
        for work in works:
            work.wait()
        alike(tensors, [torch.full((4,), float((index + 1) * SIZE)) for index in range(2)])

    def test_split(self):
        if not rueda.torch.distributed.offers("split_group"):
            self.skipTest("not with this PyTorch")
        # the group keeps this order of the ranks
        halves = [list(range(SIZE // 2)), list(reversed(range(SIZE // 2, SIZE)))]
        half = dist.split_group(split_ranks=halves)
        mine = halves[RANK >= SIZE // 2]
        self.assertEqual((dist.get_process_group_ranks(half), dist.get_rank(half)), (mine, mine.index(RANK)))
        rows = [torch.zeros(2) for _ in mine]
        dist.all_gather(rows, torch.full((2,), float(RANK)), group=half)
        alike(rows, [torch.full((2,), float(rank)) for rank in mine])
        again = dist.split_group(half, split_ranks=[[0]], group_desc="one")
        if mine.index(RANK) == 0:
            dist.all_reduce(ones := torch.ones(1), group=again)
            self.assertEqual((ones.item(), again.group_desc), (1.0, "one"))
            dist.destroy_process_group(again)
        else:
            self.assertIs(again, dist.GroupMember.NON_GROUP_MEMBER)
        network = DistributedDataParallel(model(), process_group=half)
        single = model()
        for one in (network, single):
            train(one, torch.optim.SGD(one.parameters(), lr=0.1), shard=False)
        alike(network.parameters(), single.parameters())
        dist.destroy_process_group(half)
        dist.barrier()

    def test_with_a_backend_for_another_device(self):
        if not rueda.torch.distributed.offers("device:backend"):
            if hasattr(dist.distributed_c10d, "BackendConfig"):
                with self.assertRaisesRegex(RuntimeError, "it cannot share a group with gloo; 2.14 and newer can"):
                    dist.new_group(backend="cpu:rueda,cuda:gloo")
            self.skipTest("not with this PyTorch")
        group = dist.new_group(backend="cpu:rueda,xpu:gloo")
        total = torch.full((3,), float(RANK))
        work = dist.all_reduce(total, group=group, async_op=True)
        self.assertTrue(work.wait())
        alike([total], [torch.full((3,), float(sum(range(SIZE))))])
        network = DistributedDataParallel(model(), process_group=group)
        single = model()
        train(network, torch.optim.SGD(network.parameters(), lr=0.1), shard=True)
        train(single, torch.optim.SGD(single.parameters(), lr=0.1), shard=False)
        alike(network.parameters(), single.parameters())

    def test_beside_hvd(self):
        rueda.init()  # joins the same job
        self.assertEqual((rueda.rank(), rueda.size()), (RANK, SIZE))
        handle = rueda.allreduce_async_(value := torch.ones(3).numpy(), "mine", rueda.Sum)
        ones = torch.ones(3)
        dist.all_reduce(ones)
        handle.wait()
        self.assertEqual(value.tolist(), ones.tolist())


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    unittest.main()
