# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests rueda.data.Pipeline: the columns of each format, memory, the ranks' shares, resume, errors and signals."""

import contextlib
import gc
import gzip
import inspect
import io
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

import numpy as np
import rueda
from rueda import data

LIMIT = 60  # the maximum number of seconds for a wait; on an idle machine, every wait is much shorter


def crc32c(content: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in content:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def masked(content: bytes) -> bytes:
    value = crc32c(content)
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def tfrecord(content: bytes) -> bytes:
    head = struct.pack("<Q", len(content))
    return head + masked(head) + content + masked(content)


def field(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def example(**features) -> bytes:
    """Returns a serialised tf.train.Example. Each feature is a list of floats, of integers below 128, or of bytes."""
    entries = b""
    for name, values in features.items():
        if isinstance(values[0], float):
            kind = field(2, field(1, struct.pack(f"<{len(values)}f", *values)))
        elif isinstance(values[0], int):
            kind = field(3, field(1, bytes(values)))
        else:
            kind = field(1, b"".join(field(1, value) for value in values))
        entries += field(1, field(1, name.encode()) + field(2, kind))
    return field(1, entries)


class WithFiles(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, content):
        (self.folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return self.folder / name

    def one(self, path, format, **options):
        """Reads a file whose samples fit into one batch, and returns this batch."""
        (batch,) = data.Pipeline(path, format, 100, **options)
        return batch


class Formats(WithFiles):
    def test_examples(self):
        records = [
            example(x=[0.5, 1.5], ids=[1, 2, 3], text=[b"one"], label=[7]),
            example(x=[2.5, 3.5], ids=[4], text=[b""]),
        ]
        path = self.write("a.tfrecord", b"".join(map(tfrecord, records)))
        batch = self.one(
            path,
            data.Examples(
                [
                    data.Feature("x", length=2),
                    data.Feature("ids", "int64", 0),
                    data.Feature("text", "uint8"),
                    data.Feature("label", "int64", missing=-1),
                ]
            ),
        )
        self.assertEqual(list(batch), ["x", "ids", "text", "label"])
        np.testing.assert_array_equal(batch["x"], np.array([[0.5, 1.5], [2.5, 3.5]], "float32"), strict=True)
        np.testing.assert_array_equal(batch["label"], np.array([7, -1]), strict=True)
        self.assertEqual([row.tolist() for row in batch["ids"]], [[1, 2, 3], [4]])
        self.assertEqual(batch["ids"].offsets.tolist(), [0, 3, 4])
        self.assertEqual(batch["text"].texts(), [b"one", b""])
        self.assertEqual(self.one(path, data.Tfrecords())["record"].texts(), records)

    def test_libsvm(self):
        path = self.write("a.libsvm", "1 qid:5 3:0.5 7:2\n0 qid:6\n")
        batch = self.one(path, data.Libsvm(one_based=True, query_ids=True))
        self.assertEqual(batch["label"].tolist(), [1, 0])
        self.assertEqual(batch["qid"].tolist(), [5, 6])
        self.assertEqual([row.tolist() for row in batch["index"]], [[2, 6], []])
        self.assertEqual([row.tolist() for row in batch["value"]], [[0.5, 2.0], []])
        with self.assertRaises(IndexError):
            batch["value"][2]

    def test_csv(self):
        path = self.write("a.csv.gz", gzip.compress(b'name;age;n\n"a;b";;1\nc;2.5;2\n'))
        columns = [
            data.CsvColumn("n", "int64"),
            data.CsvColumn("age", "float64", float("nan")),
            data.CsvColumn("name", "uint8"),
        ]
        batch = self.one(path, data.Csv(columns, separator=";"))
        np.testing.assert_array_equal(batch["n"], np.array([1, 2]), strict=True)
        np.testing.assert_array_equal(batch["age"], np.array([np.nan, 2.5]), strict=True)
        self.assertEqual(batch["name"].texts(), [b"a;b", b"c"])

    def test_missing_numbers_may_be_infinite(self):
        path = self.write("a.csv", "x,y,z\n,,\n")
        inf = float("inf")
        columns = [
            data.CsvColumn("x", "float32", inf),
            data.CsvColumn("y", "float64", -inf),
            data.CsvColumn("z", missing=0.5),
        ]
        batch = self.one(path, data.Csv(columns))
        self.assertEqual([batch[name].tolist() for name in "xyz"], [[inf], [-inf], [0.5]])

    def test_integers_of_numpy(self):
        path = self.write("a.txt", "one\ntwo\nthree\n")
        pipeline = data.Pipeline(path, data.Lines(), np.int64(2), seed=np.uint64(2**63 + 1), epochs=np.int8(1))
        self.assertEqual([len(batch["line"]) for batch in pipeline], [2, 1])

    def test_lines(self):
        self.assertEqual(self.one(self.write("a.txt", "one\n\ntwo"), data.Lines())["line"].texts(), [b"one", b"two"])

    def test_a_fifo(self):
        path = self.folder / "fifo"
        os.mkfifo(path)
        writer = subprocess.Popen(["sh", "-c", 'printf "1 2:3\\n" > "$0"', path])
        self.assertEqual(self.one(data.fifo(path), data.Libsvm())["index"].values.tolist(), [2])
        self.assertEqual(writer.wait(LIMIT), 0)

    def test_several_fifos_are_lanes(self):
        # Each rank opens only its own FIFOs, so the two pipelines of this process do not disturb each other.
        paths, writers = [self.folder / name for name in ("first", "second")], []
        for number, path in enumerate(paths, start=1):
            os.mkfifo(path)
            writers.append(subprocess.Popen(["sh", "-c", f'printf "{number} 2:3\\n" > "$0"', path]))
        sources = [data.fifo(path) for path in paths]
        for rank in range(2):
            (batch,) = data.Pipeline(sources, data.Libsvm(), 2, rank=rank, size=2, lanes=2)
            self.assertEqual(batch["label"].tolist(), [rank + 1])
        self.assertEqual([writer.wait(LIMIT) for writer in writers], [0, 0])

    def test_several_sources(self):
        for name in "cab":
            self.write(f"{name}.txt", name)
        path = self.folder / "fifo"
        os.mkfifo(path)
        for sources, expected in (
            ([self.folder / "c.txt", self.folder / "[ab].txt"], b"abc"),  # patterns are sorted
            ([data.files(self.folder / "c.txt"), self.folder / "[ab].txt"], b"cab"),
            ([data.fifo(path), self.folder / "a.txt"], b"fa"),
        ):
            if expected.startswith(b"f"):
                writer = subprocess.Popen(["sh", "-c", 'echo f > "$0"', path])
                self.addCleanup(writer.wait, LIMIT)
            self.assertEqual(b"".join(self.one(sources, data.Lines())["line"].texts()), expected)

    def test_the_description_of_a_sagemaker_channel(self):
        description = data.sagemaker_channel("train", "gzip").description
        self.assertEqual(description, {"kind": "sagemaker", "channel": "train", "compression": "gzip"})

    def test_bytes_in_memory(self):
        plain = b"1,2\n3,4\n"
        form = data.Csv([data.CsvColumn("x"), data.CsvColumn("y", "int64")], header=False)
        batch = self.one(data.memory("rows", plain), form)
        self.assertEqual((batch["x"].tolist(), batch["y"].tolist()), ([1, 3], [2, 4]))
        for source in (
            data.memory("rows.gz", bytearray(gzip.compress(plain)), "automatic"),
            data.memory("rows", memoryview(gzip.compress(plain)), "gzip"),
        ):
            self.assertEqual(self.one(source, form)["x"].tolist(), [1, 3])
        self.assertEqual(list(data.Pipeline(data.memory("nothing", b""), form, 2)), [])
        with self.assertRaisesRegex(rueda.InvalidArgument, "reading 'rows', record 1 at offset 4: .*'y'"):
            self.one(data.memory("rows", b"1,2\n3,z\n"), form)
        with self.assertRaisesRegex(rueda.InvalidArgument, "content is of type str; expected bytes"):
            data.memory("rows", "1,2")

    def test_a_list_of_sources(self):
        files = self.write("a.txt", "file\n"), self.write("b.txt", "other\n")
        sources = [data.memory("first", b"1\n2\n"), files[0], data.memory("second", b"3\n"), files[1]]
        batch = self.one(sources, data.Lines())
        self.assertEqual(batch["line"].texts(), [b"1", b"2", b"file", b"3", b"other"])
        pipeline = data.Pipeline(sources, data.Lines(), 4, lanes=4)
        state = pipeline.state_dict()
        self.assertEqual(next(iter(pipeline))["line"].texts(), [b"1", b"file", b"3", b"other"])
        pipeline.load_state_dict(state)  # opens the sources anew
        self.assertEqual([len(each["line"]) for each in pipeline], [4, 1])
        self.assertEqual(self.one([files[0], files[0]], data.Lines())["line"].texts(), [b"file"])

    def test_padding(self):
        path = self.write("a.libsvm", "1 2:3\n1 4:5 6:7\n1 8:9\n")
        pipeline = data.Pipeline(path, data.Libsvm(), 2, remainder="pad", weights="counts")
        full, last = pipeline
        self.assertEqual(full["counts"].tolist(), [1, 1])
        np.testing.assert_array_equal(last["counts"], np.array([1, 0], "float32"), strict=True)
        self.assertEqual(last["label"].tolist(), [1, 0])
        self.assertEqual([row.tolist() for row in last["index"]], [[8], []])
        self.assertEqual(pipeline.statistics()["records"], 3)
        self.assertEqual(len(list(data.Pipeline(path, data.Libsvm(), 2, remainder="drop"))), 1)
        for options, text in (
            ({"remainder": "fill"}, "'remainder' is 'fill'"),
            ({"remainder": "pad", "drop_remainder": True}, "drop_remainder is true, and remainder is pad"),
            ({"remainder": "pad", "weights": "label"}, "has the name 'label', like a column of the format"),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(rueda.InvalidArgument, text):
                data.Pipeline(path, data.Libsvm(), 2, **options)

    def test_a_header_in_a_fifo(self):
        path = self.folder / "fifo"
        os.mkfifo(path)
        columns = [data.CsvColumn("x"), data.CsvColumn("y")]
        with self.assertRaisesRegex(rueda.Unsupported, "is a FIFO, whose first row cannot be read twice"):
            data.Pipeline(data.fifo(path), data.Csv(columns), 2)
        writer = subprocess.Popen(["sh", "-c", 'printf "x,y\\n1,2\\n3,4\\n" | tail -n +2 > "$0"', path])
        batch = self.one(data.fifo(path), data.Csv(columns, header=False))
        self.assertEqual(writer.wait(LIMIT), 0)
        self.assertEqual(batch["y"].tolist(), [2, 4])


class Order(WithFiles):
    def setUp(self):
        super().setUp()
        for part in range(3):
            self.write(f"{part}.libsvm", "".join(f"{20 * part + i} 1:1\n" for i in range(20)))
        self.options = {"shuffle": 25, "seed": 3, "epochs": 2}

    def pipeline(self, **options):
        return data.Pipeline(self.folder / "*.libsvm", data.Libsvm(), 8, **{**self.options, **options})

    def test_ranks_share_the_same_batches(self):
        whole = [batch["label"].tolist() for batch in self.pipeline()]
        self.assertEqual(sorted(sum(whole, [])), list(range(60)))
        self.assertNotEqual(whole[0], sorted(whole[0]))
        for size in (2, 3, 4):
            shares = [[batch["label"].tolist() for batch in self.pipeline(rank=r, size=size)] for r in range(size)]
            self.assertEqual([sum(parts, []) for parts in zip(*shares)], whole)

    def test_resume_with_another_number_of_ranks(self):
        pipeline, states, labels = self.pipeline(), [], []
        for _epoch in range(2):
            for batch in pipeline:
                labels.append(batch["label"].tolist())
                states.append(pipeline.state_dict())
        for taken, state in enumerate(states[:-1], start=1):
            parts = []
            for rank in range(2):
                resumed = self.pipeline(rank=rank, size=2)
                resumed.load_state_dict(state)
                rest = [batch["label"].tolist() for batch in resumed]
                if len(rest) + taken < len(labels):
                    rest += [batch["label"].tolist() for batch in resumed]
                parts.append(rest)
            self.assertEqual([one + other for one, other in zip(*parts)], labels[taken:])
            resumed = self.pipeline(state=state)
            self.assertEqual(resumed.state_dict(), state)
            batch = next(batch for _epoch in range(2) for batch in resumed)
            self.assertEqual(batch["label"].tolist(), labels[taken])
        with self.assertRaisesRegex(rueda.InvalidArgument, "seed"):
            self.pipeline(seed=4, state=states[0])
        with self.assertRaisesRegex(rueda.InvalidArgument, "Pipeline: the state 5 is not what state_dict"):
            self.pipeline(state=5)
        with self.assertRaisesRegex(rueda.InvalidArgument, "seed"):
            self.pipeline(seed=4).load_state_dict(states[0])
        pipeline = self.pipeline()
        with self.assertRaisesRegex(rueda.InvalidArgument, "is not what state_dict"):
            pipeline.load_state_dict({"epoch": 1})
        self.assertEqual(pipeline.state_dict(), self.pipeline().state_dict())  # the refused state has changed nothing
        with self.assertRaises(rueda.InvalidArgument):
            pipeline.load_state_dict({"position": "nowhere"})
        with self.assertRaisesRegex(rueda.InvalidArgument, "the pipeline was closed"):
            pipeline.state_dict()

    def test_a_cache_changes_no_batch(self):
        with tempfile.TemporaryDirectory() as made:
            place = pathlib.Path(made)
            for file in range(2):
                rows = "".join(f"{file * 50 + row}\n" for row in range(50))
                (place / f"rows-{file}.csv.gz").write_bytes(gzip.compress(rows.encode()))
            options = {"batch": 8, "epochs": 3, "shuffle": 20, "seed": 3}
            form = data.Csv([data.CsvColumn("number")], header=False)
            plain = data.Pipeline(place / "rows-*", form, **options)
            expected = [[batch["number"].tolist() for batch in plain] for _ in range(3)]
            for cache in ("memory", place / "cache"):
                pipeline = data.Pipeline(place / "rows-*", form, cache=cache, **options)
                self.assertEqual([[batch["number"].tolist() for batch in pipeline] for _ in range(3)], expected)
                self.assertEqual(pipeline.statistics()["cache_opened"], 4)
                self.assertIn("4 times a file came from the cache", pipeline.summary())
            self.assertEqual(sum(path.suffix != ".lock" for path in (place / "cache").glob("[!.]*")), 2)

    def test_loops_are_epochs(self):
        pipeline = self.pipeline(drop_remainder=True)
        first = [next(iter(pipeline))["label"].tolist()]
        first += [batch["label"].tolist() for batch in pipeline]
        second = [batch["label"].tolist() for batch in pipeline]
        self.assertEqual((len(first), len(second)), (7, 7))
        self.assertNotEqual(first, second)
        with self.assertRaisesRegex(rueda.InvalidArgument, "all 2 epochs of the pipeline were taken"):
            iter(pipeline)
        self.assertEqual(pipeline.statistics()["batches"], 14)
        self.assertRegex(pipeline.summary(), "^input: 14 batches, 112 samples, ")
        self.assertEqual(pipeline.warnings(), [])

    def test_a_loop_over_epochs_without_batches_ends(self):
        def batches(pipeline):
            while True:  # as in the documentation
                yield from pipeline

        for content, reason in ((b"1\n" * 5, "too few samples for a batch of 8"), (b"", "the sources have no samples")):
            options = {"drop_remainder": bool(content), "epochs": 0}
            form = data.Csv([data.CsvColumn("x")], header=False)
            pipeline = data.Pipeline(data.memory("rows", content), form, 8, **options)
            with self.assertRaisesRegex(rueda.InvalidArgument, f"epoch 99 .* has no batch, because .*{reason}"):
                next(batches(pipeline))

    def test_a_rank_without_samples(self):
        batches = list(data.Pipeline(self.folder / "0.libsvm", data.Libsvm(), 19, rank=0, size=3))
        self.assertEqual(batches[-1]["label"].shape, (0,))
        self.assertEqual(len(batches[-1]["index"]), 0)


class Memory(WithFiles):
    def setUp(self):
        super().setUp()
        self.write("a.csv", "x\n" + "".join(f"{i}\n" for i in range(2000)))
        self.columns = data.Csv([data.CsvColumn("x")])

    def test_a_rank_without_samples_is_in_the_log_once(self):
        program = """
            import sys
            from rueda import data
            path, rank, remainder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
            pipeline = data.Pipeline(path, data.Lines(), batch=4, rank=rank, size=4, epochs=2, remainder=remainder)
            batches = [batch for _ in range(2) for batch in pipeline]
            print([int(sum(batch.get("weight", [1] * len(batch["line"])))) for batch in batches])
        """
        with tempfile.TemporaryDirectory() as made:
            path = pathlib.Path(made) / "lines"
            path.write_text("a\nb\nc\nd\ne\n")  # the second batch has one sample
            for rank, remainder, rows in (
                (0, "keep", [1, 0, 1, 0]),
                (0, "pad", [1, 0, 1, 0]),
                (3, "keep", [1, 1, 1, 1]),
            ):
                done = subprocess.run(
                    [sys.executable, "-B", "-c", textwrap.dedent(program), str(path), str(rank), remainder],
                    check=True,
                    capture_output=True,
                    text=True,
                    timeout=60,
                )
                self.assertEqual(done.stdout.strip(), str(rows))
                warnings = done.stderr.count("this rank has no samples in step 1 of epoch 0")
                self.assertEqual(
                    (warnings, done.stderr.count("no samples")), (rows.count(0) // 2, rows.count(0) // 2 * 2)
                )

    def test_arrays_outlive_batches_and_pipeline(self):
        with data.Pipeline(self.folder / "a.csv", self.columns, 10) as pipeline:
            kept = [batch["x"][2:5] for batch in pipeline]
        del pipeline
        gc.collect()
        self.assertEqual([row.tolist() for row in kept], [[10 * n + i for i in (2, 3, 4)] for n in range(200)])

    def test_memory_is_used_again_and_aligned(self):
        places = set()
        for batch in data.Pipeline(self.folder / "a.csv", self.columns, 10, threads=1, prefetch=2):
            places.add(batch["x"].ctypes.data)
            self.assertTrue(batch["x"].flags.writeable)
        # There are 200 batches. Most of them use the memory of earlier batches. On a busy machine, more batches are in
        # use at the same time.
        self.assertLess(len(places), 50)
        self.assertEqual({place % 64 for place in places}, {0})

    def test_a_forked_child(self):
        pipeline = data.Pipeline(self.folder / "a.csv", self.columns, 10)
        batch = next(iter(pipeline))
        child = os.fork()
        if child == 0:
            code = 1
            with contextlib.suppress(BaseException):
                try:
                    next(iter(pipeline))
                except rueda.InvalidArgument as error:
                    code = 0 if "not to its child" in str(error) else 2
                # The child process has no threads of the pipeline, so this deletion must not wait for them.
                del pipeline, batch
                gc.collect()
            os._exit(code)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(sum(len(batch["x"]) for batch in pipeline), 1990)
        self.assertEqual(batch["x"].tolist(), list(range(10)))


class Errors(WithFiles):
    def test_malformed_records(self):
        path = self.write("bad.csv", "x\n1\noops\n3\n")
        columns = data.Csv([data.CsvColumn("x")])
        with self.assertRaisesRegex(rueda.InvalidArgument, r"bad\.csv', record 1 at offset .*malformed_limit"):
            self.one(path, columns)
        pipeline = data.Pipeline(path, columns, 10, malformed_limit=1)
        self.assertEqual([batch["x"].tolist() for batch in pipeline], [[1, 3]])
        self.assertEqual(pipeline.statistics()["malformed"], 1)

    def test_arguments(self):
        path = self.write("a.txt", "line\n")
        for arguments, text in (
            ({"source": self.folder / "no*"}, "no\\*"),
            ({"format": "csv"}, "format is 'csv'; expected one of Examples, Libsvm"),
            ({"batch": 0}, "batch"),
            ({"batch": 2.5}, "batch is 2.5; expected a whole number"),
            ({"seed": -1}, "'seed' is not a number"),
            ({"shuffle": "10"}, "shuffle is '10'; expected a whole number"),
            ({"drop_remainder": object()}, "an argument has a wrong type"),
            ({"rank": 2, "size": 2}, "rank"),
            ({"cache": "MEMORY"}, "cache is 'MEMORY'; expected \"memory\" in lower case"),
            ({"memory": "page-locked"}, "'memory' is 'page-locked'"),
            ({"source": data.files(path, compression="rar")}, "'compression' is 'rar'"),
            ({"format": data.Csv([], separator=", ")}, "'separator' is ', '; it must be one byte"),
            ({"format": data.Examples([data.Feature("x", "float16")])}, "'dtype' is 'float16'"),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(rueda.InvalidArgument, text):
                data.Pipeline(**{"source": path, "format": data.Lines(), "batch": 1, **arguments})

    def test_unknown_options(self):
        for options, text in (
            ("[]", "no JSON object"),
            ('{"sources": [], "format": {"type": "lines"}, "batch": 1, "sede": 1}', "there is no option 'sede'"),
            ('{"sources": [], "format": {"type": "lines", "x": 1}, "batch": 1}', "there is no option 'x'"),
            ('{"format": {"type": "lines"}, "batch": 1}', "'sources' is not a list"),
            ('{"sources": [{"kind": "files"}], "format": {"type": "lines"}, "batch": 1}', "'patterns' is not a list"),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(rueda.InvalidArgument, text):
                rueda._native.data_open(options, [], [])

    def test_use_after_close(self):
        pipeline = data.Pipeline(self.write("a.txt", "line\n"), data.Lines(), 1)
        loop = iter(pipeline)
        pipeline.close()
        for use in (pipeline.summary, lambda: next(loop), lambda: iter(pipeline)):
            with self.assertRaisesRegex(rueda.InvalidArgument, "the pipeline was closed"):
                use()

    def test_control_c_interrupts_a_wait(self):
        path = self.folder / "fifo"
        os.mkfifo(path)
        program = f"""
            from rueda import data
            pipeline = data.Pipeline(data.fifo({str(path)!r}), data.Lines(), 1)
            print("waits", flush=True)
            next(iter(pipeline))
        """
        waiting = subprocess.Popen(
            [sys.executable, "-B", "-c", textwrap.dedent(program)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.assertEqual(waiting.stdout.readline(), "waits\n")
        time.sleep(0.3)
        waiting.send_signal(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", waiting.communicate(timeout=LIMIT)[1])


class Documentation(WithFiles):
    def test_every_example_runs(self):
        (self.folder / "more").mkdir()
        for name in ("train-1.csv", "train-2.csv"):
            self.write(name, "label,age\n1,2\n0,3\n")
        path = self.write("a.csv", "label,age\n1,2\n")
        columns = data.Csv([data.CsvColumn("label"), data.CsvColumn("age")])
        things = [
            data.Pipeline,
            data.Ragged,
            data.Ragged.texts,
            data.fifo,
            data.files,
            data.sagemaker_channel,
            data.memory,
        ]
        things += [data.Csv, data.CsvColumn, data.Examples, data.Feature, data.Libsvm, data.Lines, data.Tfrecords]
        things += [data.ArrayColumn, data.Safetensors, data.WholeFiles, data.Decode]
        (self.folder / "a.raw").write_bytes(bytes(28 * 28))
        things += [
            method for name, method in vars(data.Pipeline).items() if inspect.isfunction(method) and name[0] != "_"
        ]
        self.assertGreater(len(things), 18)
        seen = []
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        rueda.init()
        for thing in things:
            with self.subTest(name=thing.__qualname__), contextlib.redirect_stdout(io.StringIO()):
                examples = re.findall(r"Example::\n\n((?:    .*\n?|\n)+)", inspect.getdoc(thing) or "")
                self.assertEqual(len(examples), 1)
                names = {"np": np, "rueda": rueda, "pipeline": data.Pipeline(path, columns, 4)}
                exec(textwrap.dedent(examples[0]), {**names, "train": lambda *arrays: seen.append(len(arrays))})
        rueda.shutdown()
        self.assertEqual(seen, [2, 2])


if __name__ == "__main__":
    unittest.main()
