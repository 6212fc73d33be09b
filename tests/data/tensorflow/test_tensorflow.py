# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Exchanges TFRecord files with an installed TensorFlow. DATA_ROWS is the program of rows_main.cpp.

    python test_tensorflow.py write FOLDER

writes the files of rows.FILES, which test_files.py reads without TensorFlow.
"""

import os
import pathlib
import sys
import tempfile
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import rows  # noqa: E402
import tensorflow as tf  # noqa: E402


def example(label, ids, numbers, text):
    feature = {
        "label": tf.train.Feature(float_list=tf.train.FloatList(value=[label])),
        "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=ids)),
        "numbers": tf.train.Feature(float_list=tf.train.FloatList(value=numbers)),
        "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()])),
        "ignored": tf.train.Feature(int64_list=tf.train.Int64List(value=[7])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def write(path: pathlib.Path, compression: str, count: int) -> None:
    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression_type=compression)) as writer:
        for sample in rows.samples(count):
            writer.write(example(*sample))


class Exchange(unittest.TestCase):
    def test_files_of_tensorflow_are_read(self):
        for name, compression in rows.FILES.items():
            with self.subTest(compression=compression), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, name)
                write(path, compression, 500)
                rows.check(self, path, 500)

    def test_tensorflow_reads_our_files(self):
        for kind, name in (("", "plain"), ("GZIP", "packed.gz")):
            with self.subTest(compression=kind), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, name)
                rows.run("write", path)
                features = {
                    "label": tf.io.FixedLenFeature([], tf.float32),
                    "ids": tf.io.FixedLenFeature([3], tf.int64),
                    "numbers": tf.io.RaggedFeature(tf.float32),
                    "text": tf.io.FixedLenFeature([], tf.string),
                }
                dataset = tf.data.TFRecordDataset(path, compression_type=kind)
                count = 0
                for i, record in enumerate(dataset):
                    parsed = tf.io.parse_single_example(record, features)
                    self.assertEqual(float(parsed["label"]), i % 2)
                    self.assertEqual(parsed["ids"].numpy().tolist(), [i, -i, i << 40])
                    self.assertEqual(parsed["numbers"].numpy().tolist(), [i / 8] * (i % 4))
                    self.assertEqual(parsed["text"].numpy(), f"text {i}".encode())
                    count += 1
                self.assertEqual(count, 100)


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        for file, packed in rows.FILES.items():
            write(pathlib.Path(sys.argv[2], file), packed, rows.SAMPLES)
    else:
        unittest.main()
