# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares compression between hosts with NumPy. All ranks run the same tests in the same order. On one host,
compression changes nothing. hosts.sh starts the tests with several hosts.
"""

import os
import unittest

import numpy as np
import rueda

COUNT = 20_000


def setUpModule():
    rueda.init()


def tearDownModule():
    rueda.barrier()  # this rank may finish the last test before other ranks have begun it
    rueda.shutdown()


def values(rank: int, dtype: str, count: int = COUNT) -> np.ndarray:
    return np.random.default_rng(rank).normal(0, 1, count).astype(dtype)


def to_bfloat16(array: np.ndarray) -> np.ndarray:
    """Rounds to the nearest bfloat16 number, ties to even, with arithmetic only. The numbers must not be near the ends
    of the range."""
    fraction, exponent = np.frexp(array.astype(np.float64))
    return np.ldexp(np.round(fraction * 256), exponent - 8).astype(array.dtype)


def to_float16(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float16).astype(array.dtype)


ROUND = {"none": lambda array: array, "fp16": to_float16, "bf16": to_bfloat16}


class CompressionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Ranks are numbered host by host, so a local rank of 0 begins a new host.
        local_ranks = rueda.allgather(np.array([rueda.local_rank()]), "local ranks").tolist()
        cls.hosts: list[list[int]] = []
        for rank, local_rank in enumerate(local_ranks):
            if local_rank == 0:
                cls.hosts.append([])
            cls.hosts[-1].append(rank)

    def expected(
        self, way: str, dtype: str, op=rueda.Sum, count: int = COUNT, postscale: float = 1.0, members: int = 64
    ):
        """Returns the expected result over the first `members` ranks: over the ranks of each host, then over the hosts,
        rounded as docs/compression.md says."""
        hosts = [[rank for rank in ranks if rank < members] for ranks in self.hosts if ranks[0] < members]
        one = np.dtype(dtype).type
        divided = one(1 / min(rueda.size(), members) if op == rueda.Average else 1)
        if len(hosts) == 1:
            rounded, before, after = ROUND["none"], one(1), divided * one(postscale)
        else:
            rounded, before, after = ROUND[way], divided, one(postscale)
        total = None
        for ranks in hosts:
            partial = values(ranks[0], dtype, count)
            for rank in ranks[1:]:
                partial = partial + values(rank, dtype, count)
            partial = rounded(partial * before)
            total = partial if total is None else total + partial
        return rounded(total) * after


class Compression(CompressionTest):
    def test_results_are_those_of_numpy_on_every_rank(self):
        for dtype in ("float32", "float64"):
            for way in ("fp16", "bf16", rueda.Compression.fp16, rueda.Compression.bf16):
                name = rueda.Compression(way).name if isinstance(way, int) else way
                for op in (rueda.Sum, rueda.Average):
                    with self.subTest(dtype=dtype, way=way, op=op.name):
                        result = rueda.allreduce(values(rueda.rank(), dtype), f"{dtype}.{op.name}", op, compression=way)
                        np.testing.assert_array_equal(result, self.expected(name, dtype, op))
                        everybodys = rueda.allgather(result.reshape(1, -1), "results")
                        self.assertTrue((everybodys == result).all())

    def test_the_factor_after_is_applied_behind_the_wire(self):
        result = rueda.allreduce(
            values(rueda.rank(), "float32"), "scaled", rueda.Sum, postscale_factor=0.125, compression="fp16"
        )
        np.testing.assert_array_equal(result, self.expected("fp16", "float32", postscale=0.125))

    def test_in_place_with_handles_and_in_groups(self):
        mine = values(rueda.rank(), "float32")
        rueda.allreduce_async_(mine, "in place", rueda.Sum, compression="bf16").wait()
        np.testing.assert_array_equal(mine, self.expected("bf16", "float32"))
        pair = [values(rueda.rank(), "float32"), values(rueda.rank(), "float64", 7)]
        for group in (
            rueda.grouped_allreduce(pair, "pair", rueda.Sum, compression="fp16"),
            rueda.grouped_allreduce_async(pair, "pair", rueda.Sum, compression="fp16").result(),
            rueda.grouped_allreduce_([tensor.copy() for tensor in pair], "pair", rueda.Sum, compression="fp16"),
        ):
            np.testing.assert_array_equal(group[0], self.expected("fp16", "float32"))
            np.testing.assert_array_equal(group[1], self.expected("fp16", "float64", count=7))

    def test_without_a_name_by_a_slot_and_in_a_process_set(self):
        kinds = [(None, rueda.global_process_set), (rueda.TensorSlot("slot"), rueda.global_process_set)]
        some = rueda.add_process_set(list(range(rueda.size() - 1))) if rueda.size() > 2 else None
        if some is not None and rueda.rank() < rueda.size() - 1:
            kinds.append(("of some", some))
        for name, process_set in kinds:
            members = rueda.size() - (process_set is some)
            for way in ("fp16", "bf16", "none", "fp16"):
                mine = values(rueda.rank(), "float64")
                result = rueda.allreduce(mine, name, rueda.Sum, compression=way, process_set=process_set)
                np.testing.assert_array_equal(result, self.expected(way, "float64", members=members))

    def test_a_disagreement_names_ranks_and_values(self):
        if rueda.size() < 2:
            return
        way = "bf16" if rueda.rank() == 0 else "none"
        others = "rank 1" if rueda.size() == 2 else "ranks 1-3"
        with self.assertRaises(rueda.Mismatch) as caught:
            rueda.allreduce(np.ones(10, np.float32), "differs", compression=way)
        self.assertEqual(
            str(caught.exception),
            f"tensor 'differs': the ranks disagree about the compression: rank 0: bf16; {others}: none",
        )
        self.assertEqual(rueda.allreduce(np.ones(10, np.float32), "differs", compression="bf16")[0], 1)
        # The name "differs" has a slot now, so the next calls take another path.
        with self.assertRaises(rueda.Mismatch):
            rueda.allreduce(np.ones(10, np.float32), "differs", compression=way)
        self.assertEqual(rueda.allreduce(np.ones(10, np.float32), "differs", compression="fp16")[0], 1)

    def test_what_cannot_be_compressed_is_refused(self):
        with self.assertRaisesRegex(rueda.Unsupported, "tensor 'whole': there is no compression .* of int32"):
            rueda.allreduce(np.ones(3, np.int32), "whole", rueda.Sum, compression="fp16")
        with self.assertRaisesRegex(rueda.Unsupported, "of float16"):
            rueda.allreduce(np.ones(3, np.float16), "half", rueda.Sum, compression="bf16")
        with self.assertRaisesRegex(rueda.Unsupported, "mixed_2of2"):
            pair = [np.ones(3, np.float32), np.ones(3, np.int64)]
            rueda.grouped_allreduce(pair, "mixed", rueda.Sum, compression="bf16")
        with self.assertRaisesRegex(rueda.InvalidArgument, "compression is 'fp8'; expected 'none', 'fp16' or 'bf16'"):
            rueda.allreduce(np.ones(3, np.float32), "eight", compression="fp8")
        with self.assertRaisesRegex(TypeError, "compression is 1; expected a rueda.Compression"):
            rueda.allreduce(np.ones(3, np.float32), "number", compression=1)


class CompressionOfAll(CompressionTest):
    """Runs a job in which RUEDA_COMPRESSION is set."""

    @classmethod
    def setUpClass(cls):
        cls.start_again("bf16")
        super().setUpClass()

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
        for way, expected in (("none", "bf16"), ("fp16", "fp16"), ("none", "bf16"), ("none", "bf16")):
            for count in (1, 100, COUNT):
                mine = values(rueda.rank(), "float32", count)
                result = rueda.allreduce(mine, f"of {count}", rueda.Sum, compression=way)
                np.testing.assert_array_equal(result, self.expected(expected, "float32", count=count))
        result = rueda.allreduce(values(rueda.rank(), "float64"), None, rueda.Sum)
        np.testing.assert_array_equal(result, self.expected("bf16", "float64"))

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
