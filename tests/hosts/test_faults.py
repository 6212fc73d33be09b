# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests ranks, hosts and launchers that end or are cut off. Every surviving rank must get its error in time, and no
process or file may be left behind."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time
import unittest

from hosts_job import ENVIRONMENT, HAS_UCX, HOSTS_RANK, MPIRUN, SURVIVING, TIMEOUT, HostsTest, main, mpirun, test_hosts

LIMIT = 5  # the longest time from the fault to a survivor's error, in seconds; RUEDA_HOST_TIMEOUT is 3 s


class Faults(HostsTest):
    @classmethod
    def setUpClass(cls):
        pass  # each test creates its own hosts, because it breaks them

    def setUp(self):
        super().setUp()
        self.hosts = None

    def start(self, *layout, flags=SURVIVING, mode="steps", **settings):
        """Starts a job and waits until it is inside its steps."""
        self.hosts = test_hosts.Hosts(len(layout))
        self.addCleanup(self.hosts.close)
        self.ranks = range(sum(layout))
        self.job = self.hosts.popen(
            0,
            mpirun(self.hosts, layout, [HOSTS_RANK, mode, self.folder], flags, **settings),
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

    def errors(self, survivors, begin, partners=()):
        """Requires that every surviving rank gets its error in time. Returns the errors.

        The ranks in `partners` exchange data with the victim, so they may fail without an error: if a connection breaks
        inside a message, Open MPI 4 ends the process. In rare cases, MPI_Test never returns instead. This function
        kills each partner that has no error at the end of the time limit.
        """
        deadline = begin + LIMIT + 1
        errors = {}
        survivors = list(survivors)
        while len(errors) < len(survivors) and time.time() < deadline:
            survivors = [rank for rank in survivors if rank in errors or rank not in partners or self.is_alive(rank)]
            for rank in survivors:
                if (lines := self.lines(rank))[-1].startswith("error "):
                    errors[rank] = lines[-1].split(" ", 2)[1:]
            time.sleep(0.02)
        for rank in [rank for rank in survivors if rank in partners and rank not in errors]:
            os.kill(self.pid(rank), signal.SIGKILL)
            survivors.remove(rank)
        self.assertEqual(sorted(errors), sorted(survivors), "these ranks have reported; the others have no error")
        for rank, (when, message) in errors.items():
            self.assertLess(float(when) - begin, LIMIT, f"rank {rank}: {message}")
            self.assertTrue(message.startswith("Aborted: "), f"rank {rank}: {message}")
        return {rank: message for rank, (_, message) in errors.items()}

    def ranks_left(self):
        return [line for line in self.hosts.processes().values() if line.split(" ")[0] == HOSTS_RANK]

    def is_alive(self, rank):
        return self.pid(rank) in self.hosts.processes()

    def finish(self):
        """Lets the survivors end, and requires that they end by themselves.

        If a rank on another host was killed or a host was cut off, mpirun and its daemons wait forever (seen with Open
        MPI 4.1.4). This function ends them, as ruedarun does.
        """
        (self.folder / "done").write_text("")
        deadline = time.monotonic() + 10
        while self.ranks_left() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(self.ranks_left(), [])
        self.job.kill()

    def kill(self, victim, *layout, partners=(), **settings):
        self.start(*layout, **settings)
        begin = time.time()
        os.kill(self.pid(victim), signal.SIGKILL)
        errors = self.errors([rank for rank in self.ranks if rank != victim], begin, partners)
        self.finish()
        return errors

    def test_a_rank_that_is_no_leader_is_killed(self):
        for rank, message in self.kill(3, 2, 2, partners=[1]).items():
            self.assertRegex(message, "rank 3" if rank == 2 else "rank 3|rank 1", f"rank {rank}")

    def test_on_the_host_of_the_root_too(self):
        for rank, message in self.kill(1, 2, 2, partners=[3]).items():
            self.assertRegex(message, "rank 1" if rank == 0 else "rank 1|rank 3", f"rank {rank}")

    def test_a_leader_is_killed(self):
        errors = self.kill(2, 2, 2, partners=[0])
        self.assertIn("rank 2", errors[3])
        for rank in {0, 1} & set(errors):
            # Rank 3 reports the death of rank 2 to the other hosts. But the broken connection to rank 2 may also end
            # rank 0. In that case, rank 1's error names rank 0.
            self.assertRegex(errors[rank], "rank 2 |rank 0 ", f"rank {rank}")

    def test_the_root_is_killed(self):
        errors = self.kill(0, 2, 1, 1, partners=[2, 3])
        self.assertIn("rank 0", errors[1])
        for rank in {2, 3} & set(errors):
            self.assertRegex(errors[rank], "rank 0 ", f"rank {rank}")

    def test_a_host_of_one_rank_dies_with_it(self):
        errors = self.kill(1, 1, 1, partners=[0])
        for rank in {0} & set(errors):
            # No rank of the killed host is left to report the failure. The other ranks notice that the host does not
            # answer, or that a connection breaks.
            self.assertRegex(errors[rank], "rueda-h1|rank 1", f"rank {rank}")

    @unittest.skipUnless(HAS_UCX, "Rueda was built without UCX (Debian: libucx-dev)")
    def test_over_ucx_every_survivor_names_the_victim(self):
        # UCX reports a lost connection to the ranks that exchange data with the victim. Open MPI does not. In the case
        # with one rank per host, only UCX can show the loss: no other rank of the victim's host is left, and there is
        # no connection between leaders.
        for victim, layout, sockets, text in (
            (3, (2, 2), 1, "rank 3 on rueda-h1 "),
            (2, (2, 2), 1, "rank 2 on rueda-h1 |connection to rank 2 "),
            (1, (1, 1), 0, "the connection of rank 0 to rank 1 over UCX has ended: "),
        ):
            with self.subTest(victim=victim, layout=layout):
                errors = self.kill(victim, *layout, RUEDA_TRANSPORT="ucx", RUEDA_LEADER_SOCKETS=sockets)
                for rank, message in errors.items():
                    self.assertRegex(message, text, f"rank {rank}")
                for name in ("done", *(f"rank{rank}" for rank in self.ranks)):
                    (self.folder / name).unlink()
                self.hosts.close()

    def processor_seconds(self, rank):
        tasks = pathlib.Path(f"/proc/{self.pid(rank)}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def share_while_waiting(self, **settings):
        """Returns how much of a core rank 0 uses while it waits for rank 1."""
        self.start(1, 1, mode="wait", **settings)
        time.sleep(2)  # during this sleep, MPI completes the earlier messages
        begin, used = time.monotonic(), self.processor_seconds(0)
        time.sleep(4)
        share = (self.processor_seconds(0) - used) / (time.monotonic() - begin)
        os.kill(self.pid(1), signal.SIGKILL)
        self.errors([0], time.time())
        self.finish()
        return share

    def test_a_leader_of_another_host_is_killed_while_the_others_wait(self):
        self.start(1, 1, 1, mode="wait")  # rank 2 starts no operation
        begin = time.time()
        os.kill(self.pid(1), signal.SIGKILL)
        # Rank 0 exchanges no data with rank 1, but the two leaders have a connection. Rank 0 must notice the end of
        # this connection. Otherwise it would notice only after RUEDA_HOST_TIMEOUT (3 s) that rank 1's host does not
        # answer.
        error = self.errors([0], begin)[0]
        self.assertRegex(error, r"rank 1 \(the first rank of another host\) has ended")
        self.assertLess(float(self.lines(0)[-1].split(" ")[1]) - begin, 2.5, error)
        os.kill(self.pid(2), signal.SIGKILL)
        self.finish()

    def test_leaders_of_hosts_sleep_while_they_wait(self):
        # A wake-up costs more on a busy machine, so a fixed limit would not be reliable. The test instead compares
        # leaders that sleep with leaders that poll.
        for _ in range(3):
            sleeping = self.share_while_waiting()
            polling = self.share_while_waiting(RUEDA_LEADER_SOCKETS=0)
            if sleeping < polling / 2:
                return
        self.fail(f"a leader that sleeps uses {sleeping:.4f} of a core, and one that polls {polling:.4f}")

    def test_a_host_is_cut_off(self):
        self.start(2, 2)
        begin = time.time()
        self.hosts.unplug(1)
        errors = self.errors(self.ranks, begin)
        for rank in (0, 1):
            self.assertRegex(
                errors[rank], r"host rueda-h1 \(ranks 2, 3\) has not answered for (?:[3-9]|\d\d)\.\d s", f"rank {rank}"
            )
        for rank in (2, 3):
            self.assertRegex(
                errors[rank], r"host rueda-h0 \(ranks 0, 1\) has not answered for (?:[3-9]|\d\d)\.\d s", f"rank {rank}"
            )
        self.finish()

    def test_all_other_hosts_hear_of_one_that_is_cut_off(self):
        self.start(1, 1, 1)
        begin = time.time()
        self.hosts.unplug(2)
        errors = self.errors(self.ranks, begin)
        for rank in (0, 1):
            self.assertIn("rueda-h2", errors[rank], f"rank {rank}")
        self.assertIn("rueda-h0", errors[2])
        self.finish()

    def test_plain_mpirun_ends_the_others_after_rueda_has_said_why(self):
        self.start(2, 2, flags=())
        os.kill(self.pid(3), signal.SIGKILL)
        output, _ = self.job.communicate(timeout=TIMEOUT)
        self.assertNotEqual(self.job.returncode, 0)
        self.assertRegex(output, rf"E rueda\] \[rank \d\]: rank 3 on rueda-h1 \(pid {self.pid(3)}\) died")
        self.expect_empty_hosts()

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


def load_tests(loader, _tests, _pattern):
    rounds = int(os.environ.get("FAULT_ROUNDS", "1"))
    return unittest.TestSuite(loader.loadTestsFromTestCase(Faults) for _ in range(rounds))


if __name__ == "__main__":
    main()
