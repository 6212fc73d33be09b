# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares Horovod's operations with plain PyTorch on every rank. All ranks run the same tests in the same order. Runs
with 1, 2 and 4 ranks."""

import gc
import signal
import unittest
import warnings

import rueda
import rueda.torch as hvd
import torch
from rueda import _native
from rueda.types import DType

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
INTEGERS += [getattr(torch, name) for name in ("uint16", "uint32", "uint64") if hasattr(torch, name)]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
ARITHMETIC = [*INTEGERS, *FLOATS]


def setUpModule():
    hvd.init()


def tearDownModule():
    hvd.shutdown()


def ranks() -> range:
    return range(hvd.size())


def values(rank: int, shape, dtype) -> torch.Tensor:
    """Returns a rank's input: small integers, whose sums and products are exact in every type. For bool, both values
    occur."""
    count = int(torch.Size(shape).numel())
    return ((torch.arange(count) + rank) % 3 + (dtype != torch.bool)).reshape(shape).to(dtype)


def everyones(shape, dtype) -> torch.Tensor:
    """Returns all ranks' inputs as float64, which supports all operations."""
    return torch.stack([values(rank, shape, dtype).to(torch.float64) for rank in ranks()])


REDUCTIONS = {
    hvd.Sum: lambda all_of_them: all_of_them.sum(0),
    hvd.Min: lambda all_of_them: all_of_them.amin(0),
    hvd.Max: lambda all_of_them: all_of_them.amax(0),
    hvd.Product: lambda all_of_them: all_of_them.prod(0),
}


class Case(unittest.TestCase):
    def assertSame(self, tensor, expected, dtype=None):
        self.assertIs(type(tensor), torch.Tensor)
        if dtype is not None:
            self.assertEqual(tensor.dtype, dtype)
        self.assertEqual(tuple(tensor.shape), tuple(expected.shape))
        self.assertTrue(
            torch.equal(tensor.to(torch.float64), expected.to(torch.float64)), f"{tensor} and not {expected}"
        )


class Allreduce(Case):
    def test_every_reduction_of_every_dtype(self):
        for dtype in [*ARITHMETIC, torch.bool]:
            for op, expected in REDUCTIONS.items():
                if dtype == torch.bool and op == hvd.Sum:
                    continue
                with self.subTest(dtype=dtype, op=op):
                    mine = values(hvd.rank(), (4, 5), dtype)
                    right = expected(everyones((4, 5), dtype))
                    self.assertSame(hvd.allreduce(mine, name=f"{dtype}.{op}", op=op), right, dtype)
                    self.assertSame(mine, values(hvd.rank(), (4, 5), dtype), dtype)
                    self.assertIs(hvd.allreduce_(mine, op=op), mine)
                    self.assertSame(mine, right, dtype)

    def test_average_is_the_default_and_truncates_integers_toward_zero(self):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            result = hvd.allreduce(torch.full((3,), 2.0 * hvd.rank(), dtype=dtype))
            self.assertSame(result, torch.full((3,), float(hvd.size() - 1)), dtype)
        for dtype in (torch.int8, torch.int32, torch.int64):
            total = -sum(2 * rank + 1 for rank in ranks())
            result = hvd.allreduce(torch.full((3,), -2 * hvd.rank() - 1, dtype=dtype))
            self.assertSame(result, torch.full((3,), -(-total // hvd.size())), dtype)

    def test_float8(self):
        """Reduces all pairs of 8-bit patterns. The even ranks hold the first pattern of each pair, the odd ranks the
        second. Rueda's result must have the same bits as the float32 result that PyTorch converts once. An overflow of
        float8_e4m3fn is an exception: Rueda gives NaN, as PyTorch does before 2.15. PyTorch 2.15 gives 448."""
        pairs = torch.arange(65536)
        for name, largest in (("float8_e4m3fn", 464.0), ("float8_e5m2", float("inf"))):
            if not hasattr(torch, name):
                continue
            dtype = getattr(torch, name)
            patterns = [part.to(torch.uint8).view(dtype) for part in (pairs >> 8, pairs & 255)]
            total = patterns[0].float()
            for rank in range(1, hvd.size()):
                total = total + patterns[rank % 2].float()
            for op, right in ((hvd.Sum, total), (hvd.Average, total * (1 / hvd.size()))):
                result = hvd.allreduce(patterns[hvd.rank() % 2], op=op, name=f"{name}.{op}")
                self.assertEqual(result.dtype, dtype)
                numbers = right.abs() <= largest
                self.assertTrue(
                    torch.equal(result.view(torch.uint8)[numbers], right.to(dtype).view(torch.uint8)[numbers])
                )
                self.assertTrue(bool(result.float()[~numbers].isnan().all()))
            rows = hvd.allgather(patterns[hvd.rank() % 2], name=f"{name} rows").view(torch.uint8)
            wanted = torch.cat([patterns[rank % 2] for rank in ranks()]) if hvd.size() > 1 else patterns[0]
            self.assertTrue(torch.equal(rows, wanted.view(torch.uint8)))
            for compressor in (hvd.Compression.fp16, hvd.Compression.bf16):
                self.assertIs(compressor.compress(patterns[0])[0], patterns[0])
            sparse = torch.sparse_coo_tensor(torch.zeros(1, 1, dtype=torch.int64), patterns[0][:1], (2,))
            with self.assertRaisesRegex(rueda.Unsupported, f"cannot add tensors of torch.{name}"):
                hvd.sparse_allreduce_async(sparse, name=f"{name} sparse", op=hvd.Sum)
            try:
                capsule = patterns[0].__dlpack__()
            except BufferError:  # PyTorch before 2.8 has no DLPack of 8-bit floats
                continue
            view = _native.view_of_dlpack(capsule, 0)
            self.assertEqual((view.dtype, view.address), (int(DType[name]), patterns[0].data_ptr()))

    def test_factors(self):
        mine = values(hvd.rank(), (7,), torch.float32)
        right = 3.0 * (0.5 * everyones((7,), torch.float32)).sum(0)
        self.assertSame(hvd.allreduce(mine, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0), right)

    def test_average_in_place_of_op(self):
        mine = torch.full((2,), float(hvd.rank()))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertSame(hvd.allreduce(mine, average=False), torch.full((2,), float(sum(ranks()))))
            self.assertSame(hvd.allreduce(mine, True), torch.full((2,), sum(ranks()) / hvd.size()))
        self.assertEqual([warning.category for warning in caught], [DeprecationWarning] * 2)
        for call in (hvd.allreduce, hvd.allreduce_, hvd.allreduce_async, hvd.allreduce_async_):
            with self.assertRaisesRegex(ValueError, "supersedes average"):
                call(mine, average=True, op=hvd.Sum)

    def test_shapes(self):
        for shape in ((), (1,), (0,), (3, 0, 2), (2, 3, 4, 5), (100_003,)):
            with self.subTest(shape=shape):
                self.assertSame(
                    hvd.allreduce(values(hvd.rank(), shape, torch.float32), op=hvd.Sum),
                    everyones(shape, torch.float32).sum(0),
                )

    def test_parameters(self):
        parameter = torch.nn.Parameter(torch.full((4,), float(hvd.rank())))
        hvd.allreduce_(parameter, op=hvd.Max)
        self.assertIsInstance(parameter, torch.nn.Parameter)
        self.assertSame(parameter.detach(), torch.full((4,), float(hvd.size() - 1)))

    def test_compression(self):
        mine = torch.full((5,), 1.0 + hvd.rank())
        for way in (hvd.Compression.none, hvd.Compression.fp16, hvd.Compression.bf16):
            self.assertSame(
                hvd.allreduce(mine, op=hvd.Sum, compression=way),
                torch.full((5,), float(sum(rank + 1 for rank in ranks()))),
                torch.float32,
            )
        self.assertSame(
            hvd.allreduce(torch.tensor([3]), compression=hvd.Compression.fp16), torch.tensor([3]), torch.int64
        )

        class Halves:  # this compressor is an example of one that a user writes
            @staticmethod
            def compress(tensor):
                return tensor / 2, 2

            @staticmethod
            def decompress(tensor, ctx):
                return tensor * ctx

        self.assertSame(
            hvd.allreduce(torch.ones(3), op=hvd.Sum, compression=Halves), torch.full((3,), float(hvd.size()))
        )

    def test_adasum_of_the_same_is_the_same(self):
        mine = torch.arange(10, dtype=torch.float64)
        torch.testing.assert_close(hvd.allreduce(mine, op=hvd.Adasum, name="adasum"), mine)


class Handles(Case):
    def test_order_does_not_matter_for_names(self):
        names = [f"tensor{i}" for i in range(20)]
        order = names if hvd.rank() % 2 == 0 else names[::-1]
        handles = {
            name: hvd.allreduce_async(torch.full((50,), float(name[6:])), name=name, op=hvd.Sum) for name in order
        }
        for name in names:
            self.assertIsInstance(handles[name], int)
            self.assertSame(hvd.synchronize(handles[name]), torch.full((50,), float(name[6:]) * hvd.size()))

    def test_poll_and_a_handle_that_is_used_up(self):
        handle = hvd.allreduce_async(torch.ones(3), op=hvd.Sum)
        while not hvd.poll(handle):
            pass
        self.assertSame(hvd.synchronize(handle), torch.full((3,), float(hvd.size())))
        self.assertIsNone(hvd.synchronize(handle))
        self.assertIsNone(hvd.synchronize(987_654_321))
        with self.assertRaises(ValueError):
            hvd.poll(handle)

    def test_a_wait_that_a_signal_ends_can_be_taken_up_again(self):
        if hvd.size() == 1:
            self.skipTest("nobody is waited for")

        class Interrupted(Exception):
            pass

        def handler(_number, _frame):
            raise Interrupted

        if hvd.rank() == 0:
            handle = hvd.allreduce_async(torch.ones(2), name="interrupted", op=hvd.Sum)
            previous = signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with self.assertRaises(Interrupted):
                hvd.synchronize(handle)
            signal.signal(signal.SIGALRM, previous)
            hvd.barrier()
        else:
            hvd.barrier()
            handle = hvd.allreduce_async(torch.ones(2), name="interrupted", op=hvd.Sum)
        self.assertSame(hvd.synchronize(handle), torch.full((2,), float(hvd.size())))

    def test_in_place_handles_give_the_tensor(self):
        mine = torch.ones(3)
        self.assertIs(hvd.synchronize(hvd.allreduce_async_(mine, op=hvd.Sum)), mine)
        self.assertIs(hvd.synchronize(hvd.broadcast_async_(mine, 0)), mine)

    def test_tensors_live_until_their_operation_has_ended(self):
        handles = [
            hvd.allreduce_async_(torch.full((10_000,), float(i)), name=f"lives{i}", op=hvd.Sum) for i in range(10)
        ]
        gc.collect()
        for i, handle in enumerate(handles):
            self.assertSame(hvd.synchronize(handle), torch.full((10_000,), float(i * hvd.size())))

    def test_a_name_for_two_kinds_of_operations_at_the_same_time(self):
        one = hvd.allreduce_async(torch.ones(2), name="both", op=hvd.Sum)
        other = hvd.allgather_async(torch.ones(2), name="both")
        third = hvd.broadcast_async(torch.ones(2), 0, name="both")
        self.assertSame(hvd.synchronize(one), torch.full((2,), float(hvd.size())))
        self.assertSame(hvd.synchronize(other), torch.ones(2 * hvd.size()))
        self.assertSame(hvd.synchronize(third), torch.ones(2))


class Groups(Case):
    def test_allreduce(self):
        mine = [values(hvd.rank(), (3,), torch.float32), values(hvd.rank(), (2, 2), torch.int64)]
        right = [everyones((3,), torch.float32).sum(0), everyones((2, 2), torch.int64).sum(0)]
        results = hvd.grouped_allreduce(mine, op=hvd.Sum)
        self.assertIsInstance(results, list)
        result = hvd.synchronize(hvd.grouped_allreduce_async(mine, name="group", op=hvd.Sum))
        self.assertIsInstance(result, tuple)
        in_place = hvd.grouped_allreduce_([tensor.clone() for tensor in mine], op=hvd.Sum)
        self.assertIsInstance(in_place, list)
        own = [tensor.clone() for tensor in mine]
        hvd.synchronize(hvd.grouped_allreduce_async_(own, op=hvd.Sum))
        for outputs in (results, result, in_place, own):
            for output, expected in zip(outputs, right, strict=True):
                self.assertSame(output, expected)

    def test_allgather(self):
        mine = [values(hvd.rank(), (hvd.rank() + 1, 2), torch.float32), torch.full((1,), hvd.rank())]
        results = hvd.grouped_allgather(mine)
        self.assertIsInstance(results, list)
        self.assertSame(results[0], torch.cat([values(rank, (rank + 1, 2), torch.float32) for rank in ranks()]))
        self.assertSame(results[1], torch.arange(hvd.size()))

    def test_reducescatter(self):
        rows = 2 * hvd.size() + 1
        mine = [values(hvd.rank(), (rows, 2), torch.float32), values(hvd.rank(), (rows,), torch.int32)]
        results = hvd.grouped_reducescatter(mine, op=hvd.Sum)
        begin = 2 * hvd.rank() + min(hvd.rank(), 1)
        count = 3 if hvd.rank() == 0 else 2
        for result, tensor in zip(results, mine, strict=True):
            self.assertSame(result, everyones(tensor.shape, tensor.dtype).sum(0)[begin : begin + count])

    def test_empty_groups(self):
        for call in (hvd.grouped_allreduce, hvd.grouped_allreduce_, hvd.grouped_allgather, hvd.grouped_reducescatter):
            with self.assertRaises(ValueError):
                call([])


class Others(Case):
    def test_broadcast(self):
        for dtype in [*ARITHMETIC, torch.bool]:
            for root in ranks():
                mine = values(hvd.rank(), (3, 2), dtype)
                right = values(root, (3, 2), dtype)
                self.assertSame(hvd.broadcast(mine, root), right, dtype)
                self.assertSame(mine, values(hvd.rank(), (3, 2), dtype), dtype)
                self.assertIs(hvd.broadcast_(mine, root, name="in place"), mine)
                self.assertSame(mine, right, dtype)

    def test_allgather(self):
        for dtype in [*ARITHMETIC, torch.bool]:
            right = torch.cat([values(rank, (rank + 1, 2), dtype) for rank in ranks()])
            result = hvd.allgather(values(hvd.rank(), (hvd.rank() + 1, 2), dtype))
            self.assertSame(result, right, dtype)
        nothing = hvd.allgather(torch.empty((0, 4)))
        self.assertSame(nothing, torch.empty((0, 4)))
        # the caller owns the memory of a result, and may write to it, even after the handle was released
        result.zero_()
        gc.collect()
        self.assertFalse(result.any())

    def test_alltoall(self):
        for splits in ([rank + 1 for rank in ranks()], torch.tensor([rank + 1 for rank in ranks()], dtype=torch.int32)):
            count = sum(rank + 1 for rank in ranks())
            received, counts = hvd.alltoall(torch.full((count, 2), hvd.rank()), splits)
            self.assertSame(
                received, torch.repeat_interleave(torch.arange(hvd.size()), hvd.rank() + 1)[:, None].expand(-1, 2)
            )
            self.assertSame(counts, torch.full((hvd.size(),), hvd.rank() + 1), torch.int32)
        even = hvd.alltoall(torch.full((3 * hvd.size(),), hvd.rank()))
        self.assertSame(even, torch.repeat_interleave(torch.arange(hvd.size()), 3))

    def test_alltoall_leaves_rows_beyond_the_splits(self):
        received, _ = hvd.alltoall(torch.arange(hvd.size() + 5), splits=[1] * hvd.size())
        self.assertSame(received, torch.full((hvd.size(),), hvd.rank()))

    def test_reducescatter(self):
        rows = 2 * hvd.size() + 1
        begin = 2 * hvd.rank() + min(hvd.rank(), 1)
        count = 3 if hvd.rank() == 0 else 2
        for dtype in FLOATS[2:] + [torch.int32, torch.int64]:
            mine = values(hvd.rank(), (rows, 3), dtype)
            right = everyones((rows, 3), dtype)[:, begin : begin + count]
            self.assertSame(hvd.reducescatter(mine, op=hvd.Sum), right.sum(0), dtype)
            self.assertSame(hvd.reducescatter(mine, op=hvd.Max), right.amax(0), dtype)
            average = right.sum(0) / hvd.size()
            self.assertSame(hvd.reducescatter(mine), average if dtype.is_floating_point else average.trunc(), dtype)
        scaled = hvd.reducescatter(
            torch.ones(hvd.size()), "scaled", hvd.Compression.none, hvd.Sum, hvd.global_process_set, 3, 0.5
        )
        self.assertSame(scaled, torch.full((1,), 1.5 * hvd.size()))

    def test_the_result_of_a_sparse_allreduce_can_be_had_twice(self):
        def of(name, columns):
            mine = torch.sparse_coo_tensor(torch.tensor([[1]]), torch.ones(1, columns), (4, columns))
            return hvd.sparse_allreduce_async(mine, name, hvd.Sum)

        result = of("twice", 3)
        self.assertIs(result(), result())
        self.assertEqual(result().to_dense()[1].tolist(), [float(hvd.size())] * 3)
        if hvd.size() > 1:
            failed = of("never", 3 + hvd.rank())
            for _ in range(2):
                with self.assertRaisesRegex(hvd.HorovodInternalError, "never"):
                    failed()

    def test_sparse_allreduce(self):
        words = torch.tensor([[7, 10 + hvd.rank()]])
        mine = torch.sparse_coo_tensor(words, torch.ones(2, 3), (100, 3))
        total = hvd.sparse_allreduce_async(mine, "sparse", hvd.Sum)()
        average = hvd.sparse_allreduce_async(mine, "sparse", hvd.Average)()
        right = sum(
            torch.sparse_coo_tensor(torch.tensor([[7, 10 + rank]]), torch.ones(2, 3), (100, 3)).to_dense()
            for rank in ranks()
        )
        self.assertTrue(torch.equal(total.to_dense(), right))
        self.assertEqual(total.shape, (100, 3))
        torch.testing.assert_close(average.to_dense(), right / hvd.size())
        empty = hvd.sparse_allreduce_async(torch.sparse_coo_tensor(size=(4, 3)), None, hvd.Sum)()
        self.assertTrue(torch.equal(empty.to_dense(), torch.zeros(4, 3)))
        with self.assertRaises(ValueError):
            hvd.sparse_allreduce_async(torch.ones(3), "dense", hvd.Sum)

    def test_barrier_and_join(self):
        hvd.barrier()
        for _ in range(3 + hvd.rank()):
            average = hvd.allreduce(torch.ones(4), name="uneven")
            self.assertTrue(0 < average[0] <= 1)
        self.assertEqual(hvd.join(), hvd.size() - 1)


class Gradients(Case):
    """Compares backward passes with Horovod's formulas. The weights of the outputs differ between the ranks."""

    def weights(self, rank, shape):
        return values(rank, shape, torch.float64) + rank

    def backward(self, function, *shapes):
        """Returns the gradients of (function(inputs) * weights).sum() with respect to the inputs."""
        inputs = [values(hvd.rank(), shape, torch.float64).requires_grad_() for shape in shapes]
        output = function(*inputs)
        (output * self.weights(hvd.rank(), output.shape)).sum().backward()
        return [tensor.grad for tensor in inputs]

    def everyones_weights(self, shape_of):
        return [self.weights(rank, shape_of(rank)) for rank in ranks()]

    def test_allreduce(self):
        weights = torch.stack(self.everyones_weights(lambda _: (3, 2)))
        for op, right in ((hvd.Sum, weights.sum(0)), (hvd.Average, weights.mean(0))):
            for name in (None, "named"):
                (gradient,) = self.backward(lambda x, op=op, name=name: hvd.allreduce(x, op=op, name=name), (3, 2))
                torch.testing.assert_close(gradient, right)
        (gradient,) = self.backward(
            lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.25), (3, 2)
        )
        torch.testing.assert_close(gradient, weights.sum(0) / 2)

    def test_grouped_allreduce(self):
        weights = torch.stack(self.everyones_weights(lambda _: (3,)))
        first, second = self.backward(
            lambda x, y: torch.stack(hvd.grouped_allreduce([x, y], op=hvd.Sum)).sum(0), (3,), (3,)
        )
        torch.testing.assert_close(first, weights.sum(0))
        torch.testing.assert_close(second, weights.sum(0))

    def test_allgather(self):
        count = sum(rank + 1 for rank in ranks())
        average = torch.stack(self.everyones_weights(lambda _: (count, 2))).mean(0)
        begin = sum(rank + 1 for rank in range(hvd.rank()))
        right = average[begin : begin + hvd.rank() + 1]
        (gradient,) = self.backward(hvd.allgather, (hvd.rank() + 1, 2))
        torch.testing.assert_close(gradient, right)
        (gradient,) = self.backward(lambda x: hvd.grouped_allgather([x], name="group")[0], (hvd.rank() + 1, 2))
        torch.testing.assert_close(gradient, right)

    def test_broadcast(self):
        root = hvd.size() - 1
        average = torch.stack(self.everyones_weights(lambda _: (4,))).mean(0)
        (gradient,) = self.backward(lambda x: hvd.broadcast(x, root), (4,))
        torch.testing.assert_close(gradient, average if hvd.rank() == root else torch.zeros_like(average))

    def test_alltoall(self):
        # Rank r sends r + 1 rows to each rank. For the rows that come from rank s, the weight of row i is values(s)[i]
        # + s.
        rows = hvd.rank() + 1
        count = sum(rank + 1 for rank in ranks())
        begin = sum(rank + 1 for rank in range(hvd.rank()))
        right = torch.cat([weight[begin : begin + rows] for weight in self.everyones_weights(lambda _: (count, 2))])
        (gradient,) = self.backward(lambda x: hvd.alltoall(x, [rows] * hvd.size())[0], (rows * hvd.size(), 2))
        torch.testing.assert_close(gradient, right)
        (gradient,) = self.backward(lambda x: hvd.alltoall(x, [rows] * hvd.size())[0], (rows * hvd.size() + 2, 2))
        torch.testing.assert_close(gradient, torch.cat([right, torch.zeros(2, 2, dtype=torch.float64)]))
        (gradient,) = self.backward(hvd.alltoall, (hvd.size(), 2))
        torch.testing.assert_close(
            gradient, torch.stack([weight[hvd.rank()] for weight in self.everyones_weights(lambda _: (hvd.size(), 2))])
        )

    def test_reducescatter(self):
        gathered = torch.cat(self.everyones_weights(lambda _: (2, 3)))
        for op, factor in ((hvd.Sum, hvd.size()), (hvd.Average, 1)):
            (gradient,) = self.backward(lambda x, op=op: hvd.reducescatter(x, op=op), (2 * hvd.size(), 3))
            torch.testing.assert_close(gradient, factor * gathered)
            (gradient,) = self.backward(lambda x, op=op: hvd.grouped_reducescatter([x], op=op)[0], (2 * hvd.size(), 3))
            torch.testing.assert_close(gradient, factor * gathered)
        (gradient,) = self.backward(
            lambda x: hvd.reducescatter(x, prescale_factor=2, postscale_factor=5), (2 * hvd.size(), 3)
        )
        torch.testing.assert_close(gradient, 10 * gathered)

    def test_second_derivatives(self):
        # The test squares x, applies the operation, and squares the result. For an alltoall, the derivatives are those
        # of x⁴: 4 x³ and 12 x². For an allreduce, both are multiplied by the square of the number of ranks.
        count = hvd.size()
        for function, first, second in (
            (lambda x: hvd.alltoall(x), 4, 12),
            (lambda x: hvd.alltoall(x, [1] * count)[0], 4, 12),
            (lambda x: hvd.allreduce(x, op=hvd.Sum), 4 * count**2, 12 * count**2),
        ):
            x = torch.arange(1.0, count + 1, dtype=torch.float64).requires_grad_()
            expected = x.detach()  # the average is x itself, because all ranks have the same input
            (gradient,) = torch.autograd.grad((function(x**2) ** 2).sum(), x, create_graph=True)
            torch.testing.assert_close(gradient.detach(), first * expected**3)
            (gradient,) = torch.autograd.grad(gradient.sum(), x)
            torch.testing.assert_close(gradient, second * expected**2)

    def test_gradients_with_the_negative_bit(self):
        for function, factor in (
            (lambda x: hvd.allreduce(x, op=hvd.Sum), hvd.size()),
            (lambda x: hvd.grouped_allreduce([x])[0], 1),
            (lambda x: hvd.broadcast(x, 0), int(hvd.rank() == 0)),
            (hvd.alltoall, 1),
        ):
            x = torch.ones(hvd.size(), requires_grad=True)
            function(x).backward(torch._neg_view(torch.ones(hvd.size())))
            self.assertSame(x.grad, torch.full((hvd.size(),), -float(factor)))

    def test_no_gradient_where_none_is_wanted(self):
        parameter = torch.ones(3, requires_grad=True)
        with torch.no_grad():
            self.assertFalse(hvd.allreduce(parameter).requires_grad)
        self.assertTrue(hvd.allreduce(parameter).requires_grad)
        self.assertFalse(hvd.synchronize(hvd.allreduce_async(parameter)).requires_grad)
        self.assertFalse(hvd.allreduce(torch.ones(3)).requires_grad)

    def test_compression_passes_gradients(self):
        weights = torch.stack(self.everyones_weights(lambda _: (3, 2)))
        (gradient,) = self.backward(lambda x: hvd.allreduce(x, op=hvd.Sum, compression=hvd.Compression.fp16), (3, 2))
        self.assertEqual(gradient.dtype, torch.float64)
        torch.testing.assert_close(gradient, weights.sum(0))


if __name__ == "__main__":
    unittest.main()
