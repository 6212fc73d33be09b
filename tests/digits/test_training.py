# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests what digits promises: the training has the same result with any number of processes, gives the same bits every
time, and continues exactly after an interruption."""

import os
import pty
import re
import signal
import subprocess
import time
import unittest
import xml.etree.ElementTree

from digits_job import (
    DIGITS,
    ENVIRONMENT,
    HAS_REAL_DATA,
    REAL_DATA,
    DigitsTest,
    alone,
    content,
    direct,
    losses,
    processes_of_digits,
    rows,
    safetensors_reader,
)

DEADLINE = 60  # the limit in seconds for something that usually takes one second


def wait_until(condition, what):
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen in {DEADLINE} s")
        time.sleep(0.01)


class Agreement(DigitsTest):
    def test_losses_agree_at_one_two_and_four_processes(self):
        accuracies = {}
        curves = {}
        for processes in (1, 2, 4):
            run = f"np{processes}"
            self.train(direct, processes, run, "--lr-policy", "none")
            curves[processes] = losses(self.path(run))
            accuracies[processes] = float(rows(self.path(run))[-1]["accuracy"])
        for processes in (2, 4):
            for step, (loss, other) in enumerate(zip(curves[1][:50], curves[processes][:50])):
                self.assertLess(abs(loss - other), 1e-4 * abs(loss), f"step {step} with {processes} processes")
            self.assertLessEqual(abs(accuracies[processes] - accuracies[1]), 0.01)

    def test_a_share_without_images_changes_nothing(self):
        # In each step, 4 processes share 3 images, so one process has no image.
        self.train(direct, 1, "one", "--epochs", "1", "--batch", "3", "--lr", "0.001")
        self.train(direct, 4, "four", "--epochs", "1", "--batch", "3", "--lr", "0.001")
        for loss, other in zip(losses(self.path("one"))[:50], losses(self.path("four"))[:50]):
            self.assertLess(abs(loss - other), 1e-4 * abs(loss))

    def test_two_runs_are_the_same_bits(self):
        for processes in (1, 2, 4):
            with self.subTest(processes=processes):
                for repeat in ("a", "b"):
                    self.train(direct, processes, f"{repeat}{processes}", "--epochs", "3", "--lr-policy", "sqrt")
                self.same_files(f"a{processes}", f"b{processes}")

    def test_another_seed_is_another_training(self):
        self.train(alone, 1, "a", "--epochs", "1", "--seed", "1")
        self.train(alone, 1, "b", "--epochs", "1", "--seed", "2")
        self.assertNotEqual(losses(self.path("a")), losses(self.path("b")))


class Resuming(DigitsTest):
    def test_a_resumed_run_is_the_uninterrupted_one(self):
        for processes in (1, 2):
            with self.subTest(processes=processes):
                policy = ("--lr-policy", "linear", "--warmup-epochs", "3")
                self.train(direct, processes, f"whole{processes}", "--epochs", "4", *policy)
                self.train(direct, processes, f"parts{processes}", "--epochs", "2", *policy)
                self.assertEqual(
                    losses(self.path(f"parts{processes}")),
                    losses(self.path(f"whole{processes}"))[: self.steps(processes) // 2],
                )
                self.train(direct, processes, f"parts{processes}", "--epochs", "4", "--resume", *policy)
                self.same_files(f"whole{processes}", f"parts{processes}")

    def steps(self, processes):
        return len(losses(self.path(f"whole{processes}")))

    def test_a_checkpoint_goes_on_at_another_number_of_processes(self):
        self.train(direct, 2, "run", "--epochs", "1")
        self.copy_run("run", "one")
        self.train(alone, 1, "one", "--epochs", "2", "--resume")
        self.train(direct, 2, "run", "--epochs", "2", "--resume")
        one, two = losses(self.path("one")), losses(self.path("run"))
        self.assertEqual(len(one), len(two))
        for loss, other in zip(one[len(one) // 2 :][:50], two[len(two) // 2 :][:50]):
            self.assertLess(abs(loss - other), 1e-4 * abs(loss))

    def test_a_killed_job_resumes_where_its_last_checkpoint_was(self):
        self.train(alone, 1, "whole", "--epochs", "4")
        checkpoint = self.path("killed", "digits.safetensors")
        job = subprocess.Popen(
            self.program("killed", "--epochs", "100000"), env=ENVIRONMENT, stdout=subprocess.DEVNULL, cwd=self.folder
        )
        self.addCleanup(job.kill)
        wait_until(lambda: os.path.exists(checkpoint), "a first checkpoint")
        job.kill()
        job.wait()
        _, metadata = safetensors_reader.read(checkpoint)
        done = int(metadata["epochs_done"])
        self.train(alone, 1, "killed", "--epochs", str(max(done, 4) + 1), "--resume")
        whole = losses(self.path("whole"))
        self.assertEqual(losses(self.path("killed"))[: len(whole)], whole)

    def test_a_killed_rank_ends_the_job_and_leaves_the_checkpoint(self):
        checkpoint = self.path("run", "digits.safetensors")
        before = set(processes_of_digits())
        job = subprocess.Popen(
            direct(2, self.program("run", "--epochs", "100000")),
            env=ENVIRONMENT,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(job.kill)
        wait_until(lambda: os.path.exists(checkpoint), "a first checkpoint")
        mine = sorted(set(processes_of_digits()) - before)
        self.assertEqual(len(mine), 2)
        os.kill(mine[-1], signal.SIGKILL)
        _, errors = job.communicate(timeout=DEADLINE)
        self.assertEqual(job.returncode, 128 + signal.SIGKILL, errors)
        self.assertIn("digits: Aborted: ", errors)
        wait_until(lambda: not set(mine) & set(processes_of_digits()), "the end of all ranks")
        _, metadata = safetensors_reader.read(checkpoint)
        self.train(direct, 2, "run", "--epochs", str(int(metadata["epochs_done"]) + 1), "--resume")


class Results(DigitsTest):
    @unittest.skipUnless(HAS_REAL_DATA, f"the UCI digits are not at DIGITS_DATA ({REAL_DATA!r})")
    def test_two_processes_reach_97_percent_in_under_a_minute(self):
        begin = time.monotonic()
        output = self.train(direct, 2, "run")
        self.assertLess(time.monotonic() - begin, 60)
        self.assertGreaterEqual(float(re.search(r"^(?:\[0\] )?accuracy ([01]\.\d+)$", output, re.MULTILINE)[1]), 0.97)

    def test_the_end_names_what_there_is(self):
        output = self.train(alone, 1, "run", "--epochs", "2")
        lines = output.splitlines()
        self.assertRegex(lines[-4], r"^accuracy [01]\.\d{4}$")
        self.assertRegex(lines[-3], r"^time \d+\.\d s with 1 process$")
        self.assertEqual(lines[-2], "checkpoint " + self.path("run", "digits.safetensors"))
        self.assertEqual(lines[-1], f"curve {self.path('run', 'curve.svg')} and {self.path('run', 'curve.csv')}")
        self.assertEqual(float(lines[-4].split()[1]), round(float(rows(self.path("run"))[-1]["accuracy"]), 4))

    def test_the_curve_has_every_step(self):
        self.train(alone, 1, "run", "--epochs", "2", "--batch", "100")
        table = rows(self.path("run"))
        self.assertEqual(list(table[0]), ["step", "epoch", "loss", "learning_rate", "accuracy"])
        self.assertEqual([int(row["step"]) for row in table], list(range(len(table))))
        self.assertEqual([row["epoch"] for row in table], ["0"] * (len(table) // 2) + ["1"] * (len(table) // 2))
        self.assertEqual(sum(row["accuracy"] != "" for row in table), 2)
        self.assertLess(float(table[-1]["loss"]), float(table[0]["loss"]))

    def test_the_picture_is_one(self):
        self.train(alone, 1, "run", "--epochs", "2")
        picture = xml.etree.ElementTree.fromstring(content(self.path("run"), "curve.svg"))
        namespace = "{http://www.w3.org/2000/svg}"
        curves = [path for path in picture.iter(namespace + "path") if path.get("d").count("L") > 0]
        self.assertEqual(
            [path.get("d").count("L") + 1 for path in curves if path.get("fill") == "none"],
            [len(rows(self.path("run"))), 2],
        )
        texts = {text.text for text in picture.iter(namespace + "text")}
        self.assertTrue({"loss", "error rate on the held-out images", "step"} <= texts)

    def test_checkpoints_hold_parameters_and_velocities(self):
        self.train(alone, 1, "run", "--epochs", "1")
        tensors, metadata = safetensors_reader.read(self.path("run", "digits.safetensors"))
        self.assertEqual(metadata["epochs_done"], "1")
        self.assertEqual(tensors["dense2.weights"][:2], ("F32", [64, 10]))
        self.assertEqual(tensors["velocity.convolution1.weights"][:2], ("F32", [16, 1, 3, 3]))
        self.assertEqual(len(tensors), 16)

    def test_plain_lines_into_a_pipe_and_a_bar_on_a_terminal(self):
        self.assertNotRegex(self.train(alone, 1, "run", "--epochs", "1"), r"[\r\x1b]")
        main, terminal = pty.openpty()
        job = subprocess.Popen(
            self.program("bar", "--epochs", "1"), env=ENVIRONMENT, cwd=self.folder, stdout=terminal, stderr=terminal
        )
        os.close(terminal)
        shown = b""
        try:
            while piece := os.read(main, 65536):
                shown += piece
        except OSError:  # on Linux, read() fails with this error when the other end of a terminal is closed
            pass
        os.close(main)
        self.assertEqual(job.wait(timeout=DEADLINE), 0)
        self.assertRegex(shown, rb"epoch 1/1 \[#*\.*\] \d+/\d+ loss")


class LearningRates(DigitsTest):
    def rates(self, processes, *options):
        self.train(direct, processes, "run", *options)
        return [float(row["learning_rate"]) for row in rows(self.path("run"))]

    def test_capped_grows_to_one_and_a_half_times(self):
        rates = self.rates(2, "--epochs", "2", "--lr", "0.001", "--lr-policy", "capped", "--warmup-epochs", "1")
        half = len(rates) // 2
        self.assertEqual(rates[0], 0.001)
        self.assertAlmostEqual(rates[half // 2], 0.001 + 0.0005 * (half // 2) / half, places=12)
        for rate in rates[half:]:
            self.assertAlmostEqual(rate, 0.0015, places=12)

    def test_linear_and_sqrt_follow_the_processes(self):
        linear = self.rates(4, "--epochs", "1", "--lr", "0.001", "--lr-policy", "linear", "--warmup-epochs", "0")
        self.assertEqual(set(linear), {0.004})
        sqrt = self.rates(4, "--epochs", "1", "--lr", "0.001", "--lr-policy", "sqrt", "--warmup-epochs", "0")
        self.assertEqual(set(sqrt), {0.002})

    def test_adasum_moves_at_least_as_far_as_the_mean_gradient(self):
        # One process: Adasum of one gradient is this gradient.
        for policy in ("none", "adasum"):
            self.train(alone, 1, f"one-{policy}", "--epochs", "1", "--lr-policy", policy)
        self.assertEqual(content(self.path("one-none"), "curve.csv"), content(self.path("one-adasum"), "curve.csv"))
        # Two processes: Adasum of equal gradients is their mean. Adasum of orthogonal gradients is their sum, which is
        # twice the mean. With a small learning rate, the loss therefore falls faster with Adasum than with the mean.
        last = {}
        for policy in ("none", "adasum"):
            options = ("--epochs", "2", "--lr", "0.002", "--lr-policy", policy)
            self.train(direct, 2, f"two-{policy}", *options)
            table = rows(self.path(f"two-{policy}"))
            self.assertEqual({float(row["learning_rate"]) for row in table}, {0.002})
            last[policy] = sum(float(row["loss"]) for row in table[len(table) // 2 :])
        self.assertLess(last["adasum"], 0.9 * last["none"])


def tearDownModule():
    assert os.path.realpath(DIGITS)
    left = processes_of_digits()
    assert not left, f"processes of digits are left: {left}"


if __name__ == "__main__":
    unittest.main(verbosity=2)
