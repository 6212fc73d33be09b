# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests the generator of click data: its files, its distributions, and the best possible AUC that it prints."""

import collections
import math
import unittest

from deepfm_job import DEEPFM_DATA, VOCABULARY, DeepFmTest, run


class Files(DeepFmTest):
    def lines(self, part="train"):
        return [line for path in sorted(self.clicks.glob(f"{part}-*.libsvm")) for line in path.open(encoding="ascii")]

    def test_lines_have_a_label_and_all_fields(self):
        lines = self.lines()
        self.assertEqual(len(lines), 20000)
        self.assertEqual(len(self.lines("test")), 5000)
        for line in lines[:1000]:
            label, *pairs = line.split()
            self.assertIn(label, ("0", "1"))
            ids, values = zip(*(pair.split(":") for pair in pairs), strict=True)
            self.assertEqual([int(each) for each in ids[:13]], list(range(1, 14)))
            self.assertTrue(all(0 <= float(value) < 1 for value in values[:13]))
            self.assertEqual([(int(each) - 14) // VOCABULARY for each in ids[13:]], list(range(26)))
            self.assertEqual(set(values[13:]), {"1"})

    def test_categories_follow_a_power_law(self):
        counts = collections.Counter(int(line.split()[14].split(":")[0]) - 14 for line in self.lines())
        for category in range(VOCABULARY - 1):
            expected = 20000 * math.log((category + 2) / (category + 1)) / math.log(VOCABULARY)
            self.assertLess(abs(counts[category] - expected), 5 * math.sqrt(expected), f"category {category}")

    def test_a_seed_determines_the_files(self):
        run(self.generator(self.folder / "same"))
        run(self.generator(self.folder / "other", "--seed", 2))
        for path in self.clicks.iterdir():
            self.assertEqual(path.read_bytes(), (self.folder / "same" / path.name).read_bytes(), path.name)
            self.assertNotEqual(path.read_bytes(), (self.folder / "other" / path.name).read_bytes(), path.name)

    def test_the_best_auc_agrees_with_the_labels(self):
        # With 5000 samples, the AUC for drawn labels has a standard deviation of about 0.006.
        expected, drawn = self.best
        self.assertLess(abs(expected - drawn), 0.03)
        self.assertGreater(expected, 0.75)
        self.assertLess(expected, 0.9)

    def test_one_format_and_bad_options(self):
        run(
            [DEEPFM_DATA, "--folder", self.folder, "--rows", 10, "--files", 3, "--test-rows", 100, "--format", "libsvm"]
        )
        names = sorted(path.name for path in self.folder.iterdir())
        self.assertEqual(names, ["test-000.libsvm", "test-001.libsvm"] + [f"train-00{i}.libsvm" for i in range(3)])
        self.refused([DEEPFM_DATA, "--rows", 0], "--rows")

    def test_files_of_another_run_are_not_mixed_with_new_ones(self):
        self.refused(self.generator(self.clicks, "--files", 3, "--seed", 2), "'train-003.libsvm'", "would not replace")
        self.refused(self.generator(self.clicks, "--format", "libsvm", "--seed", 2), "'test-000.tfrecord'")
        before = (self.clicks / "test-000.libsvm").read_bytes()
        self.assertEqual(run(self.generator(self.clicks)).returncode, 0)
        self.assertEqual((self.clicks / "test-000.libsvm").read_bytes(), before)

    def test_a_folder_that_cannot_be_made(self):
        self.refused([DEEPFM_DATA, "--folder", "/proc/none"], "--folder /proc/none cannot be made")


if __name__ == "__main__":
    unittest.main(verbosity=2)
