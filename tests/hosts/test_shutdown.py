# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests shutdowns while a host does not answer. Every rank must get the same error, which names the host, and the job
must fail. Both hosts are this machine under two names.

The environment variable RUEDARUN names ruedarun; hosts_job.py names the other variables.
"""

import contextlib
import os
import signal
import unittest

from hosts_job import HOSTS_RANK, MPIRUN, SURVIVING
from test_notifications import RUEDARUN, TIMEOUT, NotificationTest

RANKS = 2  # one rank on each host
HOST_TIMEOUT = "2"
SILENT = r"host host1 \(rank 1\) has not answered for \d+\.\d s: it was cut off from host0, or has ended or stopped"
TOO_EARLY = "shutdown: the job ended before all ranks had left it: "


class Shutdown(NotificationTest):
    def by_mpirun(self, mode, *flags):
        words = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", *flags]
        for rank in range(RANKS):
            words += [":"] if rank else []
            words += ["-np", "1", "-x", f"RUEDA_HOSTNAME=host{rank}", HOSTS_RANK, mode, self.folder]
        return self.start_command(words, RUEDA_HOST_TIMEOUT=HOST_TIMEOUT)

    def by_ruedarun(self, mode):
        named = 'RUEDA_HOSTNAME=host$OMPI_COMM_WORLD_RANK exec "$0" "$@"'
        words = [RUEDARUN, "-np", str(RANKS), "sh", "-c", named, HOSTS_RANK, mode, self.folder]
        return self.start_command(words, RUEDA_HOST_TIMEOUT=HOST_TIMEOUT)

    def stop_the_last(self, job):
        """Stops the last rank, and then lets the other ranks shut down. Returns the last rank's process id."""
        self.wait_until(lambda: self.is_running(RANKS), job)
        pid = int(self.lines(RANKS - 1)[0].split()[1])
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(self.kill, pid)  # this cleanup is needed only if the test fails
        (self.folder / "go").write_text("")
        return pid

    @staticmethod
    def kill(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def expect_silence(self, text, pattern, message=None):
        self.assertRegex(text, pattern, message)
        self.check_seconds_of_silence(text, float(HOST_TIMEOUT))

    def error(self, rank):
        found = [line.split(" ", 2)[2] for line in self.lines(rank) if line.startswith("error ")]
        return found[0] if found else ""

    def test_a_rank_that_was_stopped_has_the_same_error_as_the_others(self):
        job = self.by_mpirun("leave", *SURVIVING)
        pid = self.stop_the_last(job)
        self.wait_until(lambda: self.error(0), job)
        os.kill(pid, signal.SIGCONT)
        self.wait_until(lambda: self.error(1), job)
        for rank in range(RANKS):
            self.expect_silence(self.error(rank), f"^Aborted: {TOO_EARLY}{SILENT}$", f"rank {rank}")
        job.communicate(timeout=TIMEOUT)

    def test_under_plain_mpirun_the_job_fails(self):
        job = self.by_mpirun("leave")
        pid = self.stop_the_last(job)
        self.wait_until(lambda: self.error(0) or job.poll() is not None, job)
        os.kill(pid, signal.SIGCONT)
        output, _ = job.communicate(timeout=TIMEOUT)
        self.expect_silence(self.error(0), f"^Aborted: {TOO_EARLY}{SILENT}$")
        self.assertEqual(job.returncode, 1, output)
        self.assertNotIn('exited without calling "finalize"', output)

    def test_under_ruedarun_the_job_fails_and_the_host_is_its_cause(self):
        job = self.by_ruedarun("leave")
        pid = self.stop_the_last(job)
        self.wait_until(lambda: self.error(0), job)
        os.kill(pid, signal.SIGCONT)
        output, _ = job.communicate(timeout=TIMEOUT)
        for rank in range(RANKS):
            self.expect_silence(self.error(rank), f"^Aborted: {TOO_EARLY}{SILENT}$", f"rank {rank}")
        self.expect_silence(output.splitlines()[-1], f"^ruedarun: .*ended with exit status 1, .*{SILENT}$", output)
        self.assertEqual(job.returncode, 1, output)

    def test_a_program_that_does_not_call_shutdown_ends_with_a_failure_too(self):
        job = self.by_ruedarun("exit")
        pid = self.stop_the_last(job)
        said = []
        while not said or TOO_EARLY not in said[-1]:  # ruedarun closes its output at the end of the job
            line = job.stdout.readline()
            self.assertNotEqual(line, "", said)
            said.append(line)
        os.kill(pid, signal.SIGCONT)
        output = "".join(said) + job.communicate(timeout=TIMEOUT)[0]
        self.expect_silence(
            said[-1], rf"E rueda\] \[rank 0\]: {TOO_EARLY}{SILENT}; this process ends with exit status 1$", output
        )
        self.expect_silence(output.splitlines()[-1], f"^ruedarun: .*ended with exit status 1, .*{SILENT}$", output)
        self.assertEqual(job.returncode, 1, output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
