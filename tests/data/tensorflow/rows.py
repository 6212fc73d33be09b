# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The samples that TensorFlow writes in these tests, and how the program of rows_main.cpp shows them."""

import os
import pathlib
import struct
import subprocess

#: Files of this folder that TensorFlow 2.21 wrote, and their compression. The command "test_tensorflow.py write FOLDER"
#: makes these files. The reader recognises the compression by the end of the file's name. The end ".gz" also stands for
#: TensorFlow's ZLIB.
FILES = {"plain": "", "packed.gz": "GZIP", "zlib.gz": "ZLIB"}
FOLDER = pathlib.Path(__file__).parent
SAMPLES = 40


def samples(count: int = SAMPLES):
    for i in range(count):
        numbers = [i / 3 + k for k in range(i % 5)]
        yield i % 2, [i, i * 1000003, -i], numbers, f"text {i}"


def run(command: str, path: str) -> str:
    """Runs the program DATA_ROWS, which reads or writes a file with Rueda."""
    return subprocess.run([os.environ["DATA_ROWS"], command, path], check=True, capture_output=True, text=True).stdout


def as_float32(number: float) -> float:
    return struct.unpack("f", struct.pack("f", number))[0]


def check(case, path: pathlib.Path, count: int = SAMPLES) -> None:
    """Checks that Rueda reads the samples from the file. `case` is the unittest.TestCase."""
    rows = run("read", str(path)).splitlines()
    case.assertEqual(len(rows), count)
    for row, (label, ids, numbers, text) in zip(rows, samples(count), strict=True):
        words = row.split(" ")
        case.assertEqual(float(words[0]), label)
        case.assertEqual([int(word) for word in words[1:4]], ids)
        case.assertEqual([as_float32(float(word)) for word in words[4:-2]], [as_float32(n) for n in numbers])
        case.assertEqual(" ".join(words[-2:]), text)
