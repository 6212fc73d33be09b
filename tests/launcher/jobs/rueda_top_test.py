# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests `rueda ps` and `rueda top` with real jobs and a real terminal, as their users see them.

Usage: rueda_top_test.py RUEDA RUEDARUN WATCHED_RANK FAKE_NVML [unittest's arguments].
"""

import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support" / "hosts"))
import hosts as test_hosts  # noqa: E402

RUEDA = RUEDARUN = WATCHED_RANK = FAKE_NVML = ""
TIMEOUT = 60
ENTER_SCREEN = b"\x1b[?1049h"
LEAVE_SCREEN = b"\x1b[?1049l"


def environment():
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("RUEDA_", "HOROVOD_", "SLURM_", "OMPI_", "PMIX_"))}
    return {**kept, "TERM": "xterm"}


def rueda(*arguments, **settings):
    return subprocess.run(
        [RUEDA, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env=environment() | settings,
        stdin=subprocess.DEVNULL,
    )


class Terminal:
    """A terminal in which the program `rueda` runs."""

    def __init__(self, *arguments, lines=24, columns=120, on_host=None, settings=None):
        command = [RUEDA, *map(str, arguments)]
        if on_host is not None:
            command = on_host.on_host(0, command)
            settings = {**(settings or {}), **on_host.environment()}
        self.pid, self.side = pty.fork()
        if self.pid == 0:
            # The test first sets the terminal's size and stores its settings. Then the program starts.
            sys.stdin.readline()
            os.execvpe(command[0], command, environment() | (settings or {}))
        self.seen = b""
        self.status = None
        self.resize(lines, columns)
        self.settings = termios.tcgetattr(self.side)
        os.write(self.side, b"\n")

    def resize(self, lines, columns):
        fcntl.ioctl(self.side, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def read_until(self, found):
        """Reads the terminal until `found(text)` is true or the program has ended."""
        deadline = time.monotonic() + TIMEOUT
        while not found(self.seen):
            if time.monotonic() > deadline:
                raise AssertionError(f"it did not come: {self.seen[-2000:]!r}")
            if select.select([self.side], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.side, 65536)
                except OSError:
                    return  # the program has ended
        return

    def shows(self, text):
        self.read_until(lambda seen: text in seen)
        assert text in self.seen, self.seen[-2000:]

    def type(self, keys):
        os.write(self.side, keys)

    def end(self):
        """Waits for the program to end. Returns its exit status."""
        self.read_until(lambda seen: False)
        _, status = os.waitpid(self.pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        return self.status

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.side)


class WithJob(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rueda-top-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def start(self, mode, ranks=2, **settings):
        """Starts a job and waits until its ranks train. The job then runs until end_job() is called."""
        stop = self.folder / "stop"
        stop.unlink(missing_ok=True)
        self.job = subprocess.Popen(
            [RUEDARUN, "--no-mpi", "-np", str(ranks), WATCHED_RANK, mode, stop],
            stdout=subprocess.PIPE,
            text=True,
            env=environment() | settings,
            stdin=subprocess.DEVNULL,
        )
        self.addCleanup(self.end_job)
        self.assertEqual(self.job.stdout.readline().rstrip().split()[-1:], ["trains"])
        # The ranks are child processes of ruedarun.
        children = pathlib.Path(f"/proc/{self.job.pid}/task/{self.job.pid}/children").read_text()
        self.pids = sorted(int(pid) for pid in children.split())
        self.assertEqual(len(self.pids), ranks)

    def end_job(self):
        if self.job.poll() is None:
            (self.folder / "stop").write_text("")
            try:
                self.assertEqual(self.job.wait(TIMEOUT), 0)
            finally:
                self.job.kill()
                self.job.wait()
        self.job.stdout.close()

    def jobs(self):
        """Returns this test's jobs from `rueda ps`. Other jobs may run on the machine."""
        done = rueda("ps", "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [job for job in json.loads(done.stdout)["jobs"] if set(job["pids"]) & set(self.pids)]

    def top_until(self, condition, interval=1.5):
        """Repeats `rueda top` until the condition holds. One measurement is not enough, because other programs may
        disturb it. Returns the last rows."""
        deadline = time.monotonic() + TIMEOUT / 2
        _, ranks = self.top(interval)
        while not condition(ranks) and time.monotonic() < deadline:
            _, ranks = self.top(interval)
        return ranks

    def top(self, interval=1.5):
        done = rueda("top", self.pids[0], "--once", "--json", "--interval", interval)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        view = json.loads(done.stdout)
        return view, view["ranks"]


class Ps(WithJob):
    def test_lists_a_job(self):
        self.start("even")
        (job,) = self.jobs()
        self.assertEqual(job["ranks"], [0, 1])
        self.assertEqual(sorted(job["pids"]), self.pids)
        self.assertEqual(
            job["pids"], [rank["pid"] for rank in json.loads(rueda("top", job["id"], "--json").stdout)["ranks"]]
        )
        self.assertEqual(job["state"], "running")
        self.assertIsNone(job["abort_reason"])
        self.assertGreaterEqual(job["step"], 2)
        self.assertEqual(job["program"], f"{WATCHED_RANK} even {self.folder}/stop")
        self.assertLess(job["age_seconds"], 2 * TIMEOUT)
        text = rueda("ps").stdout
        self.assertRegex(text, rf"(?m)^JOB +RANKS .*STATE$(\n.*)*\n{job['id']} +0,1 .*\d+s  .* running$")
        self.assertEqual([again["id"] for again in self.jobs()], [job["id"]])
        self.end_job()
        self.assertEqual(self.jobs(), [])

    def test_several_jobs(self):
        self.start("even", ranks=1)
        first = self.pids
        (self.folder / "other").mkdir()
        other = WithJob("start")
        other.folder = self.folder / "other"
        self.addCleanup(other.doCleanups)
        other.start("even", ranks=1)
        self.pids = first + other.pids
        self.assertEqual(len({job["id"] for job in self.jobs()}), 2)
        done = rueda("top")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^rueda: several jobs run on this host: name one of j\d+, j\d+")

    def test_a_rank_that_is_stopped(self):
        self.start("missing")
        os.kill(self.pids[1], signal.SIGSTOP)
        self.addCleanup(os.kill, self.pids[1], signal.SIGCONT)
        ranks = self.top_until(lambda ranks: "stopped by a signal" in [rank["process"] for rank in ranks], 0.2)
        self.assertIn("stopped by a signal", [rank["process"] for rank in ranks])


class Top(WithJob):
    wrong_hosts = (
        ["-H", "a,,b"],
        ["-H", "a,b", "j1"],
        ["-H", "a,b", "j1,"],
        ["-H", "a,b", "j1,--once"],
        ["-H", "a", "--ssh-port", "0"],
    )

    def test_measures_a_job(self):
        self.start("even")

        def fits(rank):
            # Each step has two operations, of 64 KiB and of 4 bytes.
            bytes_per_operation = rank["bytes_per_second"] / max(rank["operations_per_second"], 1)
            operations_per_step = rank["step_seconds"] * rank["operations_per_second"]
            steps_fit = abs(bytes_per_operation - (65536 + 4) / 2) < 3000 and abs(operations_per_step - 2) < 0.2
            return steps_fit and rank["cpu_share"] > 0  # the kernel counts processor time in units of 10 ms

        ranks = self.top_until(lambda ranks: all(fits(rank) for rank in ranks))
        view, _ = self.top()
        self.assertEqual(view["state"], "running")
        self.assertEqual([rank["rank"] for rank in ranks], [0, 1])
        self.assertEqual(sorted(rank["pid"] for rank in ranks), self.pids)
        for rank in ranks:
            self.assertTrue(fits(rank), rank)
            self.assertGreater(rank["step"], 2)
            self.assertGreater(rank["resident_bytes"], 1 << 20)
            self.assertEqual((rank["scope"], rank["pending"]), ("", ""))

    def test_marks_a_straggler(self):
        self.start("straggler")

        def marks(ranks):
            return [rank["is_straggler"] for rank in ranks]

        ranks = self.top_until(lambda ranks: marks(ranks) == [False, True] and ranks[0]["waiting_share"] > 0.5)
        self.assertEqual(marks(ranks), [False, True], ranks)
        self.assertEqual(ranks[0]["waits_for"][0]["rank"], 1)
        # Rank 0 waits while rank 1 sleeps 30 ms in each step; the rest of a step is short.
        self.assertGreater(ranks[0]["waiting_share"], 0.5)
        self.assertGreaterEqual(ranks[0]["step_seconds"], 0.03)

        deadline = time.monotonic() + TIMEOUT / 2
        text = ""
        while "straggler:" not in text and time.monotonic() < deadline:
            text = rueda("top", self.pids[0], "--once", "--interval", 1).stdout
        self.assertRegex(text, r"(?m)^ *! 1 +\d+ ")
        self.assertIn("! Rank 1 is a straggler: the other ranks wait for it.", text)
        self.assertNotIn("\x1b", text)

    def test_says_which_rank_waits_for_input_and_which_computes(self):
        self.start("input")

        def judged(ranks):
            return [(rank["seems_bound_by_input"], rank["runs_outside_share"] > 0.3) for rank in ranks]

        ranks = self.top_until(lambda ranks: judged(ranks) == [(True, False), (False, True)])
        self.assertEqual(judged(ranks), [(True, False), (False, True)], ranks)
        self.assertGreaterEqual(ranks[0]["sleeps_outside_share"], 0.3)
        self.assertFalse(any(rank["waits_for_own_threads"] for rank in ranks), ranks)

    def test_says_that_main_threads_wait_for_threads_that_compute(self):
        self.start("threads")
        ranks = self.top_until(lambda ranks: all(rank["waits_for_own_threads"] for rank in ranks))
        for rank in ranks:
            self.assertTrue(rank["waits_for_own_threads"], ranks)
            self.assertGreaterEqual(rank["threads_run_outside_share"], 0.3)
            self.assertFalse(rank["seems_bound_by_input"], ranks)

    def test_shows_the_gpus_of_the_ranks(self):
        self.start("input")
        folder = os.path.dirname(FAKE_NVML)
        without_driver = rueda("top", self.pids[0], "--once", "--interval", 0.2, LD_LIBRARY_PATH=folder).stdout
        self.assertIn("MEMORY", without_driver)
        self.assertNotIn("GPU", without_driver)
        pids = [rank["pid"] for rank in self.top(0.2)[1]]
        gpus = self.folder / "gpus"
        settings = {"LD_LIBRARY_PATH": folder, "FAKE_NVML": str(gpus)}

        def top(utilization, *arguments):
            gpus.write_text(f"{utilization} {3 << 30} {8 << 30} {pids[0]}\n0 0 1\n")
            done = rueda("top", self.pids[0], "--once", "--interval", 1.5, *arguments, **settings)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return done.stdout

        text = top(85)
        self.assertRegex(text, r"(?m)^RANK .*  GPU  GPU MEMORY  DOING$")
        self.assertRegex(text, rf"(?m)^[ !]*0 +{pids[0]} .*  85%       3 GiB$")
        self.assertRegex(text, rf"(?m)^[ !]*1 +{pids[1]} .*    -           -$")
        # Rank 0 sleeps most of the time, but its GPU is busy meanwhile. So rank 0 may be waiting for its GPU. `rueda
        # top` must not say that rank 0 waits for its input.
        ranks = json.loads(top(100, "--json"))["ranks"]
        self.assertEqual(
            ranks[0]["gpus"], [{"index": 0, "utilization": 1.0, "used_bytes": 3 << 30, "total_bytes": 8 << 30}]
        )
        self.assertEqual(ranks[1]["gpus"], [])
        self.assertFalse(ranks[0]["seems_bound_by_input"], ranks)
        self.assertEqual(ranks[0]["idle_share"], 0)

    def test_shows_for_whom_a_job_waits_that_stands_still(self):
        self.start("missing")
        ranks = self.top_until(lambda ranks: ranks[0]["pending"], 0.2)
        self.assertRegex(ranks[0]["pending"], r"^allreduce 'gradient' for \d+ s$")
        self.assertEqual(ranks[1]["scope"], "saving the model")
        self.assertEqual(ranks[0]["step"], 3)
        self.assertEqual(ranks[0]["waits_for"][0]["rank"], 1)
        self.assertGreater(ranks[0]["waiting_share"], 0.9)
        self.assertTrue(ranks[1]["is_straggler"])
        self.assertGreater(ranks[0]["in_step_seconds"], 1)

    def test_shows_which_rank_does_not_send_a_message(self):
        self.start("message", ranks=3)
        ranks = self.top_until(lambda ranks: ranks[1]["pending"], 0.2)
        self.assertRegex(ranks[1]["pending"], r"^receive from rank 0 for \d+ s$")
        self.assertEqual([wait["rank"] for wait in ranks[1]["waits_for"]], [0])
        self.assertGreater(ranks[1]["waiting_share"], 0.9)
        self.assertEqual([rank["is_straggler"] for rank in ranks], [True, False, False])

    def test_shows_the_ranks_of_several_hosts(self):
        """A script replaces mpirun. Instead of starting `rueda` on a remote host, the script runs it on this host. For
        each of the hosts "one" and "two", the script shows a different job."""
        self.start("even")
        (self.folder / "other").mkdir()
        other = WithJob("start")
        other.folder = self.folder / "other"
        self.addCleanup(other.doCleanups)
        other.start("even", ranks=1)
        tools = self.folder / "bin"
        tools.mkdir()
        (tools / "mpirun").write_text(
            '#!/bin/sh\n[ "$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit; }\n'
            'until [ "$1" = --host ]; do shift; done\nhost=$2\n'
            'until [ "$2" = top ]; do shift; done\n'
            f'case $host in\none:1) echo a warning; exec "$@" {self.pids[0]} ;;\ntwo:1) exec "$@" {other.pids[0]} ;;\n'
            'esac\necho "ssh: no way to $host" >&2\nexit 255\n'
        )
        (tools / "mpirun").chmod(0o755)
        path = f"{tools}:{os.environ['PATH']}"
        done = rueda("top", "--hosts", "one,two,gone", "--interval", 0.3, PATH=path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^HOST +RANK +PID ")
        pids = sorted(map(int, re.findall(r"(?m)^(?:one|two) [ !]*\d+ +(\d+) ", done.stdout)))
        self.assertEqual(pids, sorted(self.pids + other.pids))
        self.assertRegex(done.stdout, rf"(?m)^two [ !]*0 +{other.pids[0]} ")
        self.assertTrue(done.stdout.endswith("\nHost gone is not shown: ssh: no way to gone:1\n"), done.stdout)

        done = rueda("top", "-H", "one,gone", "--json", "--interval", 0.3, PATH=path)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        one, gone = json.loads(done.stdout)["hosts"]
        self.assertEqual((one["host"], one["problem"]), ("one", None))
        self.assertEqual(sorted(rank["pid"] for rank in one["job"]["ranks"]), self.pids)
        self.assertEqual(gone, {"host": "gone", "problem": "ssh: no way to gone:1", "job": None})

        done = rueda("top", "-H", "gone", PATH=path)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, "rueda: Host gone is not shown: ssh: no way to gone:1\n")

    def test_the_hosts_of_a_job_on_one_host_are_not_known(self):
        self.start("even")
        done = rueda("top", "--all-hosts", self.pids[0])
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^rueda: the hosts of job j\d+ are not known, ")

    def test_called_wrongly(self):
        for arguments in (
            ["--all-hosts", "--hosts", "a,b"],
            ["--interval", "0"],
            ["--interval", "x"],
            ["--onse"],
            ["j1", "j2"],
            ["--interval"],
            *self.wrong_hosts,
        ):
            done = rueda("top", *arguments)
            self.assertEqual((done.returncode, done.stdout), (3, ""), arguments)
            self.assertRegex(done.stderr, r"^rueda: .*\n$")
        done = rueda("top", "j0")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^rueda: (there is no job 'j0'|no job of Rueda)")
        self.assertEqual(rueda("ps", "extra").returncode, 3)
        for command in ("ps", "top"):
            text = rueda(command, "--help").stdout
            self.assertTrue(text.startswith(f"Usage: rueda {command} "), text)
            self.assertIn("Examples:", text)


class SeveralHosts(WithJob):
    """Runs a job on two test hosts. Each test host sees the processes of both test hosts, so the test says which part
    of the job belongs to which host."""

    @classmethod
    def setUpClass(cls):
        reason = test_hosts.why_not() if shutil.which("mpirun") else "there is no mpirun"
        if reason:
            raise unittest.SkipTest(reason)
        cls.hosts = test_hosts.Hosts(2)
        cls.addClassCleanup(cls.hosts.close)

    def rueda(self, *arguments):
        return self.hosts.run(
            0,
            [RUEDA, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            env=environment(),
            stdin=subprocess.DEVNULL,
        )

    def start(self, mode, ranks=2, **settings):
        self.job = self.hosts.popen(
            0,
            [RUEDARUN, "-H", f"rueda-h0:{ranks},rueda-h1:{ranks}", WATCHED_RANK, mode, self.folder / "stop"],
            stdout=subprocess.PIPE,
            text=True,
            env=environment() | settings,
            stdin=subprocess.DEVNULL,
        )
        self.addCleanup(self.end_job)
        self.assertEqual(self.job.stdout.readline().rstrip().split()[-1:], ["trains"])
        listed = json.loads(rueda("ps", "--json").stdout)["jobs"]
        self.parts = sorted((job for job in listed if str(self.folder) in job["program"]), key=lambda job: job["ranks"])

    def test_shows_all_ranks_of_a_job(self):
        self.start("even")
        self.assertEqual([job["ranks"] for job in self.parts], [[0, 1], [2, 3]])
        first, second = (job["id"] for job in self.parts)
        hosts = ("--hosts", "rueda-h0,rueda-h1", "--interval", 0.5)
        done = self.rueda("top", *hosts, f"{first},{second}")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(f"{first} on rueda-h0, {second} on rueda-h1  running", done.stdout)
        places = re.findall(r"(?m)^(rueda-h\d) [ !]*(\d) +(\d+) ", done.stdout)
        pids = [pid for job in self.parts for pid in job["pids"]]
        self.assertEqual([(host, rank) for host, rank, _ in places], [(f"rueda-h{r // 2}", f"{r}") for r in range(4)])
        self.assertEqual(sorted(int(pid) for _, _, pid in places), sorted(pids))
        done = self.rueda("top", *hosts, f"{first},j0")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertRegex(done.stdout, r"(?m)^Host rueda-h1 is not shown: there is no job 'j0' on this host; there is ")

    def streams(self):
        """Returns the command lines of the processes that watch the job for a live screen of `rueda top`."""
        return [command for command in self.hosts.processes().values() if "--stream" in command]

    def test_a_live_screen_of_all_hosts(self):
        self.start("even")
        first, second = (job["id"] for job in self.parts)
        terminal = Terminal(
            *("top", "--hosts", "rueda-h0,rueda-h1", "--interval", 0.3, f"{first},{second}"),
            columns=200,
            on_host=self.hosts,
        )
        self.addCleanup(terminal.close)
        for rank in range(4):
            terminal.read_until(lambda seen, rank=rank: re.search(rb"rueda-h%d +%d +\d+ " % (rank // 2, rank), seen))
        self.assertTrue(self.streams())
        terminal.type(b"q")
        self.assertEqual(terminal.end(), 0)
        self.assertEqual(termios.tcgetattr(terminal.side), terminal.settings)
        deadline = time.monotonic() + TIMEOUT / 2
        while self.streams() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.streams(), [])
        self.assertIsNone(self.job.poll())

    def test_all_hosts_of_a_job_are_known(self):
        self.start("even")
        done = self.rueda("top", "--all-hosts", "--json", "--interval", 0.3, self.parts[0]["id"])
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        hosts = json.loads(done.stdout)["hosts"]
        self.assertEqual([host["host"] for host in hosts], ["rueda-h0", "rueda-h1"])
        # Each test host sees both parts of the job, which have the same token, and shows the part that it finds first.
        parts = {part["id"] for part in self.parts}
        self.assertTrue({host["job"]["id"] for host in hosts} <= parts, hosts)


class LiveHosts(WithJob):
    """The live screen of several hosts. The test replaces mpirun by a script. Instead of starting a program on a remote
    host, the script runs the command that `cases` has for this host. The command runs on the test's own machine.
    """

    def open(self, hosts, cases, **size):
        tools = self.folder / "bin"
        tools.mkdir(exist_ok=True)
        lines = [f"{host}:1) {case} ;;" for host, case in cases.items()]
        (tools / "mpirun").write_text(
            '#!/bin/sh\n[ "$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit; }\n'
            'until [ "$1" = --host ]; do shift; done\nhost=$2\n'
            'until [ "$2" = top ]; do shift; done\n'
            "case $host in\n" + "\n".join(lines) + "\nesac\n"
            'echo "ssh: no way to $host" >&2\nexit 255\n'
        )
        (tools / "mpirun").chmod(0o755)
        terminal = Terminal(
            *("top", "--hosts", hosts, "--interval", 0.3),
            columns=200,
            settings={"PATH": f"{tools}:{os.environ['PATH']}"},
            **size,
        )
        self.addCleanup(terminal.close)
        return terminal

    def streams(self):
        """Returns the process ids of the processes that watch a job of this test for a live screen of `rueda top`."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--stream" in words and str(self.pids[0]).encode() in words:
                found.append(int(entry.name))
        return found

    def assert_nothing_is_left(self):
        self.assertEqual(self.streams(), [])
        self.assertIsNone(self.job.poll())

    def test_shows_the_hosts_that_answer_and_says_why_others_do_not(self):
        self.start("even")
        terminal = self.open("one,gone,two", {host: f'exec "$@" {self.pids[0]}' for host in ("one", "two")})
        for host in (b"one", b"two"):
            terminal.read_until(lambda seen, host=host: re.search(host + rb" +1 +\d+ ", seen))
        terminal.shows(b"Host gone is not shown: ssh: no way to gone:1")
        self.assertEqual(len(self.streams()), 2)
        terminal.type(b"q")
        self.assertEqual(terminal.end(), 0)
        self.assertEqual(termios.tcgetattr(terminal.side), terminal.settings)
        self.assert_nothing_is_left()

    def test_marks_a_host_that_stops_to_answer(self):
        self.start("even")
        terminal = self.open("one,two", {host: f'exec "$@" {self.pids[0]}' for host in ("one", "two")})
        for host in (b"one", b"two"):
            terminal.read_until(lambda seen, host=host: re.search(host + rb" +1 +\d+ ", seen))
        stopped = self.streams()[0]
        os.kill(stopped, signal.SIGSTOP)
        terminal.read_until(lambda seen: re.search(rb"(one|two) does not answer: its rows are \d+s old", seen))
        terminal.read_until(lambda seen: re.search(rb"(one|two) \(\d+s old\) +1 +\d+ ", seen))
        other = b"two" if b"one does not answer" in terminal.seen else b"one"
        begin = len(terminal.seen)
        terminal.read_until(lambda seen: len(re.findall(other + rb" +1 +\d+ ", seen[begin:])) >= 2)
        # The process is stopped and does not handle SIGTERM, so only SIGKILL ends it.
        terminal.type(b"q")
        self.assertEqual(terminal.end(), 0)
        self.assert_nothing_is_left()

    def test_a_killed_screen_leaves_nothing(self):
        self.start("even")
        terminal = self.open("one", {"one": f'exec "$@" {self.pids[0]}'})
        terminal.read_until(lambda seen: re.search(rb"one +1 +\d+ ", seen))
        os.kill(terminal.pid, signal.SIGKILL)
        self.assertEqual(terminal.end(), -signal.SIGKILL)
        deadline = time.monotonic() + TIMEOUT / 2
        while self.streams() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assert_nothing_is_left()

    def test_ends_with_the_job(self):
        self.start("even")
        terminal = self.open("one", {"one": f'exec "$@" {self.pids[0]}'})
        terminal.read_until(lambda seen: re.search(rb"one +1 +\d+ ", seen))
        self.end_job()
        self.assertEqual(terminal.end(), 0)
        self.assertRegex(
            terminal.seen.split(LEAVE_SCREEN)[1].decode(),
            r"^Host one is not shown any more: job j\d+ has ended\r\n$",
        )

    def test_no_host_answers(self):
        self.start("even")
        terminal = self.open("gone", {})
        self.assertEqual(terminal.end(), 1)
        self.assertEqual(
            terminal.seen.split(LEAVE_SCREEN)[1].decode(),
            "rueda: Host gone is not shown: ssh: no way to gone:1\r\n",
        )

    def test_what_a_host_prints_is_not_trusted(self):
        self.start("even")
        terminal = self.open(
            "one,text,long,json",
            {
                "one": f'exec "$@" {self.pids[0]}',
                "text": r"printf 'rueda: \033[31mred\033[0m\n' >&2; exit 1",
                "long": "yes | tr -d '\\n' | head -c 5000000; exec sleep 60",
                "json": r"""echo '{"id":"\\u001b[5m"}'; exec sleep 60""",
            },
        )
        terminal.shows(b"Host text is not shown: ?[31mred?[0m")
        terminal.shows(b"Host long is not shown: it printed a line of more than 4 MiB")
        terminal.shows(b"Host json: its answer cannot be read; is it the same version of Rueda?")
        terminal.read_until(lambda seen: re.search(rb"one +1 +\d+ ", seen))
        self.assertNotIn(b"\x1b[5m", terminal.seen)
        self.assertNotIn(b"\x1b[31mred", terminal.seen)
        terminal.type(b"q")
        self.assertEqual(terminal.end(), 0)
        self.assert_nothing_is_left()


class Screen(WithJob):
    def open(self, **size):
        terminal = Terminal("top", self.pids[0], "--interval", 0.3, **size)
        self.addCleanup(terminal.close)
        terminal.shows(ENTER_SCREEN)
        terminal.shows(b"MEMORY")
        settings = termios.tcgetattr(terminal.side)
        self.assertEqual(settings[3] & (termios.ICANON | termios.ECHO), 0)
        return terminal

    def assert_restored(self, terminal):
        self.assertEqual(termios.tcgetattr(terminal.side), terminal.settings)
        self.assertTrue(terminal.seen.rstrip().endswith(b"\x1b[?25h" + LEAVE_SCREEN), terminal.seen[-200:])
        self.assertEqual(terminal.seen.count(ENTER_SCREEN), terminal.seen.count(LEAVE_SCREEN))

    def test_q_ends_it(self):
        self.start("straggler")
        terminal = self.open()
        terminal.read_until(lambda seen: re.search(rb"\x1b\[31m *! 1 ", seen))
        terminal.type(b"x\x1b[A")  # keys without a function must have no effect
        pictures = terminal.seen.count(b"MEMORY")
        terminal.read_until(lambda seen: seen.count(b"MEMORY") >= pictures + 2)
        terminal.type(b"q")
        self.assertEqual(terminal.end(), 0)
        self.assert_restored(terminal)

    def test_signals_end_it(self):
        self.start("even")
        for end, status in (
            (lambda terminal: os.kill(terminal.pid, signal.SIGTERM), 128 + signal.SIGTERM),
            (lambda terminal: os.kill(terminal.pid, signal.SIGHUP), 128 + signal.SIGHUP),
            (lambda terminal: terminal.type(b"\x03"), 0),
        ):
            terminal = self.open()
            end(terminal)
            self.assertEqual(terminal.end(), status)
            self.assert_restored(terminal)

    def test_follows_the_size_of_the_terminal(self):
        self.start("even")
        terminal = self.open(lines=24, columns=200)
        terminal.resize(5, 40)
        begin = len(terminal.seen)
        # A screen of the old size may still arrive after the change, so the test checks the second screen.
        terminal.read_until(lambda seen: seen[begin:].count(b"\x1b[H") >= 3)
        picture = terminal.seen.split(b"\x1b[H")[-2]
        lines = re.sub(rb"\x1b\[[0-9;]*[A-Za-z]", b"", picture).split(b"\r\n")
        self.assertLessEqual(len(lines), 5)
        self.assertLessEqual(max(len(line.decode().rstrip("\r")) for line in lines), 40)
        terminal.type(b"q")
        self.assertEqual(terminal.end(), 0)

    def test_ctrl_z_gives_the_terminal_back_until_it_goes_on(self):
        self.start("even")
        terminal = self.open()
        os.kill(terminal.pid, signal.SIGTSTP)
        _, status = os.waitpid(terminal.pid, os.WUNTRACED)
        self.assertTrue(os.WIFSTOPPED(status))
        terminal.read_until(lambda seen: LEAVE_SCREEN in seen)
        self.assertEqual(termios.tcgetattr(terminal.side), terminal.settings)
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.read_until(lambda seen: seen.count(ENTER_SCREEN) == 2)
        terminal.type(b"q")
        self.assertEqual(terminal.end(), 0)
        self.assert_restored(terminal)

    def test_ends_with_the_job(self):
        self.start("even")
        terminal = self.open()
        self.end_job()
        self.assertEqual(terminal.end(), 0)
        self.assertEqual(termios.tcgetattr(terminal.side), terminal.settings)
        self.assertRegex(terminal.seen.split(LEAVE_SCREEN)[1].decode(), r"^Job j\d+ has ended\.\r\n$")


def use_programs(rueda, ruedarun, watched_rank, fake_nvml=""):
    global RUEDA, RUEDARUN, WATCHED_RANK, FAKE_NVML
    RUEDA, RUEDARUN, WATCHED_RANK, FAKE_NVML = rueda, ruedarun, watched_rank, fake_nvml


if __name__ == "__main__":
    use_programs(*sys.argv[1:5])
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)
