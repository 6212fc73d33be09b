# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The backend "rueda" of torch.distributed with CUDA tensors, on simulated devices. All ranks run the same tests in the
same order. Futures need a real GPU (tests/gpu/torch_cuda_check.py), because PyTorch's C++ code records their events.
"""

import threading
import time
import unittest
from collections import deque
from unittest import mock

import simulated_cuda  # isort: skip  (simulated_cuda must load its NCCL before PyTorch loads another one)
import rueda
import rueda.torch.distributed
import torch
import torch.distributed as dist
from rueda.torch import _devices
from rueda.torch.distributed import _device_operation, _futures
from rueda.torch.distributed._callbacks import OrderedFuture
from rueda.torch.distributed._device_operation import DeviceOperation
from rueda.torch.distributed._work import _future_of
from simulated_cuda import SimulatedTensor, Stream, cuda, on_stream, to_cpu


def setUpModule():
    dist.init_process_group("rueda")
    simulated_cuda.begin(dist.get_rank())


def tearDownModule():
    dist.destroy_process_group()
    rueda.shutdown()


def rank() -> int:
    return dist.get_rank()


def size() -> int:
    return dist.get_world_size()


def total() -> float:
    return float(sum(range(size())))


class Case(unittest.TestCase):
    def assertSame(self, tensor, expected):
        self.assertIsInstance(tensor, SimulatedTensor)
        values = to_cpu(tensor)
        self.assertEqual((values.dtype, values.shape), (expected.dtype, expected.shape))
        self.assertTrue(torch.equal(values, expected), f"{values} and not {expected}")


class Collectives(Case):
    def test_reductions(self):
        tensor = cuda(torch.full((100,), float(rank())))
        dist.all_reduce(tensor)
        self.assertSame(tensor, torch.full((100,), total()))
        part = cuda(torch.full((4, 6), float(rank()))).t()
        dist.all_reduce(part, dist.ReduceOp.MAX)
        self.assertSame(part, torch.full((6, 4), size() - 1.0))
        flags = cuda(torch.tensor([rank() == 0, False]))
        dist.all_reduce(flags)
        self.assertSame(flags, torch.tensor([True, False]))
        bits = cuda(torch.tensor([1 << rank()]))
        dist.all_reduce(bits, dist.ReduceOp.BOR)
        self.assertSame(bits, torch.tensor([(1 << size()) - 1]))
        reduced = cuda(torch.full((5,), float(rank())))
        dist.reduce(reduced, 0)
        self.assertSame(reduced, torch.full((5,), total() if rank() == 0 else float(rank())))

    def test_gathers(self):
        whole = cuda(torch.zeros(2 * size()))
        dist.all_gather_into_tensor(whole, cuda(torch.full((2,), float(rank()))))
        every = torch.arange(float(size()))
        self.assertSame(whole, every.repeat_interleave(2))
        parts = [cuda(torch.zeros(other + 1)) for other in range(size())]
        dist.all_gather(parts, cuda(torch.full((rank() + 1,), float(rank()))))
        for other, part in enumerate(parts):
            self.assertSame(part, torch.full((other + 1,), float(other)))
        gathered = [cuda(torch.zeros(2)) for _ in range(size())] if rank() == 0 else None
        dist.gather(cuda(torch.full((2,), float(rank()))), gathered)
        for other, part in enumerate(gathered or []):
            self.assertSame(part, torch.full((2,), float(other)))

    def test_scatters(self):
        part = cuda(torch.zeros(3))
        dist.reduce_scatter_tensor(part, cuda(torch.arange(3.0 * size())))
        expected = size() * torch.arange(3.0 * rank(), 3.0 * rank() + 3)
        self.assertSame(part, expected)
        taken = cuda(torch.zeros(2))
        parts = [cuda(torch.full((2,), float(other))) for other in range(size())] if rank() == 0 else None
        dist.scatter(taken, parts)
        self.assertSame(taken, torch.full((2,), float(rank())))

    def test_broadcast_and_alltoall(self):
        tensor = cuda(torch.full((3,), float(rank())))
        dist.broadcast(tensor, size() - 1)
        self.assertSame(tensor, torch.full((3,), size() - 1.0))
        got = cuda(torch.zeros(size()))
        dist.all_to_all_single(got, cuda(torch.arange(float(size())) + 10 * rank()))
        self.assertSame(got, torch.tensor([10.0 * other + rank() for other in range(size())]))

    def test_parts_that_do_not_fit(self):
        """The received parts have the right total size, but some of them have other sizes than this rank expects."""
        received = [1] * size()
        received[0], received[-1] = 2, 0
        with self.assertRaisesRegex(ValueError, r"elements came from the ranks of the group; the output has room for"):
            dist.all_to_all_single(cuda(torch.zeros(size())), cuda(torch.ones(size())), received, [1] * size())

    def test_backend_of_ranks_that_are_no_members(self):
        backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
        self.assertIsNone(backend.perform_nocolor_split(torch.device("cuda", 0)))

    def test_objects_and_barrier(self):
        objects = [None] * size()
        dist.all_gather_object(objects, rank())
        self.assertEqual(objects, list(range(size())))
        dist.barrier()


class Messages(Case):
    def setUp(self):
        self.right, self.left = (rank() + 1) % size(), (rank() - 1) % size()

    def test_values(self):
        for values in (torch.arange(3.0), torch.zeros(0), torch.arange(60000), torch.tensor([1 + 2j, 3j])):
            sent = dist.isend(cuda(values + rank()), self.right)
            got = cuda(torch.zeros_like(values))
            self.assertEqual(dist.recv(got, self.left), self.left)
            sent.wait()
            self.assertSame(got, values + self.left)

    def test_from_any_rank(self):
        sent = dist.isend(cuda(torch.full((3,), float(rank()))), self.right)
        got = cuda(torch.zeros(3))
        self.assertEqual(dist.recv(got), self.left)
        sent.wait()
        self.assertSame(got, torch.full((3,), float(self.left)))

    def test_between_a_gpu_and_the_cpu(self):
        for on_gpu in (True, False):
            mine, got = torch.full((3,), float(rank())), torch.zeros(3)
            sent = dist.isend(cuda(mine) if on_gpu else mine, self.right)
            got = got if on_gpu else cuda(got)
            dist.recv(got, self.left)
            sent.wait()
            values = got if on_gpu else to_cpu(got)
            self.assertEqual(values.tolist(), [self.left] * 3)

    def test_a_send_waits_for_the_stream_and_the_host_does_not(self):
        """The GPU is held back, and the tensor has not been computed when isend() returns."""
        gpu, source, tensor = simulated_cuda.gpu, cuda(torch.full((3,), 5.0 + rank())), cuda(torch.zeros(3))
        stream = simulated_cuda.current_stream().cuda_stream
        got = torch.zeros(3)
        with gpu.held():
            gpu.copy(tensor.data_ptr(), source.data_ptr(), 12, stream)
            sent = dist.isend(tensor, self.right)
            received = dist.irecv(got, self.left)
            self.assertFalse(gpu.is_done(stream))
            self.assertFalse(sent.is_completed())
        received.wait()
        sent.wait()
        self.assertEqual(got.tolist(), [5.0 + self.left] * 3)

    def test_a_wait_for_a_receive_makes_the_stream_wait(self):
        """The GPU is held back. wait() returns when the message has arrived on the host. Earlier work in the streams
        still reads the tensor's previous values. The message is copied to the tensor later."""
        gpu, side, other = simulated_cuda.gpu, Stream(), Stream()
        with on_stream(side):
            tensor, before = cuda(torch.full((3,), 7.0)), cuda(torch.zeros(3))
        with gpu.held():
            gpu.copy(before.data_ptr(), tensor.data_ptr(), 12, side.cuda_stream)
            with on_stream(side):
                received = dist.irecv(tensor, self.left)
            sent = dist.isend(torch.full((3,), float(rank())), self.right)
            with on_stream(other):
                received.wait()
            sent.wait()
            self.assertFalse(gpu.is_done(side.cuda_stream))
            self.assertFalse(received.is_completed())
        with on_stream(other):
            self.assertSame(tensor, torch.full((3,), float(self.left)))
        with on_stream(side):
            self.assertSame(before, torch.full((3,), 7.0))
        while not received.is_completed():  # Rueda learns a little later that the GPU has done the copy
            time.sleep(0.001)

    def test_what_is_not_contiguous(self):
        """The message is copied to the tensor in the stream of the wait. This stream must wait for the work in the
        stream of the call, which still reads the tensor."""
        gpu, side, other = simulated_cuda.gpu, Stream(), Stream()
        values = torch.arange(6.0).view(2, 3)
        with on_stream(side):
            tensor, before = cuda(torch.full((3, 2), 7.0)), cuda(torch.zeros(3, 2))
            part = cuda(values + rank()).t()
        gpu.copy(before.data_ptr(), tensor.data_ptr(), 24, side.cuda_stream)
        with on_stream(side), torch.device("cuda"):  # the default device does not matter
            received = dist.irecv(tensor.t(), self.left)
        with on_stream(side):
            sent = dist.isend(part, self.right)
        with on_stream(other):
            received.wait()
            self.assertSame(tensor, (values.t() + self.left).reshape(2, 3).t().contiguous())
        sent.wait()
        with on_stream(side):
            self.assertSame(before, torch.full((3, 2), 7.0))

    def test_a_tensor_that_is_dropped_at_once(self):
        """If Rueda did not keep the tensor, other tensors of the stream would get the tensor's memory."""
        sent = []
        for step in range(10):
            sent.append(dist.isend(cuda(torch.full((500,), float(rank() + step))), self.right, tag=step))
        others = [cuda(torch.full((500,), -1.0)) for _ in range(10)]
        for step in range(10):
            got = cuda(torch.zeros(500))
            dist.recv(got, self.left, tag=step)
            self.assertSame(got, torch.full((500,), float(self.left + step)))
        for work in sent:
            work.wait()
        self.assertSame(others[0], torch.full((500,), -1.0))

    def test_a_message_that_does_not_fit(self):
        sent = dist.isend(cuda(torch.zeros(3)), self.right)
        received = dist.irecv(cuda(torch.zeros(4)), self.left)
        for work in (sent, received):
            with self.assertRaisesRegex(rueda.Mismatch, "16 bytes"):
                work.wait()


class Waits(Case):
    def test_other_streams_wait(self):
        side, other = Stream(), Stream()
        for step in range(5):
            with on_stream(side):
                tensor = cuda(torch.full((1000,), float(rank() + step)))
                work = dist.all_reduce(tensor, async_op=True)
            with on_stream(other):
                self.assertTrue(work.wait())
                self.assertSame(tensor, torch.full((1000,), total() + size() * step))

    def test_outputs_that_are_copied(self):
        """The output is not contiguous, so the first wait copies the result to the output, in the stream `side`."""
        side, other = Stream(), Stream()
        with on_stream(side):
            output = cuda(torch.zeros(2 * size(), 2)).t()
            work = dist.all_gather_into_tensor(output, cuda(torch.full((4,), float(rank()))), async_op=True)
            work.wait()
        with on_stream(other):
            work.wait()
            self.assertSame(output, torch.arange(float(size())).repeat_interleave(4).view(2, 2 * size()))

    def test_is_completed(self):
        tensor = cuda(torch.full((10,), float(rank())))
        work = dist.all_reduce(tensor, async_op=True)
        while not work.is_completed():
            pass
        self.assertTrue(work.is_success())
        self.assertSame(tensor, torch.full((10,), total()))
        work.synchronize()
        self.assertIs(work.result()[0], tensor)

    def test_a_type_that_nccl_does_not_reduce(self):
        tensor = cuda(torch.full((3,), rank(), dtype=torch.int16))
        dist.all_reduce(tensor)
        self.assertSame(tensor, torch.full((3,), int(total()), dtype=torch.int16))

    def test_failure(self):
        with self.assertRaisesRegex(RuntimeError, "disagree"):
            dist.all_reduce(cuda(torch.ones(3 + rank())))
        with self.assertRaisesRegex(ValueError, "on meta; the backend rueda works on tensors of the CPU and of CUDA"):
            dist.all_reduce(torch.ones(2, device="meta"))


class Races(Case):
    """The stand-in notices mistakes in the order of work on simulated tensors. Otherwise the other tests of this module
    would find such mistakes only by wrong values."""

    def test_a_stream_that_does_not_wait(self):
        """All ranks but the last one read the output while the operation waits for the last rank."""
        side, other = Stream(), Stream()
        is_last = rank() == size() - 1
        with on_stream(side):
            tensor = cuda(torch.ones(100))
        other.wait_event(side.record_event())
        if is_last:
            rueda.barrier()
        with on_stream(side):
            work = dist.all_reduce(tensor, async_op=True)
        if not is_last:
            with on_stream(other):
                tensor + 1
            rueda.barrier()
        work.wait()
        self.assertSame(tensor, torch.full((100,), float(size())))
        races = simulated_cuda.gpu.take_violations()
        self.assertEqual(len(races), 0 if is_last else 1, races)
        for race in races:
            self.assertRegex(race, r"^Race: .* writes .* allocation .*, and add in stream \d+ .* reads it")

    def test_an_operation_that_does_not_wait_for_the_stream(self):
        """The operation waits for another stream than the one that computes its input."""
        side, other = Stream(), Stream()
        with on_stream(side):
            tensor = cuda(torch.ones(100)) + rank()
            with mock.patch.object(_devices, "raw_stream", lambda _: other.cuda_stream):
                work = dist.all_reduce(tensor, async_op=True)
            work.wait()
            self.assertSame(tensor, torch.full((100,), total() + size()))
        races = simulated_cuda.gpu.take_violations()
        self.assertTrue(races)
        for race in races:
            self.assertRegex(race, "^Race: .* and the output of an operation of PyTorch in stream .* writes it")

    def test_memory_that_is_reused_too_early(self):
        """A tensor's memory is given to a new tensor while another stream than the tensor's own still reads it."""
        side, other = Stream(), Stream()
        with on_stream(side):
            tensor = cuda(torch.ones(100))
        other.wait_event(side.record_event())
        with on_stream(other):
            tensor + 1
        del tensor
        with on_stream(side):
            cuda(torch.zeros(100))
        races = simulated_cuda.gpu.take_violations()
        self.assertEqual(len(races), 1, races)
        self.assertRegex(
            races[0], "^Race: the output of an operation of PyTorch in stream .* and add in stream .* reads"
        )


class Event:
    """Stands for an event. The test decides whether the event has been reached."""

    def __init__(self, query):
        self.query = query


class Threads(Case):
    """Tests the threads of the backend."""

    def test_tensors_stay_until_their_event_is_reached(self):
        """Two threads find at the same time that the event of the first pair is reached. Only the first pair may be
        removed; the second pair must stay."""
        other = threading.Thread(target=lambda: _device_operation._keep(Event(lambda: False), "of the other thread"))

        def reached():
            if other.ident is None:
                other.start()
                # if this thread holds the lock now, the other thread cannot end, and join() returns after 1 s
                other.join(1)
            return True

        pairs = deque([(Event(reached), "first"), (Event(lambda: False), "second")])
        with mock.patch.object(_device_operation, "_kept", pairs):
            _device_operation._keep(Event(lambda: False), "third")
            other.join()
        self.assertEqual(sorted(name for _, name in pairs), ["of the other thread", "second", "third"])

    def test_next_operation_drops_tensors(self):
        pairs = deque([(Event(lambda: True), "first")])
        with mock.patch.object(_device_operation, "_kept", pairs):
            dist.all_reduce(cuda(torch.ones(3)))
        self.assertEqual(list(pairs), [])

    def test_wait_of_the_callbacks_thread(self):
        """wait_until_complete() makes only the stream for callbacks wait, and not the stream in which the program
        computes."""
        callbacks = dist.all_reduce(cuda(torch.ones(3)), async_op=True)._callbacks
        future = OrderedFuture(callbacks)
        future.set_result(1)
        future._devices = [torch.device("cuda", simulated_cuda.gpu.index)]
        waited = []
        with mock.patch.object(torch.futures.Future, "wait", lambda _: waited.append(simulated_cuda.current_stream())):
            self.assertTrue(future.wait_until_complete())
        self.assertEqual(waited, [_devices.side_stream(simulated_cuda.gpu.index, "callbacks")])

    def test_an_operation_that_cannot_be_watched(self):
        """An error in one operation must not end the thread that watches operations."""

        class Broken:
            def wait_a_while(self, seconds):
                raise RuntimeError("CUDA error 700")

            def has_ended(self):
                raise RuntimeError("CUDA error 700")

            def is_overdue(self):
                return False

        for _ in range(2):
            concluded = threading.Event()
            _futures.when_ended(Broken(), concluded.set)
            self.assertTrue(concluded.wait(20))

    def test_futures_when_cuda_refuses(self):
        def side_stream(_index, _purpose):
            raise RuntimeError("CUDA error 700")

        for future_of in (lambda work: work.get_future(), lambda work: _future_of(work.operation)):
            tensor = cuda(torch.ones(3))
            work = dist.all_reduce(tensor, async_op=True)
            with (
                mock.patch.object(_devices, "side_stream", side_stream),
                mock.patch.object(DeviceOperation, "devices", lambda _: None),  # PyTorch would need a driver
                self.assertRaisesRegex(RuntimeError, "CUDA error 700"),
            ):
                future_of(work).wait()
            with self.assertRaisesRegex(RuntimeError, "CUDA error 700"):
                work.wait()
            dist.all_reduce(tensor)


if __name__ == "__main__":
    unittest.main(verbosity=2)
