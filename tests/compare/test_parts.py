# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests the parts of benchmarks/compare that compute something: gradient sets, targets, statistics, and the table."""

import fcntl
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "compare"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "python"))

import peers as installed_peers
from rueda_compare import command, gradients, peers, summary
from rueda_compare.cases import Case, UsageError, parse_size, size_text, targets
from rueda_compare.peers import Family, Rueda, Setting, SweptRueda
from rueda_compare.session import Effort, Measured, QuietMachine, Runner, plan_line

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
        # 301 tensors have 16 elements each: 300 gates (one gate for each feature), and one bias.
        self.assertEqual(counts.count(16), 300 + 1)
        self.assertTrue(all(count > 0 for count in counts))

    def test_weights_share_the_backward_pass(self):
        for name, weights in (("resnet50", 53 + 1), ("bert-large", 3 + 24 * 6 + 1), ("recommender", 300 + 6)):
            with self.subTest(name):
                shares = gradients.shares(name)
                self.assertEqual(len(shares), len(gradients.counts(name)))
                self.assertAlmostEqual(sum(shares), 1)
                self.assertEqual({round(share * weights, 9) for share in shares}, {0, 1})
        self.assertEqual(gradients.shares("resnet50")[:2], [0, 1 / 54], "the bias of the last layer, then its weight")


class Installation(unittest.TestCase):
    """The virtual environments and pip are imitated. pip succeeds if `status` is 0."""

    def install(self, status):
        def run(argv, **_):
            if "venv" in argv:
                (Path(argv[-1]) / "bin").mkdir(parents=True, exist_ok=True)
                (Path(argv[-1]) / "bin" / "python").touch()
            elif status:
                raise subprocess.CalledProcessError(status, argv)

        with unittest.mock.patch.object(peers.subprocess, "run", run):
            peers.install("ray")

    def test_an_installation_that_failed_does_not_count(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with (
                unittest.mock.patch.object(peers, "WORK", folder),
                unittest.mock.patch.object(installed_peers, "INSTALLED", folder),
            ):
                with self.assertRaisesRegex(peers.Missing, "ray could not be installed: .* 1"):
                    self.install(1)
                self.assertIsNone(installed_peers.python_of("ray", "a_package_that_no_python_has"))
                self.install(0)
                self.assertEqual(
                    installed_peers.python_of("ray", "a_package_that_no_python_has"),
                    str(folder / "ray" / "bin" / "python"),
                )


class Backward(unittest.TestCase):
    def test_passes_are_read(self):
        case = command._backward("recommender=6")
        self.assertEqual((case.operation, case.set_name, len(case.compute_us)), ("backward", "recommender", 912))
        self.assertAlmostEqual(sum(case.compute_us), 6000)
        self.assertAlmostEqual(sum(command._backward("resnet50").compute_us), 40_000)
        self.assertEqual(targets(case, 2, 2, "staged"), ())
        self.assertEqual(case.bus_factor(4), 1.5)

    def test_that_are_none_are_refused(self):
        for text in ("resnet51", "resnet50=", "resnet50=fast", "resnet50=0", "resnet50=-1", "resnet50=nan", "none"):
            with self.subTest(text), self.assertRaises(UsageError) as caught:
                command._backward(text)
            self.assertIn(f"'{text.partition('=')[0]}", str(caught.exception))

    def test_the_plan_says_what_is_computed_before_each_tensor(self):
        case = Case("backward", (8, 1), "set", (0.0, 1250.5))
        line = plan_line(case, Effort(0.5, 3, 9), True)
        self.assertEqual(line, "backward/set allreduce 0.5 3 9 1 0 8@0.000 1@1250.500")
        line = plan_line(one("broadcast", 8), Effort(1, 2, 3, between=4096), False)
        self.assertEqual(line, "broadcast/8 broadcast 1 2 3 0 4096 2")

    def test_it_is_for_the_first_number_of_ranks(self):
        singles, load = [one("allreduce", 4)], [Case("backward", (1, 1), "set", (0.0, 1.0))]
        self.assertEqual(command._places([2, 4], [singles, load]), [(2, singles), (2, load), (4, singles)])

    def test_only_under_load_a_batch_is_held_for_a_cycle(self):
        rueda = Rueda(Path("nowhere"))
        load, at_once = Case("backward", (1, 1), "set", (0.0, 1.0)), Case("allreduce", (1, 1), "set")
        self.assertEqual([rueda.can(way, at_once, 2) for way in rueda.ways], [True, True, False, False])
        self.assertEqual([rueda.can(way, load, 2) for way in rueda.ways], [True] * 4)
        (process,) = rueda.processes("staged, 5 ms cycle", 2, Setting("default"))
        self.assertEqual((process.argv[-1], process.env["RUEDA_HOLD_TIME"]), ("staged", "0.005000"))
        self.assertNotIn("RUEDA_FUSION_THRESHOLD", process.env)

    def test_a_sweep_has_every_setting(self):
        swept = SweptRueda(Path("nowhere"), [0, 64 * KIBI], [0, 50])
        names = ("RUEDA_FUSION_THRESHOLD", "RUEDA_HOLD_TIME")
        settings = {(t.memory, *(t.env[name] for name in names)) for t in swept.tunings.values()}
        self.assertEqual(len(settings), 2 * 2 * 2)
        self.assertIn(("resident", "65536", "0.000050"), settings)
        self.assertEqual(command._holds("0,50"), [0, 50])
        with self.assertRaises(UsageError):
            command._holds("0,1ms")


class Lock(unittest.TestCase):
    def test_is_held_during_a_turn_and_given_up_when_it_was_held_for_long(self):
        with tempfile.NamedTemporaryFile() as file:
            machine = QuietMachine(Path(file.name))
            self.addCleanup(machine._file.close)
            with machine.turn():
                self.assertFalse(self.is_free(file.name))
            self.assertFalse(self.is_free(file.name), "kept for the next peer")
            machine._KEEPS_SECONDS = 0
            with machine.turn():
                self.assertFalse(self.is_free(file.name))
            self.assertTrue(self.is_free(file.name))

    def is_free(self, path: str) -> bool:
        with open(path) as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True


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
            "bytes_between": 0, "machine": {"cpu": "x", "cores": 2, "kernel": "6"},
            "peers": {"gloo": {"skipped": "not here"}}, "rows": self.rows, "comparison": [comparison],
        }  # fmt: skip
        page = summary.markdown(report)
        self.assertIn("| 1 MiB | staged | 80 | mpich each | 160 | 2.00× | 1.50–6.00 | ≥ 1.1×: met |", page)
        self.assertIn("| gloo | skipped: not here |", page)
        slow = comparison | {"ratio": 0.9, "met": False}
        self.assertIn("**missed**", summary.markdown(report | {"comparison": [slow]}))


def passed(name: str, way: str, pairs: list[tuple[float, float]], family: Family | None = None) -> Measured:
    """Returns a measured backward pass. `pairs` has (whole step, computation alone) in µs for each round."""
    rounds = [{"median": s, "alone": a, "p10": s, "p90": s, "iterations": 5, "wrong": 0} for s, a in pairs]
    case = Case("backward", (1000, 24), "resnet50", (0.0, 40_000.0))
    return Measured(2, case, Runner(family or Named(name), way), Setting("default"), rounds)


def page_of(rows: list[dict], **more) -> str:
    report = {
        "date": "today", "commit": "c", "command": "compare", "rounds": 3, "failures": [], "standing": [],
        "bytes_between": 0, "machine": {"cpu": "x", "cores": 2, "kernel": "6"}, "peers": {}, "rows": rows,
        "comparison": [],
    }  # fmt: skip
    return summary.markdown(report | more)


class Load(unittest.TestCase):
    def test_exposed_is_the_step_less_the_computation_of_the_same_round(self):
        # The differences are 2, 30 and 3 ms, so their median is 3 ms. The difference between the two medians, however,
        # would be 6 ms.
        row = summary.row(passed("openmpi", "each", [(42_000, 40_000), (90_000, 60_000), (47_000, 44_000)]))
        load = row["load"]
        self.assertEqual((load["exposed"], load["low"], load["high"]), (3_000, 2_000, 30_000))
        self.assertEqual((load["alone"], row["microseconds"]["median"]), (44_000, 47_000))
        self.assertNotIn("load", summary.row(measured("openmpi", [1, 2, 3], "each")))

    def test_the_table_begins_with_the_least_exposed(self):
        rows = [
            summary.row(passed("openmpi", "each", [(92_340, 40_010)])),
            summary.row(passed("rueda", "staged", [(41_000, 40_020)])),
        ]
        page = page_of(rows)
        lines = [line for line in page.splitlines() if line.startswith("| resnet50")]
        self.assertEqual(
            lines,
            [
                "| resnet50 | rueda staged | default | 40.0 | 41.0 | 0.98 | 0.98 to 0.98 |",
                "| resnet50 | openmpi each | default | 40.0 | 92.3 | 52.3 | 52.3 to 52.3 |",
            ],
        )
        self.assertIn("## Batches under load, 2 ranks", page)
        self.assertEqual(summary.compare(rows, {}, 2), [], "its times are not held against targets of other cases")

    def test_a_sweep_is_a_table_of_thresholds_by_hold_times(self):
        family = SweptRueda(Path("nowhere"), [0, MEBI], [0, 200])
        exposed = {way: 1000.0 * (index + 1) for index, way in enumerate(family.ways)}
        rows = [
            summary.row(passed("rueda", way, [(40_000 + e, 40_000), (40_500 + e, 40_000)], family))
            for way, e in exposed.items()
        ]
        page = page_of(rows, sweep=True)
        self.assertIn("### resnet50, staged: exposed, ms (best round)", page)
        self.assertIn("| threshold | hold 0 µs | hold 200 µs |", page)
        self.assertIn("| 0 B | 1.25 (1.00) | 2.25 (2.00) |", page)
        self.assertIn("| 1 MiB | 7.25 (7.00) | 8.25 (8.00) |", page)


if __name__ == "__main__":
    unittest.main()
