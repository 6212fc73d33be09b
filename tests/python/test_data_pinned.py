# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests batches in pinned memory, with the GPU that tests/support/gpu_stand_in simulates."""

import ctypes
import functools
import gc
import itertools
import os
import time
import unittest
from unittest import mock

import numpy as np
import rueda.data
from rueda import _native
from rueda.data import _workers
from simulated_gpu import Gpu

_MEMORY_TYPE, _HOST = 2, 1  # numbers of the driver


def filled(worker, total):
    for number in range(total):
        values = worker.empty(50_000, "float64")
        values[...] = number
        yield {"x": values, "pid": np.array([os.getpid()])}


def is_pinned(address):
    """Asks the driver."""
    kind = ctypes.c_uint(0)
    status = ctypes.CDLL("libcuda.so.1").cuPointerGetAttribute(
        ctypes.byref(kind), _MEMORY_TYPE, ctypes.c_ulonglong(address)
    )
    return status == 0 and kind.value == _HOST


def take_all(batches, gpu):
    """Copies each batch to the GPU in its default stream, as `tensor.to("cuda", non_blocking=True)` does, and keeps no
    batch. Returns the values that have arrived on the GPU."""
    arrays = []
    for batch in batches:
        target = gpu.allocate(batch["x"].nbytes)
        gpu.copy(target, batch["x"].ctypes.data, batch["x"].nbytes, 0)
        arrays.append((target, batch["x"].nbytes))
    gpu.synchronize(0)
    values = []
    for target, size in arrays:
        host = np.empty(size // 8)
        gpu.copy(host.ctypes.data, target, size, 0)
        gpu.synchronize(0)
        gpu.free(target)
        values.append((host.min(), host.max()))
    return values


class Pinned(unittest.TestCase):
    def test_copies_read_the_right_values_although_the_batches_are_dropped_at_once(self):
        gpu = Gpu(0)
        with rueda.data.workers(filled, 2, args=(10,), memory="pinned") as batches:
            self.assertEqual(take_all(batches, gpu), [(number, number) for number in range(10) for _ in range(2)])

    def test_batches_of_producers(self):
        gpu = Gpu(0)
        secret = "a secret of sixteen or more characters"
        producer = rueda.data.serve(filled, secret=secret)
        batches = rueda.data.remote([producer.address], secret=secret, args=[10], memory="pinned")
        with producer, batches:
            self.assertEqual(take_all(batches, gpu), [(number, number) for number in range(10)])

    def test_memory_is_used_again_only_when_the_copy_has_ended(self):
        gpu = Gpu(0)
        with rueda.data.workers(filled, 1, args=(30,), prefetch=1, memory="pinned") as batches:
            taken = iter(batches)
            batch = next(taken)
            self.assertTrue(is_pinned(batch["x"].ctypes.data))
            address, size = batch["x"].ctypes.data, batch["x"].nbytes
            target = gpu.allocate(size)
            with gpu.held():
                gpu.copy(target, address, size, 0)
                del batch
                gc.collect()
                for _ in range(10):
                    self.assertNotEqual(next(taken)["x"].ctypes.data, address)
                self.assertFalse(gpu.is_done(0))
            gpu.synchronize(0)
            self.assertIn(address, [batch["x"].ctypes.data for batch in taken])
            host = np.empty(size // 8)
            gpu.copy(host.ctypes.data, target, size, 0)
            gpu.synchronize(0)
            self.assertTrue((host == 0).all())
            gpu.free(target)

    def test_memory_is_unpinned_at_the_end(self):
        Gpu(0)
        with rueda.data.workers(filled, 1, args=(3,), memory="pinned") as batches:
            kept = [batch["x"] for batch in batches]
        addresses = [array.ctypes.data for array in kept]
        self.assertTrue(all(map(is_pinned, addresses)))  # arrays stay valid after close()
        del kept
        gc.collect()
        self.assertFalse(any(map(is_pinned, addresses)))

    def test_the_default_gpu_is_the_one_of_the_rank(self):
        makers = (
            functools.partial(rueda.data.workers, filled),
            functools.partial(rueda.data.remote, ["host:1"], secret="a secret of sixteen or more characters"),
        )
        with mock.patch.object(_workers.Workers, "_start"):  # no processes
            # `local` is what local_device() returns; None means that init() was not called
            for make, given, local in itertools.product(makers, (None, 1), (None, 3)):
                with (
                    mock.patch.object(_native, "is_initialized", lambda joined=local is not None: joined),
                    mock.patch.object(_native, "local_device", lambda local=local: local),
                    make(memory="pinned", device=given) as batches,
                ):
                    self.assertEqual(batches._pin.device, given or local or 0)

    def test_a_gpu_that_does_not_exist(self):
        with self.assertRaisesRegex(rueda.InvalidArgument, "pinning memory: .*GPU 9.*this process sees"):
            rueda.data.workers(filled, memory="pinned", device=9)


def pipeline(epochs=1, **options):
    """Returns a pipeline of 30 batches. All numbers in batch n are n."""
    rows = b"".join(b"%d\n" % (row // 500) for row in range(30 * 500))
    form = rueda.data.Csv([rueda.data.CsvColumn("x", "float64")], header=False)
    source = rueda.data.memory("rows", rows)
    return rueda.data.Pipeline(source, form, 500, epochs=epochs, memory="pinned", **options)


class PinnedPipeline(unittest.TestCase):
    def test_copies_read_the_right_values_although_the_batches_are_dropped_at_once(self):
        gpu = Gpu(0)
        for options in ({}, {"map_ahead": 2, "maps": [lambda batch: None]}):
            with pipeline(**options) as batches:
                self.assertEqual(take_all(batches, gpu), [(number, number) for number in range(30)])

    def test_memory_is_used_again_only_when_the_copy_has_ended(self):
        gpu = Gpu(0)
        with pipeline(epochs=2, threads=1, prefetch=1) as batches:
            taken = iter(batches)
            batch = next(taken)
            address, size = batch["x"].ctypes.data, batch["x"].nbytes
            self.assertTrue(is_pinned(address))
            target = gpu.allocate(size)
            with gpu.held():
                gpu.copy(target, address, size, 0)
                del batch
                for _ in range(10):
                    self.assertNotEqual(next(taken)["x"].ctypes.data, address)
                self.assertFalse(gpu.is_done(0))
            gpu.synchronize(0)
            later = [batch["x"].ctypes.data for _ in range(2) for batch in batches]
            self.assertLess(len(set(later)), 30)  # there were 49 batches, so several of them used the same memory
            host = np.empty(size // 8)
            gpu.copy(host.ctypes.data, target, size, 0)
            gpu.synchronize(0)
            self.assertTrue((host == 0).all())
            gpu.free(target)

    def test_stages_keep_the_arrays_pinned_and_nobody_waits_for_the_gpu(self):
        gpu = Gpu(0)
        lines = rueda.data.memory("lines", b"a\nb\n" * 20)
        expected = rueda.data.hash_texts(["a", "b"], 10)
        first = next(iter(pipeline()))["x"]
        target = gpu.allocate(first.nbytes)
        with gpu.held():
            gpu.copy(target, first.ctypes.data, first.nbytes, 0)  # the default stream is busy from now on
            self.assertFalse(gpu.is_done(0))
            begin = time.monotonic()
            options = {"epochs": 3, "maps": [rueda.data.Hash("line", 10)], "memory": "pinned"}
            batches = rueda.data.Pipeline(lines, rueda.data.Lines(), 2, **options)
            for _epoch in range(3):
                seen = 0
                for batch in batches:
                    self.assertTrue(is_pinned(batch["line"].ctypes.data))
                    np.testing.assert_array_equal(batch["line"], expected)
                    seen += 1
                self.assertEqual(seen, 20)
            self.assertLess(time.monotonic() - begin, 4)  # each wait would take 5 s
            self.assertFalse(gpu.is_done(0))
        gpu.synchronize(0)
        gpu.free(target)
        batches.close()

    def test_memory_is_unpinned_at_the_end(self):
        Gpu(0)
        with pipeline() as batches:
            kept = [batch["x"] for batch in batches]
        addresses = [array.ctypes.data for array in kept]
        self.assertTrue(all(map(is_pinned, addresses)))  # arrays stay valid after close()
        self.assertEqual([array[0] for array in kept], list(range(30)))
        del batches, kept
        gc.collect()
        self.assertFalse(any(map(is_pinned, addresses)))

    def test_which_gpu(self):
        with self.assertRaisesRegex(rueda.InvalidArgument, "pinning memory: .*GPU 9.*this process sees"):
            pipeline(device=9)
        with (
            mock.patch.object(_native, "is_initialized", lambda: True),
            mock.patch.object(_native, "local_device", lambda: 3),
        ):
            self.assertEqual(pipeline()._options["device"], 3)


if __name__ == "__main__":
    unittest.main()
