# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Checks that stall reports and requested stacks of a real job name the function that the missing rank is executing.

Usage: stalled_rank_test.py OnOneHost PROGRAM RUEDARUN
       stalled_rank_test.py OnSeveralHosts PROGRAM RUEDARUN MPIRUN [flags of mpirun ...]
"""

import ctypes.util
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

PROGRAM = ""
RUEDARUN = ""
MPIRUN = []
FUNCTION = "wait_for_the_file"
# A job takes a few seconds, and several times as long on a busy machine.
LIMIT_SECONDS = 40


def end_hard(job):
    """Lets the launcher end its ranks, and kills the launcher if it does not end."""
    job.terminate()
    try:
        job.wait(10)
    except subprocess.TimeoutExpired:
        job.kill()


class StalledRank(unittest.TestCase):
    """Rank 1 does not take part until the test has read the expected text. Then the job ends normally."""

    def run_job(self, until, act=lambda text: None, launch=None, mode=(), **settings):
        """Starts two ranks and reads their standard error. When the pattern `until` appears, creates the file that ends
        rank 1's wait. `launch` is the launcher's command line (default: ruedarun). `act` is called with the text
        after each line. After LIMIT_SECONDS the job is killed, and the test fails with its text."""
        kept = {name: value for name, value in os.environ.items() if name == "RUEDA_MPI_PLUGIN" or "RUEDA" not in name}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "go")
            job = subprocess.Popen(
                [*(launch or [RUEDARUN, "--no-mpi", "-np", "2"]), PROGRAM, str(path), *mode],
                env=kept | settings,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            limit = threading.Timer(LIMIT_SECONDS, end_hard, (job,))
            limit.daemon = True
            limit.start()
            text = ""
            for line in job.stderr:
                text += line
                act(text)
                if re.search(until, text):
                    path.touch()
            status = job.wait()
            limit.cancel()
            job.stderr.close()
            self.assertEqual(status, 0, text)
        self.assertRegex(text, until)
        return text

    def check_message(self, text):
        """Rank 1 waits for rank 2. Rank 0 prints the report. Rank 1 prints only one line, which refers to the report."""
        self.assertRegex(text, r"receive from rank 2, tag 7: waiting for [\d.]+ s; ready: rank 1; missing: rank 2\n")
        self.assertRegex(text, r"rank 2[^(\n]*\(pid \d+\): [^\n]*\n(\[0\])?\s+native, innermost first")
        self.assertRegex(
            text, r"rank 1\]: receive from rank 2, tag 7 has waited for [\d.]+ s; the stall report is in the "
        )
        self.assertNotRegex(text, r"rank [12]\]: One or more tensors")


class OnOneHost(StalledRank):
    def test_the_stall_report_has_the_stack(self):
        text = self.run_job(FUNCTION, RUEDA_STALL_CHECK_TIME_SECONDS="1")
        self.assertRegex(text, r"rank 1[^(\n]*\(pid \d+\): [^\n]*\n(\[0\])?\s+native, innermost first")
        # Clang needs -gdwarf-aranges to write the section in which libdw finds line numbers.
        if ctypes.util.find_library("dw") and b"clang version" not in pathlib.Path(PROGRAM).read_bytes():
            self.assertRegex(text, FUNCTION + r"\([^\n]*\), [^\n]*stalled_rank\.cpp:\d+")

    def test_a_signal_to_one_rank_shows_the_stacks_of_all(self):
        sent = []

        def send(text):
            found = re.search(r"rank 1[^(\n]*\(pid (\d+)\)", text)
            if found and not sent:
                sent.append(int(found.group(1)))
                os.kill(sent[0], signal.SIGUSR1)

        until = r"as requested by a signal:(?s:.*)rank 0 \(pid (?s:.*)rank 1 \(pid \d+\):(?s:.*)" + FUNCTION
        text = self.run_job(until, send, RUEDA_STALL_CHECK_TIME_SECONDS="1", RUEDA_STACK_SIGNAL="USR1")
        self.assertRegex(text, r"\[rank 1\]: the stacks of the main threads of all ranks of this host")

    def test_a_stopped_rank_is_described_from_outside(self):
        stopped = []

        def stop(text):
            found = re.search(r"rank 1[^(\n]*\(pid (\d+)\)", text)
            if found and not stopped:
                stopped.append(int(found.group(1)))
                os.kill(stopped[0], signal.SIGSTOP)
            elif stopped and re.search(until, text):
                os.kill(stopped[0], signal.SIGCONT)

        until = r"stopped by a signal[^\n]*\n(\[0\])?\s+stack: it could not be read: the rank's background thread does not run"
        self.run_job(until, stop, RUEDA_STALL_CHECK_TIME_SECONDS="1")

    def test_in_an_operation_that_is_executed(self):
        text = self.run_job(FUNCTION, mode=["executing"], RUEDA_STALL_CHECK_TIME_SECONDS="1")
        self.assertRegex(text, r"tensor 'gradient' was announced by all ranks [\d.]+ seconds ago and is still not done")
        part = r"its input of chunk \d+ of \d+"
        self.assertRegex(text, f"Probable cause: rank 1 has not delivered {part}: \\d+ steps? behind")
        found = re.search(r"rank 1[^(\n]*\(pid \d+\): [^\n]* behind the rank that has done most(?s:.*)", text)
        self.assertIsNotNone(found, text)
        self.assertIn(FUNCTION, found.group())
        self.assertEqual(text.count("innermost first"), 1, text)  # rank 0 only waits for rank 1

    def test_in_a_message(self):
        launch = [RUEDARUN, "--no-mpi", "-np", "3"]
        text = self.run_job(FUNCTION, launch=launch, mode=["message"], RUEDA_STALL_CHECK_TIME_SECONDS="1")
        self.check_message(text)

    def test_stacks_can_be_switched_off(self):
        text = self.run_job(
            r"missing: rank 1(?s:.*)rank 1[^(\n]*\(pid", RUEDA_STALL_CHECK_TIME_SECONDS="1", RUEDA_STACK_SIGNAL="none"
        )
        self.assertNotIn("innermost", text)
        self.assertNotIn("stack:", text)


class OnSeveralHosts(StalledRank):
    """The "hosts" are this machine under different names."""

    def test_on_two_hosts(self):
        # Both "hosts" are this machine under different names; rank 1 is alone on the second one.
        shell = 'RUEDA_HOSTNAME=host$OMPI_COMM_WORLD_RANK exec "$@"'
        launch = [*MPIRUN, "-np", "2", "sh", "-c", shell, "sh"]
        text = self.run_job(FUNCTION, launch=launch, RUEDA_STALL_CHECK_TIME_SECONDS="1")
        self.assertRegex(text, r"rank 1 on host1 \(pid \d+\): [^\n]*\n\s+native, innermost first")

    def test_all_hosts_write_their_flight_recorders(self):
        shell = 'RUEDA_HOSTNAME=host$OMPI_COMM_WORLD_RANK exec "$@"'
        launch = [*MPIRUN, "-np", "2", "sh", "-c", shell, "sh"]
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder, f"recorder-rank{rank}.json") for rank in range(2)]

            def wait_for_files(text):
                end = time.monotonic() + 10
                while FUNCTION in text and not all(map(pathlib.Path.exists, files)) and time.monotonic() < end:
                    time.sleep(0.02)

            settings = {"RUEDA_STALL_CHECK_TIME_SECONDS": "1", "RUEDA_DIAGNOSTICS_DIR": folder}
            text = self.run_job(FUNCTION, wait_for_files, launch, **settings)
            for rank, path in enumerate(files):
                recording = json.loads(path.read_text())
                self.assertEqual(recording["written_by"], rank, text)
                self.assertIn("tensor 'loss': waiting for ", recording["reason"])

    def test_in_an_operation_that_is_executed_on_two_hosts(self):
        shell = 'RUEDA_HOSTNAME=host$((OMPI_COMM_WORLD_RANK / 2)) exec "$@"'
        launch = [*MPIRUN, "-np", "4", "sh", "-c", shell, "sh"]
        # The offsets in KiB of two parts of the tensor. Rank 3 reads the first part when it copies it for rank 2, and the
        # second part when it combines it itself.
        for part in ["2560", "2624"]:
            with self.subTest(part=part):
                text = self.run_job(
                    f"(?s)(?=.*{FUNCTION}).*another host has not delivered its part",
                    launch=launch,
                    mode=["executing", part],
                    RUEDA_STALL_CHECK_TIME_SECONDS="1",
                )
                stuck = (
                    r"rank 3 has not delivered its part: [^\n]*the thread that executes the operation does not respond"
                )
                self.assertRegex(
                    text, rf"rank 2\]: tensor 'gradient' was announced by all ranks [^\n]*\n\s+Probable cause: {stuck}"
                )
                other = (
                    "no rank of this host holds up the operation; another host has not delivered its part (ranks 2, 3)"
                )
                self.assertIn(f"Probable cause: {other}", text)
                self.assertRegex(text, r"rank 3 on host1 \(pid \d+\): [^\n]*\n\s+native, innermost first")
                self.assertNotRegex(text, r"Probable cause: rank [012] ")
                # The other ranks only wait, so their stacks are not shown.
                self.assertEqual(text.count("innermost first"), text.count(FUNCTION), text)

    def test_in_a_message_between_other_hosts(self):
        shell = 'RUEDA_HOSTNAME=host$OMPI_COMM_WORLD_RANK exec "$@"'
        launch = [*MPIRUN, "-np", "3", "sh", "-c", shell, "sh"]
        text = self.run_job(FUNCTION, launch=launch, mode=["message"], RUEDA_STALL_CHECK_TIME_SECONDS="1")
        self.check_message(text)
        self.assertRegex(text, r"rank 2 on host2 \(pid \d+\): ")


if __name__ == "__main__":
    PROGRAM, RUEDARUN, *MPIRUN = sys.argv[2:]
    unittest.main(argv=sys.argv[:2])
