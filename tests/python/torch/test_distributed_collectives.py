# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares every collective of torch.distributed on the backend "rueda" with the backend Gloo on the same ranks. Runs
with two or more ranks."""

import datetime
import os
import threading
import time
import unittest

import rueda
import rueda.torch.distributed
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp


def setUpModule():
    global GLOO, RANK, SIZE
    dist.init_process_group("rueda", timeout=datetime.timedelta(seconds=60))
    GLOO = dist.new_group(backend="gloo")
    RANK, SIZE = dist.get_rank(), dist.get_world_size()


def tearDownModule():
    dist.destroy_process_group()


def alike(mine, theirs):
    """Requires equal types, shapes and values."""
    torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)


def values(shape, dtype=torch.float32, seed=0):
    """Returns values that differ between the ranks and are so small that their products fit into 8-bit integers."""
    generator = torch.Generator().manual_seed(1000 * seed + RANK)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if dtype.is_complex:
        return torch.complex(values(shape, seed=seed + 1), values(shape, seed=seed + 2)).to(dtype)
    if dtype.is_floating_point:
        return torch.rand(shape, generator=generator).add(0.5).to(dtype)
    return torch.randint(1, 3, shape, generator=generator).to(dtype)


REFUSED = "this rank cannot start further operations of the group, because it has given up waiting for an earlier one .*: rank"
GATHER = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base  # the name before PyTorch 1.13


def rooted(rank):
    options = dist.BroadcastOptions()
    options.rootRank = rank
    options.rootTensor = 0
    return options


OPERATORS = [ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX]
NUMBERS = [torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8, torch.int8]
# Rueda can also send these types, but cannot reduce them.
MOVED = [*NUMBERS, torch.float16, torch.bfloat16, torch.bool, torch.complex64]

# The text of a Timeout is different if the missing rank is on another host.
ON_ONE_HOST = unittest.skipIf("RUEDA_HOSTNAME" in os.environ, "the words of a Timeout differ between hosts")


class Reductions(unittest.TestCase):
    def test_premultiplied_sums(self):
        make = getattr(dist, "_make_nccl_premul_sum", None)
        if make is None or make(0.5).__getstate__() is None:
            self.skipTest("this PyTorch does not tell the factor")
        for factor in (make(0.25), make(torch.tensor([0.25]))):
            mine = torch.full((5,), 4.0 * (RANK + 1))
            dist.all_reduce(mine, factor)
            alike(mine, torch.full((5,), SIZE * (SIZE + 1) / 2))
            rows = torch.arange(2.0 * SIZE) * 4
            part = torch.empty(2)
            dist.reduce_scatter_tensor(part, rows, factor)
            alike(part, torch.tensor([2.0 * RANK, 2.0 * RANK + 1]) * SIZE)
            root = torch.full((3,), 8.0)
            dist.reduce(root, 0, factor)
            alike(root, torch.full((3,), 2.0 * SIZE if RANK == 0 else 8.0))
        with self.assertRaisesRegex(TypeError, "PREMUL_SUM of torch.int32"):
            dist.all_reduce(torch.ones(2, dtype=torch.int32), make(2.0))

    def test_all_reduce(self):
        for dtype in NUMBERS:
            for operator in OPERATORS:
                for shape in ((), (5,), (3, 4), (70_000,)):
                    mine = values(shape, dtype)
                    theirs = mine.clone()
                    dist.all_reduce(mine, operator)
                    dist.all_reduce(theirs, operator, group=GLOO)
                    alike(mine, theirs)

    def test_all_reduce_of_half(self):
        for dtype in (torch.float16, torch.bfloat16):
            mine = values((1000,), dtype)
            parts = [torch.empty(1000) for _ in range(SIZE)]
            dist.all_gather(parts, mine.float(), group=GLOO)
            hosts = [None] * SIZE
            dist.all_gather_object(hosts, rueda.cross_rank(), group=GLOO)
            # First the partial sum of each host is rounded. Then the sum of these partial sums is rounded.
            of_hosts = [sum(part for part, of in zip(parts, hosts, strict=True) if of == host) for host in set(hosts)]
            dist.all_reduce(mine)
            alike(mine, sum(part.to(dtype).float() for part in of_hosts).to(dtype))

    def test_float8(self):
        for name in ("float8_e4m3fn", "float8_e5m2"):
            if not hasattr(torch, name):
                continue
            dtype = getattr(torch, name)
            mine = torch.full((9,), 0.5).to(dtype)
            dist.all_reduce(mine)
            self.assertEqual((mine.dtype, mine.float().tolist()), (dtype, [0.5 * SIZE] * 9))
            parts = [torch.zeros(9, dtype=torch.uint8).view(dtype) for _ in range(SIZE)]
            dist.all_gather(parts, torch.full((9,), RANK + 200, dtype=torch.uint8).view(dtype))
            self.assertEqual(
                [part.view(torch.uint8).tolist() for part in parts], [[rank + 200] * 9 for rank in range(SIZE)]
            )

    def test_average(self):
        if not hasattr(ReduceOp, "AVG"):
            return
        mine = values((10,))
        theirs = mine.clone()
        dist.all_reduce(mine, ReduceOp.AVG)
        dist.all_reduce(theirs, group=GLOO)
        alike(mine, theirs / SIZE)

    def test_bitwise(self):
        for operator in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
            mine = torch.randint(0, 127, (3, 9), generator=torch.Generator().manual_seed(RANK))
            theirs = mine.clone()
            dist.all_reduce(mine, operator)
            dist.all_reduce(theirs, operator, group=GLOO)
            alike(mine, theirs)

    def test_bool(self):
        everyones = [torch.empty(50, dtype=torch.uint8) for _ in range(SIZE)]
        mine = values((50,), torch.bool)
        dist.all_gather(everyones, mine.to(torch.uint8), group=GLOO)
        together = torch.stack(everyones) == 1
        for operator, expected in (
            (ReduceOp.SUM, together.any(0)),
            (ReduceOp.MAX, together.any(0)),
            (ReduceOp.PRODUCT, together.all(0)),
            (ReduceOp.MIN, together.all(0)),
            (ReduceOp.BXOR, together.sum(0) % 2 == 1),
        ):
            result = mine.clone()
            dist.all_reduce(result, operator)
            alike(result, expected)

    def test_complex(self):
        mine = values((6,), torch.complex64)
        theirs = mine.clone()
        dist.all_reduce(mine)
        dist.all_reduce(theirs, group=GLOO)
        alike(mine, theirs)

    def test_what_is_not_contiguous(self):
        whole = values((6, 8))
        mine = whole[:, 1::2]
        kept = whole[:, 0::2].clone()
        theirs = mine.clone()
        dist.all_reduce(mine)
        dist.all_reduce(theirs, group=GLOO)
        alike(mine.contiguous(), theirs)
        alike(whole[:, 0::2].contiguous(), kept)

    def test_a_leaf_that_requires_grad(self):
        mine = values((4,)).requires_grad_()
        theirs = mine.detach().clone()
        dist.all_reduce(mine)
        dist.all_reduce(theirs, group=GLOO)
        alike(mine.detach(), theirs)

    def test_sparse(self):
        indices = torch.tensor([[RANK, RANK + 1, RANK + 1], [0, 1, 1]])
        mine = torch.sparse_coo_tensor(indices, torch.tensor([1.0, 2.0, 3.0]) * (RANK + 1), (SIZE + 1, 2))
        expected = sum(
            torch.sparse_coo_tensor(
                torch.tensor([[r, r + 1, r + 1], [0, 1, 1]]), torch.tensor([1.0, 2.0, 3.0]) * (r + 1), (SIZE + 1, 2)
            ).to_dense()
            for r in range(SIZE)
        )
        dist.all_reduce(mine)
        self.assertTrue(mine.is_sparse)
        alike(mine.to_dense(), expected)

    def test_reduce(self):
        for root in range(SIZE):
            for operator in OPERATORS:
                mine = values((7, 3), seed=root)
                before = mine.clone()
                theirs = mine.clone()
                dist.reduce(mine, root, operator)
                dist.reduce(theirs, root, operator, group=GLOO)
                alike(mine, theirs if root == RANK else before)

    def test_reduce_scatter(self):
        for sizes in ([4] * SIZE, [r + 1 for r in range(SIZE)]):
            inputs = [values((size, 2), seed=index) for index, size in enumerate(sizes)]
            output = torch.empty(sizes[RANK], 2)
            dist.reduce_scatter(output, [one.clone() for one in inputs])
            for one in inputs:
                dist.all_reduce(one, group=GLOO)
            alike(output, inputs[RANK])

    def test_reduce_scatter_tensor(self):
        call = getattr(dist, "reduce_scatter_tensor", None) or dist._reduce_scatter_base
        for operator in (*OPERATORS, ReduceOp.BOR):
            dtype = torch.int64 if operator == ReduceOp.BOR else torch.float32
            whole = values((3 * SIZE, 5), dtype)
            output = torch.empty(3, 5, dtype=dtype)
            call(output, whole, operator)
            expected = whole.clone()
            dist.all_reduce(expected, operator, group=GLOO)
            alike(output, expected[3 * RANK : 3 * RANK + 3])
            call(whole[3 * RANK : 3 * RANK + 3], whole, operator)  # the output is a part of the input
            alike(whole[3 * RANK : 3 * RANK + 3], expected[3 * RANK : 3 * RANK + 3])

    def test_coalesced(self):
        if not hasattr(dist, "all_reduce_coalesced"):
            return
        mine = [values((3,)), values((2, 2), seed=1)]
        theirs = [one.clone() for one in mine]
        dist.all_reduce_coalesced(mine)
        for one, other in zip(mine, theirs):
            dist.all_reduce(other, group=GLOO)
            alike(one, other)


class Moves(unittest.TestCase):
    def test_broadcast(self):
        for dtype in MOVED:
            for root in range(SIZE):
                for shape in ((), (3, 4), (40_000,)):
                    mine = values(shape, dtype)
                    theirs = mine.clone()
                    dist.broadcast(mine, root)
                    # Gloo cannot broadcast some of these types, so it broadcasts their bytes.
                    as_bytes = theirs.reshape(-1).view(torch.uint8)
                    dist.broadcast(as_bytes, root, group=GLOO)
                    alike(mine, as_bytes.view(dtype).view(shape))

    def test_all_gather(self):
        for dtype in MOVED:
            mine = values((2, 3), dtype)
            outputs = [torch.empty(2, 3, dtype=dtype) for _ in range(SIZE)]
            dist.all_gather(outputs, mine)
            for rank, output in enumerate(outputs):
                expected = mine.clone()
                dist.broadcast(expected, rank)
                alike(output, expected)

    def test_all_gather_into_parts_of_one(self):
        whole = torch.zeros(SIZE, 3)
        dist.all_gather(list(whole.unbind()), torch.full((3,), float(RANK)))
        alike(whole, torch.arange(float(SIZE)).unsqueeze(1).expand(SIZE, 3).contiguous())

    def test_all_gather_of_different_sizes(self):
        outputs = [torch.empty(r + 1) for r in range(SIZE)]
        dist.all_gather(outputs, torch.full((RANK + 1,), float(RANK)))
        for rank, output in enumerate(outputs):
            alike(output, torch.full((rank + 1,), float(rank)))

    def test_sizes_in_another_order(self):
        outputs = [torch.empty(r + 2 if r != RANK else r + 1) for r in range(SIZE)]
        with self.assertRaisesRegex(
            ValueError, f"output {RANK}, this rank's, has {RANK + 1} elements; the input {RANK + 2}"
        ):
            dist.all_gather(outputs, torch.empty(RANK + 2))

    def test_all_gather_into_tensor(self):
        call = getattr(dist, "all_gather_into_tensor", None) or dist._all_gather_base
        for dtype in MOVED:
            mine = values((2, 3), dtype)
            output = torch.empty(2 * SIZE, 3, dtype=dtype)
            call(output, mine)
            expected = [torch.empty_like(mine) for _ in range(SIZE)]
            dist.all_gather(expected, mine)
            alike(output, torch.cat(expected))
        call(output, output[2 * RANK : 2 * RANK + 2])  # the input is this rank's part of the output
        alike(output, torch.cat(expected))

    def test_gather(self):
        for root in range(SIZE):
            mine = torch.full((RANK + 1, 2), float(RANK))
            outputs = [torch.empty(r + 1, 2) for r in range(SIZE)] if root == RANK else None
            dist.gather(mine, outputs, root)
            for rank, output in enumerate(outputs or []):
                alike(output, torch.full((rank + 1, 2), float(rank)))

    def test_gather_into_tensor(self):
        if not hasattr(dist, "gather_single"):
            self.skipTest("not with this PyTorch")
        for root in range(SIZE):
            output = torch.empty(SIZE, 3) if root == RANK else None
            dist.gather_single(torch.full((1, 3), float(RANK)), output, dst=root)
            if output is not None:
                alike(output, torch.arange(float(SIZE)).view(SIZE, 1).expand(SIZE, 3).contiguous())

    def test_scatter(self):
        for dtype in MOVED:
            for root in range(SIZE):
                inputs = [values((r + 1, 2), dtype, seed=r) for r in range(SIZE)]
                output = torch.empty(RANK + 1, 2, dtype=dtype)
                dist.scatter(output, inputs if root == RANK else None, root)
                for one in inputs:
                    dist.broadcast(one, root)
                alike(output, inputs[RANK])

    def test_all_to_all(self):
        # Rank r sends r + s + 1 elements to rank s.
        inputs = [torch.full((RANK + s + 1,), 10.0 * RANK + s) for s in range(SIZE)]
        outputs = [torch.empty(r + RANK + 1) for r in range(SIZE)]
        dist.all_to_all(outputs, inputs)
        for rank, output in enumerate(outputs):
            alike(output, torch.full((rank + RANK + 1,), 10.0 * rank + RANK))

    def test_all_to_all_single(self):
        for dtype in (torch.float32, torch.complex64, torch.int64):
            mine = torch.stack([torch.full((2,), 10 * RANK + s) for s in range(SIZE)]).to(dtype)
            output = torch.empty(SIZE, 2, dtype=dtype)
            dist.all_to_all_single(output, mine)
            alike(output, torch.stack([torch.full((2,), 10 * r + RANK) for r in range(SIZE)]).to(dtype))
            sent = [s + 1 for s in range(SIZE)]
            mine = torch.full((sum(sent), 3), float(RANK)).to(dtype)
            output = torch.empty(SIZE * (RANK + 1), 3, dtype=dtype)
            dist.all_to_all_single(output, mine, [RANK + 1] * SIZE, sent)
            alike(output[:: RANK + 1, 0].contiguous(), torch.arange(SIZE).to(dtype))

    def test_nothing(self):
        empty = torch.empty(0)
        dist.all_reduce(empty)
        dist.broadcast(empty, 0)
        outputs = [torch.empty(0) for _ in range(SIZE)]
        dist.all_gather(outputs, empty)
        self.assertEqual([one.numel() for one in outputs], [0] * SIZE)


class Coalesced(unittest.TestCase):
    """Tests the context manager that combines several calls into one. PyTorch's own libraries use it."""

    def setUp(self):
        try:
            from torch.distributed.distributed_c10d import _coalescing_manager

            with _coalescing_manager():
                pass
        except (ImportError, TypeError):
            self.skipTest("not with this PyTorch")
        self.manager = _coalescing_manager

    def test_all_reduce(self):
        tensors = [torch.full((3,), float(RANK)), torch.ones(2, 2)]
        with self.manager():
            for tensor in tensors:
                dist.all_reduce(tensor)
        alike(tensors[0], torch.full((3,), float(sum(range(SIZE)))))
        alike(tensors[1], torch.full((2, 2), float(SIZE)))

    def test_all_gather(self):
        outputs = [torch.empty(elements * SIZE) for elements in (2, 3)]
        with self.manager():
            for output in outputs:
                dist.all_gather_into_tensor(output, torch.full((output.numel() // SIZE,), float(RANK)))
        for output, elements in zip(outputs, (2, 3)):
            alike(output, torch.arange(float(SIZE)).repeat_interleave(elements))

    def test_reduce_scatter(self):
        outputs = [torch.empty(elements) for elements in (2, 3)]
        with self.manager(async_ops=True) as manager:
            for output in outputs:
                dist.reduce_scatter_tensor(output, torch.full((output.numel() * SIZE,), RANK + 1.0))
        manager.wait()
        for output in outputs:
            alike(output, torch.full(output.shape, SIZE * (SIZE + 1) / 2))

    def test_all_gather_of_lists(self):
        outputs = [[torch.empty(2), torch.empty(3)] for _ in range(SIZE)]
        dist.all_gather_coalesced(outputs, [torch.full((2,), float(RANK)), torch.full((3,), 10.0 + RANK)])
        for rank, (first, second) in enumerate(outputs):
            alike(first, torch.full((2,), float(rank)))
            alike(second, torch.full((3,), 10.0 + rank))


class Objects(unittest.TestCase):
    def test_all_gather_object(self):
        everyones = [None] * SIZE
        dist.all_gather_object(everyones, {"rank": RANK, "text": "x" * RANK})
        self.assertEqual(everyones, [{"rank": r, "text": "x" * r} for r in range(SIZE)])

    def test_gather_object(self):
        root = SIZE - 1
        everyones = [None] * SIZE if root == RANK else None
        dist.gather_object((RANK, [RANK] * RANK), everyones, dst=root)
        if everyones is not None:
            self.assertEqual(everyones, [(r, [r] * r) for r in range(SIZE)])

    def test_broadcast_object_list(self):
        objects = ["a", {1: 2}, None] if RANK == 1 else [None] * 3
        dist.broadcast_object_list(objects, src=1)
        self.assertEqual(objects, ["a", {1: 2}, None])

    def test_large_objects(self):
        """Sends objects of more than 100 MB."""
        pattern = bytes(range(251)) * 410_000
        objects = [pattern if RANK == 0 else None, RANK]
        dist.broadcast_object_list(objects, src=0)
        # assertTrue, because the message of assertEqual would contain the objects.
        self.assertTrue(objects == [pattern, 0])
        # a group of two ranks is enough: each of them gets a copy of every member's object
        pair = dist.new_group([0, 1]) if SIZE > 1 else None
        if RANK < 2:
            everyones = [None] * min(SIZE, 2)
            dist.all_gather_object(everyones, (RANK, pattern[RANK:]), group=pair)
            self.assertTrue(everyones == [(rank, pattern[rank:]) for rank in range(len(everyones))])

    def test_scatter_object_list(self):
        got = [None]
        dist.scatter_object_list(got, [f"for {r}" * (r + 1) for r in range(SIZE)] if RANK == 0 else None, src=0)
        self.assertEqual(got, [f"for {RANK}" * (RANK + 1)])


class Works(unittest.TestCase):
    def test_handles(self):
        tensors = [torch.full((1000,), float(RANK + index)) for index in range(100)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for index, (work, tensor) in enumerate(zip(works, tensors)):
            self.assertTrue(work.wait())
            self.assertTrue(work.is_completed() and work.is_success())
            alike(tensor, torch.full((1000,), float(sum(range(SIZE)) + index * SIZE)))

    def test_polling(self):
        outputs = [torch.empty(2) for _ in range(SIZE)]
        work = dist.all_gather(outputs, torch.full((2,), float(RANK)), async_op=True)
        while not work.is_completed():
            pass
        alike(torch.stack(outputs)[:, 0].contiguous(), torch.arange(float(SIZE)))

    def test_futures(self):
        tensors = [torch.full((10,), float(RANK)) for _ in range(20)]
        futures = [dist.all_reduce(tensor, async_op=True).get_future() for tensor in tensors]
        doubled = [future.then(lambda done: done.value()[0] * 2) for future in futures]
        for future in doubled:
            alike(future.wait(), torch.full((10,), 2.0 * sum(range(SIZE))))

    def test_inference_mode(self):
        """Some results are not written directly to the output: another thread copies them to it. That thread is not in
        inference mode."""
        with torch.inference_mode():
            columns = torch.ones(4, 6)[:, ::2]
            rows = torch.zeros(SIZE, 4)[:, ::2]
            works = [
                dist.all_reduce(columns, async_op=True),
                dist.all_gather(list(rows), torch.full((2,), float(RANK)), async_op=True),
            ]
        for work in works:
            work.get_future().wait()
        alike(columns.contiguous(), torch.full((4, 3), float(SIZE)))
        alike(rows.contiguous(), torch.arange(float(SIZE)).view(SIZE, 1).expand(SIZE, 2).contiguous())

    def test_callbacks_may_block(self):
        """A callback of the first operation blocks its thread until the second operation ends, so another thread must
        complete the second operation. Meanwhile, the first operation's memory must stay in use."""
        if RANK > 0:
            dist.barrier(
                group=GLOO
                # Rank 0 must add its callback before the operation completes: a later callback would run at once, on
                # rank 0's own thread.
            )
        first = dist.all_reduce(torch.ones(3), async_op=True).get_future()
        come = threading.Event()

        def wait_for_second(done):
            come.wait(30)
            return done.value()[0] + second.wait()[0]

        both = first.then(wait_for_second) if RANK == 0 else None
        if RANK == 0:
            dist.barrier(group=GLOO)
        second = dist.all_reduce(torch.full((3,), 2.0), async_op=True).get_future()
        come.set()
        alike(both.wait() if both is not None else first.wait()[0] + second.wait()[0], torch.full((3,), 3.0 * SIZE))

    def test_collectives_in_callbacks(self):
        """Callbacks may start collectives, which must match between the ranks. The programs of the ranks may be at
        different points. A future may be complete on some ranks before its callback is added.
        """
        total = sum(range(SIZE))

        def again(index, seen):
            def callback(done):
                time.sleep(0.002 * ((index + RANK) % 3))
                reduced = done.value()[0].clone()  # total + index * SIZE
                dist.all_reduce(reduced)
                rows = torch.empty(SIZE, 2)
                GATHER(rows, torch.full((2,), float(10 * RANK + index)))
                root = torch.full((3,), float(RANK + index))
                dist.broadcast(root, index % SIZE)
                dist.barrier()
                seen.append(index)
                return torch.cat([reduced[:1], rows[:, 0], root[:1]])

            return callback

        seen = []
        futures = []
        for index in range(30):
            future = dist.all_reduce(torch.full((4,), float(RANK + index)), async_op=True).get_future()
            if index % SIZE == RANK:
                future.wait()  # on this rank, the future is complete before its callback is added
            futures.append(future.then(again(index, seen)))
            ones = torch.ones(5 + index)
            dist.all_reduce(ones)  # the program starts operations as well, not only the callbacks
            alike(ones, torch.full((5 + index,), float(SIZE)))
        for index, future in enumerate(futures):
            expected = [
                SIZE * (total + index * SIZE),
                *(10.0 * rank + index for rank in range(SIZE)),
                index % SIZE + index,
            ]
            alike(future.wait(), torch.tensor(expected, dtype=torch.float32))
        self.assertEqual(seen, list(range(30)))

    def test_many_collectives_of_one_callback(self):
        """Starts more operations than may be pending at the same time."""

        def many(_):
            tensors = [torch.full((1 + index,), float(RANK)) for index in range(150)]
            for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
                work.wait()
            return [tensor[-1].item() for tensor in tensors]

        future = dist.all_reduce(torch.ones(1), async_op=True).get_future().then(many)
        self.assertEqual(future.wait(), [float(sum(range(SIZE)))] * 150)

    def test_callbacks_of_callbacks(self):
        """A callback may add further callbacks to futures. These further callbacks run right after the first callback.
        But if the first callback waits for their results, they run at once."""

        def outer(done):
            inner = dist.all_reduce(done.value()[0].clone(), async_op=True).get_future()
            doubled = inner.then(lambda value: dist.all_reduce(value.value()[0]) or value.value()[0] * 2)
            order.append("outer")
            later = inner.then(lambda _: order.append("later"))
            return doubled.wait(), later

        order = []
        first = dist.all_reduce(torch.ones(2), async_op=True).get_future()
        value, later = first.then(outer).wait()
        last = first.then(lambda _: order.append("last"))
        alike(value, torch.full((2,), 2.0 * SIZE**3))
        later.wait()
        last.wait()
        self.assertEqual(order, ["outer", "later", "last"])

    def test_a_callback_that_fails(self):
        future = dist.all_reduce(torch.ones(2), async_op=True).get_future()
        wrong = future.then(lambda _: dist.all_reduce(torch.ones(2 + RANK)))
        right = future.then(lambda done: dist.all_reduce(done.value()[0]) or done.value()[0])
        with self.assertRaisesRegex(rueda.Mismatch, "future.then"):
            wrong.wait()
        with self.assertRaises(rueda.Mismatch):
            wrong.then(lambda done: done.value()).wait()
        alike(right.wait(), torch.full((2,), float(SIZE) ** 2))

    def test_what_callbacks_may_not_start(self):
        other = dist.new_group()
        future = dist.all_reduce(torch.ones(1), async_op=True).get_future()
        with self.assertRaisesRegex(RuntimeError, "a callback .* of an operation of group .* starts one of group"):
            future.then(lambda _: dist.all_reduce(torch.ones(1), group=other)).wait()
        # PyTorch's own callbacks of futures may run in any order.
        gate = threading.Event()
        waiting = future.then(lambda _: gate.wait(30))
        both = torch.futures.collect_all([future, waiting]).then(lambda _: dist.all_reduce(torch.ones(1)))
        gate.set()
        with self.assertRaisesRegex(RuntimeError, "a collective was started by what hangs on a future"):
            both.wait()

    def test_callbacks_of_another_group(self):
        """A callback must not start collectives of another group, because the ranks would start them in different
        orders."""
        other = dist.new_group()
        mine = dist.all_reduce(torch.ones(1), async_op=True).get_future()
        theirs = dist.all_reduce(torch.ones(1), group=other, async_op=True).get_future()
        for hang in (theirs.then, theirs.add_done_callback):
            with self.assertRaisesRegex(RuntimeError, "the order of the two would differ"):
                mine.then(lambda _, hang=hang: hang(lambda done: done.value())).wait()
        later = theirs.then(lambda done: dist.all_reduce(done.value()[0], group=other) or done.value()[0])
        alike(later.wait(), torch.full((1,), float(SIZE) ** 2))

    def test_a_pending_future_holds_up_no_other(self):
        """A slow callback must not delay other waits. A wait in C++ code must end when the operation of its Work has
        completed."""
        waits = threading.Event()
        dist.all_reduce(torch.ones(1), async_op=True).get_future().then(lambda _: waits.wait(30))
        right, left = (RANK + 1) % SIZE, (RANK - 1) % SIZE
        got = torch.zeros(1)
        receive = dist.irecv(got, left).get_future()
        reduced = dist.all_reduce(torch.ones(1), async_op=True).get_future()
        torch.futures.wait_all([reduced])
        self.assertFalse(receive.done())
        dist.barrier(group=GLOO)
        dist.send(torch.full((1,), float(RANK)), right)
        receive.wait()
        waits.set()
        self.assertEqual(got.item(), float(left))

    def test_a_callback_that_waits_for_a_later_one(self):
        first = dist.all_reduce(torch.ones(1), async_op=True).get_future()
        hung, later = threading.Event(), []
        waiting = first.then(lambda _: (hung.wait(30), later[0].wait())[1])
        later.append(first.then(lambda _: 7))
        hung.set()
        with self.assertRaisesRegex(RuntimeError, "waits for what a later one gives"):
            waiting.wait()
        self.assertEqual(later[0].wait(), 7)

    def test_waits_as_short_as_the_operation(self):
        """The timeout of a wait may pass just when the operation ends."""
        values = torch.zeros(1)
        for _ in range(200):
            work = dist.all_reduce(values, async_op=True)
            while True:
                try:
                    self.assertTrue(work.wait(datetime.timedelta(microseconds=20)))
                    break
                except rueda.Timeout:
                    pass

    def test_done_callbacks(self):
        came = threading.Event()
        seen = []
        future = dist.all_reduce(torch.ones(1), async_op=True).get_future()
        future.add_done_callback(
            lambda done: (dist.all_reduce(done.value()[0]), seen.append(done.value()[0].item()), came.set())
        )
        self.assertTrue(came.wait(30))
        self.assertEqual(seen, [SIZE**2])

    def test_a_mismatch_is_an_error_on_all_and_the_next_operation_works(self):
        with self.assertRaisesRegex(rueda.Mismatch, "rank 0.*rank 1"):
            dist.all_reduce(torch.ones(3 + RANK))
        work = dist.all_reduce(torch.ones(3 + RANK), async_op=True)
        with self.assertRaises(RuntimeError):
            work.get_future().wait()
        self.assertTrue(work.is_completed() and not work.is_success())
        self.assertIsInstance(work.exception(), rueda.Mismatch)
        ones = torch.ones(2)
        dist.all_reduce(ones)
        alike(ones, torch.full((2,), float(SIZE)))

    def test_a_wait_has_an_end(self):
        everybody = dist.new_group(list(range(SIZE)))
        last = SIZE - 1
        tensor = torch.ones(4)
        if last != RANK:
            work = dist.all_reduce(tensor, group=everybody, async_op=True)
            with self.assertRaisesRegex(rueda.Timeout, "all_reduce of group .*not completed after 0.2 s"):
                work.wait(datetime.timedelta(seconds=0.2))
        dist.barrier(group=GLOO)
        if last == RANK:
            work = dist.all_reduce(tensor, group=everybody, async_op=True)
        work.wait()  # this wait succeeds, because the operation was still pending after the timeout
        alike(tensor, torch.full((4,), float(SIZE)))

    @ON_ONE_HOST
    def test_a_future_has_an_end(self):
        """The group's timeout begins with the operation. After this timeout, the operation must still be pending."""
        everybody = dist.new_group(list(range(SIZE)))
        everybody.set_timeout(datetime.timedelta(seconds=0.3))
        last = SIZE - 1
        tensor = torch.ones(4)
        # The text depends on the host: a rank knows only which ranks of its own host have announced an operation.
        missing = f"(rank {last} has not announced it|on other hosts, may not have)"
        late = f"(all_reduce|barrier) of group .*not completed after 0.3 s: .*{missing}.*; the operation goes on"
        if last != RANK:
            work = dist.all_reduce(tensor, group=everybody, async_op=True)
            began = time.monotonic()
            future = work.get_future()
            with self.assertRaisesRegex(rueda.Timeout, late):
                future.wait()
            with self.assertRaisesRegex(rueda.Timeout, late):
                future.then(lambda done: done.value()[0]).wait()
            with self.assertRaisesRegex(RuntimeError, REFUSED):
                dist.barrier(group=everybody)
            self.assertLess(time.monotonic() - began, 20)
            self.assertFalse(work.is_completed())
        dist.barrier(group=GLOO)
        if last == RANK:
            work = dist.all_reduce(tensor, group=everybody, async_op=True)
        work.wait(datetime.timedelta(seconds=60))
        alike(tensor, torch.full((4,), float(SIZE)))

    def late_group(self):
        """Returns a group with a short timeout, for tests in which the last rank is late."""
        group = dist.new_group(list(range(SIZE)))
        group.set_timeout(datetime.timedelta(seconds=0.3))
        return group

    @ON_ONE_HOST
    def test_after_a_timeout_a_callback_meets_none_of_another_step(self):
        """The callback of step 1 must start its collective on the late rank, but not on the ranks that stopped
        waiting."""
        group = self.late_group()

        def step(number):
            def again(done):
                done.value()
                return dist.all_reduce(torch.full((2,), 100.0 * number), group=group, async_op=True).get_future().wait()

            return dist.all_reduce(torch.full((2,), float(number)), group=group, async_op=True).get_future().then(again)

        if RANK != SIZE - 1:
            with self.assertRaisesRegex(rueda.Timeout, "all_reduce of group .*not completed after 0.3 s"):
                step(1).wait()
        dist.barrier(group=GLOO)
        if RANK == SIZE - 1:
            with self.assertRaisesRegex(rueda.Timeout, "all_reduce of group .*not completed after 0.3 s"):
                step(1).wait()  # the collective of step() completes, but the one that its callback starts does not
        for number in (2, 3):
            with self.assertRaisesRegex(RuntimeError, REFUSED):
                step(number)

    @ON_ONE_HOST
    def test_a_blocking_call_that_timed_out_is_not_repeated(self):
        group = self.late_group()
        tensor = torch.full((1,), float(RANK + 1))
        if RANK != SIZE - 1:
            with self.assertRaisesRegex(rueda.Timeout, "not completed after 0.3 s"):
                dist.all_reduce(tensor, group=group)
        dist.barrier(group=GLOO)
        if RANK == SIZE - 1:
            dist.all_reduce(tensor, group=group)  # succeeds, because the operation of the other ranks was still pending
            self.assertEqual(tensor.item(), SIZE * (SIZE + 1) / 2)
            with self.assertRaisesRegex(rueda.Timeout, "not completed after 0.3 s"):
                dist.all_reduce(tensor, group=group)
        for call in (
            lambda: dist.all_reduce(torch.ones(1), group=group),
            lambda: dist.send(torch.ones(1), (RANK + 1) % SIZE, group=group),
            lambda: dist.irecv(torch.ones(1), (RANK - 1) % SIZE, group=group),
        ):
            with self.assertRaisesRegex(RuntimeError, REFUSED):
                call()
        dist.barrier(group=GLOO)  # until this barrier, the late rank may still use the group
        dist.destroy_process_group(group)
        total = torch.ones(1)
        dist.all_reduce(total, group=dist.new_group(list(range(SIZE))))  # a new group must work
        self.assertEqual(total.item(), SIZE)

    @ON_ONE_HOST
    def test_an_object_collective_that_timed_out_in_its_first_half(self):
        group = self.late_group()
        objects = [None] * SIZE
        if RANK == SIZE - 1:
            dist.barrier(group=GLOO)
        # On the late rank, the timeout passes in the second half of this call. On the other ranks, it passes in the
        # first half.
        with self.assertRaisesRegex(rueda.Timeout, "not completed after 0.3 s"):
            dist.all_gather_object(objects, f"first of {RANK}", group=group)
        if RANK != SIZE - 1:
            dist.barrier(group=GLOO)
        with self.assertRaisesRegex(RuntimeError, REFUSED):
            dist.all_gather_object(objects, f"second of {RANK}", group=group)
        self.assertEqual(objects, [None] * SIZE)

    @ON_ONE_HOST
    def test_who_waits_again_goes_on(self):
        """After a timeout, a rank may wait again for the same operation. But if it starts another operation, the group
        refuses all further operations: the other ranks have executed operations that this rank has not."""
        group = self.late_group()
        for starts_more in (False, True):
            tensor = torch.ones(1)
            if RANK != SIZE - 1:
                work = dist.all_reduce(tensor, group=group, async_op=True)
                with self.assertRaisesRegex(rueda.Timeout, "not completed after 0.3 s"):
                    work.wait()
                if starts_more:
                    with self.assertRaisesRegex(RuntimeError, REFUSED):
                        dist.all_reduce(torch.ones(1), group=group)
            dist.barrier(group=GLOO)
            if RANK == SIZE - 1:
                work = dist.all_reduce(tensor, group=group, async_op=True)
            work.wait(datetime.timedelta(seconds=60))
            self.assertEqual(tensor.item(), SIZE)
            group.set_timeout(datetime.timedelta(seconds=0.3 if starts_more else 60))
            if not starts_more:
                dist.all_reduce(tensor, group=group)
                self.assertEqual(tensor.item(), SIZE**2)
                group.set_timeout(datetime.timedelta(seconds=0.3))
            elif RANK != SIZE - 1:
                with self.assertRaisesRegex(RuntimeError, REFUSED):
                    dist.all_reduce(tensor, group=group)

    def test_a_group_that_goes_with_the_interpreter_leaves_nothing(self):
        """At the interpreter's end, modules may be cleared and the job may have ended, so __del__() must do nothing."""
        group = dist.new_group()
        group.__del__(lambda: True)
        ones = torch.ones(2)
        dist.all_reduce(ones, group=group)
        alike(ones, torch.full((2,), float(SIZE)))

    def test_what_is_refused(self):
        with self.assertRaisesRegex(ValueError, "BAND of torch.float32 is not offered"):
            dist.all_reduce(torch.ones(3), ReduceOp.BAND)
        with self.assertRaisesRegex(TypeError, "tensors of torch.complex64 are not reduced"):
            dist.reduce_scatter(
                torch.ones(3, dtype=torch.complex64), [torch.ones(3, dtype=torch.complex64)] * SIZE, ReduceOp.PRODUCT
            )
        for wrong in (-1, SIZE):
            with self.assertRaisesRegex(
                ValueError, f"broadcast: there is no rank {wrong} in the group; expected 0 to {SIZE - 1}"
            ):
                dist.group.WORLD.broadcast([torch.ones(1)], rooted(wrong))
        with self.assertRaisesRegex(ValueError, f"one for each of the {SIZE} ranks"):
            dist.group.WORLD.allgather([[torch.ones(1)]], [torch.ones(1)])


if __name__ == "__main__":
    unittest.main()
