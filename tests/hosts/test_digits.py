# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs the digits example on two hosts with two ranks each."""

import csv
import os
import random

from hosts_job import HostsTest, main

DIGITS = os.environ["DIGITS"]
DATA = os.environ.get("DIGITS_DATA", "")


def make_data(path):
    """Writes a thousand images. Each image is one of ten patterns with random noise. These images are as easy to learn
    as the digits."""
    numbers = random.Random(1)
    patterns = [[numbers.choice((0, 3, 13, 16)) for _ in range(64)] for _ in range(10)]
    with open(path, "w", encoding="ascii") as file:
        for i in range(1000):
            pixels = [min(16, max(0, pixel + numbers.randint(-4, 4))) for pixel in patterns[i % 10]]
            print(*pixels, i % 10, sep=",", file=file)


class Digits(HostsTest):
    count = 2

    def setUp(self):
        super().setUp()
        self.data = DATA
        if not os.path.isfile(DATA):
            self.data = self.folder / "made.csv"
            make_data(self.data)

    def train(self, run, *layout):
        """Runs the example. Returns its folder and its final accuracy."""
        folder = self.folder / run
        self.run_job(layout, DIGITS, "--data", self.data, "--checkpoint-dir", folder, "--epochs", 3)
        with open(folder / "curve.csv", encoding="ascii", newline="") as file:
            return folder, float(list(csv.DictReader(file))[-1]["accuracy"])

    def test_two_runs_are_the_same_and_learn_as_one_host_does(self):
        first, accuracy = self.train("first", 2, 2)
        again, _ = self.train("again", 2, 2)
        for name in ("curve.csv", "digits.safetensors"):
            self.assertEqual((first / name).read_bytes(), (again / name).read_bytes(), name)
        _, on_one_host = self.train("one", 4)
        # Two hosts add in a different order than one host, so they round differently. Therefore the accuracies differ a
        # little.
        self.assertAlmostEqual(accuracy, on_one_host, delta=0.01)
        self.assertGreater(accuracy, 0.9)


if __name__ == "__main__":
    main()
