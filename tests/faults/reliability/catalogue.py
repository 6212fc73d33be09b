# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The list of faults. Each entry says what fails, how the fault is injected, and what must happen then."""

import dataclasses
import signal

from injections import (
    BeforeInit,
    ChangeWire,
    Checkpoints,
    ClockJump,
    Debugger,
    FullSharedMemory,
    Injection,
    InRank,
    KillDuringCheckpoint,
    KillMpirun,
    KillProcess,
    KillSupervisor,
    MemoryLimit,
    Mount,
    NoProc,
    SignalLauncher,
    SignalRank,
    Together,
    Unplug,
)
from job import Launch

ONE_HOST = "One host, without MPI"
OPEN_MPI = "One host, over Open MPI"
HOSTS = "Two hosts, over Open MPI"
UCX = "Two hosts, data over UCX"
HOSTS_WITHOUT_MPI = "Two hosts, without MPI"
GOES_ON = "Faults that do not end the job"
SECTIONS = (ONE_HOST, OPEN_MPI, HOSTS, UCX, HOSTS_WITHOUT_MPI, GOES_ON)

MPI = Launch("Open MPI")
TWO_HOSTS = Launch("hosts", (2, 2))
TWO_HOSTS_WITHOUT_MPI = Launch("hosts without MPI", (2, 2))
TWO_HOSTS_WITH_WIRE = Launch("hosts", (2, 2), wire=True)

# If a rank makes no progress, the job ends only if the user has set a limit. By default, the first report comes after a
# minute, which is too long for a test.
STALL = {"RUEDA_STALL_CHECK_TIME_SECONDS": "0.5", "RUEDA_STALL_SHUTDOWN_TIME_SECONDS": "1.5"}
STALL_STATUS = 79
OVER_UCX = {"RUEDA_TRANSPORT": "ucx"}
KILLED = 128 + signal.SIGKILL
# Each other host has an agent, which starts the ranks of its host. The agent reads the order to do so from its standard
# input, which ssh forwards.
AGENT_OF_ANOTHER_HOST = r"^\S*ruedarun --host-agent 0$"
SSH = r"/ssh -x -T "
# Files that Open MPI can leave behind if mpirun's message to a daemon is late. Open MPI chooses their names.
OF_OPEN_MPI = r"/(tmp|dev/shm)/(ompi\.|vader_segment|pmix)"


# On a busy machine, a rank may notice the death of another rank before ruedarun reports how that rank ended. Then the
# error has this text.
DIED = r"rank \d \(pid \d+\) died: its process ended"


@dataclasses.dataclass(frozen=True)
class Fault:
    key: str
    name: str  # the first column of the table
    section: str
    injection: Injection
    statuses: tuple[int, ...] = (0,)  # the exit status of the launcher must be one of these
    sees: str = ""  # a pattern; the user sees the first line of the output that matches it
    error: str = ""  # a pattern of the error that each rank of `survivors` gets
    survivors: tuple[int, ...] | None = None  # the ranks that must get the error `error`
    limit: float = 3  # the maximum number of seconds from the fault until no process of the job is left
    launch: Launch = Launch()
    settings: dict[str, str] = dataclasses.field(default_factory=dict)
    goes_on: bool = False  # whether the job continues to train after the fault, and all ranks end normally
    trains_on: float = 0.3  # if `goes_on` is true, the job trains at least this many seconds after the fault
    notes: tuple[str, ...] = ()  # patterns of lines "note …" that ranks must have written to their files
    leaves: str = ""  # a pattern of things that the job may leave behind

    def __post_init__(self):
        if bool(self.error) != bool(self.survivors):
            raise ValueError(f"{self.key}: `error` and `survivors` need each other")


def was_killed(rank, where=""):
    return rf"rank {rank}{where} \(pid \d+\) was killed by signal 9 \(Killed\)"


def ended(rank, status, where=""):
    return rf"rank {rank}{where} \(pid \d+\) ended with exit status {status}"


def stall(key, name, injection, cause, survivors=(0, 2), **more):
    """Returns a fault after which a rank makes no progress. `cause` is a pattern of the stall report's line that
    names the cause.
    """
    defaults = {"error": "has waited for rank 1 for|was announced by all ranks and is not done after", "limit": 10}
    return Fault(
        key, name, ONE_HOST, injection, (STALL_STATUS,), cause, survivors=survivors, settings=STALL, **defaults | more
    )


FAULTS = (
    Fault(
        "sigkill",
        "A rank is killed (SIGKILL)",
        ONE_HOST,
        SignalRank(1, signal.SIGKILL),
        (KILLED,),
        "^ruedarun: " + was_killed(1),
        f"{was_killed(1)}|{DIED}",
        (0, 2),
    ),
    Fault(
        "sigsegv",
        "A rank crashes (SIGSEGV)",
        ONE_HOST,
        InRank(1, "crash"),
        (128 + signal.SIGSEGV,),
        r"^ruedarun: rank 1 \(pid \d+\) was killed by signal 11",
        rf"rank 1 \(pid \d+\) was killed by signal 11 \(Segmentation fault\)|{DIED}",
        (0, 2),
    ),
    Fault(
        "exit-0",
        "A rank leaves by `_exit(0)`, without `shutdown()`",
        ONE_HOST,
        InRank(1, "exit status 0"),
        (1,),
        "^ruedarun: " + ended(1, 0) + " without having called",
        f"{ended(1, 0)}|{DIED}",
        (0, 2),
    ),
    Fault(
        "exit-3",
        "A rank leaves by `exit(3)`, without `shutdown()`",
        ONE_HOST,
        InRank(1, "exit status 3"),
        (3,),
        "^ruedarun: .*" + ended(1, 3),
        "rank 1 has ended the job: it ended with exit status 3",
        (0, 2),
    ),
    Fault(
        "exception",
        "A rank throws an exception that nobody catches",
        ONE_HOST,
        InRank(1, "exception"),
        (128 + signal.SIGABRT,),
        r"^ruedarun: .*rank 1 \(pid \d+\) was killed by signal 6",
        rf"rank 1 \(pid \d+\) was killed by signal 6 \(Aborted\)|{DIED}",
        (0, 2),
    ),
    Fault(
        "abort",
        "A rank calls `rueda::abort()`",
        ONE_HOST,
        InRank(1, "abort"),
        (1,),
        "the loss is nan",
        "rank 1 has ended the job: the loss is nan",
        (0, 1, 2),
    ),
    Fault(
        "mismatch",
        "A rank gives a tensor another shape",
        ONE_HOST,
        InRank(1, "other shape"),
        (1,),
        "Mismatch: ",
        "Mismatch: .*gradient",
        (0, 1, 2),
    ),
    Fault(
        "out-of-memory",
        "The kernel ends a rank because of the memory limit of the control group",
        ONE_HOST,
        MemoryLimit(1, "take all memory"),
        (KILLED,),
        "^ruedarun: " + was_killed(1) + ": the kernel ended 1 process for want of memory",
        f"{was_killed(1)}|{DIED}",
        (0, 2),
        limit=5,
    ),
    Fault(
        "too-large",
        "A rank allocates more resident memory than there is",
        ONE_HOST,
        InRank(1, "too much memory"),
        (1,),
        "ResourceExhausted: ",
        "rank 1 has ended the job: it ended with exit status 1",
        (0, 2),
    ),
    Fault(
        "freed-tensor",
        "A rank frees a tensor while its operation is pending (`RUEDA_VERIFY=1`)",
        ONE_HOST,
        InRank(1, "free pending tensor"),
        (1, 128 + signal.SIGSEGV, 128 + signal.SIGBUS),
        "the memory of tensor 'gradient'",
        "the memory of tensor 'gradient'",
        (0, 2),
        settings={"RUEDA_VERIFY": "1"},
    ),
    Fault(
        "no-descriptors-at-init",
        "A rank has no free file descriptor when it calls `init()`",
        ONE_HOST,
        BeforeInit(1, "no descriptors at init"),
        (1,),
        "Too many open files|RLIMIT_NOFILE|ulimit -n",
        "",
        limit=5,
    ),
    Fault(
        "absent",
        "A rank never calls `init()` (`RUEDA_START_TIMEOUT=1.5`)",
        ONE_HOST,
        BeforeInit(1, "stay away"),
        (1,),
        "Timeout: rank 1 did not come",
        "Timeout: rank 1 did not come",
        (0, 2),
        limit=10,
        settings={"RUEDA_START_TIMEOUT": "1.5"},
    ),
    stall(
        "sigstop",
        "A rank is stopped (SIGSTOP) and not continued",
        SignalRank(1, signal.SIGSTOP),
        "Probable cause: the process of rank 1 .* does not run: stopped by a signal",
    ),
    stall(
        "debugger",
        "A debugger attaches to a rank and keeps it stopped",
        Debugger(1),
        "Probable cause: the process of rank 1 .* does not run: stopped by a debugger",
    ),
    stall(
        "endless-loop",
        "A rank computes for ever",
        InRank(1, "endless loop"),
        r"rank 1 on \S+ \(pid \d+\): running",
    ),
    stall(
        "exec",
        "A rank replaces itself by another program (`exec`)",
        InRank(1, "exec"),
        "waiting for .*missing: rank 1",
    ),
    Fault(
        "fork-and-die",
        "A rank is killed, and a child that it forked lives on",
        ONE_HOST,
        InRank(1, "fork and die"),
        (KILLED,),
        "^ruedarun: " + was_killed(1),
        f"{was_killed(1)}|{DIED}",
        (0, 2),
    ),
    Fault(
        "no-proc-killed",
        "A rank is killed, and the ranks have no /proc",
        ONE_HOST,
        Together(SignalRank(1, signal.SIGKILL), NoProc()),
        (KILLED,),
        "^ruedarun: " + was_killed(1),
        f"{was_killed(1)}|{DIED}",
        (0, 2),
    ),
    Fault(
        "full-diagnostics",
        "A rank is killed, and the disk of `RUEDA_DIAGNOSTICS_DIR` is full",
        ONE_HOST,
        Together(SignalRank(1, signal.SIGKILL), Mount("size=64k", "RUEDA_DIAGNOSTICS_DIR", full=True)),
        (KILLED,),
        "RUEDA_DIAGNOSTICS_DIR: .*No space left on device",
        f"{was_killed(1)}|{DIED}",
        (0, 2),
    ),
    Fault(
        "read-only-diagnostics",
        "A rank is killed, and the folder of `RUEDA_DIAGNOSTICS_DIR` is read-only",
        ONE_HOST,
        Together(SignalRank(1, signal.SIGKILL), Mount("ro", "RUEDA_DIAGNOSTICS_DIR")),
        (KILLED,),
        "RUEDA_DIAGNOSTICS_DIR: .*Read-only file system",
        f"{was_killed(1)}|{DIED}",
        (0, 2),
    ),
    Fault(
        "sigint",
        "The user presses Ctrl-C (SIGINT to ruedarun)",
        ONE_HOST,
        SignalLauncher(signal.SIGINT),
        (128 + signal.SIGINT,),
        "^ruedarun: stopped by signal 2",
    ),
    Fault(
        "sigint-twice",
        "The user presses Ctrl-C twice; the ranks ignore the first one",
        ONE_HOST,
        SignalLauncher(signal.SIGINT, signal.SIGINT, ignored=True),
        (128 + signal.SIGINT,),
        "^ruedarun: stopped by signal 2",
    ),
    Fault(
        "sigterm",
        "A batch system ends ruedarun (SIGTERM)",
        ONE_HOST,
        SignalLauncher(signal.SIGTERM),
        (128 + signal.SIGTERM,),
        "^ruedarun: stopped by signal 15",
    ),
    Fault(
        "launcher-killed",
        "ruedarun is killed (SIGKILL)",
        ONE_HOST,
        SignalLauncher(signal.SIGKILL),
        (KILLED,),
    ),
    Fault(
        "killed-in-checkpoint",
        "Rank 0 is killed while it writes a checkpoint (`--max-restarts 1`)",
        ONE_HOST,
        KillDuringCheckpoint(),
        (0,),
        r"^ruedarun: .* starting the job again",
        limit=20,
        launch=Launch(options=("--max-restarts", "1")),
        notes=(r"begins at step [1-9]", f"ends with weight {Checkpoints.STEPS}"),
    ),
    # Over Open MPI
    Fault(
        "mpi-sigkill",
        "A rank is killed (SIGKILL)",
        OPEN_MPI,
        SignalRank(1, signal.SIGKILL),
        (KILLED,),
        "^ruedarun: .*" + was_killed(1),
        f"{was_killed(1)}|{DIED}",
        (0, 2),
        launch=MPI,
    ),
    Fault(
        "mpi-abort",
        "A rank calls `MPI_Abort`",
        OPEN_MPI,
        InRank(1, "MPI_Abort"),
        (7,),
        "^ruedarun: .*" + ended(1, 7),
        launch=MPI,
    ),
    Fault(
        "mpi-exit-0",
        "A rank leaves by `_exit(0)`, without `shutdown()`",
        OPEN_MPI,
        InRank(1, "exit status 0"),
        (1,),
        "^ruedarun: .*" + ended(1, 0) + " without having called",
        f"{ended(1, 0)}|{DIED}",
        (0, 2),
        launch=MPI,
    ),
    Fault(
        "mpi-absent",
        "A rank never calls `init()` (`RUEDA_START_TIMEOUT=1.5`)",
        OPEN_MPI,
        BeforeInit(1, "stay away"),
        (1,),
        "init: MPI_Init did not return within 1.5 s",
        limit=12,
        launch=MPI,
        settings={"RUEDA_START_TIMEOUT": "1.5"},
    ),
    Fault(
        "mpirun-killed",
        "mpirun is killed (SIGKILL)",
        OPEN_MPI,
        KillMpirun(),
        (KILLED,),
        r"^ruedarun: mpirun \(pid \d+\) was killed by signal 9",
        launch=MPI,
        leaves=r"/dev/shm/vader_segment",  # ruedarun removes mpirun's folder in /tmp, but not this file
    ),
    Fault(
        "supervisor-killed",
        "The supervisor of a rank is killed (SIGKILL)",
        OPEN_MPI,
        KillSupervisor(1),
        (KILLED,),
        r"^ruedarun: rank 1 \(pid \d+\) is lost: its supervisor was killed",
        "rank 1",
        (0, 2),
        launch=MPI,
    ),
    Fault(
        "mpi-launcher-killed",
        "ruedarun is killed (SIGKILL)",
        OPEN_MPI,
        SignalLauncher(signal.SIGKILL),
        (KILLED,),
        launch=MPI,
        limit=5,
    ),
    Fault(
        "plain-mpirun-sigkill",
        "A rank is killed under plain mpirun",
        OPEN_MPI,
        SignalRank(1, signal.SIGKILL),
        (KILLED,),
        r"rank 1 on \S+ \(pid \d+\) died|rank 1 \(pid \d+\)",
        launch=Launch("mpirun"),
        limit=5,
    ),
    # This job runs on two hosts: ranks 0 and 1 on the first host, ranks 2 and 3 on the second one. If a connection
    # breaks in the middle of a message, Open MPI 4 may end the process that uses the connection, or never return from
    # MPI_Test. So a rank that exchanges data with the killed rank may get no error.
    Fault(
        "rank-killed",
        "A rank is killed (SIGKILL)",
        HOSTS,
        SignalRank(3, signal.SIGKILL),
        (KILLED,),
        "^ruedarun: .*" + was_killed(3, r" on \S+"),
        "rank 3",
        (0, 2),
        launch=TWO_HOSTS,
        limit=10,
    ),
    Fault(
        "leader-killed",
        "The leader of a host is killed (SIGKILL)",
        HOSTS,
        SignalRank(2, signal.SIGKILL),
        (KILLED,),
        "^ruedarun: .*" + was_killed(2, r" on \S+"),
        "rank 2",
        (1, 3),
        launch=TWO_HOSTS,
        limit=10,
    ),
    Fault(
        "root-killed",
        "Rank 0, the leader of all hosts, is killed (SIGKILL)",
        HOSTS,
        SignalRank(0, signal.SIGKILL),
        (KILLED,),
        "^ruedarun: .*" + was_killed(0, r" on \S+"),
        "rank 0",
        (1, 3),
        launch=TWO_HOSTS,
        limit=10,
    ),
    Fault(
        "leader-stopped",
        "The leader of a host is stopped (SIGSTOP)",
        HOSTS,
        SignalRank(2, signal.SIGSTOP),
        (1, KILLED),
        r"host \S+ \(ranks 2, 3\) has not answered",
        "has not answered|rank 2",
        (0, 1),
        launch=TWO_HOSTS,
        limit=15,
    ),
    Fault(
        "remote-supervisor-killed",
        "The supervisor of a rank on another host is killed (SIGKILL)",
        HOSTS,
        KillSupervisor(3),
        (KILLED,),
        r"^ruedarun: .*rank 3 on \S+ \(pid \d+\) is lost",
        "rank 3",
        (0, 2),
        launch=TWO_HOSTS,
        limit=10,
    ),
    Fault(
        "cut",
        "The cable of a host is pulled",
        HOSTS,
        Unplug(1),
        (1,),
        r"^ruedarun: .*host \S+ \(ranks 2, 3\) has not answered",
        "has not answered",
        (0, 1, 2, 3),
        launch=TWO_HOSTS,
        limit=5,
    ),
    Fault(
        "cut-one-way",
        "The network loses all packets from one host to the other, but not those back",
        HOSTS,
        ChangeWire("cut p1 p0"),
        (1,),
        r"^ruedarun: .*has not answered",
        "has not answered",
        (0, 1),  # ranks 2 and 3 are left out: their supervisors may end them before they report an error
        launch=TWO_HOSTS_WITH_WIRE,
        limit=5,
    ),
    Fault(
        "hosts-launcher-killed",
        "ruedarun is killed (SIGKILL)",
        HOSTS,
        SignalLauncher(signal.SIGKILL),
        (KILLED,),
        launch=TWO_HOSTS,
        limit=5,
    ),
    # This job runs on two hosts, with tensors over UCX. Every survivor must get an error, even a rank that exchanges
    # data with the killed rank, because UCX reports a connection that breaks inside a message.
    Fault(
        "ucx-rank-killed",
        "A rank is killed (SIGKILL)",
        UCX,
        SignalRank(3, signal.SIGKILL),
        (KILLED,),
        "^ruedarun: .*" + was_killed(3, r" on \S+"),
        "rank 3",
        (0, 1, 2),
        launch=TWO_HOSTS,
        limit=10,
        settings=OVER_UCX,
    ),
    Fault(
        "ucx-leader-killed",
        "The leader of a host is killed (SIGKILL)",
        UCX,
        SignalRank(2, signal.SIGKILL),
        (KILLED,),
        "^ruedarun: .*" + was_killed(2, r" on \S+"),
        "rank 2",
        (0, 1, 3),
        launch=TWO_HOSTS,
        limit=10,
        settings=OVER_UCX,
    ),
    Fault(
        "ucx-cut",
        "The cable of a host is pulled",
        UCX,
        Unplug(1),
        (1,),
        r"^ruedarun: .*host \S+ \(ranks 2, 3\) has not answered",
        "has not answered",
        (0, 1, 2, 3),
        launch=TWO_HOSTS,
        limit=5,
        settings=OVER_UCX,
    ),
    # These jobs run on two hosts, and ruedarun starts their ranks without MPI, by an agent on each host.
    Fault(
        "no-mpi-rank-killed",
        "A rank is killed (SIGKILL)",
        HOSTS_WITHOUT_MPI,
        SignalRank(3, signal.SIGKILL),
        (KILLED,),
        "^ruedarun: .*" + was_killed(3, r" on \S+"),
        "rank 3",
        (0, 1, 2),
        launch=TWO_HOSTS_WITHOUT_MPI,
        limit=10,
    ),
    Fault(
        "no-mpi-leader-killed",
        "The leader of a host is killed (SIGKILL)",
        HOSTS_WITHOUT_MPI,
        SignalRank(2, signal.SIGKILL),
        (KILLED,),
        "^ruedarun: .*" + was_killed(2, r" on \S+"),
        "rank 2",
        (0, 1, 3),
        launch=TWO_HOSTS_WITHOUT_MPI,
        limit=10,
    ),
    Fault(
        "no-mpi-root-killed",
        "Rank 0, to which the ranks have connected, is killed (SIGKILL)",
        HOSTS_WITHOUT_MPI,
        SignalRank(0, signal.SIGKILL),
        (KILLED,),
        "^ruedarun: .*" + was_killed(0, r" on \S+"),
        "rank 0",
        (1, 2, 3),
        launch=TWO_HOSTS_WITHOUT_MPI,
        limit=10,
    ),
    Fault(
        "no-mpi-leader-stopped",
        "The leader of a host is stopped (SIGSTOP)",
        HOSTS_WITHOUT_MPI,
        SignalRank(2, signal.SIGSTOP),
        (1, KILLED),
        r"host \S+ \(ranks 2, 3\) has not answered",
        "has not answered|rank 2",
        (0, 1),
        launch=TWO_HOSTS_WITHOUT_MPI,
        limit=15,
    ),
    Fault(
        "no-mpi-supervisor-killed",
        "The supervisor of a rank on another host is killed (SIGKILL)",
        HOSTS_WITHOUT_MPI,
        KillSupervisor(3),
        (KILLED,),
        r"^ruedarun: .*rank 3 on \S+ \(pid \d+\) is lost",
        "rank 3",
        (0, 1, 2),
        launch=TWO_HOSTS_WITHOUT_MPI,
        limit=10,
    ),
    Fault(
        "no-mpi-agent-killed",
        "The agent of another host is killed (SIGKILL)",
        HOSTS_WITHOUT_MPI,
        KillProcess(AGENT_OF_ANOTHER_HOST),
        # Ranks 2 and 3, on the agent's host, end by SIGTERM. If ruedarun first sees that another rank ended, ruedarun's
        # exit status is 1.
        (1, 128 + signal.SIGTERM),
        r"^ruedarun: .*rank [23] on \S+ \(pid \d+\)",
        "rank [23]",
        (0, 1),
        launch=TWO_HOSTS_WITHOUT_MPI,
        limit=10,
    ),
    Fault(
        "no-mpi-cut",
        "The cable of a host is pulled",
        HOSTS_WITHOUT_MPI,
        Unplug(1),
        (1,),
        r"^ruedarun: .*host \S+ \(ranks 2, 3\) has not answered",
        "has not answered",
        (0, 1),
        launch=TWO_HOSTS_WITHOUT_MPI,
        limit=5,
    ),
    Fault(
        "no-mpi-root-cut",
        "The cable of rank 0's host is pulled; ruedarun is on the other host",
        HOSTS_WITHOUT_MPI,
        Unplug(1),
        (1,),
        r"^ruedarun: .*host \S+ \(ranks 0, 1\) has not answered",
        "has not answered",
        (2, 3),
        launch=Launch("hosts without MPI", (2, 2), away=True),
        limit=5,
    ),
    Fault(
        "no-mpi-launcher-killed",
        "ruedarun is killed (SIGKILL)",
        HOSTS_WITHOUT_MPI,
        SignalLauncher(signal.SIGKILL),
        (KILLED,),
        launch=TWO_HOSTS_WITHOUT_MPI,
        limit=5,
    ),
    # Faults that the job survives
    Fault(
        "continued",
        "A rank is stopped (SIGSTOP), and continued after 1 s",
        GOES_ON,
        SignalRank(1, signal.SIGSTOP, signal.SIGCONT),
        goes_on=True,
        notes=("a slow step",),
    ),
    Fault(
        "fork-and-exec",
        "A rank forks, and the child runs another program that does not end",
        GOES_ON,
        InRank(1, "fork and exec"),
        goes_on=True,
        notes=("child",),
    ),
    Fault(
        "thread-cancelled",
        "A thread is cancelled (`pthread_cancel`) while it waits in an operation",
        GOES_ON,
        InRank(1, "cancel thread"),
        goes_on=True,
        notes=("the thread (was cancelled|returned)",),
    ),
    Fault(
        "arena-attacked",
        "A process tries to truncate and to seal the shared memory of the ranks",
        GOES_ON,
        InRank(1, "attack arena"),
        goes_on=True,
        notes=("the arena refused",),
    ),
    Fault(
        "no-descriptors",
        "A rank runs out of file descriptors during the training",
        GOES_ON,
        InRank(1, "take all descriptors"),
        goes_on=True,
        notes=("took",),
    ),
    Fault(
        "no-proc",
        "The ranks have no /proc",
        GOES_ON,
        NoProc(),
        goes_on=True,
        notes=("there is no /proc",),
    ),
    Fault(
        "no-proc-at-all",
        "ruedarun and the ranks have no /proc",
        GOES_ON,
        NoProc(launcher=True),
        goes_on=True,
        notes=("there is no /proc",),
    ),
    Fault(
        "full-shared-memory",
        "/dev/shm is full (`--no-mpi`)",
        GOES_ON,
        FullSharedMemory(),
        goes_on=True,
    ),
    Fault(
        "clock-forward",
        "The clock jumps forward by a day",
        GOES_ON,
        ClockJump(86400),
        goes_on=True,
        notes=("the clock jumped",),
    ),
    Fault(
        "clock-back",
        "The clock jumps back by a day",
        GOES_ON,
        ClockJump(-86400),
        goes_on=True,
        notes=("the clock jumped",),
    ),
    Fault(
        "full-checkpoints",
        "The disk for checkpoints is full",
        GOES_ON,
        Together(Checkpoints("mounted"), Mount("size=16m")),
        sees="The checkpoint of step 6 was not saved",
        goes_on=True,
        notes=(f"ends with weight {Checkpoints.STEPS}",),
    ),
    Fault(
        "short-cut",
        "The network between two hosts loses all packets for 1 s",
        GOES_ON,
        ChangeWire("loss 100", "mend"),
        launch=TWO_HOSTS_WITH_WIRE,
        goes_on=True,
        notes=("a slow step",),
    ),
    Fault(
        "ssh-killed",
        "The ssh that started the ranks of another host is killed (`ruedarun --no-mpi -H`)",
        GOES_ON,
        KillProcess(SSH),
        launch=TWO_HOSTS_WITHOUT_MPI,
        goes_on=True,
        trains_on=1,
    ),
    Fault(
        "slow-network",
        "Each packet between two hosts is delayed by 100 ms",
        GOES_ON,
        ChangeWire("delay 100"),
        launch=TWO_HOSTS_WITH_WIRE,
        goes_on=True,
        notes=("a slow step",),
    ),
    Fault(
        "lossy-network",
        "The network between two hosts loses 5 % of the packets",
        GOES_ON,
        ChangeWire("loss 5"),
        launch=TWO_HOSTS_WITH_WIRE,
        goes_on=True,
        trains_on=2,
        leaves=OF_OPEN_MPI,
    ),
)
