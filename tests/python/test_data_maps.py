# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests map functions of rueda.data.Pipeline, and the writer of TFRecord files."""

import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import weakref

import numpy as np
import rueda
from rueda import data
from rueda.data._maps import summarize

LIMIT = 60  # the maximum number of seconds for a wait; on an idle machine, every wait is much shorter
FORMAT = data.Csv([data.CsvColumn("n", "int64")], header=False)


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def numbers(self, count=40):
        path = self.folder / "numbers.csv"
        path.write_text("".join(f"{number}\n" for number in range(count)))
        return path


def with_square(batch):
    batch["square"] = batch["n"] ** 2


def only_square(batch):
    return {"square": batch["square"]}


def wait_until(condition):
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("the condition did not become true")
        time.sleep(0.002)


class Maps(WithFolder):
    def test_functions_are_called_in_order_for_each_batch(self):
        for ahead in (0, 1, 3):
            with self.subTest(ahead=ahead):
                pipeline = data.Pipeline(
                    self.numbers(), FORMAT, 8, maps=[with_square, only_square], map_ahead=ahead, epochs=2
                )
                for _epoch in range(2):
                    batches = list(pipeline)
                    self.assertEqual([list(batch) for batch in batches], [["square"]] * 5)
                    squares = np.concatenate([batch["square"] for batch in batches])
                    self.assertEqual(squares.tolist(), [number**2 for number in range(40)])
                with self.assertRaisesRegex(rueda.InvalidArgument, "all 2 epochs"):
                    iter(pipeline)
                self.assertEqual(pipeline.statistics()["batches"], 10)
                pipeline.close()

    def test_a_thread_works_ahead_and_not_further(self):
        calls = []

        def note(batch):
            calls.append(threading.current_thread().name)

        pipeline = data.Pipeline(self.numbers(80), FORMAT, 8, maps=[note], map_ahead=2)
        batches = iter(pipeline)
        next(batches)
        # The trainer has taken one batch. Two batches are ready. The thread has made the fourth batch, and waits until
        # it may add this batch.
        wait_until(lambda: len(calls) == 4)
        time.sleep(0.05)
        self.assertEqual(calls, ["rueda-maps"] * 4)
        self.assertEqual(len(list(batches)), 9)
        pipeline.close()

    def test_the_position_is_that_of_the_batches_that_were_taken(self):
        for ahead in (0, 3):
            with self.subTest(ahead=ahead):
                options = dict(maps=[with_square], map_ahead=ahead, epochs=2, shuffle=10, seed=3)
                pipeline = data.Pipeline(self.numbers(), FORMAT, 8, **options)
                whole = [batch["n"].tolist() for _ in range(2) for batch in pipeline]
                pipeline = data.Pipeline(self.numbers(), FORMAT, 8, **options)
                batches = iter(pipeline)
                taken = [next(batches)["n"].tolist() for _ in range(3)]
                state = pipeline.state_dict()
                self.assertRegex(state["position"], "^epoch 0 step 3 ")
                resumed = data.Pipeline(self.numbers(), FORMAT, 8, **options)
                resumed.load_state_dict(state)
                taken += [batch["n"].tolist() for _ in range(2) for batch in resumed]
                self.assertEqual(taken, whole)

    def test_an_exception_has_the_position_of_its_batch(self):
        def fail_at_16(batch):
            if 16 in batch["n"]:
                raise ValueError("sixteen")

        for ahead in (0, 2):
            with self.subTest(ahead=ahead):
                pipeline = data.Pipeline(self.numbers(), FORMAT, 8, maps=[with_square, fail_at_16], map_ahead=ahead)
                taken = []
                with self.assertRaisesRegex(
                    data.MapFailed, r"maps\[1\] \(fail_at_16\) failed for batch 2 of epoch 0: ValueError: sixteen"
                ) as raised:
                    for batch in pipeline:
                        taken.append(batch["n"].tolist())
                self.assertEqual((raised.exception.epoch, raised.exception.step), (0, 2))
                self.assertIsInstance(raised.exception.__cause__, ValueError)
                self.assertEqual(taken, [list(range(8)), list(range(8, 16))])
                state = pipeline.state_dict()
                self.assertRegex(state["position"], "^epoch 0 step 2 ")
                with self.assertRaises(data.MapFailed):
                    next(iter(pipeline))
                pipeline.load_state_dict({"position": state["position"].replace("step 2", "step 3")})
                self.assertEqual(next(iter(pipeline))["n"].tolist(), list(range(24, 32)))

    def test_wrong_functions(self):
        with self.assertRaisesRegex(rueda.InvalidArgument, r"maps\[1\] is 7; expected a function"):
            data.Pipeline(self.numbers(), FORMAT, 8, maps=[with_square, 7])
        with self.assertRaisesRegex(rueda.InvalidArgument, "map_ahead is -1"):
            data.Pipeline(self.numbers(), FORMAT, 8, maps=[with_square], map_ahead=-1)
        with self.assertRaisesRegex(data.MapFailed, "the function returned list; expected a dict"):
            next(iter(data.Pipeline(self.numbers(), FORMAT, 8, maps=[lambda batch: [batch]])))

    def test_malformed_records_are_reported_as_without_functions(self):
        path = self.folder / "wrong.csv"
        path.write_text("1\n2\nthree\n")
        for ahead in (0, 2):
            with self.subTest(ahead=ahead), self.assertRaisesRegex(rueda.InvalidArgument, "wrong.csv', record 2"):
                list(data.Pipeline(path, FORMAT, 1, maps=[with_square], map_ahead=ahead))

    def test_a_dropped_pipeline_ends_its_thread(self):
        pipeline = data.Pipeline(self.numbers(), FORMAT, 1, maps=[with_square], map_ahead=2)
        next(iter(pipeline))
        thread = pipeline._mapped._thread
        gone = weakref.ref(pipeline)
        del pipeline
        gc.collect()
        self.assertIsNone(gone())
        thread.join(LIMIT)
        self.assertFalse(thread.is_alive())

    def test_a_closed_pipeline_frees_its_source(self):
        path = self.folder / "channel"
        os.mkfifo(path)

        def write(first):
            with open(path, "w") as channel:
                channel.write("".join(f"{number}\n" for number in range(first, first + 8)))

        for ahead in (0, 2):
            with self.subTest(ahead=ahead):
                kept = []  # keeps the pipelines alive
                for first in (0, 100):
                    writer = threading.Thread(target=write, args=(first,), daemon=True)
                    writer.start()
                    # After the first epoch, the native pipeline does not close the FIFO, but waits for the next writer.
                    pipeline = data.Pipeline(data.fifo(path), FORMAT, 4, maps=[with_square], map_ahead=ahead, epochs=2)
                    kept.append(pipeline)
                    self.assertEqual(next(iter(pipeline))["n"].tolist(), list(range(first, first + 4)))
                    pipeline.close()
                    writer.join(LIMIT)
                    self.assertFalse(writer.is_alive())

    def test_every_exception_of_a_function_is_raised_each_time(self):
        def end(batch):
            raise SystemExit(3)

        pipeline = data.Pipeline(self.numbers(), FORMAT, 8, maps=[end], map_ahead=2)
        for _call in range(2):
            with self.assertRaises(SystemExit):
                next(iter(pipeline))

    def test_a_dropped_pipeline_does_not_wait_for_its_function(self):
        entered, allowed = threading.Event(), threading.Event()
        self.addCleanup(allowed.set)

        def wait(batch):
            entered.set()
            allowed.wait(LIMIT)

        pipeline = data.Pipeline(self.numbers(), FORMAT, 8, maps=[wait], map_ahead=1)
        thread = pipeline._mapped._thread
        self.assertTrue(entered.wait(LIMIT))
        del pipeline
        gc.collect()
        self.assertTrue(thread.is_alive())
        allowed.set()
        thread.join(LIMIT)
        self.assertFalse(thread.is_alive())

    def test_a_forked_child_does_not_wait_for_the_thread(self):
        pipeline = data.Pipeline(self.numbers(), FORMAT, 8, maps=[with_square], map_ahead=1)
        next(iter(pipeline))

        def drop():
            nonlocal pipeline
            pipeline = None
            gc.collect()

        with pipeline._mapped._changed:  # after the fork, this lock stays locked in the child for ever
            child = os.fork()
            if child == 0:
                dropping = threading.Thread(target=drop, daemon=True)
                dropping.start()
                dropping.join(LIMIT / 4)
                os._exit(1 if dropping.is_alive() else 0)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(len(list(pipeline)), 4)
        pipeline.close()

    def test_the_summary_names_slow_functions(self):
        def slow(batch):
            time.sleep(0.02)

        for ahead in (0, 2):
            with self.subTest(ahead=ahead):
                pipeline = data.Pipeline(self.numbers(), FORMAT, 8, maps=[slow], map_ahead=ahead)
                list(pipeline)
                counts = pipeline.statistics()
                self.assertGreaterEqual(counts["python_mapping"], 5 * 0.02)
                self.assertLessEqual(counts["consumer_waited"], counts["seconds"])
                if ahead == 0:
                    self.assertGreaterEqual(counts["consumer_waited"], counts["python_mapping"])
                self.assertIn(f"the consumer waited {counts['consumer_waited']:.2f} s", pipeline.summary())
        counts = {"batches": 4, "records": 8, "bytes": 2e6, "malformed": 0, "seconds": 2.0, "consumer_waited": 1.0}
        counts |= {"python_mapping": 1.5, "cache_opened": 0, "cache_refused": 0}
        head = "input: 4 batches, 8 samples, 2.0 MB in 2.00 s (4 samples/s); the consumer waited 1.00 s (50 %); "
        functions = "the slowest stage is the functions of maps (1.50 s in one thread)"
        for library_waited, is_ahead, expected in (
            (0.1, False, f"{functions}; map_ahead would let a thread call them while the trainer works"),
            (0.1, True, functions),
            (1.6, True, "the slowest stage is parsing"),
        ):
            with self.subTest(expected=expected):
                text = summarize(counts, library_waited, "the slowest stage is parsing", is_ahead)
                self.assertEqual(text, head + expected)
        for changed in ({"seconds": 0.99}, {"batches": 0}):
            self.assertNotIn("stage", summarize(counts | changed, 0.1, "the slowest stage is parsing", False))
        counts.update(malformed=1, consumer_waited=0.01, cache_opened=2, cache_refused=3)
        self.assertRegex(
            summarize(counts, 1.6, "the slowest stage is parsing", True),
            r"waited 0.01 s \(0 %\); the consumer is the slowest stage; 1 malformed records were left out; 2 times a file came "
            r"from the cache; 3 times the cache could not keep a file \(warnings\(\) says why\)$",
        )

    def test_a_program_ends_that_closes_nothing(self):
        program = f"""
            from rueda import data
            pipeline = data.Pipeline({str(self.numbers())!r}, data.Csv([data.CsvColumn("n")], header=False), 1,
                                     maps=[lambda batch: None], map_ahead=2, epochs=0)
            print(next(iter(pipeline))["n"])
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=LIMIT
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "[0.]\n", ""))

    def test_memory_of_batches_is_used_again(self):
        pipeline = data.Pipeline(self.numbers(400), FORMAT, 8, maps=[with_square], map_ahead=1, threads=1, prefetch=1)
        addresses = {batch["n"].__array_interface__["data"][0] for batch in pipeline}
        self.assertLess(len(addresses), 20)  # of 50 batches


class Writer(WithFolder):
    FEATURES = (
        data.Feature("label"),
        data.Feature("ids", "int64", 3),
        data.Feature("few", "float32", 0),
        data.Feature("name", "uint8"),
        data.Feature("pair", "uint8", 2),
    )

    def read(self, path):
        (batch,) = data.Pipeline(path, data.Examples(self.FEATURES), 100)
        return batch

    def test_examples_are_read_as_they_were_written(self):
        batch = {
            "label": np.array([0.5, 1, 2]),
            "ids": np.arange(9).reshape(3, 3) - 4,
            "few": data.Ragged(np.array([1, 2, 3], "float32"), np.array([0, 2, 2, 3])),
            "name": ["one", b"zero\0\0", "déjà"],
            "pair": np.array([["a", "b"], ["c", ""], ["e", "f"]]),
        }
        for name in ("plain.tfrecord", "packed.tfrecord.gz"):
            with self.subTest(name=name):
                with data.TfrecordWriter(self.folder / name) as writer:
                    writer.write_examples(batch)
                    writer.write_example(
                        {"label": 3.0, "ids": (7, 8, 9), "few": [], "name": "last", "pair": ["g", b"h"], "ignored": 1}
                    )
                read = self.read(self.folder / name)
                self.assertEqual(read["label"].tolist(), [0.5, 1, 2, 3])
                self.assertEqual(read["ids"].tolist(), [[-4, -3, -2], [-1, 0, 1], [2, 3, 4], [7, 8, 9]])
                self.assertEqual([row.tolist() for row in read["few"]], [[1, 2], [], [3], []])
                self.assertEqual(read["name"].texts(), [b"one", b"zero\0\0", "déjà".encode(), b"last"])
                self.assertEqual(read["pair"].texts(), [b"a", b"b", b"c", b"", b"e", b"f", b"g", b"h"])
                self.assertEqual(read["pair"].width, 2)
        with data.TfrecordWriter(self.folder / "again.tfrecord") as writer:
            writer.write_examples(read)  # a batch of a pipeline
        again = self.read(self.folder / "again.tfrecord")
        for name, values in read.items():
            if isinstance(values, data.Ragged):
                np.testing.assert_array_equal(values.offsets, again[name].offsets, strict=True)
                np.testing.assert_array_equal(values.values, again[name].values, strict=True)
            else:
                np.testing.assert_array_equal(values, again[name], strict=True)

    def test_records_of_bytes(self):
        records = [b"", b"one", bytes(range(256)) * 20]
        path = self.folder / "records"
        writer = data.TfrecordWriter(path)
        for record in records:
            writer.write(record)
        writer.close()
        writer.close()
        (batch,) = data.Pipeline(path, data.Tfrecords(), 10)
        self.assertEqual(batch["record"].texts(), records)
        with self.assertRaisesRegex(rueda.InvalidArgument, "the file is already closed"):
            writer.write(b"more")

    def test_errors(self):
        with self.assertRaisesRegex(rueda.InvalidArgument, "/there/is/no/folder/a"):
            data.TfrecordWriter("/there/is/no/folder/a")
        with self.assertRaisesRegex(rueda.InvalidArgument, "the compression is 'lz4'"):
            data.TfrecordWriter(self.folder / "a", "lz4")
        with self.assertRaises(rueda.Unsupported):
            data.TfrecordWriter(self.folder / "a.zst")
        writer = data.TfrecordWriter(self.folder / "a")
        for batch, message in (
            ({"a": np.zeros(2), "b": np.zeros(3)}, "different numbers of samples: a: 2, b: 3"),
            ({"a": np.zeros(2, "complex64")}, "feature 'a' has dtype complex64"),
            ({"a": np.full(2, 2**63, "uint64")}, "feature 'a' has dtype uint64"),
            ({"a": 3}, "feature 'a' is 3; expected a value for each sample"),
            ({"a": data.Ragged(np.zeros(2), np.array([0, 3, 2]))}, "offsets that decrease"),
            ({"a": data.Ragged(np.zeros(2), np.array([0, 3]))}, "8 bytes; expected at least 3 values"),
            ({7: np.zeros(2)}, "the name of a feature is 7"),
            ({"a": np.array(["b", 3], object)}, r"feature 'a': element 1 is 3 \(int\); expected str or bytes"),
        ):
            with self.subTest(message=message), self.assertRaisesRegex(rueda.InvalidArgument, message):
                writer.write_examples(batch)
        with self.assertRaisesRegex(rueda.InvalidArgument, "it has no features"):
            writer.write_example({})
        with self.assertRaisesRegex(rueda.InvalidArgument, "use write_examples"):
            writer.write_example({"a": data.Ragged(np.zeros(2), np.array([0, 2]))})
        if pathlib.Path("/dev/full").exists():
            full = data.TfrecordWriter("/dev/full")
            full.write(b"some bytes")
            with self.assertRaisesRegex(rueda.ResourceExhausted, "/dev/full"):
                full.close()


if __name__ == "__main__":
    unittest.main()
