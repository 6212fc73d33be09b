# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The classes that inject faults.

prepare() runs before the job starts, and may change how the job starts. inject() runs while the job trains, injects
the fault, and returns the time of the fault. why_not() returns the reason why the fault cannot be injected on this
machine, or None.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from job import START_SECONDS, Problem
from namespaces import mount_over


def shell(script, *words):
    """Returns the beginning of a command line: a shell that executes `script`. The script must end with exec "$@", which
    executes the rest of the command line."""
    return ["sh", "-c", script, "sh", *words]


class Injection:
    """The base class of the classes that inject faults. It injects nothing itself."""

    def why_not(self):
        return None

    def prepare(self, job):
        pass

    def inject(self, job):
        job.wait_until_running()
        return time.monotonic()


class Together(Injection):
    """Combines several injections in one job. All of them prepare the job. Only the first one injects a fault while the job
    trains."""

    def __init__(self, first, *others):
        self.first = first
        self.others = others

    def why_not(self):
        return next((reason for way in (self.first, *self.others) if (reason := way.why_not())), None)

    def prepare(self, job):
        for way in (self.first, *self.others):
            way.prepare(job)

    def inject(self, job):
        return self.first.inject(job)


class SignalRank(Injection):
    """Sends signals to the process of a rank, with `pause` seconds between them."""

    def __init__(self, rank, *numbers, pause=1.0):
        self.rank = rank
        self.numbers = numbers
        self.pause = pause

    def inject(self, job):
        job.wait_until_running()
        pid = job.rank(self.rank).pid
        begin = time.monotonic()
        for place, number in enumerate(self.numbers):
            time.sleep(self.pause if place else 0)
            os.kill(pid, number)
        return begin


class SignalLauncher(Injection):
    """Sends signals to ruedarun or, in a job without ruedarun, to mpirun. If `ignored` is true, the ranks ignore the
    first signal.
    """

    def __init__(self, *numbers, ignored=False, pause=0.3):
        self.numbers = numbers
        self.ignored = ignored
        self.pause = pause

    def prepare(self, job):
        if self.ignored:
            name = signal.Signals(self.numbers[0]).name.removeprefix("SIG")
            job.before_rank = shell(f'trap "" {name}; exec "$@"')

    def inject(self, job):
        job.wait_until_running()
        begin = time.monotonic()
        for place, number in enumerate(self.numbers):
            time.sleep(self.pause if place else 0)
            # On test hosts, job.process was started as a shell, which then replaced itself by ruedarun (exec).
            job.process.send_signal(number)
        return begin


class KillMpirun(Injection):
    def inject(self, job):
        job.wait_until_running()
        pid = job.mpirun()
        begin = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        return begin


class KillSupervisor(Injection):
    """Kills the supervisor of a rank, the process between mpirun and the rank."""

    def __init__(self, rank):
        self.rank = rank

    def inject(self, job):
        job.wait_until_running()
        supervisor = job.parent_of(job.rank(self.rank).pid)
        begin = time.monotonic()
        os.kill(supervisor, signal.SIGKILL)
        return begin


class KillProcess(Injection):
    """Kills the process of the job whose command line has a pattern."""

    def __init__(self, pattern):
        self.pattern = pattern

    def inject(self, job):
        job.wait_until_running()
        pid = job.process_with(self.pattern)
        begin = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        return begin


class InRank(Injection):
    """A rank causes the fault in itself during a step. fault_rank.cpp has the list of possible values of `harm`."""

    def __init__(self, rank, harm):
        self.rank = rank
        self.harm = harm

    def prepare(self, job):
        job.words += [str(self.rank), self.harm]

    def inject(self, job):
        job.wait_until_running()
        (job.folder / "harm").write_text("")
        job.wait_until(lambda: job.rank(self.rank).harmed, START_SECONDS, "the rank harms itself")
        return job.rank(self.rank).harmed


class BeforeInit(InRank):
    """A rank causes the fault in itself before it calls rueda::init()."""

    def inject(self, job):
        # The other ranks may notice the fault and end at once. wait_until() would then fail, so it is not used here.
        deadline = time.monotonic() + START_SECONDS
        while (harmed := job.rank(self.rank).harmed) is None:
            if time.monotonic() > deadline:
                raise Problem("the rank does not start")
            time.sleep(0.005)
        return harmed


class MemoryLimit(InRank):
    """Like InRank, but the job runs in a control group with little memory, and the fault is that the kernel ends the rank
    because of the limit."""

    BYTES = 192 << 20
    EMPTY_SECONDS = 5  # the longest time that killed processes may need to leave the control group
    PLACES = (
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ("/sys/fs/cgroup/unified", "memory.max"),
        ("/sys/fs/cgroup", "memory.max"),
    )

    def make_group(self):
        for parent, name in self.PLACES:
            group = pathlib.Path(parent) / f"rueda-faults-{time.monotonic_ns()}"
            try:
                group.mkdir()
            except OSError:
                continue
            # The kernel makes the file that holds the memory limit. If the file is missing, the parent is not a control
            # group of the memory controller. Writing to the path would then create an ordinary file, which limits
            # nothing.
            if (group / name).is_file():
                with contextlib.suppress(OSError):
                    (group / name).write_text(str(self.BYTES))
                    return group
            self.remove_group(group)
        return None

    def remove_group(self, group):
        """Removes the control group as soon as it has no process. A process that was killed stays in the group for a
        while."""
        deadline = time.monotonic() + self.EMPTY_SECONDS
        with contextlib.suppress(OSError):
            while (group / "cgroup.procs").read_text() and time.monotonic() < deadline:
                time.sleep(0.01)
        with contextlib.suppress(OSError):
            group.rmdir()

    def why_not(self):
        group = self.make_group()
        if group is None:
            return "no control group with a memory limit can be made here"
        self.remove_group(group)
        return None

    def prepare(self, job):
        super().prepare(job)
        group = self.make_group()
        if group is None:
            raise Problem("no control group with a memory limit can be made any more")
        self.group = group
        job.cleanups.append(lambda: self.remove_group(group))
        job.before_launcher = shell('echo 0 > "$1" && shift && exec "$@"', str(group / "cgroup.procs"))

    def has_killed(self):
        """Returns whether the kernel has ended a process of the group because of the limit."""
        for name in ("memory.events", "memory.oom_control"):
            with contextlib.suppress(OSError):
                return re.search(r"^oom_kill [1-9]", (self.group / name).read_text(), re.MULTILINE) is not None
        raise Problem("the control group does not say whether the kernel has ended a process")

    def inject(self, job):
        # The time of the fault is the time at which the process ends, not the time at which it begins to allocate. On a
        # busy machine, the kernel takes many seconds to end the process, because it first looks for memory that it can
        # take back.
        super().inject(job)
        job.wait_until(self.has_killed, START_SECONDS, "the kernel ends the rank")
        return time.monotonic()


class Mount(Injection):
    """Mounts a file system at the folder "mounted" of the job. If there is a `setting`, this environment variable
    gets the folder's path. If `full` is true, the file system is full.
    """

    def __init__(self, options, setting=None, full=False):
        self.options = options
        self.setting = setting
        self.full = full

    def why_not(self):
        return None if shutil.which("mount") else "there is no mount"

    def prepare(self, job):
        where = job.folder / "mounted"
        where.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", self.options, "tmpfs", where], check=True)
        if self.setting:
            job.environment[self.setting] = str(where)
        if self.full:
            fill(where)


def fill(folder):
    with open(folder / "filler", "wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return


class FullSharedMemory(Injection):
    """Fills /dev/shm before the job starts."""

    def prepare(self, job):
        mount_over("/dev/shm", ["-t", "tmpfs", "-o", "size=64k", "tmpfs"], job.kept)
        fill(pathlib.Path("/dev/shm"))

    def inject(self, job):
        begin = super().inject(job)
        # if this file stayed in /dev/shm, the test would report that the job left it behind
        (pathlib.Path("/dev/shm") / "filler").unlink()
        return begin


class NoProc(Injection):
    """Hides /proc from the ranks. If `launcher` is true, hides it from ruedarun, too."""

    def __init__(self, launcher=False):
        self.launcher = launcher

    def prepare(self, job):
        words = ["unshare", "--mount", *shell('mount -t tmpfs tmpfs /proc && exec "$@"')]
        if self.launcher:
            job.before_launcher = words
        else:
            job.before_rank = words


class ClockJump(Injection):
    """Changes the time that all processes of the job read, while the job trains."""

    def __init__(self, seconds):
        self.seconds = seconds

    def write(self, job, seconds):
        with open(job.folder / "clock", "r+b" if (job.folder / "clock").exists() else "wb") as file:
            file.write(seconds.to_bytes(8, "little", signed=True))

    def prepare(self, job):
        self.write(job, 0)
        job.environment |= {"CLOCK_JUMP_FILE": str(job.folder / "clock"), "LD_PRELOAD": os.environ["CLOCK_JUMP"]}

    def inject(self, job):
        job.wait_until_running()
        self.write(job, self.seconds)
        return time.monotonic()


class Debugger(Injection):
    """Starts a process that attaches to a rank and stops all of its threads, as a debugger does."""

    def __init__(self, rank):
        self.rank = rank

    def inject(self, job):
        job.wait_until_running()
        command = [job.rank_program, "attach", str(job.rank(self.rank).pid)]
        begin = time.monotonic()
        debugger = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        job.own_processes.append(debugger)
        if debugger.stdout.readline() != "attached\n":
            raise RuntimeError("the process could not be traced")
        return begin


class Checkpoints(Injection):
    """Runs a job that saves checkpoints in a folder. The base class of faults that concern checkpoints."""

    STEPS = 30

    def __init__(self, where="checkpoints"):
        self.where = where

    def prepare(self, job):
        job.words = ["checkpoints", str(job.folder), str(job.folder / self.where), str(self.STEPS)]

    def inject(self, job):
        job.wait_until(lambda: job.rank(0).notes, START_SECONDS, "the job begins its steps")
        return time.monotonic()


def is_stopped(pid):
    """Returns whether every thread of the process is stopped by a signal."""
    with contextlib.suppress(OSError):  # a thread may end meanwhile
        threads = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
        return all((thread / "stat").read_text().rsplit(")", 1)[1].split()[0] == "T" for thread in threads)
    return False


class KillDuringCheckpoint(Checkpoints):
    """Kills rank 0 while it writes its third checkpoint, or a later one. To do so, stops the rank, and checks that the
    checkpoint is still unfinished. If the checkpoint is already complete, lets the rank continue, and tries the next
    checkpoint."""

    def inject(self, job):
        folder = job.folder / self.where
        unfinished = pathlib.Path()

        def writes_the_third():
            nonlocal unfinished
            if len(list(folder.glob("save-*"))) > 2:
                unfinished = next(folder.glob("*/*.partial"), unfinished)
            return unfinished.name

        while True:
            unfinished = pathlib.Path()
            job.wait_until(writes_the_third, START_SECONDS, "rank 0 writes its third checkpoint or a later one")
            pid = job.rank(0).pid
            os.kill(pid, signal.SIGSTOP)
            job.wait_until(lambda pid=pid: is_stopped(pid), START_SECONDS, "rank 0 stops")
            if unfinished.exists():
                begin = time.monotonic()
                os.kill(pid, signal.SIGKILL)
                return begin
            os.kill(pid, signal.SIGCONT)


class Unplug(Injection):
    """Cuts a test host off from the network, as if its cable were pulled."""

    def __init__(self, host):
        self.host = host

    def inject(self, job):
        job.wait_until_running()
        begin = time.monotonic()
        job.hosts.unplug(self.host)
        return begin


class ChangeWire(Injection):
    """Sends commands to the process that forwards the packets between the hosts (the wire). Waits `pause` seconds
    between two commands.
    """

    def __init__(self, *commands, pause=1.0):
        self.commands = commands
        self.pause = pause

    def inject(self, job):
        job.wait_until_running()
        begin = time.monotonic()
        for place, command in enumerate(self.commands):
            time.sleep(self.pause if place else 0)
            job.hosts.change_wire(command)
        return begin
