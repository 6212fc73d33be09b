# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests with random tensors that the errors of compression stay within the bounds of docs/compression.md. Some calls
request compression, others do not. On one host, compression must not change anything. hosts.sh runs the tests on
several hosts."""

import unittest
from dataclasses import dataclass

import numpy as np
import rueda
from hypothesis import given
from hypothesis import strategies as st
from properties import JobTest, ranks, same_bits, same_everywhere, seeds

# For each format, a pair: the relative error of a normal number (u), and the absolute error of a subnormal number (η).
BOUNDS = {"none": (0.0, 0.0), "fp16": (2.0**-11, 2.0**-25), "bf16": (2.0**-8, 2.0**-134)}
EPSILON = {"float32": 2.0**-24, "float64": 2.0**-53}
LARGEST = {"none": 1e37, "fp16": 60_000.0, "bf16": 1e37}
SUMS = (rueda.Sum, rueda.Average)


@dataclass(frozen=True)
class Drawn:
    dtype: str
    shape: tuple[int, ...]
    way: str  # the compression that the call requests
    name: str
    op: rueda.ReduceOp
    exponent: int
    factors: tuple[float, float]
    seed: int

    def values(self, rank: int, way: str) -> np.ndarray:
        """Returns a rank's input. The inputs of products are neither very small nor very large, so that each partial
        result is a normal number of the 16-bit type."""
        random = np.random.default_rng([self.seed, rank])
        if self.op == rueda.Product:
            values = random.uniform(0.6, 1.6, self.shape) * random.choice([-1, 1], self.shape)
            return np.array(values / self.factors[0], self.dtype)
        limit = LARGEST[way] / (rueda.size() * max(1.0, abs(self.factors[0])))
        values = random.uniform(-1, 1, self.shape) * 10.0**self.exponent
        return np.array(np.clip(values, -limit, limit), self.dtype)


def shapes():
    few = st.lists(st.integers(0, 7), max_size=3).map(tuple)
    # Tensors are small, or have about the size of a page, or are larger than a cell (the buffer of a chunk).
    return st.one_of(few, st.integers(500, 1100).map(lambda n: (n,)), st.sampled_from([(20_000,), (301, 97)]))


tensors = st.builds(
    Drawn,
    st.sampled_from(list(EPSILON)),
    shapes(),
    st.sampled_from(list(BOUNDS)),
    st.sampled_from(["plain", "half", "brain", "other"]),
    st.sampled_from([rueda.Sum, rueda.Average, rueda.Min, rueda.Max, rueda.Product]),
    st.integers(-8, 5),
    st.sampled_from([(1.0, 1.0), (1024.0, 1 / 1024), (0.25, 3.0), (-1.0, 2.0)]),
    seeds,
)


class CompressionProperties(JobTest):
    def bounds(self, drawn, way, inputs, members):
        """Returns the exact result and the largest allowed error."""
        hosts = [[rank for rank in host if rank in members] for host in self.hosts]
        hosts = [host for host in hosts if host]
        u, smallest = BOUNDS[way] if len(hosts) > 1 else (0.0, 0.0)
        prescale, postscale = map(np.longdouble, drawn.factors)
        scaled = {rank: inputs[rank].astype(np.longdouble) * prescale for rank in members}
        lost = (len(members) + 6) * EPSILON[drawn.dtype]
        if drawn.op in SUMS:
            divisor = len(members) if drawn.op == rueda.Average else 1
            parts = [sum(scaled[rank] for rank in host) / divisor for host in hosts]
            right = sum(parts)
            off = (2 * u + u * u) * sum(map(np.abs, parts)) + (len(hosts) * (1 + u) + 1) * smallest
            off = off + lost * sum(map(np.abs, scaled.values())) / divisor
        elif drawn.op == rueda.Product:
            right = np.prod(list(scaled.values()), axis=0)
            off = np.abs(right) * ((1 + u) ** (len(hosts) + 1) - 1 + 2 * lost)
        else:
            right = (np.min if drawn.op == rueda.Min else np.max)(list(scaled.values()), axis=0)
            off = (u + lost) * np.abs(right) + smallest
        return right * postscale, np.abs(postscale) * off

    def compare(self, drawn, way, result, inputs, members):
        right, off = self.bounds(drawn, way, inputs, members)
        self.assertEqual((result.shape, result.dtype), (drawn.shape, np.dtype(drawn.dtype)))
        self.assertTrue(np.isfinite(result).all())
        self.assertLessEqual(np.max(np.abs(result - right) - off, initial=0), 0)

    @same_everywhere(40)
    @given(st.lists(tensors, min_size=1, max_size=5), st.booleans(), st.booleans(), st.integers(0, 3))
    def check(self, batch, grouped, resident, set_index):
        process_set = self.sets[set_index % len(self.sets)]
        if not process_set.included():
            return
        if grouped:  # all tensors of a group have the same reduction, compression and factors
            first = batch[0]
            batch = [
                Drawn(
                    d.dtype,
                    d.shape,
                    first.way,
                    f"{first.name}_{i}of{len(batch)}",
                    first.op,
                    d.exponent,
                    first.factors,
                    d.seed,
                )
                for i, d in enumerate(batch, start=1)
            ]
        else:
            batch = list({d.name: d for d in batch}.values())
        everyones = [[d.values(rank, d.way) for rank in ranks()] for d in batch]
        mine = [inputs[rueda.rank()] for inputs in everyones]
        if resident:
            mine = [self.as_resident(tensor) for tensor in mine]
        if grouped:
            results = rueda.grouped_allreduce(mine, first.name, **self.options(first, process_set))
        else:
            handles = [
                rueda.allreduce_async(tensor, d.name, **self.options(d, process_set))
                for tensor, d in zip(mine, batch, strict=True)
            ]
            results = [handle.result() for handle in handles]
        for drawn, result, inputs in zip(batch, results, everyones, strict=True):
            self.compare(drawn, drawn.way, result, inputs, process_set.ranks)
            self.assertTrue(same_bits(result, process_set))

    @staticmethod
    def options(drawn, process_set) -> dict:
        prescale, postscale = drawn.factors
        return {
            "op": drawn.op,
            "prescale_factor": prescale,
            "postscale_factor": postscale,
            "compression": drawn.way,
            "process_set": process_set,
        }

    @staticmethod
    def as_resident(tensor):
        resident = rueda.empty(tensor.shape, tensor.dtype)
        resident[...] = tensor
        return resident

    def test_random_tensors(self):
        self.check()

    @same_everywhere(10)
    @given(st.sampled_from(list(EPSILON)), st.sampled_from(["fp16", "bf16"]), st.integers(1, 5000), seeds)
    def check_that_it_rounds(self, dtype, way, count, seed):
        """The bounds would also hold without compression. So this test requires that most results on several hosts
        differ from those without compression."""
        drawn = Drawn(dtype, (count,), way, "rounds", rueda.Sum, 0, (1.0, 1.0), seed)
        mine = drawn.values(rueda.rank(), way)
        compressed = rueda.allreduce(mine, "rounds", rueda.Sum, compression=way)
        plain = rueda.allreduce(mine, "plain", rueda.Sum)
        if len(self.hosts) == 1:
            np.testing.assert_array_equal(compressed, plain)
        elif way == "fp16":
            np.testing.assert_array_equal(compressed, compressed.astype(np.float16))
        else:
            # A number that was rounded to bfloat16 has zeros in its `low` lowest bits.
            low = 8 * compressed.itemsize - 16 if dtype == "float32" else 45
            np.testing.assert_array_equal(compressed.view(f"u{compressed.itemsize}") & ((1 << low) - 1), 0)
        if len(self.hosts) > 1 and count >= 100:
            self.assertGreater(np.count_nonzero(compressed != plain), 0.5 * count)

    def test_results_have_16_bits_between_hosts(self):
        self.check_that_it_rounds()


if __name__ == "__main__":
    unittest.main()
