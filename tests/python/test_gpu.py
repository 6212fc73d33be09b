# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Arrays in the memory of a GPU. All ranks run the same tests in the same order. Runs with the stand-in for NVIDIA's
driver and NCCL (tests/support/gpu_stand_in), with one simulated device for each rank.
"""

import gc
import os
import unittest
import weakref

import numpy as np
import rueda
from simulated_gpu import DeviceArray, Gpu, WithDlpack, WithInterface, filled


def setUpModule():
    global gpu
    rueda.init()
    gpu = Gpu(rueda.rank())


def tearDownModule():
    rueda.shutdown()


def total() -> int:
    return sum(range(rueda.size()))


KINDS = (WithInterface, WithDlpack)


class Number:
    """An object that holds an address in a field, as the objects of NVIDIA's bindings do."""

    def __init__(self, value):
        self.value = value

    def __int__(self):
        return self.value


class Stream:
    """An object that stands for a stream, as in other libraries."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Case(unittest.TestCase):
    def assertValues(self, array, expected, stream=None):
        np.testing.assert_array_equal(array.values(stream), expected)


class Operations(Case):
    def test_operations_in_place(self):
        for kind in KINDS:
            with self.subTest(kind.__name__):
                array = filled(kind, gpu, np.full(1000, rueda.rank(), np.float32))
                self.assertIs(rueda.allreduce_(array, "sum", rueda.Sum), array)
                self.assertValues(array, np.full(1000, total()))
                array = filled(kind, gpu, np.full(10, rueda.rank(), np.int64))
                rueda.broadcast_(array, rueda.size() - 1, "root")
                self.assertValues(array, np.full(10, rueda.size() - 1))

    def test_outputs_of_the_caller(self):
        for kind in KINDS:
            with self.subTest(kind.__name__):
                rows = filled(kind, gpu, np.full((rueda.rank() + 1, 2), rueda.rank(), np.float64))
                every = np.concatenate([np.full((rank + 1, 2), rank) for rank in range(rueda.size())])
                out = filled(kind, gpu, np.zeros(every.shape))
                self.assertIs(rueda.allgather(rows, "rows", out=out), out)
                self.assertValues(out, every)
                mine = filled(kind, gpu, np.zeros(3, np.float32))
                rueda.reducescatter(
                    filled(kind, gpu, np.arange(3 * rueda.size(), dtype=np.float32)), op=rueda.Sum, out=mine
                )
                begin = 3 * rueda.rank()
                self.assertValues(mine, rueda.size() * np.arange(begin, begin + 3))
                came = filled(kind, gpu, np.zeros(rueda.size(), np.int32))
                sent = filled(kind, gpu, np.arange(rueda.size(), dtype=np.int32) + 10 * rueda.rank())
                got, splits = rueda.alltoall(sent, out=came)
                self.assertIs(got, came)
                self.assertEqual(splits.tolist(), [1] * rueda.size())
                self.assertValues(came, [10 * rank + rueda.rank() for rank in range(rueda.size())])

    def test_array_without_elements(self):
        """Numba gives address 0 for an array without elements. The array's device is the current one."""

        class WithoutAddress(WithInterface):
            @property
            def __cuda_array_interface__(self):
                return {**super().__cuda_array_interface__, "data": (0, False)}

        is_last = rueda.rank() == rueda.size() - 1
        rows = filled(WithoutAddress if is_last else WithInterface, gpu, np.full((0 if is_last else 2, 3), 5.0))
        out = filled(WithInterface, gpu, np.zeros((2 * rueda.size() - 2, 3)))
        self.assertIs(rueda.allgather(rows, "some", out=out), out)
        self.assertValues(out, np.full(out.shape, 5.0))

    def test_group(self):
        arrays = [filled(WithDlpack, gpu, np.full(size, rueda.rank(), np.float32)) for size in (1, 5, 100)]
        rueda.grouped_allreduce_(arrays, "group", rueda.Sum)
        for array in arrays:
            self.assertValues(array, np.full(array.shape, total()))


class Streams(Case):
    def test_dlpack_gets_the_stream(self):
        array = filled(WithDlpack, gpu, np.full(10, rueda.rank(), np.float32))
        rueda.allreduce_(array, "asked", rueda.Sum)
        self.assertEqual(array.asked, [1])  # 1 is the legacy default stream in DLPack
        other = gpu.new_stream()
        with rueda.cuda_stream(other):
            rueda.allreduce_(array, "asked", rueda.Average)
        rueda.allreduce_(array, "asked", rueda.Average)
        self.assertEqual(array.asked, [1, other, 1])
        np.testing.assert_array_equal(array.values(), np.full(10, total()))

    def test_arrays_with_a_stream_of_their_own(self):
        """The calls are outside of cuda_stream(), as in a program that only uses the streams of CuPy. Rueda must not
        read an array before the array's own stream has computed it. The GPU is held back, so the array's stream is
        late.
        """
        for kind in KINDS:
            own = gpu.new_stream()
            source = filled(kind, gpu, np.full(10, rueda.rank(), np.float32), own)
            array = filled(kind, gpu, np.full(10, -1, np.float32), own)
            with gpu.held():
                gpu.copy(array.address, source.address, array.size, own)
                handle = rueda.allreduce_async_(array, f"own stream {kind.__name__}", rueda.Sum)
                self.assertFalse(gpu.is_done(own))
            handle.wait()
            np.testing.assert_array_equal(array.values(own), np.full(10, total()))

    def test_stream_waits_instead_of_the_host(self):
        stream = gpu.new_stream()
        array = filled(WithInterface, gpu, np.full(100, rueda.rank(), np.float32), stream)
        handle = rueda.allreduce_async_(array, "waits", rueda.Sum)
        handle.wait_on_stream(stream)
        np.testing.assert_array_equal(array.values(stream), np.full(100, total()))
        other = gpu.new_stream()
        handle = rueda.allreduce_async_(array, "waits", rueda.Average)
        handle.wait_on_stream(other, timeout=60)
        np.testing.assert_array_equal(array.values(other), np.full(100, total()))
        self.assertIs(handle.result(), array)

    def test_streams_of_other_libraries(self):
        import ctypes

        array = filled(WithDlpack, gpu, np.ones(4, np.float32))
        address = gpu.new_stream()
        kinds = (
            address,
            Stream(cuda_stream=address),
            Stream(ptr=address),
            Stream(handle=ctypes.c_void_p(address)),
            Stream(handle=Number(address)),
            Stream(__cuda_stream__=lambda: (0, address)),
        )
        for stream in kinds:
            with rueda.cuda_stream(stream):
                handle = rueda.allreduce_async_(array, "library", rueda.Average)
            self.assertEqual(array.asked[-1], address)
            handle.wait_on_stream(stream)
            np.testing.assert_array_equal(array.values(address), np.ones(4))
        with self.assertRaisesRegex(TypeError, "no CUDA stream"), rueda.cuda_stream("one"):
            pass

    def test_operation_keeps_the_array_until_the_gpu_is_done(self):
        array = filled(WithInterface, gpu, np.full(50_000, rueda.rank(), np.float32))
        reference = weakref.ref(array)
        handle = rueda.allreduce_async_(array, "kept", rueda.Sum)
        other = gpu.new_stream()
        # Only the stream `other` waits for the operation, and the array's own stream does not. So the array's memory
        # must not be freed yet.
        handle.wait_on_stream(other)
        del array
        gc.collect()
        if not handle.poll():
            self.assertIsNotNone(reference())
        handle.wait()
        del handle
        self.assertIsNone(reference())

    def test_operation_keeps_arrays_of_other_libraries_after_its_stream_waits(self):
        """Only PyTorch promises that freed memory is used again in the same stream. Other libraries, such as JAX, use
        their own streams."""
        rows = filled(WithInterface, gpu, np.full(5, rueda.rank(), np.float32))
        out = filled(WithInterface, gpu, np.zeros(5 * rueda.size(), np.float32))
        reference = weakref.ref(rows)
        with gpu.held():
            handle = rueda.allgather_async(rows, out=out)
            handle.wait_on_stream(gpu.stream)
            del rows
            gc.collect()
            self.assertFalse(handle.poll())
            self.assertIsNotNone(reference())
        handle.wait()
        gc.collect()
        self.assertIsNone(reference())
        self.assertValues(out, np.arange(rueda.size()).repeat(5))

    def test_arguments_of_wait_on_stream(self):
        array = filled(WithInterface, gpu, np.full(10, rueda.rank(), np.float32))
        handle = rueda.allreduce_async_(array, "arguments", rueda.Sum)
        for timeout in (-1, float("nan")):
            with self.assertRaisesRegex(ValueError, "expected seconds from 0"):
                handle.wait_on_stream(gpu.stream, timeout=timeout)
        for given in ({}, {"timeout": 1}, {"stream": gpu.stream, "seconds": 1}):
            with self.assertRaisesRegex(TypeError, "expected a stream, and timeout"):
                handle.wait_on_stream(**given)
        with self.assertRaisesRegex(TypeError, "expected a stream, and timeout"):
            handle.wait_on_stream(gpu.stream, stream=gpu.stream)
        handle.wait_on_stream(timeout=60, stream=gpu.stream)
        handle.wait_on_stream(gpu.stream, 60)
        self.assertValues(array, np.full(10, total()))

    def test_cpu_operation_waits_on_the_host(self):
        values = np.full(10, rueda.rank(), np.float32)
        handle = rueda.allreduce_async_(values, "on the CPU", rueda.Sum)
        handle.wait_on_stream(gpu.stream)
        np.testing.assert_array_equal(values, np.full(10, total()))


class Refusals(unittest.TestCase):
    def test_no_memory_for_a_result(self):
        array = filled(WithDlpack, gpu, np.ones(4, np.float32))
        with self.assertRaisesRegex(rueda.InvalidArgument, "allocates nothing.*allreduce_"):
            rueda.allreduce(array)
        with self.assertRaisesRegex(rueda.Unsupported, "is NULL; give its memory"):
            rueda.allgather(array)

    def test_tensors_on_different_devices(self):
        mixed = [filled(WithDlpack, gpu, np.ones(4, np.float32)), np.ones(4, np.float32)]
        with self.assertRaisesRegex(rueda.InvalidArgument, "on CUDA device .* and another is in the CPU's memory"):
            rueda.grouped_allreduce_(mixed, "mixed")
        with self.assertRaisesRegex(rueda.InvalidArgument, "in the CPU's memory, and another is on CUDA device"):
            rueda.allgather(np.ones(4, np.float32), out=mixed[0])

    def test_other_devices(self):
        class OnMetal(WithDlpack):
            device_type = 8

        with self.assertRaisesRegex(TypeError, "DLPack device type 8.*the memory of the CPU and of NVIDIA GPUs"):
            rueda.allreduce_(filled(OnMetal, gpu, np.ones(4, np.float32)))
        second = Gpu((rueda.rank() + 1) % rueda.size())
        rueda.allreduce_(filled(WithDlpack, gpu, np.ones(4, np.float32)), "first device")
        if rueda.size() > 1:
            with self.assertRaisesRegex(rueda.RuedaError, "device"):
                rueda.allreduce_(filled(WithDlpack, second, np.ones(4, np.float32)), "second device")

    def test_interfaces_that_do_not_fit(self):
        array = filled(WithInterface, gpu, np.ones((4, 4), np.float32))
        for entry, value, part in (
            ("strides", (4, 16), "one after the other"),
            ("typestr", "<c8", "type is '<c8'"),
            ("data", (array.address, True), "read-only"),
            ("mask", array, "mask"),
        ):

            class Changed:
                __cuda_array_interface__ = {**array.__cuda_array_interface__, entry: value}

            with self.subTest(entry), self.assertRaisesRegex((rueda.InvalidArgument, TypeError), part):
                rueda.allreduce_(Changed())

    def test_views(self):
        array = DeviceArray(gpu, (4,), np.dtype(np.float32), gpu.stream)
        view = rueda.TensorView(array.address, (4,), rueda.DType.float32, array, True, gpu.index, gpu.stream)
        self.assertEqual((view.device, view.stream), (gpu.index, gpu.stream))
        self.assertEqual(rueda.TensorView(0, (0,), rueda.DType.float32).device, -1)
        with self.assertRaisesRegex(ValueError, "device is -1 and stream is 5"):
            rueda.TensorView(array.address, (4,), rueda.DType.float32, stream=5)


@unittest.skipUnless("RUEDA_CUDA_PLUGIN" in os.environ, "runs in python.gpu_without_plugin")
class WithoutPlugin(unittest.TestCase):
    def test_error_says_what_is_missing(self):
        with self.assertRaisesRegex(rueda.Unsupported, "there/is/no/plugin.so"):
            rueda.allreduce_(filled(WithDlpack, gpu, np.ones(4, np.float32)))
        self.assertEqual(rueda.allreduce(np.ones(4), op=rueda.Sum).tolist(), [rueda.size()] * 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
