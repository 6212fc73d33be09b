# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests rueda.data.Pipeline with safetensors files and with whole files, and rueda.data.Decode."""

import json
import pathlib
import struct
import tempfile
import threading
import unittest

import numpy as np
import rueda
from rueda import data, training

NAMES = {"float32": "F32", "uint8": "U8", "int64": "I64", "int32": "I32", "float16": "F16", "bool": "BOOL"}


def safetensors(**tensors) -> bytes:
    """Returns the bytes of a file with these arrays, written after the format's description."""
    header, content = {}, b""
    for name, array in tensors.items():
        place = [len(content), len(content) + array.nbytes]
        header[name] = {"dtype": NAMES[array.dtype.name], "shape": list(array.shape), "data_offsets": place}
        content += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content


class WithFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rueda-files-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def batches(self, source, format, batch=4, **options):
        with data.Pipeline(source, format, batch, **options) as pipeline:
            return list(pipeline)


class Safetensors(WithFolder):
    def setUp(self):
        super().setUp()
        self.images = np.random.default_rng(1).integers(0, 256, (10, 2, 3), np.uint8)
        self.halves = (np.arange(10) / 8).astype(np.float16)
        labels = np.arange(10, dtype=np.int32)
        for part in (slice(0, 4), slice(4, 10)):
            content = safetensors(image=self.images[part], half=self.halves[part], label=labels[part])
            (self.folder / f"{part.start}.safetensors").write_bytes(content)
        self.format = data.Safetensors(
            [data.ArrayColumn("label", "int64"), data.ArrayColumn("image", "uint8", 6), data.ArrayColumn("half")]
        )

    def test_rows_are_samples(self):
        batches = self.batches(self.folder / "*.safetensors", self.format)
        self.assertEqual([len(batch["label"]) for batch in batches], [4, 4, 2])
        labels = np.concatenate([batch["label"] for batch in batches])
        self.assertEqual(labels.dtype, np.int64)
        np.testing.assert_array_equal(labels, np.arange(10))
        images = np.concatenate([batch["image"] for batch in batches])
        self.assertEqual((images.dtype, images.shape), (np.uint8, (10, 6)))
        np.testing.assert_array_equal(images.reshape(10, 2, 3), self.images)
        np.testing.assert_array_equal(np.concatenate([batch["half"] for batch in batches]), self.halves)

    def test_columns_that_the_files_do_not_have_are_an_error_whatever_the_limit(self):
        for column, reason in (
            (
                data.ArrayColumn("labels"),
                r"4\.safetensors': there is no tensor 'labels'; the file has 'image', 'half', 'label'",
            ),
            (
                data.ArrayColumn("image", "uint8", 5),
                r"'image' has dtype uint8 and shape \[6, 2, 3\]; expected 5 values",
            ),
        ):
            with self.assertRaisesRegex(rueda.InvalidArgument, reason):
                self.batches(self.folder / "4.safetensors", data.Safetensors([column]), malformed_limit=100)

    def test_ranks_share_the_rows_of_a_shuffled_epoch(self):
        seen = []
        for rank in range(3):
            for batch in self.batches(
                self.folder / "*.safetensors", self.format, 5, rank=rank, size=3, shuffle=10, seed=4
            ):
                np.testing.assert_array_equal(batch["image"].reshape(-1, 2, 3), self.images[batch["label"]])
                seen += batch["label"].tolist()
        self.assertNotEqual(seen, sorted(seen))
        self.assertEqual(sorted(seen), list(range(10)))

    def test_checkpoints_are_sources_and_their_checksums_are_checked(self):
        rueda.init()
        self.addCleanup(rueda.shutdown)
        manager = training.CheckpointManager(self.folder / "run")
        manager.save(1, {"x": np.arange(12, dtype=np.float32).reshape(6, 2)})
        manager.wait()
        (path,) = (self.folder / "run").glob("*/model.safetensors")
        format = data.Safetensors([data.ArrayColumn("x", width=2)])
        (batch,) = self.batches(path, format, 6)
        np.testing.assert_array_equal(batch["x"], np.arange(12).reshape(6, 2))
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        with self.assertRaisesRegex(rueda.InvalidArgument, "model.safetensors.*checksum"):
            self.batches(path, format, 6)
        self.assertEqual(len(self.batches(path, data.Safetensors(format.tensors, check_data=False), 6)), 1)

    def test_wrong_columns(self):
        for column, reason in (
            (data.ArrayColumn("none"), "there is no tensor 'none'; the file has 'image', 'half', 'label'"),
            (data.ArrayColumn("image", "uint8", 5), "expected 5 values in each row"),
            (data.ArrayColumn("half", "int64"), "does not fit its column of dtype int64"),
        ):
            with self.subTest(reason), self.assertRaisesRegex(rueda.InvalidArgument, reason):
                self.batches(self.folder / "*.safetensors", data.Safetensors([column]))


def numbers(name, content):
    """Stands for an image decoder. The content of the file is a number as text."""
    return {"row": np.full((2, 2), int(content)), "half": int(content) / 2, "stem": np.float32(pathlib.Path(name).stem)}


class Memory(WithFolder):
    def test_arrays_in_resident_memory(self):
        (self.folder / "a.csv").write_text("x\n1\n2\n3\n")
        arguments = (self.folder / "a.csv", data.Csv([data.CsvColumn("x")]), 2)
        with self.assertRaises(rueda.NotInitialized):
            self.batches(*arguments, memory="resident")
        rueda.init()
        self.addCleanup(rueda.shutdown)
        first, second = self.batches(*arguments, memory="resident")
        self.assertEqual((first["x"].tolist(), second["x"].tolist()), ([1, 2], [3]))
        # With memory="resident", both arrays must lie in the mapped file that rueda.empty() also uses.
        name = mapping_of(rueda.empty(1))
        self.assertEqual([mapping_of(each["x"]) for each in (first, second)], [name, name])
        self.assertNotEqual(mapping_of(self.batches(*arguments)[0]["x"]), name)
        with self.assertRaisesRegex(
            rueda.InvalidArgument, "'memory' is 'shared'; it must be one of ordinary, resident, pinned"
        ):
            self.batches(*arguments, memory="shared")
        bytes_of_ints = rueda.data.Csv([rueda.data.CsvColumn("x", "int8")])
        with self.assertRaisesRegex(rueda.InvalidArgument, "column 'x': 'dtype' is 'int8'; it must be one of float32"):
            rueda.data.Pipeline(rueda.data.memory("rows", b"x\n1\n"), bytes_of_ints, 1)


def mapping_of(array):
    """Returns the name of the file that is mapped into memory at the array's address."""
    address = array.__array_interface__["data"][0]
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(text, 16) for text in line.split()[0].split("-"))
        if begin <= address < end:
            return " ".join(line.split()[4:])
    raise AssertionError(f"no mapping has the address {address}")


class WholeFiles(WithFolder):
    def setUp(self):
        super().setUp()
        for number in range(9):
            (self.folder / f"{number}.txt").write_text(str(number))

    def decoded(self, decode, batch=4, **options):
        return self.batches(self.folder / "*.txt", data.WholeFiles(), batch, maps=[decode], **options)

    def test_names_and_bytes(self):
        first, _, last = self.batches(self.folder / "*.txt", data.WholeFiles())
        self.assertEqual(first["bytes"].texts(), [b"0", b"1", b"2", b"3"])
        self.assertEqual(last["name"].texts(), [str(self.folder / "8.txt").encode()])

    def test_decode(self):
        threads = set()

        def decode(name, content):
            threads.add(threading.get_ident())
            return numbers(name, content)

        batches = self.decoded(data.Decode(decode, threads=3), shuffle=9)
        self.assertEqual(set(batches[0]), {"name", "row", "half", "stem"})
        self.assertEqual((batches[0]["row"].shape, batches[2]["row"].shape), ((4, 2, 2), (1, 2, 2)))
        stems = np.concatenate([batch["stem"] for batch in batches])
        self.assertEqual(sorted(stems), list(range(9)))
        np.testing.assert_array_equal(np.concatenate([batch["row"][:, 1, 0] for batch in batches]), stems)
        np.testing.assert_array_equal(np.concatenate([batch["half"] for batch in batches]), stems / 2)
        self.assertEqual(stems.dtype, np.float32)
        self.assertNotIn(threading.get_ident(), threads)

    def test_an_error_names_the_file(self):
        (self.folder / "5.txt").write_text("five")
        for ahead in (0, 2):
            with self.assertRaisesRegex(data.MapFailed, r"decoding '.*5\.txt': ValueError: .*'five'") as raised:
                self.decoded(data.Decode(numbers), map_ahead=ahead)
            self.assertIsInstance(raised.exception.__cause__, data.DecodeFailed)
            self.assertEqual(raised.exception.__cause__.name, str(self.folder / "5.txt"))

    def test_files_are_left_out_up_to_a_limit(self):
        for number in (2, 5):
            (self.folder / f"{number}.txt").write_text("?")
        decode = data.Decode(numbers, malformed_limit=2)
        batches = self.decoded(decode)
        self.assertEqual([batch["stem"].tolist() for batch in batches], [[0, 1, 3], [4, 6, 7], [8]])
        self.assertEqual([len(batch["name"]) for batch in batches], [3, 3, 1])
        self.assertEqual(decode.left_out, 2)
        with self.assertRaisesRegex(data.MapFailed, r"5\.txt"):
            self.decoded(data.Decode(numbers, malformed_limit=1))
        first, _ = self.decoded(data.Decode(lambda name, content: {"row": 1 / max(0, int(content) - 4)}, 0, 7), 5)
        # the function failed for every file of the first batch
        self.assertEqual((list(first), len(first["name"])), (["name"], 0))

    def test_a_file_that_is_left_out_in_each_epoch_counts_once(self):
        for number in (2, 5):
            (self.folder / f"{number}.txt").write_text("?")
        decode = data.Decode(numbers, malformed_limit=2)
        with data.Pipeline(self.folder / "*.txt", data.WholeFiles(), 4, epochs=3, maps=[decode]) as pipeline:
            self.assertEqual([sum(len(batch["stem"]) for batch in pipeline) for _epoch in range(3)], [7, 7, 7])
            self.assertEqual((decode.left_out, pipeline.warnings()), (6, []))

    def test_a_batch_whose_files_were_all_left_out_is_a_warning(self):
        for number in (2, 3):
            (self.folder / f"{number}.txt").write_text("?")
        for options in ({}, {"remainder": "pad"}, {"map_ahead": 2}):
            decode = data.Decode(numbers, malformed_limit=2)
            with data.Pipeline(
                self.folder / "*.txt", data.WholeFiles(), 2, epochs=2, maps=[decode], **options
            ) as pipeline:
                with self.assertLogs("rueda.data", "WARNING") as logged:
                    for _epoch in range(2):
                        list(pipeline)
                (warning,) = pipeline.warnings()
            self.assertRegex(
                warning, r"no samples in step 1 of epoch 0 .*because maps\[0\] \(Decode\) left all of them out"
            )
            self.assertEqual(len(logged.records), 1)
            self.assertIn(warning, logged.output[0])

    def test_a_batch_without_files(self):
        (batch,) = self.decoded(data.Decode(numbers), 9, size=9, rank=3)
        self.assertEqual(batch["row"].shape, (1, 2, 2))
        decode = data.Decode(numbers)
        full, empty = self.decoded(decode, 8, size=8, rank=0)  # rank 0 gets no row of the last file
        self.assertEqual((full["row"].shape, empty["row"].shape, len(empty["name"])), ((1, 2, 2), (0, 2, 2), 0))

    def test_padding(self):
        (self.folder / "2.txt").write_text("?")
        options = {"batch": 6, "size": 2, "remainder": "pad", "weights": "counts"}
        for rank, stems, counts in (
            (0, [0, 1, 0, 6, 0, 0], [1, 1, 0, 1, 0, 0]),
            (1, [3, 4, 5, 7, 8, 0], [1, 1, 1, 1, 1, 0]),
        ):
            decode = data.Decode(numbers, malformed_limit=1)
            batches = self.decoded(decode, rank=rank, **options)
            self.assertEqual([stem for batch in batches for stem in batch["stem"].tolist()], stems)
            self.assertEqual([count for batch in batches for count in batch["counts"].tolist()], counts)
            self.assertEqual([batch["row"].shape for batch in batches], [(3, 2, 2)] * 2)
            self.assertEqual([len(batch["name"]) for batch in batches], [3, 3])

    def test_one_decode_in_several_pipelines(self):
        decode = data.Decode(numbers)
        for weights in ("counts", "more"):
            for batch in self.decoded(decode, 6, remainder="pad", weights=weights):
                self.assertEqual(set(batch), {"name", "row", "half", "stem", weights})
        last = self.decoded(decode, 6)[-1]
        self.assertEqual((set(last), len(last["stem"])), ({"name", "row", "half", "stem"}, 3))

    def test_the_column_of_weights_is_neither_lost_nor_overwritten(self):
        decode = data.Decode(numbers)
        with self.assertRaisesRegex(data.MapFailed, r"Decode.*'stem', which is also the name of the column of weights"):
            self.decoded(decode, remainder="pad", weights="stem")
        with self.assertRaisesRegex(data.MapFailed, r"also has the columns weight, which would be lost"):
            self.decoded(lambda batch: decode(batch), remainder="pad")
        last = self.decoded(lambda batch: decode(batch, weights="weight"), 6, remainder="pad")[-1]
        self.assertEqual(last["weight"].tolist(), [1, 1, 1, 0, 0, 0])

    def test_a_sample_without_a_name_is_not_padding(self):
        batch = {
            "name": data.Ragged(np.frombuffer(b"b", np.uint8), np.array([0, 0, 1])),
            "bytes": data.Ragged(np.frombuffer(b"34", np.uint8), np.array([0, 1, 2])),
        }
        decode = data.Decode(lambda name, content: {"name_of": name, "content": int(content)})
        decoded = decode(batch)
        self.assertEqual((decoded["name_of"].tolist(), decoded["content"].tolist()), (["", "b"], [3, 4]))
        with self.assertRaisesRegex(rueda.InvalidArgument, "memory: name is empty"):
            data.memory("", b"")

    def test_results_that_do_not_fit_together(self):
        def of_different_shape(name, content):
            return {"row": np.zeros(3 if int(content) == 6 else 2)}

        with self.assertRaisesRegex(data.MapFailed, r"6\.txt': column 'row' is an array of shape \(3,\)"):
            self.decoded(data.Decode(of_different_shape))

        def without_column(name, content):
            return {"row": 1} if int(content) == 6 else {"row": 1, "label": 0}

        with self.assertRaisesRegex(data.MapFailed, r"6\.txt': column 'label' is missing"):
            self.decoded(data.Decode(without_column))

    def test_arguments(self):
        with self.assertRaisesRegex(rueda.InvalidArgument, "function is 3"):
            data.Decode(3)
        with self.assertRaisesRegex(rueda.InvalidArgument, "threads is -1"):
            data.Decode(numbers, threads=-1)
        with self.assertRaisesRegex(data.MapFailed, r"set the format to WholeFiles"):
            self.batches(self.folder / "*.txt", data.Lines(), maps=[data.Decode(numbers)])


if __name__ == "__main__":
    unittest.main()
