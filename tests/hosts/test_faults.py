# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Ranks, hosts and launchers that go away: every survivor has its error in time, and nothing stays behind."""

import contextlib
import os
import signal
import subprocess
import time

from hosts_job import ENVIRONMENT, HOSTS_RANK, MPIRUN, SURVIVING, TIMEOUT, HostsTest, main, mpirun, test_hosts

LIMIT = 5  # seconds from the fault to the last survivor's error; RUEDA_HOST_TIMEOUT is 3


class Faults(HostsTest):
    @classmethod
    def setUpClass(cls):
        pass  # each test breaks its hosts

    def setUp(self):
        super().setUp()
        self.hosts = None

    def start(self, *layout):
        """A job in the middle of its steps."""
        self.hosts = test_hosts.Hosts(len(layout))
        self.addCleanup(self.hosts.close)
        self.ranks = range(sum(layout))
        self.job = self.hosts.popen(
            0,
            mpirun(self.hosts, layout, [HOSTS_RANK, "steps", self.folder], SURVIVING),
            env=ENVIRONMENT,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(self.job.stdout.close)
        self.addCleanup(self.job.wait)
        self.addCleanup(self.job.kill)
        deadline = time.monotonic() + TIMEOUT
        while not all((self.folder / f"rank{rank}").exists() for rank in self.ranks):
            self.assertIsNone(self.job.poll(), self.job.stdout.read() if self.job.poll() is not None else "")
            self.assertLess(time.monotonic(), deadline, "the job does not get going")
            time.sleep(0.02)

    def lines(self, rank):
        return (self.folder / f"rank{rank}").read_text().splitlines()

    def pid(self, rank):
        return int(self.lines(rank)[0].split()[1])

    def errors(self, survivors, begin):
        """The error of every survivor, which it had in time."""
        deadline = begin + LIMIT + 1
        errors = {}
        while len(errors) < len(survivors) and time.time() < deadline:
            for rank in survivors:
                if (lines := self.lines(rank))[-1].startswith("error "):
                    errors[rank] = lines[-1].split(" ", 2)[1:]
            time.sleep(0.02)
        self.assertEqual(sorted(errors), sorted(survivors), "these ranks have reported; the others have no error")
        for rank, (when, message) in errors.items():
            self.assertLess(float(when) - begin, LIMIT, f"rank {rank}: {message}")
            self.assertTrue(message.startswith("Aborted: "), f"rank {rank}: {message}")
        return {rank: message for rank, (_, message) in errors.items()}

    def finish(self):
        """Lets the survivors end; they end, and so does the launcher."""
        (self.folder / "done").write_text("")
        self.job.communicate(timeout=30)
        self.expect_empty_hosts()

    def kill(self, victim, *layout):
        self.start(*layout)
        begin = time.time()
        os.kill(self.pid(victim), signal.SIGKILL)
        errors = self.errors([rank for rank in self.ranks if rank != victim], begin)
        self.finish()
        return errors

    def test_a_rank_that_is_no_leader_is_killed(self):
        for rank, message in self.kill(3, 2, 2).items():
            self.assertIn("rank 3", message, f"rank {rank}")

    def test_on_the_host_of_the_root_too(self):
        for rank, message in self.kill(1, 2, 2).items():
            self.assertIn("rank 1", message, f"rank {rank}")

    def test_a_leader_is_killed(self):
        errors = self.kill(2, 2, 2)
        self.assertIn("rank 2", errors[3])
        for rank in (0, 1):
            # Its host is not heard of any more, or the connection to it breaks, whichever comes first.
            self.assertRegex(errors[rank], "rank 2|rueda-h1", f"rank {rank}")

    def test_the_root_is_killed(self):
        errors = self.kill(0, 2, 1, 1)
        self.assertIn("rank 0", errors[1])
        for rank in (2, 3):
            self.assertRegex(errors[rank], "rank 0|rueda-h0", f"rank {rank}")

    def test_a_host_is_cut_off(self):
        self.start(2, 2)
        begin = time.time()
        self.hosts.unplug(1)
        errors = self.errors(self.ranks, begin)
        for rank in (0, 1):
            self.assertRegex(errors[rank], r"host rueda-h1 \(ranks 2-3\) has not answered for 3\.\d s", f"rank {rank}")
        for rank in (2, 3):
            self.assertRegex(errors[rank], r"host rueda-h0 \(ranks 0-1\) has not answered for 3\.\d s", f"rank {rank}")
        self.end_what_mpirun_cannot_reach()

    def test_all_other_hosts_hear_of_one_that_is_cut_off(self):
        self.start(1, 1, 1)
        begin = time.time()
        self.hosts.unplug(2)
        errors = self.errors(self.ranks, begin)
        for rank in (0, 1):
            self.assertIn("rueda-h2", errors[rank], f"rank {rank}")
        self.assertIn("rueda-h0", errors[2])
        self.end_what_mpirun_cannot_reach()

    def end_what_mpirun_cannot_reach(self):
        """The ranks end by themselves; the launcher's daemons may wait for each other for long."""
        (self.folder / "done").write_text("")
        deadline = time.monotonic() + 10
        while self.ranks_left() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(self.ranks_left(), [])

    def ranks_left(self):
        return [line for line in self.hosts.processes().values() if line.split(" ")[0] == HOSTS_RANK]

    def test_the_launcher_is_killed(self):
        self.start(2, 2)
        begin = time.time()
        [launcher] = [pid for pid, line in self.hosts.processes().items() if line.startswith(f"{MPIRUN} ")]
        os.kill(launcher, signal.SIGKILL)
        (self.folder / "done").write_text("")
        while self.ranks_left() and time.time() < begin + LIMIT:
            time.sleep(0.02)
        self.assertEqual(self.ranks_left(), [])
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.job.communicate(timeout=5)
        self.expect_empty_hosts()


if __name__ == "__main__":
    main()
