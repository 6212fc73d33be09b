# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Starts the programs of examples/deepfm. The environment variables DEEPFM, DEEPFM_DATA and RUEDARUN have their paths."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import job_environment  # noqa: E402

DEEPFM = os.environ["DEEPFM"]
DEEPFM_DATA = os.environ["DEEPFM_DATA"]
RUEDARUN = os.environ["RUEDARUN"]
TIMEOUT = 120  # seconds; a run takes less than a second on a free core
VOCABULARY = 10
FEATURES = 13 + 26 * VOCABULARY
ENVIRONMENT = job_environment.job_environment()


def run(command, timeout=TIMEOUT) -> subprocess.CompletedProcess:
    words = [str(word) for word in command]
    return subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout)


class DeepFmTest(unittest.TestCase):
    """The base class of the tests. It creates a folder for each test, and click data for each class."""

    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory(prefix="rueda-deepfm-")
        cls.addClassCleanup(holder.cleanup)
        cls.clicks = pathlib.Path(holder.name) / "clicks"
        done = run(cls.generator(cls.clicks))
        assert done.returncode == 0, done.stderr
        cls.best = [float(text) for text in re.findall(r"best AUC ([01]\.\d+)", done.stdout)]

    @staticmethod
    def generator(folder, *options):
        return [DEEPFM_DATA, "--folder", folder, "--rows", 20000, "--test-rows", 5000,
                "--vocabulary", VOCABULARY, *options]  # fmt: skip

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="rueda-deepfm-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def job(self, ranks: int, *options, train=None, test=None):
        """Returns the command line of a training. `train` is a list of files with training samples."""
        paths = train or [self.clicks / "train-*.tfrecord"]
        return [RUEDARUN, "--no-mpi", "-np", ranks, DEEPFM, "--features", FEATURES, "--batch", 200, "--epochs", 1,
                "--test", test or self.clicks / "test-*.tfrecord", "--train", *paths, *options]  # fmt: skip

    def train(self, name: str, ranks: int, *options, **paths) -> tuple[float, list[tuple[int, float]]]:
        """Trains. Returns the AUC, and a list with the number and the loss of each step."""
        curve = self.folder / f"{name}.csv"
        done = run([*self.job(ranks, "--curve", curve, **paths), *options])
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.output = done.stdout
        area = re.search(r"AUC ([01]\.\d{6}) after (\d+) steps", done.stdout)
        self.assertIsNotNone(area, done.stdout)
        steps = self.curve(curve)
        if steps:
            self.assertEqual(int(area.group(2)), steps[-1][0] + 1)
        return float(area.group(1)), steps

    def feed(self, name: str, *parts, epochs=1, begin=None):
        """Makes a FIFO for each epoch. For each FIFO, starts a thread that writes the files `parts` into the FIFO. If
        there is an event `begin`, the threads wait for it first. Returns the pattern of the FIFOs' names.
        """
        for epoch in range(epochs):
            path = self.folder / f"{name}_{epoch}"
            os.mkfifo(path)
            # If the job fails, nobody opens the FIFO, and the thread waits until the test's process ends.
            threading.Thread(target=self.write, args=(path, parts, begin), daemon=True).start()
        return self.folder / f"{name}_{{epoch}}"

    def write(self, fifo, parts, begin):
        if begin is not None:
            begin.wait()
        with open(fifo, "wb") as file:
            for part in parts:
                file.write((self.clicks / part).read_bytes())  # an absolute path stays as it is

    @staticmethod
    def curve(path) -> list[tuple[int, float]]:
        rows = [line.split(",") for line in pathlib.Path(path).read_text().splitlines()]
        assert rows[0] == ["step", "epoch", "loss"]
        return [(int(step), float(loss)) for step, _, loss in rows[1:]]

    def refused(self, command, *words):
        """Runs the command. The test fails unless the exit status is 2 and the program prints exactly one line, which
        contains the words. The launcher may print more lines.
        """
        done = run(command)
        self.assertEqual(done.returncode, 2, done.stderr + done.stdout)
        lines = [
            line for line in done.stderr.splitlines() if re.search(r"deepfm(_data)?: (?!rank \d+ has waited)", line)
        ]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in words:
            self.assertIn(word, lines[0])
