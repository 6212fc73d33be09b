# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests of prediction, metrics and their files, with one rank and with several."""

import csv
import io
import json
import math
import pathlib
import random
import shutil
import struct
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from fractions import Fraction
from unittest import mock

import numpy as np
import rueda
from rueda import training


def setUpModule():
    rueda.init()


class Predicting(unittest.TestCase):
    def test_outputs_are_in_the_order_of_the_inputs(self):
        for count in (0, 1, 2, 3, 7, 100):
            for batch_size in (1, 3, 1000):
                with self.subTest(count=count, batch_size=batch_size):
                    outputs = training.predict(
                        lambda batch: np.array([[index, index**2] for index in batch]), count, batch_size=batch_size
                    )
                    expected = [[index, index**2] for index in range(count)]
                    self.assertEqual(outputs.tolist(), expected)

    def test_each_rank_predicts_only_its_share_in_batches(self):
        batches = []
        training.predict(lambda batch: batches.append(batch) or np.zeros(len(batch)), 50, batch_size=4)
        mine = training.shard(50)
        self.assertEqual([index for batch in batches for index in batch], list(mine))
        self.assertLessEqual(max(map(len, batches)), 4)

    def test_one_rank_gets_the_outputs(self):
        root = rueda.size() - 1
        outputs = training.predict(lambda batch: np.array(batch, np.int32), 5, root_rank=root)
        if rueda.rank() == root:
            self.assertEqual(outputs.tolist(), [0, 1, 2, 3, 4])
            self.assertEqual(outputs.dtype, np.int32)
        else:
            self.assertIsNone(outputs)
        self.assertEqual(training.predict(lambda batch: None, 0, root_rank=root) is None, rueda.rank() != root)

    def test_a_failure_comes_to_all_ranks(self):
        def function(batch):
            if 0 in batch:
                raise ValueError("bad input")
            return np.zeros(len(batch))

        if rueda.rank() == 0:
            with self.assertRaisesRegex(ValueError, "bad input"):
                training.predict(function, 8)
        else:
            with self.assertRaisesRegex(rueda.Internal, "the function failed on rank 0: ValueError: bad input"):
                training.predict(function, 8)

    def test_rows_of_different_forms_are_refused(self):
        if rueda.size() > 1:
            with self.assertRaisesRegex(
                rueda.Mismatch, r"rank 0 has rows of float64 \[1\], and rank 1 has rows of float64 \[2\]"
            ):
                training.predict(lambda batch: np.zeros((len(batch), min(rueda.rank(), 1) + 1)), 4 * rueda.size())
        with self.assertRaisesRegex(rueda.RuedaError, r"returned the shape \[3\] for 1 inputs"):
            training.predict(lambda batch: np.zeros(3), rueda.size(), batch_size=1)
        with self.assertRaisesRegex(rueda.RuedaError, "returned a list for the inputs"):
            training.predict(list, rueda.size())
        with self.assertRaisesRegex(rueda.InvalidArgument, "batch_size is 0"):
            training.predict(list, 1, batch_size=0)
        with self.assertRaisesRegex(rueda.InvalidArgument, r"count is array\(\[0\., 0\.\]\); expected the number"):
            training.predict(list, np.zeros(2))


class Means(unittest.TestCase):
    def test_the_sum_is_exact_at_any_number_of_ranks(self):
        numbers = random.Random(4)
        values = [numbers.uniform(-1, 1) * 10.0 ** numbers.randrange(-300, 300) for _ in range(1000)]
        values += [1e308, 5e-324, -5e-324, 0.0, -1e308, 2.0**-1022, 1e16, 1.0, -1e16]
        mean = training.Mean()
        mine = training.shard(len(values))
        mean.add(np.array(values[mine.start : mine.stop]))
        expected = float(sum(map(Fraction, values)) / len(values))
        self.assertEqual(mean.compute(), expected)
        self.assertEqual(mean.compute(), expected)  # computing changes nothing

    def test_it_is_the_mean_of_all_samples_and_not_of_the_ranks(self):
        mean = training.Mean()
        for _ in range(rueda.rank() + 1):
            mean.add(float(rueda.rank()))
        size = rueda.size()
        expected = sum(rank * (rank + 1) for rank in range(size)) / (size * (size + 1) / 2)
        self.assertAlmostEqual(mean.compute(), expected, places=15)

    def test_padding_has_no_weight(self):
        mean = training.Mean()
        mean.add([1, 5, math.nan], weights=[3, 1, 0])
        self.assertEqual(mean.compute(), 2.0)
        mean.reset()
        self.assertTrue(math.isnan(mean.compute()))
        mean.add([True, False, True, True])
        self.assertEqual(mean.compute(), 0.75)

    def test_mistakes_are_refused(self):
        with self.assertRaisesRegex(rueda.InvalidArgument, "not finite"):
            training.Mean().add([1, math.inf])
        with self.assertRaisesRegex(rueda.InvalidArgument, "3 numbers have 2 weights"):
            training.Mean().add([1, 2, 3], [1, 2])
        with self.assertRaisesRegex(rueda.InvalidArgument, "a weight is -2; weights must not be negative"):
            training.Mean().add([1, 2, 3], [1, -2, 0])


def area_by_pairs(scores, labels):
    """Computes the area under the curve from its definition. Each pair has a positive and a negative sample. The area
    is the share of the pairs in which the positive sample has the higher score. A tie counts half."""
    positive = [score for score, label in zip(scores, labels) if label]
    negative = [score for score, label in zip(scores, labels) if not label]
    wins = sum(2 * (p > n) + (p == n) for p in positive for n in negative)
    return float(Fraction(wins, 2 * len(positive) * len(negative)))


class Areas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        numbers = np.random.default_rng(3)  # the same on all ranks
        cls.labels = numbers.random(301) < 0.3
        # Rounded scores make ties.
        cls.scores = np.round(np.clip(numbers.normal(0.4 + 0.2 * cls.labels, 0.2), 0, 1), 2)

    def computed(self, auc):
        mine = training.shard(len(self.scores))
        for begin in range(mine.start, mine.stop, 50):
            part = slice(begin, min(begin + 50, mine.stop))
            auc.add(self.scores[part].astype(np.float32), self.labels[part])
        return auc.compute()

    def test_exact(self):
        auc = training.Auc()
        expected = area_by_pairs(self.scores.tolist(), self.labels.tolist())
        self.assertEqual(self.computed(auc), expected)
        self.assertEqual(auc.error_bound(), 0)
        auc.add([0.5] * 0, [])
        self.assertEqual(auc.compute(), expected)

    def test_the_caller_may_use_its_array_again(self):
        auc, scores = training.Auc(), np.empty(2)
        for pair in ((0.1, 0.2), (0.3, 0.4)):
            scores[:] = pair
            auc.add(scores, [0, 1])
        self.assertEqual(auc.compute(), 0.75)

    def test_a_histogram_is_within_its_bound(self):
        expected = area_by_pairs(self.scores.tolist(), self.labels.tolist())
        bounds = []
        for bins in (2, 10, 64, 100_000):
            auc = training.Auc(bins=bins)
            found = self.computed(auc)
            self.assertLessEqual(abs(found - expected), auc.error_bound())
            bounds.append(auc.error_bound())
        self.assertEqual(found, expected)  # each score has a bin of its own
        self.assertEqual(bounds, sorted(bounds, reverse=True))

    def test_the_ends_of_the_range(self):
        auc = training.Auc(bins=4)
        auc.add([0.0, 1.0, 0.25, 0.75], [False, True, False, True])
        self.assertEqual(auc.compute(), 1.0)

    def test_without_one_of_the_classes_there_is_no_area(self):
        for auc in (training.Auc(), training.Auc(bins=10)):
            auc.add([0.1, 0.2], [1, 1])
            self.assertTrue(math.isnan(auc.compute()))

    def test_mistakes_are_refused(self):
        for bins, scores, labels, text in (
            (None, [1], [1, 0], "1 scores have 2 labels"),
            (None, [1], [2], "a label is not 0 or 1"),
            (None, [math.nan], [1], "a score is NaN"),
            (10, [1.5], [1], "not from 0 to 1, which bins need"),
            (10, [math.nan], [1], "not from 0 to 1, which bins need"),
        ):
            with self.assertRaisesRegex(rueda.InvalidArgument, text):
                training.Auc(bins).add(scores, labels)
        with self.assertRaisesRegex(rueda.InvalidArgument, "bins is 1"):
            training.Auc(1)


class Files(unittest.TestCase):
    def setUp(self):
        name = tempfile.mkdtemp(prefix="rueda-metrics-") if rueda.rank() == 0 else None
        self.folder = pathlib.Path(rueda.broadcast_object(name))

    def tearDown(self):
        rueda.barrier()
        if rueda.rank() == 0:
            shutil.rmtree(self.folder)

    def read_csv(self):
        with open(self.folder / "metrics.csv", newline="") as file:
            return list(csv.reader(file))

    def test_csv_and_json_lines(self):
        with training.MetricsWriter(self.folder, ["csv", "jsonl"]) as writer:
            writer.write(0, {"loss": 2.5, "a,b": np.float32(0.5)})
            writer.write(1, {"loss": math.nan})
        if rueda.rank() == 0:
            self.assertEqual(self.read_csv(), [["step", "loss", "a,b"], ["0", "2.5", "0.5"], ["1", "nan", ""]])
            lines = [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]
            for line in lines:
                self.assertGreater(line.pop("time"), 1.7e9)
            self.assertEqual(lines, [{"step": 0, "loss": 2.5, "a,b": 0.5}, {"step": 1, "loss": None}])
        else:
            self.assertEqual(list(self.folder.glob(f"*{rueda.rank()}*")), [])

    def test_a_resumed_job_replaces_the_lines_of_steps_that_it_repeats(self):
        for first, last in ((0, 5), (3, 7)):
            with training.MetricsWriter(self.folder, ["csv", "jsonl"], first_step=first) as writer:
                for step in range(first, last):
                    writer.write(step, {"loss": step + 100 * first})
            if rueda.rank() == 0 and first == 0:
                for name in ("metrics.csv", "metrics.jsonl"):  # a killed job may leave half a line
                    with open(self.folder / name, "a") as file:
                        file.write("9,9" if name == "metrics.csv" else '{"step": 9')
        if rueda.rank() == 0:
            expected = [0, 1, 2, 303, 304, 305, 306]
            self.assertEqual([float(loss) for _, loss in self.read_csv()[1:]], expected)
            lines = (self.folder / "metrics.jsonl").read_text().splitlines()
            self.assertEqual([json.loads(line)["loss"] for line in lines], expected)

    def test_damaged_lines_of_an_earlier_job_are_left_out(self):
        if rueda.rank() == 0:
            (self.folder / "metrics.csv").write_text("step,loss\r\n0,1.5\r\n1,2")  # cut within a number
            (self.folder / "metrics.jsonl").write_text('{"step": 0, "loss": 1.5}\n{"step": 1{"step": 1}\n')
        with training.MetricsWriter(self.folder, ["csv", "jsonl"], first_step=2) as writer:
            writer.write(2, {"loss": 3.5})
        if rueda.rank() == 0:
            self.assertEqual(self.read_csv(), [["step", "loss"], ["0", "1.5"], ["2", "3.5"]])
            lines = (self.folder / "metrics.jsonl").read_text().splitlines()
            self.assertEqual([json.loads(line)["step"] for line in lines], [0, 2])

    def test_the_columns_stay_if_no_row_does(self):
        for first in (5, 3):
            with training.MetricsWriter(self.folder, first_step=first) as writer:
                writer.write(5, {"loss": first})
        if rueda.rank() == 0:
            self.assertEqual(self.read_csv(), [["step", "loss"], ["5", "3.0"]])

    def test_a_job_that_fails_at_its_start_loses_no_line(self):
        if rueda.rank() != 0:
            return
        for name, text in (("metrics.csv", "step,loss\r\n0,1.5\r\n"), ("metrics.jsonl", '{"step": 0}\n')):
            path = self.folder / name
            path.write_bytes(text.encode())
            beside = self.folder / f"{name}.partial"  # the new file is written under this name, and then renamed
            beside.mkdir()
            with self.assertRaisesRegex(rueda.InvalidArgument, f"{name}.partial: open failed"):
                training.MetricsWriter(self.folder, [path.suffix[1:]], first_step=1)
            self.assertEqual(path.read_bytes(), text.encode())

    def test_a_new_metric_has_no_column(self):
        with training.MetricsWriter(self.folder) as writer:
            writer.write(0, {"loss": 1})
            if rueda.rank() == 0:
                with self.assertRaisesRegex(rueda.InvalidArgument, "'auc' has no column in .*metrics.csv"):
                    writer.write(1, {"auc": 1})
                with self.assertRaisesRegex(rueda.InvalidArgument, "a metric has the name 'step'"):
                    writer.write(1, {"step": 1})

    def test_tensorboard(self):
        with training.MetricsWriter(self.folder, ["tensorboard"]) as writer:
            writer.write(3, {"loss": 0.5})
        if rueda.rank() != 0:
            return
        (path,) = self.folder.glob("events.out.tfevents.*")
        # A record is its length, a checksum, its bytes and another checksum. tests/training/metrics_test.cpp checks the
        # checksums. An Event begins with the time: a tag and eight bytes.
        content, events = path.read_bytes(), []
        while content:
            (length,) = struct.unpack_from("<Q", content)
            events.append(content[12 : 12 + length])
            content = content[16 + length :]
        value = b"\x0a\x04loss\x15" + struct.pack("<f", 0.5)
        summary = b"\x0a" + bytes([len(value)]) + value
        self.assertEqual(
            [event[9:] for event in events],
            [b"\x10\x00\x1a\x0dbrain.Event:2", b"\x10\x03\x2a" + bytes([len(summary)]) + summary],
        )

    def test_an_unknown_format(self):
        with self.assertRaisesRegex(rueda.InvalidArgument, "'xml' is unknown; use csv, jsonl, tensorboard"):
            training.MetricsWriter(self.folder, ["xml"])

    def test_curves_are_pictures(self):
        with training.MetricsWriter(self.folder, [], curves=True) as writer:
            for step in range(5):
                writer.write(step, {"loss": 5 - step, "accuracy <1>": step / 5})
        if rueda.rank() == 0:
            root = xml.etree.ElementTree.parse(self.folder / "metrics.svg").getroot()
            texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
            self.assertIn("accuracy <1>", texts)

    def test_the_points_of_a_curve_are_at_their_places(self):
        if rueda.rank() != 0:
            return
        path = self.folder / "curve.svg"
        training.draw_curves(path, {"a": [(0, 0), (5, 1), (7, math.nan), (10, 2)], "b": [(0, 1), (10, 1)]})
        text = path.read_text()
        # a line from the lower left corner of the plot to its middle
        self.assertIn('d="M70.0 346.0 L405.0 196.0"', text)
        self.assertIn('d="M740.0 46.0 L740.0 46.0"', text)  # after the gap, one point
        self.assertIn('d="M70.0 196.0 L740.0 196.0"', text)
        training.draw_curves(path, {"a": [(0, 0.01), (1, 1), (2, 0), (3, 0.1)]}, logarithmic=True, marks={"end": [3]})
        text = path.read_text()
        self.assertIn('d="M70.0 346.0 L293.3 46.0"', text)
        self.assertIn('d="M740.0 196.0 L740.0 196.0"', text)
        self.assertIn(">0.02<", text)
        for curves in ({"a": []}, {"a": [(1, 1)]}, {"a": [(0, math.nan)]}):
            training.draw_curves(path, curves)
            xml.etree.ElementTree.parse(path)
        # All values of an axis are equal, or differ by little more than their rounding.
        for points in (
            [(1.7e18, 1)],
            [(0, -1e30), (1, -1e30)],
            [(2.0**60, 0), (2.0**60 + 256, 1)],
            [(0, 0), (1, 5e-324)],
        ):
            training.draw_curves(path, {"a": points})
            self.assertIn(path.read_text().count('v5"'), range(3, 8))  # the ticks of the horizontal axis
        with self.assertRaisesRegex(rueda.InvalidArgument, "there is no curve"):
            training.draw_curves(path, {})
        with self.assertRaisesRegex(rueda.InvalidArgument, r"y\.png' ends in \.png, but the picture is SVG"):
            training.draw_curves(path.with_name("y.png"), {"a": [(0, 1)]})

    def test_progress_prints_nothing_into_a_file(self):
        with mock.patch.object(sys, "stderr", io.StringIO()) as printed:
            self.assertEqual(list(training.progress(range(3), "training")), [0, 1, 2])
        self.assertEqual(printed.getvalue(), "")

    def test_progress_uses_tqdm_on_a_terminal(self):
        class Terminal(io.StringIO):
            def isatty(self):
                return True

        shown = []
        tqdm = mock.Mock()
        tqdm.tqdm = lambda steps, desc, total: shown.append((desc, total)) or steps
        for module, expected in ((tqdm, [("training", 3)]), (None, [])):
            shown.clear()
            with mock.patch.dict(sys.modules, {"tqdm": module}), mock.patch.object(sys, "stderr", Terminal()):
                self.assertEqual(list(training.progress(iter(range(3)), "training", 3)), [0, 1, 2])
            self.assertEqual(shown, expected if rueda.rank() == 0 else [])


if __name__ == "__main__":
    unittest.main()
