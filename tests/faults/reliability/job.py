# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Starts one job of fault_rank, watches it from outside, and lists what it left behind.

The process that uses this module must be the first process of its own namespaces (see namespaces.py). So every other
process, every file in /tmp and /dev/shm, and every socket belongs to the job.
"""

import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

import namespaces

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support" / "hosts"))
import hosts as test_hosts  # noqa: E402

START_SECONDS = 60  # the longest time from the start of a job until its ranks train
HANG_SECONDS = 60  # a job that has not ended after this time hangs
LINGER_SECONDS = 10  # a process that runs longer than this after the end of the launcher was left behind
PAUSE = 0.005  # seconds between two checks of a condition


@dataclasses.dataclass(frozen=True)
class Launch:
    """Says how a job is started. `layout` has the number of ranks of each host."""

    way: str = "no MPI"  # "no MPI", "Open MPI", "mpirun" (without ruedarun), "hosts" or "hosts without MPI"
    layout: tuple[int, ...] = (3,)
    wire: bool = False  # whether a process that can lose and delay packets connects the hosts
    options: tuple[str, ...] = ()  # options of ruedarun
    away: bool = False  # whether rank 0 is on the last host, and not on the host of ruedarun

    @property
    def has_hosts(self):
        return self.way.startswith("hosts")

    @property
    def needs_mpi(self):
        return self.way not in ("no MPI", "hosts without MPI")

    def command(self, ruedarun, host_names):
        ranks = str(sum(self.layout))
        if self.way == "no MPI":
            return [ruedarun, "--no-mpi", "-np", ranks, *self.options]
        if self.way == "Open MPI":
            return [ruedarun, "-np", ranks, *self.options]
        if self.way == "mpirun":
            return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", ranks]
        names = reversed(host_names) if self.away else host_names
        places = ",".join(f"{name}:{count}" for name, count in zip(names, self.layout, strict=True))
        without_mpi = [] if self.needs_mpi else ["--no-mpi"]
        return [ruedarun, *without_mpi, "-H", places, *self.options]


@dataclasses.dataclass
class RankFile:
    """The content of the file that a rank writes."""

    pid: int = 0
    running: bool = False
    harmed: float | None = None  # the time at which the rank began to cause the fault in itself
    error: tuple[float, str] | None = None
    ended: bool = False
    notes: list[str] = dataclasses.field(default_factory=list)


def read_rank_file(path):
    found = RankFile()
    for line in path.read_text().split("\n")[:-1] if path.exists() else []:
        word, _, rest = line.partition(" ")
        if word == "pid":
            found.pid = int(rest)
        elif word == "harm":
            found.harmed = float(rest)
        elif word == "error":
            when, _, text = rest.partition(" ")
            found.error = (float(when), text)
        elif word == "note":
            found.notes.append(rest)
        found.running = found.running or word == "running"
        found.ended = found.ended or word == "end"
    return found


class Problem(Exception):
    """The job did something that the fault does not explain; for example, it did not start."""


class Job:
    """One job. Threads: one thread uses the job, and a thread of this class reads the output."""

    def __init__(self, launch, ruedarun, rank_program, folder, kept=()):
        self.launch = launch
        self.kept = [pathlib.Path(path) for path in kept]  # folders that stay visible if something hides /dev/shm
        self.ruedarun = ruedarun
        self.rank_program = rank_program
        self.folder = pathlib.Path(folder)  # the folder for the files of the ranks
        self.place = self.folder / "place"  # the job's current folder, which must stay empty
        self.place.mkdir()
        self.environment = {}
        self.words = ["train", str(self.folder)]  # the arguments of fault_rank
        self.before_launcher = []  # words in front of the launcher's command line
        self.before_rank = []  # words in front of fault_rank's command line
        self.own_processes = []  # processes that the injection has started; they are not part of the job
        self.delay = 0.0  # seconds for which the job trains before the fault
        self.cleanups = []  # functions that undo what the injection has changed
        self.lines = []  # the output: pairs of a time and a line
        self.began = None  # the time at which the launcher was started
        self.hosts = None
        self.process = None
        self.reader = None

    @property
    def ranks(self):
        return range(sum(self.launch.layout))

    def rank(self, number):
        return read_rank_file(self.folder / f"rank.{number}")

    def start(self):
        names = []
        if self.launch.has_hosts:
            tempfile.tempdir = str(self.folder)  # /tmp is not used, because only files of the job may be there
            self.hosts = test_hosts.Hosts(len(self.launch.layout), wire=self.launch.wire)
            names = self.hosts.names
        kept = ("PATH", "HOME", "LANG", "USER", "LD_LIBRARY_PATH")
        environment = {name: value for name, value in os.environ.items() if name in kept}
        environment |= {"TMPDIR": "/tmp", **self.environment}
        if self.launch.has_hosts and not self.launch.needs_mpi:
            environment["PATH"] = f"{self.make_ssh()}:{environment['PATH']}"
        command = [*self.before_launcher, *self.launch.command(self.ruedarun, names)]
        command += [*self.before_rank, self.rank_program, *self.words]
        options = {
            "env": environment,
            "cwd": self.place,
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            "text": True,
            "errors": "replace",
        }
        start = subprocess.Popen if self.hosts is None else lambda *a, **k: self.hosts.popen(0, *a, **k)
        self.began = time.monotonic()
        self.process = start(command, **options)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def make_ssh(self):
        """Makes a replacement of ssh, and returns its folder. As with ssh, the command on the other host is not a child
        of the program `ssh`, so the command continues when `ssh` ends."""
        programs = self.folder / "programs"
        programs.mkdir()
        ssh = programs / "ssh"
        # The shell gives a background command an empty standard input. So the script gives `setsid` a copy of the
        # script's own standard input.
        ssh.write_text(f'#!/bin/sh\nexec 3<&0\nsetsid {self.hosts.agent} "$@" <&3 3<&- &\nwait $!\n')
        ssh.chmod(0o755)
        return programs

    def _read(self):
        for line in self.process.stdout:
            self.lines.append((time.monotonic(), line.rstrip("\n")))

    def read_rest(self):
        """Waits until all output has been read. Call this when no process of the job is left."""
        self.reader.join(LINGER_SECONDS)

    def output(self):
        """Returns the output. In front of each line is its time, in seconds since the start of the launcher."""
        return "\n".join(f"{when - self.began:.2f} {line}" for when, line in self.lines)

    def wait_until(self, condition, seconds, what):
        """Calls `condition` until it returns a true value, and returns this value. After `seconds`, raises a Problem with
        the text `what`."""
        deadline = time.monotonic() + seconds
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise Problem(f"{what}: still not after {seconds} s; output:\n{self.output()}")
            if self.process is not None and self.process.poll() is not None and not condition():
                raise Problem(f"{what}: the job has ended before; output:\n{self.output()}")
            time.sleep(PAUSE)
        return value

    def wait_until_running(self, numbers=None):
        """Waits until the ranks train, and lets them train for `delay` seconds."""
        numbers = self.ranks if numbers is None else numbers
        self.wait_until(lambda: all(self.rank(n).running for n in numbers), START_SECONDS, "the job trains")
        time.sleep(self.delay)

    def wait_for_end(self):
        """Waits until the launcher has ended. Returns its exit status as a shell shows it, or None if it hangs."""
        try:
            status = self.process.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        return status if status >= 0 else 128 - status

    def processes(self):
        """Returns the processes of the job: {pid: command line}. Zombies are left out: nobody can end them any more."""
        helpers = {os.getpid(), *(process.pid for process in self.own_processes)}
        if self.hosts is not None:
            helpers |= {holder.pid for holder in self.hosts.holders}
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) in helpers:
                continue
            with contextlib.suppress(OSError):
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                if state not in "ZX" and line:
                    found[int(entry.name)] = line
        return found

    def wait_until_no_process(self):
        """Waits until all processes of the job have ended, at most LINGER_SECONDS. Returns the time, and the
        processes that still run.
        """
        deadline = time.monotonic() + LINGER_SECONDS
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(PAUSE)
        return time.monotonic(), left

    def parent_of(self, pid):
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])

    def mpirun(self):
        """Returns the process id of mpirun."""
        [pid] = [pid for pid, line in self.processes().items() if line.split(" ")[0].endswith("mpirun")]
        return pid

    def process_with(self, pattern):
        """Returns the id of the only process of the job whose command line has the pattern."""
        found = {pid: line for pid, line in self.processes().items() if re.search(pattern, line)}
        if len(found) != 1:
            raise Problem(f"one process with {pattern!r} was expected, not {found}")
        return next(iter(found))

    def named_sockets(self):
        """Returns the names of the Unix sockets in the job's network namespaces."""
        found = []
        for process in [os.getpid(), *(holder.pid for holder in (self.hosts.holders if self.hosts else []))]:
            with contextlib.suppress(OSError):
                lines = pathlib.Path(f"/proc/{process}/net/unix").read_text().splitlines()[1:]
                found += [line.split()[7] for line in lines if len(line.split()) > 7]  # the others have no name
        return found

    def left_behind(self, processes):
        """Returns one line for each thing that the job has left behind."""
        left = [f"the process {line[:100]}" for line in processes.values()]
        for folder in ("/tmp", "/dev/shm", str(self.place)):
            kept = namespaces.within(self.kept, folder)
            for parent, folders, files in os.walk(folder):
                folders[:] = [name for name in folders if pathlib.Path(parent, name) not in kept]
                left += [f"the file {parent}/{name}" for name in files]
                leads_to_kept = any(pathlib.Path(parent) in path.parents for path in kept)
                if parent != folder and not folders and not files and not leads_to_kept:
                    left.append(f"the folder {parent}")
        # A process that was killed can be a zombie, or have no command line any more, so processes() does not list it.
        # But the kernel may still be closing its sockets. The sockets get a second to disappear.
        deadline = time.monotonic() + 1
        while (sockets := self.named_sockets()) and time.monotonic() < deadline:
            time.sleep(PAUSE)
        left += [f"the socket {name}" for name in sockets]
        for line in pathlib.Path("/proc/sysvipc/shm").read_text().splitlines()[1:]:
            left.append(f"the System V segment {line.split()[1]}")
        return sorted(set(left))

    def close(self):
        for process in self.own_processes:
            process.kill()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.hosts is not None:
            self.hosts.close()
        for cleanup in self.cleanups:
            with contextlib.suppress(OSError):
                cleanup()
