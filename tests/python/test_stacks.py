# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests stacks of ranks that run Python: in stall reports, and after the stack signal."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = pathlib.Path(__file__).parent
# The number of captures in a test. Each capture comes at a random time in the main thread's loop. A capture takes
# about 0.3 s; most of this time is waiting.
CAPTURES = 5
LIMIT_SECONDS = 90
# Rueda waits only one second for the stack of a main thread, and 2.5 s for the stacks of a rank. On a busy machine a
# thread may sleep longer, and in that case the answer has this line instead of a stack.
REFUSAL = r"\n *stack: it could not be (taken: its main thread|read: the rank has not answered).*\n"


class Job:
    """A running job whose standard error the test reads line by line. After LIMIT_SECONDS the job is killed, which ends
    all waits for its output."""

    def __init__(self, mode, folder, ranks=1, **settings):
        self.file = pathlib.Path(folder, mode)
        launcher = [os.environ["RUEDARUN"], "--no-mpi", "-np", str(ranks)] if ranks > 1 else []
        self.process = subprocess.Popen(
            [*launcher, sys.executable, "-B", str(HERE / "resting_rank.py"), mode, str(self.file)],
            env={name: value for name, value in os.environ.items() if "RUEDA_S" not in name} | settings,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.text = ""
        self.limit = threading.Timer(LIMIT_SECONDS, os.killpg, (self.process.pid, signal.SIGKILL))
        self.limit.daemon = True
        self.limit.start()

    def read_until(self, pattern):
        """Reads until the pattern matches the text after the previous match. Returns this text."""
        new = ""
        while not re.search(pattern, new):
            line = self.process.stderr.readline()
            if not line:
                raise AssertionError(f"no match of {pattern} in {self.text}, and the job ended")
            new += line
            self.text += line
        return new

    def send(self):
        os.kill(self.process.pid, signal.SIGUSR2)

    def read_stacks(self, pattern):
        """Reads the answer to a signal until the pattern matches. Sends the signal again after a refusal."""
        text = self.read_until(f"{pattern}|{REFUSAL}")
        while re.search(REFUSAL, text):
            self.send()
            text = self.read_until(f"{pattern}|{REFUSAL}")
        return text

    def end(self):
        """Lets the job end. Returns its exit status."""
        self.file.touch()
        self.process.stdin.write("x")
        self.process.stdin.close()
        self.text += self.process.stderr.read()
        self.process.stderr.close()
        status = self.process.wait()
        self.limit.cancel()
        return status


def first_with_stack(path):
    """Returns the first stall report of the file in which the stack of rank 1 is Python's. Waits for it, because a
    report is in the log shortly before it is in the file."""
    end = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < end:
        for report in json.loads(path.read_text())["reports"] if path.exists() else []:
            if (report["ranks"][1]["stack"] or "").startswith("Python, innermost first:"):
                return report
        time.sleep(0.02)
    raise AssertionError(f"no report with a stack in {path.read_text() if path.exists() else path}")


class RequestedStacks(unittest.TestCase):
    def test_wherever_the_main_thread_is(self):
        functions = {"sleep": "rest_in_sleep", "read": "rest_in_read", "hold_gil": "rest_holding_the_gil"}
        with tempfile.TemporaryDirectory() as folder:
            jobs = {mode: Job(mode, folder) for mode in functions}
            for job in jobs.values():
                job.read_until("ready")
            for _ in range(CAPTURES):
                for job in jobs.values():
                    job.send()
                for mode, job in jobs.items():
                    text = job.read_stacks(
                        r"main, .*resting_rank\.py:\d+\n(?s:.*)native, innermost first(?s:.*)\n.* interpreter\n"
                    )
                    self.assertIn("the stacks of the main threads of all ranks of this host", text)
                    self.assertRegex(text, rf"Python, innermost first:\n\s+{functions[mode]}, .*resting_rank\.py:\d+\n")
            for job in jobs.values():
                self.assertEqual(job.end(), 0, job.text)

    def test_rueda_stacks_asks_for_them(self):
        with tempfile.TemporaryDirectory() as folder:
            job = Job("sleep", folder)
            job.read_until("ready")
            for _ in range(CAPTURES):
                command = [os.environ["RUEDA_PROGRAM"], "stacks", str(job.process.pid)]
                done = subprocess.run(command, capture_output=True, text=True)
                while re.search(REFUSAL, done.stdout):
                    done = subprocess.run(command, capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
                self.assertRegex(
                    done.stdout,
                    rf"rank 0 \(pid {job.process.pid}\): .*\n  Python, innermost first:\n"
                    r"    rest_in_sleep, .*resting_rank\.py:\d+\n    main, .*\n(.*\n)*  native, innermost first",
                )
            self.assertEqual(job.end(), 0, job.text)

    def test_a_handler_of_the_program_stays(self):
        with tempfile.TemporaryDirectory() as folder:
            job = Job("own_handler", folder, RUEDA_LOG_LEVEL="info")
            job.read_until("ready")
            job.send()
            job.read_until("the program's handler\n")
            self.assertEqual(job.end(), 0, job.text)
        self.assertEqual(
            job.text.count("will not show the stack of this rank, because the program handles SIGUSR2 itself"), 2
        )

    def test_a_faulthandler_of_the_program_writes_to_its_file(self):
        with tempfile.TemporaryDirectory() as folder:
            job = Job("own_faulthandler", folder)
            job.read_until("ready")
            job.send()
            text = job.read_stacks(r"native, innermost first(?s:.*)interpreter\n")
            self.assertNotIn("Python, innermost first", text)
            self.assertIn("in rest_in_sleep\n", pathlib.Path(folder, "own_faulthandler.traceback").read_text())
            self.assertEqual(job.end(), 0, job.text)


class StallReport(unittest.TestCase):
    def test_it_shows_where_the_missing_rank_is(self):
        with tempfile.TemporaryDirectory() as folder:
            job = Job("stall", folder, ranks=2, RUEDA_STALL_CHECK_TIME_SECONDS="1")
            text = job.read_until(r"native, innermost first(?s:.*)interpreter\n")
            self.assertRegex(
                text,
                r"rank 1[^(\n]*\(pid \d+\)[^\n]*\n[^\n]*Python, innermost first:\n[^\n]*rest_in_sleep, [^\n]*:\d+\n",
            )
            self.assertEqual(job.end(), 0, job.text)

    def test_it_shows_which_rank_holds_up_an_operation_that_is_executed(self):
        with tempfile.TemporaryDirectory() as folder:
            files = pathlib.Path(folder, "files")
            settings = {"RUEDA_STALL_CHECK_TIME_SECONDS": "1", "RUEDA_DIAGNOSTICS_DIR": str(files)}
            job = Job("executing", folder, ranks=2, **settings)
            text = job.read_until(r"native, innermost first(?s:.*)interpreter\n")
            self.assertIn("tensor 'gradient' was announced by all ranks", text)
            report = first_with_stack(files / "stall.rank.0.json")
            self.assertEqual(job.end(), 0, job.text)
        self.assertTrue(report["executing"])
        first, second = report["ranks"]
        self.assertIsNone(first["stack"])
        self.assertRegex(second["not_delivered"]["what"], r"^its input of chunk \d+ of \d+$")
        self.assertGreater(second["steps_behind"], 0)
        self.assertRegex(
            second["stack"],
            r"^Python, innermost first:\n  rest_in_sleep, .*:\d+\n  let_it_read, .*\n(.*\n)*"
            r"  reduce_with_a_rest, .*\n  main, .*\n(.*\n)*native, innermost first",
        )


if __name__ == "__main__":
    unittest.main()
