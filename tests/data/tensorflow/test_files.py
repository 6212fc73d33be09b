# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Reads the files of this folder, which TensorFlow wrote. This test needs no TensorFlow."""

import subprocess
import unittest

import rows


class Files(unittest.TestCase):
    def test_files_that_tensorflow_wrote_are_read(self):
        for name in rows.FILES:
            with self.subTest(file=name):
                try:
                    rows.check(self, rows.FOLDER / name)
                except subprocess.CalledProcessError as error:
                    if "this build of Rueda has no" not in error.stderr:
                        raise
                    self.skipTest(error.stderr)


if __name__ == "__main__":
    unittest.main()
