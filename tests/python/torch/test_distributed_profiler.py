# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests the ranges of collectives in torch.profiler, for the backend "rueda" and for rueda.torch. Runs with two or more
ranks; ranks after rank 1 do the same as rank 1."""

import contextlib
import datetime
import json
import math
import os
import tempfile
import unittest

import rueda
import rueda.torch as hvd
import rueda.torch.distributed
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.profiler import ProfilerActivity, profile, record_function, schedule

#: Older versions of PyTorch replace a blocking call by an asynchronous call and a wait.
ASYNCHRONOUS = ["rueda:all_reduce", "rueda:all_reduce.pending", "rueda:all_reduce.wait"]
HAS_BLOCKING_CALLS = hasattr(c10d.AllreduceOptions(), "asyncOp")


def setUpModule():
    global RANK, SIZE
    dist.init_process_group("rueda", timeout=datetime.timedelta(seconds=60))
    hvd.init()
    RANK, SIZE = dist.get_rank(), dist.get_world_size()


def tearDownModule():
    dist.destroy_process_group()


class Ranges(list):
    """The ranges of a trace, sorted by their begin. Each range is a tuple of its begin, end, name and shapes."""

    def __init__(self, profiler):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            profiler.export_chrome_trace(path)
            with open(path, encoding="utf-8") as file:
                trace = json.load(file)
        if isinstance(trace, dict):
            events = [(event, event.get("args", {}).get("Input Dims", [])) for event in trace["traceEvents"]]
        else:  # without Kineto (as in Debian's PyTorch), the file has no shapes
            shapes = {(event.name, float(event.time_range.start)): event.input_shapes for event in profiler.events()}
            events = [(event, shapes.get((event["name"], float(event.get("ts", 0))), [])) for event in trace]
        super().__init__(
            sorted(
                (float(event["ts"]), float(event["ts"]) + float(event["dur"]), event["name"], shapes)
                for event, shapes in events
                if event.get("ph") == "X" and "dur" in event
            )
        )

    def names(self):
        return [name for _, _, name, _ in self if name.startswith("rueda:")]

    def calls(self):
        """Returns the names of the calls. In older versions of PyTorch, a blocking call consists of an asynchronous
        call and a wait. With these versions, the result does not contain the ranges `.pending` and `.wait`."""
        return [name for name in self.names() if HAS_BLOCKING_CALLS or not name.endswith((".pending", ".wait"))]

    def of(self, name):
        return [(begin, end, shapes) for begin, end, found, shapes in self if found == name]


@contextlib.contextmanager
def profiled():
    """Profiles the body of the `with` statement. Yields a list, which gets the body's Ranges at the end."""
    found = []
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        yield found
    found.append(Ranges(profiler))


def tell(rank):
    rueda.send(b"\1", rank)


def hear(rank):
    rueda.receive(bytearray(1), rank)


def started_late(start):
    """Starts an operation on every rank, without waiting for its end. Rank 0 starts it at once. The other ranks start
    it only after rank 0 has called the returned function. Returns the operation and this function."""
    if RANK == 0:
        work = start()
        return work, lambda: [rueda.send_async(b"\1", rank) for rank in range(1, SIZE)]
    hear(0)
    return start(), lambda: None


class Blocking(unittest.TestCase):
    def test_each_collective_is_a_range_with_its_inputs(self):
        rows, all_rows = torch.ones(2, 3), torch.ones(2 * SIZE, 3)
        apart = [torch.empty(2, 3) for _ in range(SIZE)]
        calls = {
            "rueda:all_reduce": (lambda: dist.all_reduce(torch.ones(4, 5)), [[4, 5]]),
            "rueda:broadcast": (lambda: dist.broadcast(torch.ones(7), 0), [[7]]),
            "rueda:reduce": (lambda: dist.reduce(torch.ones(6), 0), [[6]]),
            "rueda:all_gather": (lambda: dist.all_gather(apart, rows), [[2, 3]]),
            "rueda:gather": (lambda: dist.gather(rows, apart if RANK == 0 else None, 0), [[2, 3]]),
            "rueda:scatter": (
                lambda: dist.scatter(torch.empty(2, 3), apart if RANK == 0 else None, 0),
                [[2, 3]] * SIZE if RANK == 0 else [],
            ),
            "rueda:reduce_scatter": (lambda: dist.reduce_scatter(torch.empty(2, 3), apart), [[2, 3]] * SIZE),
            "rueda:all_to_all": (lambda: dist.all_to_all([torch.empty(2, 3) for _ in apart], apart), [[2, 3]] * SIZE),
            "rueda:all_to_all_single": (
                lambda: dist.all_to_all_single(torch.empty_like(all_rows), all_rows),
                [[2 * SIZE, 3]],
            ),
            "rueda:barrier": (dist.barrier, []),
        }
        if hasattr(dist, "all_gather_into_tensor"):
            calls["rueda:all_gather_into_tensor"] = (
                lambda: dist.all_gather_into_tensor(torch.empty(2 * SIZE, 3), rows),
                [[2, 3]],
            )
            calls["rueda:reduce_scatter_tensor"] = (
                lambda: dist.reduce_scatter_tensor(torch.empty(2, 3), all_rows),
                [[2 * SIZE, 3]],
            )
        with profiled() as found:
            for call, _ in calls.values():
                call()
        (ranges,) = found
        self.assertEqual(ranges.calls(), list(calls))
        for name, (_, shapes) in calls.items():
            with self.subTest(name=name):
                ((begin, end, seen),) = ranges.of(name)
                self.assertEqual(seen, shapes)
                self.assertGreater(end, begin)

    def test_it_lies_within_the_ranges_of_the_program(self):
        with profiled() as found, record_function("step"):
            dist.all_reduce(torch.ones(3))
            hvd.allreduce(torch.ones(5))
        (ranges,) = found
        ((begin, end, _),) = ranges.of("step")
        for name in ("rueda:all_reduce", "rueda:allreduce", "rueda:allreduce.wait"):
            ((inner_begin, inner_end, _),) = ranges.of(name)
            self.assertLessEqual(begin, inner_begin)
            self.assertLessEqual(inner_end, end)

    def test_the_sum_of_all_calls_is_in_the_table(self):
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            for _ in range(5):
                dist.all_reduce(torch.ones(3))
        rows = {row.key: row.count for row in profiler.key_averages()}
        self.assertEqual(rows["rueda:all_reduce"], 5)

    def test_a_schedule(self):
        """The schedule starts and stops the profiler twice while the program runs."""
        counts = []

        def note(profiler):
            counts.append(Ranges(profiler).calls())

        cycle = schedule(wait=1, warmup=1, active=2, repeat=2)
        with profile(activities=[ProfilerActivity.CPU], schedule=cycle, on_trace_ready=note) as profiler:
            for _ in range(8):
                dist.all_reduce(torch.ones(3))
                dist.all_reduce(torch.ones(3), async_op=True).wait()
                profiler.step()
        calls = ["rueda:all_reduce"] * 4
        waits = ["rueda:all_reduce.pending", "rueda:all_reduce.wait"] * 2 if HAS_BLOCKING_CALLS else []
        self.assertEqual([sorted(found) for found in counts], [sorted(calls + waits)] * 2)

    def test_with_stacks(self):
        with profile(activities=[ProfilerActivity.CPU], with_stack=True) as profiler:
            dist.all_reduce(torch.ones(3))
        self.assertIn("rueda:all_reduce", {row.key for row in profiler.key_averages()})

    def test_an_error_ends_the_range(self):
        with profiled() as found:
            with self.assertRaisesRegex(ValueError, "the tensor is on meta"):
                dist.all_reduce(torch.empty(3, device="meta"))
            dist.barrier()
        (ranges,) = found
        self.assertEqual(ranges.calls(), ["rueda:all_reduce", "rueda:barrier"])
        ((_, ended, _),) = ranges.of("rueda:all_reduce")
        ((begun, _, _),) = ranges.of("rueda:barrier")
        self.assertLessEqual(ended, begun)


class Asynchronous(unittest.TestCase):
    def test_call_pending_and_wait(self):
        with profiled() as found:
            work, let_others_start = started_late(lambda: dist.all_reduce(torch.ones(4), async_op=True))
            with record_function("between"):
                torch.ones(10).sum()
            sent = let_others_start()
            work.wait()
        (ranges,) = found
        del sent
        self.assertEqual(sorted(ranges.names()), ASYNCHRONOUS)
        ((call_begin, call_end, call_shapes),) = ranges.of("rueda:all_reduce")
        ((begin, end, shapes),) = ranges.of("rueda:all_reduce.pending")
        ((between_begin, between_end, _),) = ranges.of("between")
        ((wait_begin, wait_end, _),) = ranges.of("rueda:all_reduce.wait")
        self.assertEqual([call_shapes, shapes], [[[4]], [[4]]])
        self.assertLess(call_begin, call_end)
        self.assertLessEqual(call_end, begin)
        self.assertLessEqual(begin, between_begin)
        self.assertLessEqual(between_end, wait_begin)
        if RANK == 0:  # the operation cannot complete before the other ranks start it
            self.assertGreater(end, between_end)
            self.assertGreater(wait_end, wait_begin)

    def test_a_wait_for_the_future(self):
        with profiled() as found:
            dist.all_reduce(torch.ones(4), async_op=True).get_future().wait()
        self.assertEqual(sorted(found[0].names()), ASYNCHRONOUS)

    def test_messages(self):
        with profiled() as found:
            if RANK == 0:
                dist.send(torch.ones(3), 1, tag=5)
            elif RANK == 1:
                dist.recv(torch.ones(3), 0, tag=5)
        names = found[0].names()
        kind = {0: "rueda:send", 1: "rueda:recv"}.get(RANK)
        expected = [] if kind is None else [kind, f"{kind}.pending", f"{kind}.wait"]
        self.assertEqual(sorted(names), expected)
        if kind is not None:
            self.assertEqual([shapes for _, _, shapes in found[0].of(kind)], [[[3]]])

    def test_operations_that_are_pending_when_the_profiler_stops(self):
        """The ranges of pending operations must end with the profiler. Operations that end later must not use the
        profiler's memory, nor appear in the next profile."""
        works = []
        hear_first = RANK != 0
        if hear_first:
            hear(0)
        with profiled() as found:
            works += [dist.all_reduce(torch.ones(3 + number), async_op=True) for number in range(20)]
        with profiled() as other:
            if RANK == 0:
                for rank in range(1, SIZE):
                    tell(rank)
            for work in works:
                work.wait()
            dist.barrier()
        if RANK == 0:
            pending = found[0].of("rueda:all_reduce.pending")
            self.assertEqual([shapes for _, _, shapes in pending], [[[3 + number]] for number in range(20)])
            for begin, end, _ in pending:
                self.assertGreater(end, begin)
        self.assertEqual(other[0].of("rueda:all_reduce.pending"), [])
        self.assertEqual(len(other[0].of("rueda:all_reduce.wait")), 20)


class Training(unittest.TestCase):
    def test_a_step_of_ddp(self):
        torch.manual_seed(0)
        layers = torch.nn.Linear(16, 600), torch.nn.Linear(600, 600)  # these layers make the first bucket 1 MiB large
        network = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers))
        elements = sum(parameter.numel() for parameter in network.parameters())

        def step():
            network(torch.ones(2, 16)).sum().backward()

        for _ in range(2):  # DDP has its final buckets from the second step on
            step()
        with profiled() as found:
            step()
        (ranges,) = found
        calls, pending = ranges.of("rueda:all_reduce"), ranges.of("rueda:all_reduce.pending")
        self.assertGreater(len(calls), 1)  # one call for each bucket
        self.assertEqual(len(pending), len(calls))
        for seen in (calls, pending):
            self.assertEqual(sum(math.prod(shape) for _, _, shapes in seen for shape in shapes), elements)
        self.assertEqual(set(ranges.names()), {"rueda:all_reduce", "rueda:all_reduce.pending"})
        for begin, end, _ in pending:
            self.assertGreater(end, begin)

    def test_a_step_of_horovods_optimizer(self):
        model = torch.nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

        def step():
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()

        step()
        with profiled() as found:
            step()
            hvd.barrier()
        (ranges,) = found
        self.assertEqual(sorted(shapes[0] for _, _, shapes in ranges.of("rueda:allreduce")), [[3], [3, 4]])
        for name in ("rueda:allreduce.pending", "rueda:allreduce.wait"):
            self.assertEqual(len(ranges.of(name)), 2, name)
        self.assertEqual(len(ranges.of("rueda:barrier")), 1)


class Horovod(unittest.TestCase):
    def test_each_operation(self):
        ones = torch.ones(SIZE, 3)
        calls = {
            "allreduce": (lambda: hvd.allreduce(ones), [[SIZE, 3]]),
            "grouped_allreduce": (lambda: hvd.grouped_allreduce([ones, ones[0]]), [[SIZE, 3], [3]]),
            "allgather": (lambda: hvd.allgather(ones), [[SIZE, 3]]),
            "broadcast": (lambda: hvd.broadcast(ones, 0), [[SIZE, 3]]),
            "alltoall": (lambda: hvd.alltoall(ones), [[SIZE, 3]]),
            "reducescatter": (lambda: hvd.reducescatter(ones), [[SIZE, 3]]),
        }
        with profiled() as found:
            for call, _ in calls.values():
                call()
            hvd.barrier()
        (ranges,) = found
        for name, (_, shapes) in calls.items():
            with self.subTest(name=name):
                self.assertEqual([seen for _, _, seen in ranges.of(f"rueda:{name}")], [shapes])
                for more in ("pending", "wait"):
                    self.assertEqual(len(ranges.of(f"rueda:{name}.{more}")), 1)

    def test_the_wait_lasts_until_the_others_come(self):
        with profiled() as found:
            handle, let_others_start = started_late(lambda: hvd.allreduce_async(torch.ones(2), name="late"))
            with record_function("between"):
                torch.ones(10).sum()
            sent = let_others_start()
            self.assertEqual(hvd.synchronize(handle).tolist(), [1.0, 1.0])
            hvd.barrier()
        del sent
        (ranges,) = found
        ((begin, end, _),) = ranges.of("rueda:allreduce.pending")
        ((between_begin, between_end, _),) = ranges.of("between")
        self.assertLessEqual(begin, between_begin)
        if RANK == 0:
            self.assertGreater(end, between_end)


class WithoutProfiler(unittest.TestCase):
    def test_nothing_is_kept(self):
        """Operations that start before a profile must not appear in this profile, even if they end while the profile is
        recorded."""
        work = dist.all_reduce(torch.ones(3), async_op=True)
        handle = hvd.allreduce_async(torch.ones(3), name="before")
        with profiled() as found:
            hvd.synchronize(handle)
            work.wait()
        self.assertEqual(found[0].names(), [])


if __name__ == "__main__":
    unittest.main()
