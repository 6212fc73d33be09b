# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The parts of benchmarks/compare that compute: gradient sets, targets, statistics, the table."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "compare"))

from rueda_compare import gradients, summary
from rueda_compare.cases import Case, UsageError, parse_size, size_text, targets
from rueda_compare.peers import Family, Setting
from rueda_compare.session import Measured, Runner

KIBI, MEBI = 1024, 1024**2


class Gradients(unittest.TestCase):
    def test_resnet50_is_as_published(self):
        counts = gradients.counts("resnet50")
        self.assertEqual((len(counts), sum(counts)), (161, 25_557_032))
        self.assertEqual(counts[:2], [1000, 2048 * 1000], "the last layer is finished first")
        self.assertEqual(counts[-1], 64 * 3 * 7 * 7)

    def test_bert_large_is_as_published(self):
        counts = gradients.counts("bert-large")
        self.assertEqual((len(counts), sum(counts)), (391, 335_141_888))

    def test_the_recommender_has_many_tiny_tensors(self):
        counts = gradients.counts("recommender")
        self.assertGreater(sum(count <= 1024 for count in counts), 800)
        self.assertEqual(counts.count(16), 300 + 1)  # the shifts, and a bias
        self.assertTrue(all(count > 0 for count in counts))


class Sizes(unittest.TestCase):
    def test_are_read(self):
        self.assertEqual([parse_size(text) for text in ("4", "64K", "16m")], [4, 65536, 16777216])

    def test_that_are_none_are_refused(self):
        for text in ("", "K", "6", "0", "-4", "1.5M", "4KB"):
            with self.subTest(text), self.assertRaises(UsageError) as caught:
                parse_size(text)
            self.assertIn(f"'{text}'", str(caught.exception))

    def test_are_written(self):
        self.assertEqual([size_text(n) for n in (4, 64 * KIBI, MEBI, 6 * 1024)], ["4 B", "64 KiB", "1 MiB", "6 KiB"])


def one(operation: str, size: int) -> Case:
    return Case(operation, (size // 4,))


class Targets(unittest.TestCase):
    def ratios(self, memory, sizes, operation="allreduce", ranks=2):
        found = [targets(one(operation, size), ranks, 2, memory) for size in sizes]
        return [[target.ratio for target in entry] for entry in found]

    def test_of_an_allreduce(self):
        sizes = (KIBI, 4 * KIBI, 64 * KIBI, 256 * KIBI, MEBI, 4 * MEBI, 16 * MEBI)
        self.assertEqual(self.ratios("staged", sizes), [[], [2], [2], [1.1], [1.1], [1.5], [1.8]])
        self.assertEqual(self.ratios("resident", sizes), [[], [], [3.5], [1.8], [1.8], [3.5], [3.5]])

    def test_of_an_exchange(self):
        self.assertEqual(self.ratios("resident", (64 * KIBI, MEBI), "broadcast"), [[], [2]])
        self.assertEqual(self.ratios("staged", (MEBI,), "allgather"), [[1.2]])

    def test_with_more_ranks_than_cores_are_to_open_mpi(self):
        (target,) = targets(one("allreduce", 4), 4, 2, "staged")
        self.assertEqual((target.ratio, target.against), (1.3, ("openmpi",)))
        self.assertEqual(targets(one("allreduce", 4), 4, 2, "resident"), ())


class Cases(unittest.TestCase):
    def test_bytes_that_cross(self):
        factors = [one(name, 4).bus_factor(4) for name in ("allreduce", "broadcast", "allgather", "alltoall")]
        self.assertEqual(factors, [1.5, 1, 3, 0.75])

    def test_what_cannot_be_scattered_is_not_possible(self):
        self.assertFalse(one("reducescatter", 4).possible(2))
        self.assertTrue(one("reducescatter", 8).possible(2))
        self.assertTrue(one("allreduce", 4).possible(2))


class Named(Family):
    def __init__(self, name):
        self.name = name


def measured(name: str, medians: list[float], way: str = "") -> Measured:
    rounds = [{"median": m, "p10": m - 1, "p90": m + 1, "iterations": 10, "wrong": 0} for m in medians]
    return Measured(2, one("allreduce", MEBI), Runner(Named(name), way), Setting("default"), rounds)


class Statistics(unittest.TestCase):
    def setUp(self):
        self.rows = [
            summary.row(measured("rueda", [50, 100, 80], "staged")),
            summary.row(measured("openmpi", [200, 220, 1000], "each")),
            summary.row(measured("mpich", [300, 150, 160], "each")),
            summary.row(measured("bound", [10, 10, 10])),
        ]

    def test_a_row_is_the_median_of_the_rounds(self):
        row = self.rows[1]
        self.assertEqual(
            (row["microseconds"]["median"], row["microseconds"]["low"], row["microseconds"]["high"]), (220, 200, 1000)
        )
        self.assertEqual((row["iterations"], row["wrong_elements"]), (30, 0))
        self.assertAlmostEqual(row["bus_gigabytes_per_second"], MEBI / 220e-6 / 1e9)

    def test_the_fastest_peer_is_neither_rueda_nor_the_bound(self):
        self.assertEqual(summary.fastest(self.rows)["runner"], "mpich each")
        self.assertEqual(summary.fastest(self.rows, ("openmpi", "gloo"))["runner"], "openmpi each")
        self.assertIsNone(summary.fastest(self.rows[:1]))

    def test_a_ratio_is_median_to_median_with_the_span_of_the_rounds(self):
        self.assertEqual(summary.ratio(self.rows[0], self.rows[2]), {"ratio": 2, "low": 1.5, "high": 6})

    def test_the_table_says_whether_the_target_was_met(self):
        cases = {("allreduce", "", MEBI): one("allreduce", MEBI)}
        (comparison,) = summary.compare(self.rows, cases, 2)
        self.assertEqual((comparison["peer"], comparison["target"], comparison["met"]), ("mpich each", 1.1, True))
        report = {
            "date": "today", "commit": "c", "command": "compare", "rounds": 3, "failures": [], "standing": [],
            "machine": {"cpu": "x", "cores": 2, "kernel": "6"}, "peers": {"gloo": {"skipped": "not here"}},
            "rows": self.rows, "comparison": [comparison],
        }  # fmt: skip
        page = summary.markdown(report)
        self.assertIn("| 1 MiB | staged | 80 | mpich each | 160 | 2.00× | 1.50–6.00 | ≥ 1.1×: met |", page)
        self.assertIn("| gloo | skipped: not here |", page)
        slow = comparison | {"ratio": 0.9, "met": False}
        self.assertIn("**missed**", summary.markdown(report | {"comparison": [slow]}))


if __name__ == "__main__":
    unittest.main()
