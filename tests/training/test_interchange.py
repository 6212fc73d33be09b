# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests that checkpoints keep every bit from Python to Rueda and back.

The environment variable CHECKPOINT_COPY names the program.
"""

import os
import random
import subprocess
import tempfile
import unittest

import safetensors_reader

SIZES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "BOOL": 1} | {
    f"{sign}{8 * size}": size for sign in "IU" for size in (8, 4, 2, 1)
}
SHAPES = [[], [1], [3], [2, 0, 5], [2, 3, 4]]


def elements(shape):
    product = 1
    for extent in shape:
        product *= extent
    return product


class Interchange(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.source = os.path.join(self.folder.name, "from.safetensors")
        self.target = os.path.join(self.folder.name, "to.safetensors")

    def copy(self):
        subprocess.run([os.environ["CHECKPOINT_COPY"], self.source, self.target], check=True, timeout=60)

    def test_every_dtype_and_shape_keeps_its_bits(self):
        numbers = random.Random(1)
        tensors = {
            f"{dtype} {shape} ü": (dtype, shape, numbers.randbytes(elements(shape) * size))
            for dtype, size in SIZES.items()
            for shape in SHAPES
        }
        metadata = {"epoch": "3", "ключ": 'quote " and\nline'}
        safetensors_reader.write(self.source, tensors, metadata)
        self.copy()
        found, found_metadata = safetensors_reader.read(self.target)
        self.assertEqual(found, tensors)
        checksums = found_metadata.pop("rueda.checksums")  # the key under which other programs find the checksums
        self.assertRegex(checksums, f"^rueda:xxh3-64( [0-9a-f]{{16}}){{{len(tensors) + 1}}}$")
        self.assertEqual(found_metadata, metadata)

    def test_checksums_survive_a_program_that_writes_the_file_in_another_order(self):
        written = {"b": ("F32", [2], b"12345678"), "a": ("U8", [3], b"abc"), "c": ("U8", [0], b"")}
        safetensors_reader.write(self.source, written, {"epoch": "3"})
        self.copy()
        tensors, metadata = safetensors_reader.read(self.target)
        for order in (sorted(tensors), sorted(tensors, reverse=True)):
            safetensors_reader.write(self.source, {name: tensors[name] for name in order}, metadata)
            self.copy()
            self.assertEqual(safetensors_reader.read(self.target), (tensors, metadata))
        # The data are changed and the checksums are not, so the library must refuse the file.
        changed = tensors | {"a": ("U8", [3], b"abd")}
        safetensors_reader.write(self.source, changed, metadata)
        refused = subprocess.run(
            [os.environ["CHECKPOINT_COPY"], self.source, self.target], capture_output=True, text=True, timeout=60
        )
        self.assertEqual(refused.returncode, 1)
        self.assertIn('the data of tensor "a" have the checksum', refused.stderr)
        self.assertIn('remove "rueda.checksums" from __metadata__', refused.stderr)
        del metadata["rueda.checksums"]
        safetensors_reader.write(self.source, changed, metadata)
        self.copy()

    def test_the_safetensors_package_reads_it(self):
        try:
            import numpy
            from safetensors.numpy import load_file
        except ImportError as missing:
            self.skipTest(f"{missing}: the format is checked by the reader of this folder only")
        values = numpy.arange(6, dtype="<f4").reshape(2, 3)
        safetensors_reader.write(self.source, {"w": ("F32", [2, 3], values.tobytes())}, {"epoch": "1"})
        self.copy()
        loaded = load_file(self.target)
        self.assertEqual(list(loaded), ["w"])
        numpy.testing.assert_array_equal(loaded["w"], values)


if __name__ == "__main__":
    unittest.main(verbosity=2)
