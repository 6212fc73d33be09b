# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests ruedarun's notifications. When a rank ends, ruedarun must tell all other ranks at once, on the same host and on
other hosts, even ranks that are still starting.

The environment variable RUEDARUN names ruedarun; hosts_job.py names the other variables.
"""

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time
import unittest

from hosts_job import ENVIRONMENT, HOSTS_RANK, MPIRUN, left_in_memory, remove_what_open_mpi_left, test_hosts

RUEDARUN = os.environ["RUEDARUN"]
TIMEOUT = 60
GRACE = 5  # in seconds; ruedarun's default
HOST_TIMEOUT = 3  # the default of RUEDA_HOST_TIMEOUT, in seconds
LIMIT = 1  # the longest time from the end of a rank to another rank's error, in seconds


class NotificationTest(unittest.TestCase):
    """Tests with a job under ruedarun, whose ranks write files about what happens to them."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="rueda-word-test-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.addCleanup(remove_what_open_mpi_left)
        before = left_in_memory()
        self.addCleanup(lambda: self.assertEqual(left_in_memory() - before, set(), "left in /dev/shm"))

    def popen(self, command, **options):
        return subprocess.Popen(command, **options)

    def start(self, words, program, **settings):
        return self.start_command([RUEDARUN, *words, *program], **settings)

    def start_command(self, command, **settings):
        job = self.popen(
            list(map(str, command)),
            env={**ENVIRONMENT, **settings},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        return job

    def lines(self, rank):
        file = self.folder / f"rank{rank}"
        return file.read_text().splitlines() if file.exists() else []

    def check_seconds_of_silence(self, text, host_timeout):
        """The errors in `text` say for how many seconds a host has not answered. Checks these numbers. A rank gives up
        after RUEDA_HOST_TIMEOUT or, on a busy machine, somewhat later."""
        found = [float(seconds) for seconds in re.findall(r"has not answered for (\d+\.\d) s", text)]
        self.assertTrue(found, text)
        self.assertGreaterEqual(min(found), host_timeout, text)
        self.assertLess(max(found), host_timeout + 20, text)

    def is_running(self, ranks):
        """Returns whether every rank has begun to work."""
        return all("running" in self.lines(rank) for rank in range(ranks))

    def wait_until(self, condition, job):
        deadline = time.monotonic() + TIMEOUT
        while not condition():
            self.assertIsNone(job.poll(), job.stdout.read() if job.poll() is not None else "")
            self.assertLess(time.monotonic(), deadline, "the job does not get going")
            time.sleep(0.01)

    def finish(self, job):
        """Lets the survivors end. Returns ruedarun's output."""
        (self.folder / "done").write_text("")
        output, _ = job.communicate(timeout=TIMEOUT)
        return output.splitlines()

    def expect_errors(self, ranks, begin, text):
        """Requires that each of the ranks got an error with this text in time. `begin` is the time of the event that
        caused the error."""
        for rank in ranks:
            errors = [line for line in self.lines(rank) if line.startswith("error ")]
            self.assertEqual(len(errors), 1, f"rank {rank}: {self.lines(rank)}")
            _, when, message = errors[0].split(" ", 2)
            self.assertRegex(message, rf"^Aborted: (tensor '\w+': )?{text}$", f"rank {rank}")
            self.assertLess(float(when) - begin, LIMIT, f"rank {rank}: {message}")

    def end_of_a_rank(self, words, ranks, number, text, mode="wait"):
        """Sends a signal to the last rank inside a job."""
        victim = ranks - 1
        job = self.start([*words, "-np", str(ranks)], [HOSTS_RANK, mode, str(self.folder)])
        self.wait_until(lambda: all(self.lines(rank)[1:] == ["running"] for rank in range(ranks)), job)
        pid = int(self.lines(victim)[0].split()[1])
        begin = time.time()
        os.kill(pid, number)
        self.wait_until(lambda: all(len(self.lines(rank)) > 2 for rank in range(victim)), job)
        output = self.finish(job)
        cause = text.format(rank=victim, pid=pid)
        self.expect_errors(range(victim), begin, cause)
        self.assertRegex(output[-1], f"^ruedarun: (the job failed because )?{cause}(; ending the job)?$", output)
        self.assertEqual(job.returncode, 128 + number, output)

    def rank_that_does_not_come(self, words, ranks, mode, where=""):
        job = self.start([*words, "-np", str(ranks)], [HOSTS_RANK, mode, str(self.folder), "7"])
        output = self.finish(job)
        victim = ranks - 1
        begin = float(self.lines(victim)[0].split()[1])
        self.expect_errors(range(victim), begin, rf"rank {victim}{where} \(pid \d+\) ended with exit status 7")
        self.assertRegex(output[-1], rf"rank {victim}{where} \(pid \d+\) ended with exit status 7", output)
        self.assertEqual(job.returncode, 7, output)
        return output

    def rank_that_ends_before_mpi_init(self, words, ranks, status, where=""):
        """A rank ends before MPI_Init. The other ranks wait in MPI_Init and cannot leave it, so their processes must
        end. Each of them must print a line that names the rank that ended first."""
        settings = {"RUEDA_START_TIMEOUT": str(TIMEOUT)}
        job = self.start([*words, "-np", str(ranks)], [HOSTS_RANK, "absent", self.folder, status], **settings)
        output = self.finish(job)
        ended = time.time()
        victim = ranks - 1
        how = rf"rank {victim}{where} \(pid \d+\) ended with exit status {status}"
        waits = (
            ""
            if status
            else r" while other ranks wait for it in rueda::init\(\): let every rank of the job call rueda::init\(\)"
        )
        for rank in range(victim):
            told = [line for line in output if f"E rueda] [rank {rank}]: " in line]
            self.assertEqual(len(told), 1, output)
            self.assertRegex(
                told[0], rf": {how}{waits}; MPI_Init cannot be interrupted, so this process ends with exit status 1$"
            )
        self.assertRegex(output[-1], rf"^ruedarun: .*{how}", output)
        self.assertNotIn("still run", "".join(output))
        self.assertEqual(job.returncode, status or 1, output)
        # Without notifications, ruedarun would end the other ranks only after a grace period of 5 s. A measured run
        # took 0.2 s.
        self.assertLess(ended - float(self.lines(victim)[0].split()[1]), GRACE - 1, output)


class OneHost(NotificationTest):
    KILLED = r"rank {rank} \(pid {pid}\) was killed by signal 9 \(Killed\)"
    CRASHED = r"rank {rank} \(pid {pid}\) was killed by signal 11 \(Segmentation fault\)"

    def test_a_killed_rank_without_mpi(self):
        self.end_of_a_rank(["--no-mpi"], 3, signal.SIGKILL, self.KILLED)

    def test_a_killed_rank_under_mpirun(self):
        self.end_of_a_rank([], 3, signal.SIGKILL, self.KILLED)

    def test_a_rank_that_crashes_in_its_work(self):
        self.end_of_a_rank(["--no-mpi"], 2, signal.SIGSEGV, self.CRASHED, mode="steps")

    def test_a_rank_that_ends_before_it_joins(self):
        self.rank_that_does_not_come(["--no-mpi"], 3, "absent")

    def test_a_rank_that_does_not_join_again(self):
        self.rank_that_does_not_come(["--no-mpi"], 3, "again")

    def test_a_rank_that_does_not_join_again_over_mpi(self):
        self.rank_that_does_not_come([], 3, "again")

    def test_a_rank_that_ends_well_while_the_others_are_in_mpi_init(self):
        self.rank_that_ends_before_mpi_init([], 3, 0)

    def test_a_rank_that_fails_while_the_others_are_in_mpi_init(self):
        self.rank_that_ends_before_mpi_init([], 3, 3)

    def test_a_rank_that_mpi_init_waits_for_too_long(self):
        """Plain mpirun does not notify the ranks when a rank ends, so the start must time out."""
        words = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "-np", "2", HOSTS_RANK, "late", self.folder]
        job = self.start_command(words, RUEDA_START_TIMEOUT="1")
        output, _ = job.communicate(timeout=TIMEOUT)
        self.assertRegex(
            output,
            r"E rueda\] \[rank 0\]: init: MPI_Init did not return within 1 s \(RUEDA_START_TIMEOUT\): .*; MPI_Init cannot be "
            r"interrupted, so this process ends with exit status 1\n",
        )
        self.assertNotEqual(job.returncode, 0, output)
        self.assertEqual(self.lines(1), [])  # mpirun ended rank 1 before Rueda could write a line


@unittest.skipIf(test_hosts.why_not(), test_hosts.why_not())
class SeveralHosts(NotificationTest):
    @classmethod
    def setUpClass(cls):
        cls.hosts = test_hosts.Hosts(2)
        cls.addClassCleanup(cls.hosts.close)

    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: self.assertEqual(self.hosts.wait_until_empty(), {}, "left on the hosts"))

    def popen(self, command, **options):
        return self.hosts.popen(0, command, **options)

    KILLED = r"rank {rank} on rueda-h1 \(pid {pid}\) was killed by signal 9 \(Killed\)"

    def test_the_only_rank_of_a_host_is_killed(self):
        self.end_of_a_rank(["-H", "rueda-h0:1,rueda-h1:1"], 2, signal.SIGKILL, self.KILLED)

    def test_one_of_two_ranks_of_a_host_is_killed(self):
        self.end_of_a_rank(["-H", "rueda-h0:2,rueda-h1:2"], 4, signal.SIGKILL, self.KILLED)

    def test_a_rank_that_does_not_join_again(self):
        self.rank_that_does_not_come(["-H", "rueda-h0:1,rueda-h1:1"], 2, "again", where=" on rueda-h1")


@unittest.skipIf(test_hosts.why_not(), test_hosts.why_not())
class EndsOfJobs(NotificationTest):
    """When the ranks have reported the reason, the job must end soon, even if a host does not answer. The last line of
    the output must be the cause."""

    # The limits, in seconds, from the ranks' errors until ruedarun ends. Measured runs took 0.4 to 1 s after a cut, and
    # 4 s after a stall.
    LIMIT_AFTER_CUT = 3
    LIMIT_AFTER_STALL = 8

    def setUp(self):
        super().setUp()
        self.hosts = test_hosts.Hosts(2)  # each test creates its own hosts, because it breaks them
        self.addCleanup(self.hosts.close)

    def popen(self, command, **options):
        return self.hosts.popen(0, command, **options)

    def expect_end(self, job, survivors, cause, limit, status=1):
        output, _ = job.communicate(timeout=TIMEOUT)
        ended = time.time()
        lines = output.splitlines()
        for rank in survivors:
            _, when, message = next(line for line in self.lines(rank) if line.startswith("error ")).split(" ", 2)
            self.assertRegex(message, rf"^Aborted: (tensor '\w+': )?{cause}", f"rank {rank}")
            self.assertLess(ended - float(when), limit, output)
        self.assertRegex(
            lines[-1], rf"^ruedarun: .*ended with exit status 1, after the job was aborted: {cause}", output
        )
        self.assertEqual(job.returncode, status, output)
        self.assertEqual(self.hosts.wait_until_empty(), {}, "left on the hosts")

    def test_a_host_is_cut_off(self):
        job = self.start(["-H", "rueda-h0:2,rueda-h1:2"], [HOSTS_RANK, "steps", self.folder])
        self.wait_until(lambda: self.is_running(4), job)
        (self.folder / "done").write_text("")
        self.hosts.unplug(1)
        cause = r"host rueda-h1 \(ranks 2, 3\) has not answered for \d+\.\d s: it was cut off"
        self.expect_end(job, (0, 1), cause, self.LIMIT_AFTER_CUT)
        self.check_seconds_of_silence("\n".join(self.lines(0)), HOST_TIMEOUT)

    def test_a_stall_ends_the_job(self):
        (self.folder / "done").write_text("")
        stall = {"RUEDA_STALL_CHECK_TIME_SECONDS": "1", "RUEDA_STALL_SHUTDOWN_TIME_SECONDS": "2"}
        job = self.start(["-H", "rueda-h0:1,rueda-h1:2"], [HOSTS_RANK, "wait", self.folder], **stall)
        cause = r"tensor '\w+' has waited for rank 2 for [\d.]+ s"
        self.expect_end(job, (0, 1), cause, self.LIMIT_AFTER_STALL, status=79)


def load_tests(loader, _tests, _pattern):
    rounds = int(os.environ.get("FAULT_ROUNDS", "1"))
    return unittest.TestSuite(
        loader.loadTestsFromTestCase(case) for _ in range(rounds) for case in (OneHost, SeveralHosts, EndsOfJobs)
    )


if __name__ == "__main__":
    unittest.main(verbosity=2)
