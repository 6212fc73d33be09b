# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests `rueda evaluate` with checkpoints that rueda.training saves. RUEDA names the program."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np
import rueda
from rueda import training

# A program for `rueda evaluate`. It prints the checkpoint's name, the value in the model's file, and whether the
# state's file has content.
EVALUATE = """
import pathlib, sys
folder = pathlib.Path(sys.argv[-1])
data = (folder / "model.safetensors").read_bytes()
print(folder.name, data[-8:].hex(), (folder / "state.safetensors").stat().st_size > 0, flush=True)
"""


def setUpModule():
    rueda.init()


class Evaluate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="rueda-evaluate-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name, "run")

    def save(self, *steps, **options):
        manager = training.CheckpointManager(self.folder, when_busy="wait", **options)
        for step in steps:
            manager.save(step, {"w": np.array([step], np.uint64)})
        manager.wait()

    def start(self, *options, program=(sys.executable, "-B", "-c", EVALUATE)):
        command = [
            os.environ["RUEDA"],
            "evaluate",
            "--follow",
            self.folder,
            "--interval",
            "0.05",
            *options,
            "--",
            *program,
        ]
        process = subprocess.Popen(
            [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def finish(self, process):
        output, errors = process.communicate(timeout=100)
        return process.returncode, output.splitlines(), errors.splitlines()

    def names(self):
        """Returns the names of the files in the folder, without `in-use`, the file by which the training claims the
        folder."""
        return [path.name for path in self.folder.iterdir() if path.name != "in-use"]

    def line(self, number, step):
        return f"save-{number:06}-step-{step} {step.to_bytes(8, 'little').hex()} True"

    def test_each_checkpoint_in_order_until_a_step(self):
        self.save(10, 20, 30)
        status, output, errors = self.finish(self.start("--until", 30))
        self.assertEqual((status, output), (0, [self.line(1, 10), self.line(2, 20), self.line(3, 30)]))
        self.assertRegex(errors[0], r"^rueda evaluate: save-000001-step-10: exit status 0 after \d+\.\d s$")
        self.assertEqual(len(errors), 3)
        self.assertEqual(sorted(name[:4] for name in self.names()), ["save"] * 3)

    def test_checkpoints_that_come_later(self):
        process = self.start("--until", 2)
        self.assertEqual(
            process.stderr.readline(),
            f"rueda evaluate: waiting for the first checkpoint in {self.folder}, which does not exist yet\n",
        )
        self.save(1)
        self.assertEqual(process.stdout.readline(), self.line(1, 1) + "\n")
        self.save(2)
        self.assertEqual(self.finish(process)[:2], (0, [self.line(2, 2)]))

    def test_only_the_newest(self):
        self.save(10, 20, 30)
        self.assertEqual(self.finish(self.start("--newest", "--until", 30))[1], [self.line(3, 30)])

    def test_the_files_stay_while_the_training_removes_the_checkpoint(self):
        self.save(1)
        waiting = "import sys; print('started', flush=True); sys.stdin.read()"
        # The program waits until its standard input ends, and then reads the files.
        process = subprocess.Popen(
            [os.environ["RUEDA"], "evaluate", "--follow", self.folder, "--until", "1", "--", sys.executable, "-B", "-c"]
            + [waiting + EVALUATE, "{}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "started\n")
        self.save(2, 3, max_to_keep=1)
        self.assertFalse((self.folder / "save-000001-step-1").exists())
        output, _ = process.communicate(timeout=100)
        self.assertEqual((process.returncode, output), (0, self.line(1, 1) + "\n"))
        self.assertEqual(self.names(), ["save-000003-step-3"])

    def test_an_incomplete_checkpoint_is_not_evaluated(self):
        self.save(1)
        (self.folder / "save-000002-step-2").mkdir()
        status, output, errors = self.finish(self.start("--timeout", 0.3))
        self.assertEqual((status, output), (2, [self.line(1, 1)]))
        self.assertRegex(errors[-1], "there was no new checkpoint in .*run for 0.3 s")

    def test_a_failed_evaluation_ends_nothing_and_is_said(self):
        self.save(1, 2)
        failing = "import sys; sys.exit(7 if 'step-1' in sys.argv[1] else 0)"
        status, _, errors = self.finish(self.start("--until", 2, program=(sys.executable, "-c", failing, "{}")))
        self.assertEqual(status, 1)
        self.assertRegex("\n".join(errors), r"step-1: exit status 7 after .*\n.*step-2: exit status 0 after")

    def test_a_program_that_cannot_be_started(self):
        """If the program cannot be started, the command must end at once, because it could not start the program for
        the second checkpoint either."""
        self.save(1, 2)
        status, _, errors = self.finish(self.start(program=("/there/is/no/program",)))
        self.assertEqual((status, len(errors)), (1, 1))
        self.assertIn("/there/is/no/program", errors[0])

    def test_a_signal_ends_the_program_too(self):
        self.save(1)
        process = self.start(program=(sys.executable, "-c", "print('started', flush=True); input()"))
        self.assertEqual(process.stdout.readline(), "started\n")
        timer = threading.Timer(90, process.kill)
        timer.start()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), 128 + signal.SIGTERM)
        timer.cancel()
        self.assertEqual(self.names(), ["save-000001-step-1"])

    def test_wrong_calls(self):
        for arguments, text in (
            (["--", "true"], "--follow is required"),
            (["--follow", "x"], "PROGRAM is required"),
            (["--follow", "x", "--interval", "0", "--", "true"], "--interval"),
        ):
            done = subprocess.run([os.environ["RUEDA"], "evaluate", *arguments], capture_output=True, text=True)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    unittest.main()
