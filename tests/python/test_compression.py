# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests how Python says which tensors are compressed between hosts: by an argument, or by RUEDA_COMPRESSION.
test_compression_properties.py compares the results with NumPy. On one host, compression changes nothing. hosts.sh
starts the tests with several hosts.
"""

import os
import unittest

import numpy as np
import rueda


def setUpModule():
    rueda.init()


def tearDownModule():
    # This rank may finish the last test before other ranks have begun it. So it waits for them.
    rueda.barrier()
    rueda.shutdown()


def total(name: str | None, dtype: str = "float32", count: int = 20_000, **options) -> bytes:
    """Returns the bits of a sum over the ranks. If the job has several hosts, each compression gives different bits."""
    mine = np.random.default_rng(rueda.rank()).normal(0, 1, count).astype(dtype)
    return rueda.allreduce(mine, name, rueda.Sum, **options).tobytes()


class Compression(unittest.TestCase):
    def test_a_compression_is_given_by_name_or_as_an_enumerator(self):
        plain = total("plain")
        for way in rueda.Compression:
            bits = total("named", compression=way.name)
            self.assertEqual(total("enumerator", compression=way), bits)
            if rueda.local_size() < rueda.size():
                self.assertEqual(bits == plain, way == rueda.Compression.none)

    def test_what_is_no_compression_is_refused(self):
        with self.assertRaisesRegex(rueda.InvalidArgument, "compression is 'fp8'; expected 'none', 'fp16' or 'bf16'"):
            rueda.allreduce(np.ones(3, np.float32), "eight", compression="fp8")
        with self.assertRaisesRegex(TypeError, "compression is 1; expected a rueda.Compression"):
            rueda.allreduce(np.ones(3, np.float32), "number", compression=1)


class CompressionOfAll(unittest.TestCase):
    """Runs a job in which RUEDA_COMPRESSION is set."""

    @classmethod
    def setUpClass(cls):
        cls.start_again("bf16")

    @classmethod
    def tearDownClass(cls):
        cls.start_again("")

    @staticmethod
    def start_again(setting: str):
        rueda.barrier()
        rueda.shutdown()
        os.environ["RUEDA_COMPRESSION"] = setting
        rueda.init()

    def test_the_setting_holds_where_the_call_says_nothing(self):
        for count in (1, 100, 20_000):
            for dtype in ("float32", "float64"):
                for name in (f"{count} of {dtype}", None):
                    bits = {way: total(name, dtype, count, compression=way) for way in ("none", "fp16", "bf16")}
                    self.assertEqual(total(name, dtype, count), bits["bf16"])
                    self.assertEqual(bits["none"], bits["bf16"])
                    if rueda.local_size() < rueda.size() and count > 1:
                        self.assertNotEqual(bits["fp16"], bits["bf16"])

    def test_what_cannot_be_compressed_stays_as_it_is(self):
        whole = np.full(32768, rueda.rank(), np.int32)
        self.assertEqual(rueda.allreduce(whole, "whole", rueda.Sum)[0], sum(range(rueda.size())))
        # bfloat16 would round these numbers.
        half = np.full(100, 1 + 2**-10 if rueda.rank() == 0 else 0, np.float16)
        self.assertEqual(rueda.allreduce(half, "half", rueda.Sum)[0], 1 + 2**-10)
        alike = np.full(100, 1 + 2**-12, np.float32)  # the Adasum of equal tensors is the same tensor
        self.assertAlmostEqual(rueda.allreduce(alike, "adasum", rueda.Adasum)[0], 1 + 2**-12, delta=2**-20)


if __name__ == "__main__":
    unittest.main()
