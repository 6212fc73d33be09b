# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Exchanges TFRecord files with an installed TensorFlow. DATA_ROWS is the program of rows_main.cpp."""

import os
import subprocess
import tempfile
import unittest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

PROGRAM = os.environ["DATA_ROWS"]


def samples():
    for i in range(500):
        numbers = [i / 3 + k for k in range(i % 5)]
        yield i % 2, [i, i * 1000003, -i], numbers, f"text {i}"


def example(label, ids, numbers, text):
    feature = {
        "label": tf.train.Feature(float_list=tf.train.FloatList(value=[label])),
        "ids": tf.train.Feature(int64_list=tf.train.Int64List(value=ids)),
        "numbers": tf.train.Feature(float_list=tf.train.FloatList(value=numbers)),
        "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()])),
        "ignored": tf.train.Feature(int64_list=tf.train.Int64List(value=[7])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def run(command: str, path: str) -> str:
    return subprocess.run([PROGRAM, command, path], check=True, capture_output=True, text=True).stdout


class Exchange(unittest.TestCase):
    def test_files_of_tensorflow_are_read(self):
        # The reader recognises the compression by the end of the file's name. gzip also stands for TensorFlow's ZLIB.
        for kind, name in (("", "plain"), ("GZIP", "packed.gz"), ("ZLIB", "zlib.gz")):
            with self.subTest(compression=kind), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, name)
                with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression_type=kind)) as writer:
                    for sample in samples():
                        writer.write(example(*sample))
                rows = run("read", path).splitlines()
                self.assertEqual(len(rows), 500)
                for row, (label, ids, numbers, text) in zip(rows, samples(), strict=True):
                    words = row.split(" ")
                    self.assertEqual(float(words[0]), label)
                    self.assertEqual([int(word) for word in words[1:4]], ids)
                    self.assertEqual(
                        [float(np.float32(word)) for word in words[4:-2]], [float(np.float32(n)) for n in numbers]
                    )
                    self.assertEqual(" ".join(words[-2:]), text)

    def test_tensorflow_reads_our_files(self):
        for kind, name in (("", "plain"), ("GZIP", "packed.gz")):
            with self.subTest(compression=kind), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, name)
                run("write", path)
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
    unittest.main()
