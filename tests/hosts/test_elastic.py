# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests elastic jobs on several hosts: ranks and hosts are lost, hosts are added and removed, and the survivors keep
their processes. In these tests, ssh is a script that runs its command on the test host.

The environment variables are those of hosts_job.py; RUEDARUN and ELASTIC_JOB name the programs. With LONG=1 there are
100 random kills.
"""

import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from hosts_job import ENVIRONMENT, HAS_UCX, left_in_memory, test_hosts

import elastic_jobs  # isort: skip; importing hosts_job adds the folder of elastic_jobs to the search path

RUEDARUN = os.environ["RUEDARUN"]
RUEDA = str(pathlib.Path(RUEDARUN).with_name("rueda"))
JOB = os.environ["ELASTIC_JOB"]
LONG = os.environ.get("LONG") == "1"
# The longest time in seconds from the cut of a host to the next generation. First, the host must count as lost: after
# RUEDA_HOST_TIMEOUT or ruedarun's own limit, whichever is longer. Then the survivors must form the next generation.
LIMIT_AFTER_CUT = 10


def starts_with_size(job, size):
    """Returns the processes that have printed that they are in a generation of this size."""
    return [line.pid for line in job.lines if line.what == "start" and line.size == size]


class ElasticHosts(elastic_jobs.ElasticTest):
    count = 2

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="rueda-elastic-hosts-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.end = self.folder / "end"
        self.hosts = test_hosts.Hosts(self.count)
        self.addCleanup(self.hosts.close)
        before = left_in_memory()
        self.addCleanup(lambda: self.assertEqual(left_in_memory() - before, set(), "left in /dev/shm"))

    def start(self, *arguments):
        words = [RUEDARUN, "--no-mpi", *map(str, arguments)]
        process = self.hosts.popen(
            0,
            words,
            env={**ENVIRONMENT, "PATH": self.hosts.path_with_ssh()},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.kill)
        return elastic_jobs.Job(process)

    def check_top(self, on_host, pid, hosts):
        """Checks that `rueda top --all-hosts` on one host asks all hosts of the job, and that each of them answers."""
        done = self.hosts.run(
            on_host,
            [RUEDA, "top", "--all-hosts", "--json", "--interval", "0.2", str(pid)],
            env={**ENVIRONMENT, "PATH": self.hosts.path_with_ssh()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        answers = json.loads(done.stdout)["hosts"]
        self.assertEqual(sorted(answer["host"] for answer in answers), hosts)
        # On every test host, `rueda` sees the processes of all test hosts. So the answer of each host must contain
        # ranks with the job's token.
        self.assertTrue(all(answer["job"] and answer["job"]["ranks"] for answer in answers), done.stdout)

    def finish(self, job, steps, size):
        """Lets the job end, and checks its result."""
        self.end.touch()
        self.check_result(job, steps, size)
        self.assertEqual(self.hosts.wait_until_empty(), {}, "left on the hosts")

    def workers(self, host):
        """Returns the processes of the workers that live on a host."""
        network = os.readlink(f"/proc/{self.hosts.holders[host + 1].pid}/ns/net")
        found = []
        for pid, command in self.hosts.processes().items():
            with contextlib.suppress(OSError):
                if command.startswith(JOB) and os.readlink(f"/proc/{pid}/ns/net") == network:
                    found.append(pid)
        return sorted(found)


class Losses(ElasticHosts):
    def test_a_rank_is_killed_and_replaced(self):
        job = self.start(
            *("-H", "rueda-h0:2,rueda-h1:2", "-np", 4, "--min-np", 2, "--blacklist-cooldown-range", 2, 10),
            *(JOB, 10, "pause=2", f"until={self.end}"),
        )
        job.wait_for_size(4)
        pids = self.check_members(job, 0, 4)
        self.assertEqual([self.workers(0), self.workers(1)], [sorted(pids[:2]), sorted(pids[2:])])
        os.kill(pids[2], signal.SIGKILL)
        job.wait_for(lambda: len(job.started(1)) == 3)
        self.assertEqual(self.check_members(job, 1, 3), [pids[0], pids[1], pids[3]])
        job.wait_for(lambda: len(job.started(2)) == 4)
        last = self.check_members(job, 2, 4)
        self.assertEqual(last[:3], [pids[0], pids[1], pids[3]])
        self.assertIn(last[3], self.workers(1))
        self.finish(job, 10, 4)
        self.assertIn(f"rank 2 on rueda-h1 (pid {pids[2]}) was killed by signal 9 (Killed)", job.err)
        self.assertIn("is started on rueda-h1; it joins the other ranks at their next commit", job.err)

    def test_a_host_is_cut_off(self):
        job = self.start(
            *("-H", "rueda-h0:2,rueda-h1:2", "-np", 4, "--min-np", 2, "--blacklist-cooldown-range", 60, 60),
            *(JOB, 10, "pause=2", f"until={self.end}"),
        )
        job.wait_for_size(4)
        pids = self.check_members(job, 0, 4)
        begin = time.monotonic()
        self.hosts.unplug(1)
        job.wait_for(lambda: len(job.started(1)) == 2)
        took = time.monotonic() - begin
        print(f"from the cut to the next generation: {took:.1f} s", file=sys.stderr)
        self.assertLess(took, LIMIT_AFTER_CUT)
        self.assertEqual(self.check_members(job, 1, 2), pids[:2])
        # The processes on the lost host end by themselves.
        elastic_jobs.wait_until(lambda: not self.workers(1))
        self.finish(job, 10, 2)

    def test_a_supervisor_is_killed(self):
        """Only the connection of one worker breaks, and the worker's host stays alive. This worker must be dead before
        the other workers of its host go on."""
        job = self.start(
            *("-H", "rueda-h0:1,rueda-h1:2", "-np", 3, "--min-np", 2, "--blacklist-cooldown-range", 60, 60),
            *(JOB, 10, "pause=2", f"until={self.end}"),
        )
        job.wait_for_size(3)
        pids = self.check_members(job, 0, 3)
        os.kill(elastic_jobs.parent_of(pids[2]), signal.SIGKILL)
        job.wait_for(lambda: len(job.started(1)) == 2)
        self.assertEqual(self.check_members(job, 1, 2), pids[:2])
        self.assertFalse(elastic_jobs.is_alive(pids[2]))
        self.finish(job, 10, 2)
        self.assertIn("rank 2 on rueda-h1", job.err)

    def test_a_host_is_cut_off_while_its_ranks_wait(self):
        """The lost ranks may already belong to the next generation, or may still wait for it. The other ranks must not
        wait for the lost ranks."""
        job = self.start(
            *("-H", "rueda-h0:2,rueda-h1:2", "-np", 4, "--min-np", 1, "--blacklist-cooldown-range", 60, 60),
            *(JOB, 10, "pause=2", f"until={self.end}"),
        )
        job.wait_for_size(4)
        pids = self.check_members(job, 0, 4)
        self.hosts.unplug(1)
        os.kill(pids[1], signal.SIGKILL)
        job.wait_for(lambda: starts_with_size(job, 1))
        self.assertEqual(starts_with_size(job, 1), [pids[0]])
        self.finish(job, 10, 1)

    def test_the_survivors_are_on_another_host_than_ruedarun(self):
        """The new rank 0 is on another host than the first rank 0, so the rendezvous of the ranks moves there."""
        job = self.start(
            *("-H", "rueda-h0:1,rueda-h1:2", "-np", 3, "--min-np", 1, "--blacklist-cooldown-range", 2, 10),
            *(JOB, 10, "pause=2", f"until={self.end}"),
        )
        job.wait_for_size(3)
        pids = self.check_members(job, 0, 3)
        os.kill(pids[0], signal.SIGKILL)
        job.wait_for(lambda: len(job.started(1)) == 2)
        self.assertEqual(self.check_members(job, 1, 2), pids[1:])
        job.wait_for(lambda: len(job.started(2)) == 3)
        last = self.check_members(job, 2, 3)
        self.assertEqual(last[:2], pids[1:])
        self.assertEqual(self.workers(0), [last[2]])
        self.finish(job, 10, 3)


class Slots(ElasticHosts):
    count = 3

    def test_the_script_adds_and_removes_hosts(self):
        slots = self.folder / "slots"
        slots.write_text("rueda-h0:1\n")
        script = self.folder / "script"
        script.write_text(f"#!/bin/sh\nexec cat {slots}\n")
        script.chmod(0o755)
        job = self.start(
            *("--min-np", 1, "--max-np", 4, "--host-discovery-script", script),
            *(JOB, 10, "pause=2", f"until={self.end}"),
        )
        job.wait_for_size(1)
        first = self.check_members(job, 0, 1)
        slots.write_text("rueda-h0:1\nrueda-h1:1\nrueda-h2:2\n")
        generation = job.wait_for_size(4)
        self.assertEqual(self.check_members(job, generation, 4)[0], first[0])
        self.assertEqual([len(self.workers(host)) for host in range(3)], [1, 1, 2])
        # The worker on rueda-h0 started before the other hosts joined the job. `rueda top` must show all hosts
        # nevertheless.
        self.check_top(0, first[0], ["rueda-h0", "rueda-h1", "rueda-h2"])
        slots.write_text("rueda-h0:1\nrueda-h2:1\n")
        generation = job.wait_for_size(2)
        self.check_members(job, generation, 2)
        elastic_jobs.wait_until(lambda: [len(self.workers(host)) for host in range(3)] == [1, 0, 1])
        self.check_top(2, self.workers(2)[0], ["rueda-h0", "rueda-h2"])
        self.finish(job, 10, 2)

    def test_a_host_that_ssh_does_not_reach(self):
        job = self.start(
            *("-H", "rueda-h0:1,rueda-h9:1", "-np", 2, "--min-np", 1, "--blacklist-cooldown-range", 60, 60),
            *(JOB, 10, "pause=2", f"until={self.end}"),
        )
        job.wait_for(lambda: len(job.started(0)) == 1)
        self.finish(job, 10, 1)
        self.assertIn("rank 1 on rueda-h9 could not be started: ssh to 'rueda-h9' ended with exit status 255", job.err)

    def test_a_worker_that_waits_is_lost(self):
        """The connection of a waiting worker breaks, but the worker's host stays alive. ruedarun learns only later that
        the worker is dead. So it may form a generation that contains the dead worker. The job must nevertheless
        continue without this worker."""
        job = self.start(
            *("-H", "rueda-h0:2,rueda-h1:2", "-np", 4, "--min-np", 1, "--blacklist-cooldown-range", 60, 60),
            *(JOB, 10, "pause=2", f"until={self.end}"),
        )
        job.wait_for_size(4)
        pids = self.check_members(job, 0, 4)
        os.kill(pids[0], signal.SIGSTOP)  # this rank stays in its step, so the others wait for it
        os.kill(pids[1], signal.SIGKILL)
        job.wait_for(lambda: "was killed by signal 9" in job.err)
        # During this sleep, the ranks on rueda-h1 leave the generation and wait, without printing a line.
        time.sleep(1)
        os.kill(elastic_jobs.parent_of(pids[3]), signal.SIGKILL)
        os.kill(pids[0], signal.SIGCONT)
        job.wait_for(lambda: len(starts_with_size(job, 2)) == 2)
        # The two ranks print their lines on different hosts, so the lines may come in any order.
        self.assertCountEqual(starts_with_size(job, 2), [pids[0], pids[2]])
        self.finish(job, 10, 2)

    def test_a_job_that_fails_while_ssh_still_connects(self):
        """The job fails while ssh still connects to start a worker. This worker must not be started any more, and must
        not delay the end of the job."""
        (self.hosts.programs / "ssh").unlink()
        (self.hosts.programs / "ssh").write_text("#!/bin/sh\nexec sleep 60\n")
        (self.hosts.programs / "ssh").chmod(0o755)
        begin = time.monotonic()
        job = self.start("-H", "rueda-h0:1,rueda-h1:1", "-np", 2, "--min-np", 2, "sh", "-c", "exit 3")
        self.assertEqual(job.wait(), 3, job.err)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(self.hosts.wait_until_empty(), {}, "left on the hosts")

    def test_an_interface_that_does_not_exist(self):
        job = self.start(
            *("-H", "rueda-h0:1,rueda-h1:1", "-np", 2, "--min-np", 1, "--network-interfaces", "nosuch0"),
            *(JOB, 10),
        )
        self.assertEqual(job.wait(), 1, job.err)
        self.assertIn("nosuch0", job.err)

    def test_output_in_files_and_many_ranks_on_a_host(self):
        """All workers of a host are started through one ssh, because sshd refuses many connections at once."""
        calls = self.folder / "calls"
        (self.hosts.programs / "ssh").unlink()
        (self.hosts.programs / "ssh").write_text(f'#!/bin/sh\necho ssh >>{calls}\nexec {self.hosts.agent} "$@"\n')
        (self.hosts.programs / "ssh").chmod(0o755)
        job = self.start(
            *("-H", "rueda-h1:12", "-np", 12, "--min-np", 12, "--output-dir", "out"),
            *("sh", "-c", "echo $RUEDA_RANK"),
        )
        self.assertEqual(job.wait(), 0, job.err)
        self.assertEqual(calls.read_text(), "ssh\n")
        written = [(self.folder / "out" / f"rank.{number}.out").read_text() for number in range(12)]
        # Before init(), each process is a job of one rank, so its rank is 0.
        self.assertEqual(written, ["0\n"] * 12)

    def test_ruedarun_is_suspended(self):
        """A suspended ruedarun reads no output. But its kernel still accepts data from the supervisors, so no rank is
        lost."""
        job = self.start(
            *("-H", "rueda-h1:1", "-np", 1, "--min-np", 1),
            *("sh", "-c", f"head -c 3000000 /dev/zero | tr '\\0' x; echo; exec {JOB} 10 pause=1 until={self.end}"),
        )
        time.sleep(0.3)
        job.process.send_signal(signal.SIGSTOP)
        time.sleep(5)  # twice the time after which a host that does not answer counts as lost
        job.process.send_signal(signal.SIGCONT)
        job.wait_for_size(1)
        self.finish(job, 10, 1)
        self.assertNotIn("is lost", job.err)

    def test_the_end_by_ctrl_c(self):
        job = self.start(
            *("-H", "rueda-h0:1,rueda-h1:1", "-np", 2, "--min-np", 1),
            *(JOB, 10, "pause=2", f"until={self.end}"),
        )
        job.wait_for_size(2)
        job.process.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(), 130, job.err)
        self.assertEqual(self.hosts.wait_until_empty(), {}, "left on the hosts")


class RandomKills(ElasticHosts):
    def test_random_kills(self):
        """Kills random workers of both hosts at random times, and compares the result with that of an undisturbed run.
        At least one worker that has the values of the training stays alive."""
        kills, steps = (100, 2000) if LONG else (5, 50)
        seed = int(os.environ.get("RUEDA_SEED", time.time_ns() % 10**6))
        print(f"RUEDA_SEED={seed}", file=sys.stderr)
        choice = random.Random(seed)
        job = self.start(
            *("-H", "rueda-h0:2,rueda-h1:2", "-np", 4, "--min-np", 1, "--blacklist-cooldown-range", 0.1, 0.1),
            *(JOB, steps, "pause=5", f"until={self.end}"),
        )
        done = 0
        while done < kills and job.process.poll() is None:
            time.sleep(choice.uniform(0, 0.6))
            living = self.workers(0) + self.workers(1)
            with_values = sorted(job.trained().intersection(living))
            if len(living) < 2 or not with_values:
                continue
            spared = choice.choice(with_values)
            victim = choice.choice([pid for pid in living if pid != spared])
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                done += 1
        self.end.touch()
        self.assertEqual(job.wait(240), 0, job.err)
        self.assertGreaterEqual(done, kills, job.err)
        self.check_values(job, steps)
        self.assertEqual({line.arenas for line in job.lines}, {1})
        self.assertEqual(self.hosts.wait_until_empty(), {}, "left on the hosts")


if __name__ == "__main__":
    if not HAS_UCX:
        print("skipped: Rueda was built without UCX (Debian: libucx-dev)")
        sys.exit(test_hosts.SKIPPED)
    if reason := test_hosts.why_not():
        print(f"skipped: {reason}")
        sys.exit(test_hosts.SKIPPED)
    unittest.main(verbosity=2)
