# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Horovod's interface with CUDA tensors, on simulated devices. tests/gpu/torch_cuda_check.py has more checks, for a
machine with a GPU. All ranks run the same tests in the same order.
"""

import contextlib
import gc
import importlib
import types
import unittest
from unittest import mock

import simulated_cuda  # isort: skip  (it must load its NCCL before PyTorch loads another one)
import rueda.torch as hvd
import torch
from rueda import _native
from rueda.errors import DuplicateName, Mismatch
from rueda.torch import _deferred, _devices, sync_batch_norm
from rueda.torch._deferred import DeferredOperation
from rueda.torch._tensors import tensor_of
from rueda.torch.operations import handles
from rueda.torch.operations.allgather import allgather_row
from simulated_cuda import SimulatedTensor, Stream, cuda, on_stream, to_cpu

on_stream_of_pytorch = _devices.on_stream  # simulated_cuda.begin() replaces it


def setUpModule():
    hvd.init()
    simulated_cuda.begin(hvd.rank())


def tearDownModule():
    hvd.shutdown()


def everyone(make) -> list[torch.Tensor]:
    return [make(rank) for rank in range(hvd.size())]


def total() -> float:
    return float(sum(range(hvd.size())))


class Case(unittest.TestCase):
    def assertSame(self, tensor, expected):
        self.assertIsInstance(tensor, SimulatedTensor)
        self.assertTrue(tensor.is_cuda)
        values = to_cpu(tensor)
        self.assertEqual((values.dtype, values.shape), (expected.dtype, expected.shape))
        self.assertTrue(torch.equal(values, expected), f"{values} and not {expected}")


class Operations(Case):
    def test_allreduce(self):
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.uint8):
            mine = cuda(torch.full((50, 3), hvd.rank() + 1, dtype=dtype))
            expected = torch.full((50, 3), int(total()) + hvd.size(), dtype=dtype)
            self.assertSame(hvd.allreduce(mine, op=hvd.Sum, name=f"{dtype}"), expected)
            self.assertSame(hvd.allreduce_(mine, op=hvd.Sum), expected)
            self.assertSame(mine, expected)

    def test_group(self):
        made = [cuda(torch.full((size,), float(hvd.rank()))) for size in (1, 7, 100)]
        for result, mine in zip(hvd.grouped_allreduce(made, op=hvd.Sum), made, strict=True):
            self.assertSame(result, torch.full(tuple(mine.shape), total()))
            self.assertSame(mine, torch.full(tuple(mine.shape), float(hvd.rank())))

    def test_allgather(self):
        def rows(rank):
            return torch.full((rank + 1, 2), rank)

        self.assertSame(hvd.allgather(cuda(rows(hvd.rank())), name="rows"), torch.cat(everyone(rows)))
        handles = [hvd.allgather_async(cuda(rows(hvd.rank()) + 10 * index)) for index in range(5)]
        for index, handle in enumerate(handles):
            self.assertSame(hvd.synchronize(handle), torch.cat(everyone(rows)) + 10 * index)
        pair = hvd.grouped_allgather([cuda(rows(hvd.rank())), cuda(torch.ones(1))], name="pair")
        self.assertSame(pair[0], torch.cat(everyone(rows)))
        self.assertSame(pair[1], torch.ones(hvd.size()))

    def test_allgather_is_started_without_a_wait(self):
        """Different ranks start two allgathers in different orders. All ranks wait for them in the same order."""
        names = ["first", "second"] if hvd.rank() % 2 == 0 else ["second", "first"]
        handles = {name: hvd.allgather_async(cuda(torch.ones(hvd.rank() + 1)), name) for name in names}
        hvd.barrier()
        for name in ("first", "second"):
            self.assertSame(hvd.synchronize(handles[name]), torch.ones(int(total()) + hvd.size()))

    def test_rows_of_batch_norm(self):
        everyones = allgather_row(cuda(torch.full((3,), hvd.rank())), "row")
        self.assertSame(everyones, torch.arange(hvd.size())[:, None].expand(-1, 3).contiguous())

    def test_default_device_is_a_gpu(self):
        """The numbers of rows that the ranks exchange are on the CPU, also under torch.set_default_device("cuda")."""
        mine = cuda(torch.full((hvd.rank() + 1, 2), hvd.rank()))
        empty = cuda(torch.ones(hvd.size()))
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1, momentum=0.9)
        optimizer.param_groups[0]["lr"] = torch.tensor(1.0 + hvd.rank())
        with torch.device("cuda"):
            gathered = hvd.allgather(mine)
            received, counts = hvd.alltoall(empty, [1] * hvd.size())
            nothing = hvd.synchronize(hvd.allgather_async(torch.ones(0, 3, device="cpu")))
            splits = hvd.alltoall(torch.ones(hvd.size(), device="cpu"), [1] * hvd.size())[1]
            objects = hvd.allgather_object(hvd.rank())
            text = hvd.broadcast_object("text", 0)
            hvd.broadcast_optimizer_state(optimizer, 0)
        self.assertSame(gathered, torch.cat(everyone(lambda rank: torch.full((rank + 1, 2), rank))))
        self.assertSame(received, torch.ones(hvd.size()))
        self.assertEqual((counts.device.type, counts.tolist()), ("cpu", [1] * hvd.size()))
        self.assertEqual((nothing.device.type, nothing.shape), ("cpu", (0, 3)))
        self.assertEqual((splits.device.type, splits.tolist()), ("cpu", [1] * hvd.size()))
        self.assertEqual((objects, text), (list(range(hvd.size())), "text"))
        rate = optimizer.param_groups[0]["lr"]
        self.assertEqual((rate.device.type, rate.item()), ("cpu", 1.0))

    def test_sparse(self):
        """A sparse allreduce consists of two allgathers. This test calls them by themselves, because a sparse tensor
        cannot have simulated parts."""
        handles = [hvd.allgather_async(cuda(torch.full((hvd.rank(), 2), 1.0)), f"sparse.{part}") for part in range(2)]
        for handle in handles:
            self.assertSame(hvd.synchronize(handle), torch.ones(int(total()), 2))

    def test_broadcast(self):
        mine = cuda(torch.full((4,), hvd.rank()))
        self.assertSame(hvd.broadcast(mine, hvd.size() - 1), torch.full((4,), hvd.size() - 1))
        self.assertSame(hvd.broadcast_(mine, 0), torch.full((4,), 0))

    def test_alltoall(self):
        rows = torch.arange(2 * hvd.size()) + 100 * hvd.rank()
        first = 2 * hvd.rank()
        expected = torch.cat(everyone(lambda rank: torch.arange(first, first + 2) + 100 * rank))
        self.assertSame(hvd.alltoall(cuda(rows)), expected)
        splits = list(range(1, hvd.size() + 1))
        output, received = hvd.alltoall(cuda(torch.full((sum(splits), 2), hvd.rank())), splits, name="splits")
        self.assertSame(output, torch.cat(everyone(lambda rank: torch.full((hvd.rank() + 1, 2), rank))))
        self.assertEqual(received.tolist(), [hvd.rank() + 1] * hvd.size())
        with self.assertRaisesRegex(ValueError, "expected .* that are not negative and sum to at most 2"):
            hvd.alltoall(cuda(torch.ones(2)), [3] * hvd.size())

    def test_reducescatter(self):
        count, size, rank = 2 * hvd.size() + 1, hvd.size(), hvd.rank()
        whole = torch.arange(2.0 * count).view(count, 2)
        begin = rank * 2 + min(rank, 1)
        expected = size * whole[begin : begin + 2 + (rank < 1)]
        self.assertSame(hvd.reducescatter(cuda(whole), op=hvd.Sum), expected)
        results = hvd.grouped_reducescatter([cuda(whole), cuda(torch.ones(size))], op=hvd.Sum, name="parts")
        self.assertSame(results[0], expected)
        self.assertSame(results[1], torch.full((1,), float(size)))

    def test_refusals(self):
        with self.assertRaisesRegex(ValueError, "device 'meta'; Rueda works on the memory of the CPU and of CUDA"):
            hvd.allreduce(torch.ones(2, device="meta"))
        with self.assertRaisesRegex(ValueError, "on CUDA device .* and another is in the CPU's memory"):
            hvd.grouped_allreduce([cuda(torch.ones(2)), torch.ones(2)], name="mixed")
        with self.assertRaisesRegex(ValueError, "some tensors are on a GPU, and some are not"):
            hvd.grouped_allgather([cuda(torch.ones(2)), torch.ones(2)], name="mixed")
        with self.assertRaisesRegex(ValueError, "contiguous"):
            hvd.allgather(cuda(torch.ones(2, 3)).t())


class Mismatches(Case):
    """The ranks call the same operation. The last rank passes a tensor of the CPU, the other ranks a tensor of a GPU.
    The tensor of the CPU looks like the message in which the other ranks exchange their numbers of rows.
    """

    def setUp(self):
        self.is_odd_one = hvd.rank() == hvd.size() - 1

    def assertMismatch(self, call):
        if hvd.size() == 1:
            return
        rows = torch.ones(hvd.size(), 2, dtype=torch.int64)
        with self.assertRaisesRegex(Mismatch, "the ranks disagree about the device: .* a GPU"):
            hvd.synchronize(call(rows if self.is_odd_one else cuda(rows)))

    def test_allgather(self):
        for name in ("mixed", None, "mixed", None):
            self.assertMismatch(lambda tensor, name=name: hvd.allgather_async(tensor, name))
            for again in (name, None):
                self.assertSame(hvd.allgather(cuda(torch.ones(2)), name=again), torch.ones(2 * hvd.size()))

    def test_alltoall(self):
        for name in ("mixed", None, "mixed", None):
            self.assertMismatch(lambda tensor, name=name: hvd.alltoall_async(tensor, [1] * hvd.size(), name))
            for again in (name, None):
                self.assertSame(hvd.alltoall(cuda(torch.ones(hvd.size())), name=again), torch.ones(hvd.size()))

    def test_group(self):
        for name in ("mixed", None):
            self.assertMismatch(lambda tensor, name=name: hvd.grouped_allgather_async([tensor, tensor + 1], name))
            for again in (name, None):
                one, two = hvd.grouped_allgather([cuda(torch.ones(2)), cuda(torch.ones(1))], name=again)
                self.assertSame(one, torch.ones(2 * hvd.size()))
                self.assertSame(two, torch.ones(hvd.size()))

    def test_operations_without_a_name_in_flight(self):
        """Rueda numbers the operations that have no name. The mismatch takes such a number only on some ranks. The
        operations after it must still find each other, although several of them are pending."""
        self.assertMismatch(lambda tensor: hvd.allgather_async(tensor))
        pending = [hvd.allgather_async(cuda(torch.full((1,), index))) for index in range(6)]
        for index, handle in enumerate(pending):
            self.assertSame(hvd.synchronize(handle), torch.full((hvd.size(),), index))

    def test_names_of_operations_without_a_name_repeat(self):
        """An operation without a name gets a name from Rueda. These names repeat, because Rueda need not negotiate a
        name again that it knows. Different kinds of operations have different names."""
        names = set()
        one = cuda(torch.ones(hvd.size()))
        with mock.patch.object(_deferred, "_NAMES", 3):
            for kind, call in (("allgather", hvd.allgather), ("alltoall", hvd.alltoall)):
                module = importlib.import_module(f"rueda.torch.operations.{kind}")
                with mock.patch.object(module, "operation_name", wraps=_deferred.operation_name) as made:
                    for _ in range(7):
                        call(one)
                names |= {_deferred.operation_name(*each.args) for each in made.call_args_list}
        self.assertEqual(names, {f"rueda.{kind}.{i}.gpu" for kind in ("allgather", "alltoall") for i in range(3)})


class Optimizers(Case):
    def parameters(self):
        made = [torch.full((4, 2), 1.0 + hvd.rank()), torch.full((3,), 2.0 + hvd.rank())]
        return [cuda(one, requires_grad=True) for one in made]

    def test_broadcast_parameters(self):
        weight, bias = self.parameters()
        hvd.broadcast_parameters({"weight": weight.detach(), "bias": bias.detach()}, root_rank=hvd.size() - 1)
        self.assertSame(weight.detach(), torch.full((4, 2), float(hvd.size())))
        self.assertSame(bias.detach(), torch.full((3,), float(hvd.size() + 1)))

    def test_gradients_are_reduced(self):
        mean = total() / hvd.size()
        for kind in ({}, {"compression": hvd.Compression.fp16}, {"groups": 1}):
            with self.subTest(str(kind)):
                parameters = self.parameters()
                sgd = torch.optim.SGD(parameters, lr=1.0, foreach=False)
                optimizer = hvd.DistributedOptimizer(sgd, [("weight", parameters[0]), ("bias", parameters[1])], **kind)
                for step in range(3):
                    for parameter in parameters:
                        parameter.grad = cuda(torch.full(tuple(parameter.shape), float(hvd.rank() + step)))
                    optimizer.synchronize()
                    for parameter in parameters:
                        self.assertTrue(torch.allclose(to_cpu(parameter.grad), torch.tensor(mean + step), atol=1e-3))
                    with optimizer.skip_synchronize():
                        optimizer.step()
                expected = 1.0 + hvd.rank() - 3 * mean - 3
                self.assertTrue(torch.allclose(to_cpu(parameters[0].detach()), torch.tensor(expected), atol=1e-2))


class Context(types.SimpleNamespace):
    """Stands for the context of an autograd function."""

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors):
        pass


class Training(Case):
    """PyTorch's autograd asks the driver for the streams of CUDA tensors, so no test here makes a graph of autograd. The
    tests call forward() and backward() themselves, and set the gradients themselves."""

    def assertNear(self, tensor, expected):
        self.assertIsInstance(tensor, SimulatedTensor)
        torch.testing.assert_close(to_cpu(tensor), expected, rtol=1e-4, atol=1e-5)

    def test_sync_batch_norm(self):
        """Compares with PyTorch's own layer on the CPU, which gets the samples of all ranks. Each rank has another
        number of samples."""
        generator = torch.Generator().manual_seed(1)
        parts = everyone(lambda rank: torch.randn(rank + 2, 3, 4, generator=generator) * (rank + 1) + rank)
        first = sum(len(part) for part in parts[: hvd.rank()])
        mine = slice(first, first + hvd.rank() + 2)
        plain = torch.nn.BatchNorm1d(3)
        torch.nn.init.uniform_(plain.weight, 0.5, 2.0, generator=generator)
        torch.nn.init.uniform_(plain.bias, -1.0, 1.0, generator=generator)
        x = torch.cat(parts).requires_grad_()
        expected = plain(x)
        gradient = torch.randn(expected.shape, generator=generator)
        expected.backward(gradient)

        layer = hvd.SyncBatchNorm(3)
        for name in ("weight", "bias"):
            value = torch.nn.Parameter(cuda(getattr(plain, name)), requires_grad=False)
            setattr(layer, name, value)
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            setattr(layer, name, cuda(getattr(layer, name)))
        side = Stream()
        side.wait_event(simulated_cuda.current_stream().record_event())
        with simulated_cuda.NewTensors(), torch.no_grad(), on_stream(side):
            input = cuda(parts[hvd.rank()])
            self.assertNear(layer(input), expected.detach()[mine])
            self.assertNear(layer.running_mean, plain.running_mean)
            self.assertNear(layer.running_var, plain.running_var)
            context = Context(needs_input_grad=[True, True, True])
            sync_batch_norm._Normalized.forward(context, input, layer.weight, layer.bias, layer.eps, "by hand")
            results = sync_batch_norm._Normalized.backward(context, cuda(gradient[mine]))
            self.assertNear(results[0], x.grad[mine])
            for result, parameter in ((results[1], plain.weight), (results[2], plain.bias)):
                self.assertNear(hvd.allreduce(result, op=hvd.Sum, name="sum"), parameter.grad)

    def test_grad_scaler(self):
        """In the second step, one rank has an infinite gradient. No rank may make this step, and all ranks must reduce
        the scale."""
        parameter = cuda(torch.ones(3), requires_grad=True)
        sgd = torch.optim.SGD([parameter], lr=1.0, foreach=False)
        optimizer = hvd.DistributedOptimizer(sgd, [("weight", parameter)])
        mean, scales, values = total() / hvd.size(), [], []
        available = mock.patch.object(torch.cuda, "is_available", lambda: True)
        with simulated_cuda.NewTensors(), available:
            scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
            for step in range(3):
                optimizer.zero_grad()
                loss = scaler.scale(cuda(torch.tensor(1.0)))
                is_bad = step == 1 and hvd.rank() == hvd.size() - 1
                factor = float("inf") if is_bad else float(hvd.rank() + step)
                parameter.grad = loss * factor * cuda(torch.tensor([1.0, 0.5, 0.25]))
                scaler.step(optimizer)
                scaler.update()
                scales.append(scaler.get_scale())
                values.append(to_cpu(parameter.detach()))
        self.assertEqual(scales, [1024.0, 512.0, 512.0])
        direction = torch.tensor([1.0, 0.5, 0.25])
        for value, gradients in zip(values, (mean, mean, 2 * mean + 2), strict=True):
            torch.testing.assert_close(value, 1.0 - gradients * direction)


class Streams(Case):
    def test_another_stream_waits(self):
        side, other = Stream(), Stream()
        for step in range(10):
            with on_stream(side):
                handle = hvd.allreduce_async(
                    cuda(torch.full((1000,), float(hvd.rank() + step))), op=hvd.Sum, name="side"
                )
            with on_stream(other):
                self.assertSame(hvd.synchronize(handle), torch.full((1000,), total() + hvd.size() * step))

    def test_input_is_dropped_at_once(self):
        for step in range(20):
            handles = [
                hvd.allreduce_async(cuda(torch.full((500,), float(hvd.rank() + index))), op=hvd.Sum, name=f"{index}")
                for index in range(4)
            ]
            gc.collect()
            for index, handle in enumerate(handles):
                result = hvd.synchronize(handle)
                if step % 5 == 0:
                    self.assertSame(result, torch.full((500,), total() + hvd.size() * index))

    def test_a_thread_goes_back_to_its_device_without_a_context(self):
        """The scope of the device must enclose the scope of the stream. torch.cuda.stream() alone would return to the
        previous device by cudaSetDevice()."""
        seen = []

        @contextlib.contextmanager
        def scope(what):
            seen.append(what)
            yield
            seen.append(f"end of {what}")

        stream = types.SimpleNamespace(device=torch.device("cuda", 3))
        with (
            mock.patch.object(torch.cuda, "device", lambda device: scope(f"{device}")),
            mock.patch.object(torch.cuda, "stream", lambda given: scope("stream" if given is stream else "another")),
            on_stream_of_pytorch(stream),
        ):
            seen.append("body")
        self.assertEqual(seen, ["cuda:3", "stream", "body", "end of stream", "end of cuda:3"])

    def test_a_name_is_taken_until_the_operation_is_launched(self):
        """The last rank is late with the operation itself, after the ranks have exchanged the numbers of rows."""
        is_late = hvd.rank() == hvd.size() - 1
        for kind, tensor in ((hvd.allgather_async, torch.ones(2)), (hvd.alltoall_async, torch.ones(hvd.size()))):
            mine = cuda(tensor)
            late = mock.patch.object(DeferredOperation, "_start_once", lambda _: None)
            with late if is_late else contextlib.nullcontext():
                handle = kind(mine, name="twice")
                handles._handle_map[handle]._sizes.wait()
                hvd.barrier()
                with self.assertRaisesRegex(DuplicateName, "still pending"):
                    kind(mine, name="twice")
                hvd.barrier()
            hvd.synchronize(handle)
            hvd.synchronize(kind(mine, name="twice"))

    def test_ctrl_c_while_the_operation_is_started(self):
        sizes = _native.allgather_async(torch.ones(1), None, "interrupted", tensor_of, 0)
        sizes.wait()

        def start(_sizes):
            raise KeyboardInterrupt

        with mock.patch("sys.unraisablehook"):  # the constructor calls `start` at once, as PyTorch calls a callback
            operation = DeferredOperation(sizes, simulated_cuda.gpu.index, start)
        for _ in range(2):
            with self.assertRaises(KeyboardInterrupt):
                operation._torch_result(None)

    def test_poll(self):
        handle = hvd.allgather_async(cuda(torch.ones(2)), name="polled")
        while not hvd.poll(handle):
            pass
        self.assertSame(hvd.synchronize(handle), torch.ones(2 * hvd.size()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
