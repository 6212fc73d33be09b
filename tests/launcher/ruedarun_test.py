# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests ruedarun with real processes as its users see it. ruedarun starts the ranks with mpirun and without it.

Usage: ruedarun_test.py RUEDARUN MPI_PROGRAM [unittest's arguments]. MPI_PROGRAM is "none" if there is no MPI.
"""

import contextlib
import json
import os
import pathlib
import pty
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support" / "hosts"))
import hosts as test_hosts  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import handshake  # noqa: E402

RUEDARUN = ""
MPI_PROGRAM = ""
TIMEOUT = 60
DIRECT = ["--no-mpi"]
# All processes of a test have this variable in their environment, so that the test can find processes that are left
# behind.
MARK = f"RUEDARUN_TEST_MARK={os.getpid()}.{time.monotonic_ns()}"
RANK = "import os; rank = int(os.environ.get('RUEDA_RANK') or os.environ['OMPI_COMM_WORLD_RANK'])\n"


def environment(**changes):
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(
            ("RUEDA_", "HOROVOD_", "SLURM_", "SM_", "OMPI_", "PMIX_", "OMP_", "MKL_", "OPENBLAS_", "KMP_")
        )
    }
    name, value = MARK.split("=")
    kept[name] = value
    kept.pop("PYTHONUNBUFFERED", None)
    kept.update(changes)
    return kept


def marked_processes():
    """Returns the running processes of a test: {pid: command line}."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if MARK.encode() in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            pass
    return found


def state_of(pid):
    """Returns a process's state letter as ps shows it (such as R, S or T), or X if the process does not exist."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def is_alive(pid):
    """Returns whether the process runs. A zombie (a dead process for which its parent has not waited) does not count as
    running."""
    return state_of(pid) not in "ZX"


def wait_until(condition, seconds=20):
    """Waits until the condition is true or the time is over. Returns the condition's last value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(0.01)


def python(code):
    return [sys.executable, "-c", RANK + code]


@contextlib.contextmanager
def group_with_little_memory(limit):
    """Creates a control group with a memory limit. Yields the path of its list of processes, or None if this machine
    does not allow new control groups."""
    for parent, name in (
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ("/sys/fs/cgroup/unified", "memory.max"),
        ("/sys/fs/cgroup", "memory.max"),
    ):
        group = pathlib.Path(parent) / f"ruedarun-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / name).write_text(str(limit))
        except OSError:
            group.rmdir()
            continue
        break
    else:
        yield None
        return
    try:
        yield group / "cgroup.procs"
    finally:
        wait_until(lambda: not (group / "cgroup.procs").read_text())
        group.rmdir()


class Done:
    def __init__(self, status, out, err, seconds):
        self.status, self.out, self.seconds = status, out, seconds
        lines = err.splitlines(True)
        # ruedarun prints this line in nearly every job, so the tests look at it separately.
        starts = ("ruedarun: threads of each rank: ", "ruedarun: each host sets OMP_NUM_THREADS")
        self.about_threads = [line.removeprefix("ruedarun: ").rstrip() for line in lines if line.startswith(starts)]
        # Open MPI's mpirun sometimes prints this warning about its own daemons on a busy machine.
        others = [line for line in lines if "plm:rsh: Warning: setpgid" not in line and not line.startswith(starts)]
        self.err = "".join(others)

    def own_lines(self):
        return [line for line in self.err.splitlines() if line.startswith("ruedarun: ")]


class LauncherTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="ruedarun-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.addCleanup(self.end_what_is_left)

    def end_what_is_left(self):
        left = marked_processes()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.assertEqual(left, {}, "processes were left behind")

    def start(self, arguments, **options):
        options.setdefault("env", environment())
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("cwd", self.folder)
        return subprocess.Popen(
            [RUEDARUN, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )

    def run_shell(self, script):
        """Runs a script as a shell runs pasted text."""
        subprocess.run(
            ["sh", "-c", script],
            cwd=self.folder,
            env=environment(),
            check=True,
            timeout=TIMEOUT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )

    def run_it(self, *arguments, text=None, **options):
        begin = time.monotonic()
        if text is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(arguments, **options)
        try:
            out, err = process.communicate(text, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            self.fail(f"ruedarun {arguments} hangs; output: {out}; errors: {err}")
        return Done(process.returncode, out, err, time.monotonic() - begin)

    def pids_in(self, *names):
        """Waits until the ranks have written their process ids to these files. Returns the ids."""
        files = [self.folder / name for name in names]
        self.assertTrue(
            wait_until(lambda: all(f.exists() and f.read_text().endswith("\n") for f in files)),
            f"{names} were not written",
        )
        return [int(f.read_text()) for f in files]

    def on_a_terminal(self, arguments, typed=b"", seconds=30):
        """Runs ruedarun in a terminal. Returns the displayed text and the exit status."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(RUEDARUN, [RUEDARUN, *map(str, arguments)], environment(TERM="xterm"))
        seen = b""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if typed and b"ready" in seen:
                os.write(terminal, typed)
                typed = b""
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    part = os.read(terminal, 65536)
                except OSError:
                    break
                if not part:
                    break
                seen += part
        else:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        return seen.decode(), os.waitstatus_to_exitcode(status)


class WrongInput(LauncherTest):
    def refused(self, *arguments, **options):
        done = self.run_it(*arguments, **options)
        self.assertEqual(done.status, 2, done.err)
        self.assertEqual(done.out, "")
        self.assertEqual(len(done.err.splitlines()), 1, done.err)
        self.assertTrue(done.err.startswith("ruedarun: "), done.err)
        return done.err

    def test_each_mistake_gets_one_line_and_status_2(self):
        self.assertIn("from 1 to", self.refused("-np", "0", "true"))
        self.assertIn("did you mean --verbose", self.refused("-np", "2", "--verbse", "true"))
        self.assertIn("no program", self.refused("-np", "2"))
        self.assertIn("'no-such-program' in PATH", self.refused("-np", "2", "no-such-program"))
        self.assertIn("no program './nothing'", self.refused("-np", "2", "./nothing"))
        self.assertIn("is a folder", self.refused("-np", "2", "/"))
        self.assertIn("RUEDA_SLOTS is 'many'", self.refused("-np", "2", "true", env=environment(RUEDA_SLOTS="many")))

    def test_a_file_that_is_no_text_harms_no_terminal(self):
        # The name and the content of the file contain bytes that are control sequences of an 8-bit terminal.
        name = "bad\x1b[31m\udcff.txt"
        (self.folder / name).write_bytes(b"\x7fELF\x02\x9b31m\xff\xfe\x00@" + bytes(range(128, 256)) * 20)
        for option in ("--hostfile", "--env-file", "--config"):
            process = self.start([option, name, "-np", "2", "true"], errors="strict")  # the output must be valid UTF-8
            out, err = process.communicate(timeout=TIMEOUT)
            self.assertEqual((process.returncode, out, err.count("\n")), (2, "", 1), err)
            self.assertRegex(err, r"^ruedarun: bad\?\[31m\?\.txt:1: ")
            self.assertTrue(err[:-1].isprintable(), err)
            self.assertLess(len(err), 400)

    def with_ssh(self, script):
        """Returns an environment in which the script replaces the command ssh."""
        tools = self.folder / "bin"
        tools.mkdir(exist_ok=True)
        (tools / "ssh").write_text(f"#!/bin/sh\n{script}\n")
        (tools / "ssh").chmod(0o755)
        return environment(PATH=f"{tools}:{os.environ['PATH']}")

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_a_host_that_neither_the_resolver_nor_ssh_knows(self):
        name = "no-such-host.invalid"
        plain = self.with_ssh(f'[ "$1" = -G ] && echo "user me\nhostname $2"; echo "$@" >>{self.folder}/called')
        text = self.refused("-H", f"{name}:2", "true", env=plain)
        self.assertRegex(
            text, rf"host '{name}' is not known: this host has no address for it \(.+\), and ssh's .* no HostName"
        )
        elsewhere = self.with_ssh('[ "$1" = -G ] && echo "hostname other.invalid"')
        self.assertIn(
            "HostName 'other.invalid' for it, which has none", self.refused("-H", name, "-np", 2, "true", env=elsewhere)
        )
        self.assertEqual((self.folder / "called").read_text(), f"-G {name}\n", "only asked, never used")

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_a_host_that_only_ssh_knows_is_left_to_it(self):
        for answer in ("hostname 127.77.0.1", "hostname alias.invalid\nproxyjump gate"):
            there = self.with_ssh(
                f'[ "$1" = -G ] && exec printf "{answer}\n"; echo "$@" >{self.folder}/called; exit 255'
            )
            done = self.run_it("-H", "no-such-alias:2", "true", env=there)
            self.assertNotIn("is not known", done.err)
            self.assertRegex((self.folder / "called").read_text(), r"no-such-alias .*orted")

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_an_agent_in_a_file_of_parameters_is_left_to_mpirun(self):
        there = self.with_ssh('[ "$1" = -G ] && echo "hostname $2"')
        there["HOME"] = str(self.folder)
        self.assertIn("plm_rsh_agent", self.refused("-H", "no-such-alias:2", "true", env=there), "a way out")
        agent = self.folder / "agent"
        agent.write_text(f'#!/bin/sh\necho "$@" >{self.folder}/called\nexit 255\n')
        agent.chmod(0o755)
        (self.folder / ".openmpi").mkdir()
        for file, more in (
            (self.folder / ".openmpi" / "mca-params.conf", {}),
            (self.folder / "mine.conf", {"OMPI_MCA_mca_base_param_files": f"{self.folder}/mine.conf"}),
        ):
            file.write_text(f"# how to reach hosts\nplm_rsh_agent = {agent}\n")
            done = self.run_it("-H", "no-such-alias:2", "true", env={**there, **more})
            file.unlink()
            self.assertRegex(
                done.err,
                r"ruedarun: host 'no-such-alias' cannot be resolved here \(.+\); ruedarun starts mpirun anyway, because",
            )
            self.assertRegex((self.folder / "called").read_text(), r"no-such-alias .*orted")
            (self.folder / "called").unlink()

    @unittest.skipUnless(shutil.which("mpirun"), "there is no mpirun")
    def test_the_key_for_ssh_is_one_argument_or_refused(self):
        there = self.with_ssh(f'for word in "$@"; do echo "$word"; done >{self.folder}/called; exit 255')
        self.run_it("-H", "127.77.0.1:2", "--ssh-identity-file", "/keys/my-key", "true", env=there)
        words = (self.folder / "called").read_text().splitlines()
        self.assertEqual(words[words.index("-i") + 1], "/keys/my-key")
        for more in ([], ["--dry-run"]):
            text = self.refused("-H", "127.77.0.1:2", *more, "--ssh-identity-file", "/my keys/key", "true", env=there)
            self.assertIn("--ssh-identity-file is '/my keys/key', but the mpirun of Open MPI", text)

    def test_a_program_that_is_not_executable(self):
        (self.folder / "train.py").write_text("print('x')\n")
        (self.folder / "tool").write_text("#!/bin/sh\n")
        (self.folder / "tool").chmod(0o755)
        self.assertIn("write python3 before it", self.refused("-np", "2", "./train.py"))
        self.assertIn("'./tool'", self.refused("-np", "2", "tool"))

    def test_an_output_folder_that_cannot_be(self):
        (self.folder / "file").write_text("")
        self.assertIn("--output-dir", self.refused(*DIRECT, "-np", "2", "--output-dir", "file/below", "true"))
        (self.folder / "taken" / "rank.1.out").mkdir(parents=True)
        self.assertIn("rank.1.out", self.refused(*DIRECT, "-np", "2", "--output-dir", "taken", "true"))

    def test_no_mpirun(self):
        tools = self.folder / "bin"
        tools.mkdir()
        (tools / "sh").symlink_to("/bin/sh")
        alone = environment(PATH=str(tools))
        self.assertIn("no mpirun", self.refused("-np", "2", "--mpi-args", "-v", "sh", env=alone))
        done = self.run_it("-np", "2", "sh", "-c", "echo $RUEDA_CONTROL_PLANE", env=alone)
        self.assertEqual((done.status, sorted(done.out.splitlines())), (0, ["[0] socket", "[1] socket"]))
        (tools / "mpirun").write_text("#!/bin/sh\necho some other mpirun\n")
        (tools / "mpirun").chmod(0o755)
        self.assertIn("some other mpirun", self.refused("-np", "2", "sh", env=alone))

    def test_help_and_version(self):
        self.assertIn("Examples:", self.run_it("--help").out)
        self.assertRegex(self.run_it("--version").out, r"^ruedarun \d+\.\d+\.\d+\n$")


class Completion(LauncherTest):
    """Calls the completion functions as bash does."""

    FILE = pathlib.Path(__file__).resolve().parents[2] / "launcher" / "completions" / "ruedarun.bash"

    def complete(self, function, *words):
        script = f'. "{self.FILE}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); {function}; printf "%s\\n" "${{COMPREPLY[@]}}"'
        done = subprocess.run(
            ["bash", "-c", script, "bash", *words], capture_output=True, text=True, timeout=TIMEOUT, cwd=self.folder
        )
        return done.stdout.split()

    def test_knows_every_option_of_the_help(self):
        text = self.run_it("--help").out
        columns = re.findall(r"(?m)^  (-\S+)", text)  # for example "-H,--hosts,--host"
        options = {option for column in columns for option in column.split(",")}
        self.assertGreater(len(options), 25)
        known = self.complete("_ruedarun", "ruedarun", "-")
        self.assertEqual(sorted(options - set(known) - {"-h"}), [])

    def test_values(self):
        (self.folder / "logs").mkdir()
        (self.folder / "lines.txt").write_text("")
        self.assertEqual(self.complete("_ruedarun", "ruedarun", "--output-dir", "l"), ["logs"])
        self.assertEqual(self.complete("_ruedarun", "ruedarun", "-np", "2", "--hostfile", "li"), ["lines.txt"])
        self.assertEqual(self.complete("_ruedarun", "ruedarun", "-H", "a:2", "--max-r"), ["--max-restarts"])
        self.assertEqual(self.complete("_ruedarun", "ruedarun", "-np", "2", "./program", "--max-r"), [])
        self.assertEqual(self.complete("_rueda", "rueda", "d"), ["doctor"])
        self.assertEqual(self.complete("_rueda", "rueda", "doctor", "--hostfile", "li"), ["lines.txt"])
        self.assertEqual(self.complete("_rueda", "rueda", "ps", "-"), ["--json", "--help"])
        self.assertEqual(self.complete("_rueda", "rueda", "top", "--in"), ["--interval"])
        self.assertEqual(self.complete("_rueda", "rueda", "top", "--interval", ""), [])

    def test_ids_of_jobs(self):
        tools = self.folder / "bin"
        tools.mkdir()
        (tools / "rueda").write_text(
            "#!/bin/sh\nprintf 'JOB RANKS\\nj12 0\\nj34 0,1\\nj5 (process 9) cannot be shown\\n'\n"
        )
        (tools / "rueda").chmod(0o755)
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        os.environ["PATH"] = f"{tools}:{path}"
        self.assertEqual(self.complete("_rueda", "rueda", "top", "j"), ["j12", "j34", "j5"])
        self.assertEqual(self.complete("_rueda", "rueda", "top", "--once", "j3"), ["j34"])


class BothWays:
    """Tests that must pass if ruedarun starts the ranks with mpirun, and also without it."""

    way = []

    def launch(self, ranks, *arguments, **options):
        return self.run_it(*self.way, "-np", ranks, *arguments, **options)

    def test_a_job_that_ends_well(self):
        done = self.launch(3, *python("print('I am', rank); import sys; print('e', rank, file=sys.stderr)"))
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(sorted(done.out.splitlines()), [f"[{r}] I am {r}" for r in range(3)])
        self.assertEqual(sorted(done.err.splitlines()), [f"[{r}] e {r}" for r in range(3)])

    def test_one_rank_writes_without_prefix(self):
        done = self.launch(1, *python("import sys; sys.stdout.write('no newline')"))
        self.assertEqual((done.status, done.out, done.err), (0, "no newline", ""))

    def test_arguments_and_variables_arrive_unchanged(self):
        hard = ["a b", "it's", "", "$HOME", "*", "--np", "a;b", "-x"]
        done = self.launch(1, "-x", "MODE=p;q r", *python("import sys; print(sys.argv[1:], os.environ['MODE'])"), *hard)
        self.assertEqual((done.status, done.out), (0, f"{hard} p;q r\n"))

    TORCH = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "GROUP_WORLD_SIZE")
    #: The values that each of three ranks finds in its environment.
    torch_places = [f"{rank} 3 {rank} 3 0 0 1" for rank in range(3)]
    # Rank 0 listens on a socket, as PyTorch's store does. The other ranks connect and send their values.
    TORCH_STORE = (
        "import socket, time\n"
        f"mine = ' '.join(os.environ[name] for name in {TORCH})\n"
        "strays = [name for name in os.environ if name.startswith(('TORCHELASTIC_', 'ROLE_'))]\n"
        "place = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))\n"
        "if rank == 0:\n"
        "  server = socket.create_server(('', place[1]))\n"
        "  server.settimeout(20)\n"
        "  heard = [server.accept()[0].makefile().readline().strip() for _ in range(2)]\n"
        "  print(*sorted([mine, *heard]), strays, sep='|')\n"
        "else:\n"
        "  deadline = time.monotonic() + 20\n"
        "  while True:\n"
        "    try: connection = socket.create_connection(place, 20); break\n"
        "    except ConnectionRefusedError:\n"
        "      if time.monotonic() > deadline: raise\n"
        "      time.sleep(0.01)\n"
        "  connection.sendall(mine.encode() + b'\\n')\n"
    )

    def test_ranks_find_the_variables_of_torchrun_and_meet_at_its_place(self):
        outer = environment(
            **{name: "7" for name in self.TORCH},
            MASTER_ADDR="192.0.2.1",
            MASTER_PORT="1",
            TORCHELASTIC_RUN_ID="outer",
            TORCHELASTIC_USE_AGENT_STORE="True",
            TORCHELASTIC_SIGNALS_TO_HANDLE="SIGTERM",
            ROLE_RANK="7",
        )
        done = self.launch(3, *python(self.TORCH_STORE), env=outer)
        self.assertEqual((done.status, done.out), (0, f"[0] {'|'.join(self.torch_places)}|[]\n"), done.err)

    def test_variables_of_torchrun_that_the_user_gives_win(self):
        (self.folder / "job.env").write_text("WORLD_SIZE=55\n")
        code = "print(*(os.environ[name] for name in ('RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT')))"
        given = ["-x", "MASTER_ADDR=192.0.2.9", "-x", "MASTER_PORT=4711", "--env-file", "job.env"]
        done = self.launch(2, *given, *python(code))
        self.assertEqual(
            (done.status, sorted(done.out.splitlines())),
            (0, [f"[{r}] {r} 55 192.0.2.9 4711" for r in range(2)]),
            done.err,
        )

    def test_the_variables_of_torchrun_can_be_left_out(self):
        code = f"print([name for name in (*{self.TORCH}, 'MASTER_ADDR', 'MASTER_PORT') if name in os.environ])"
        done = self.launch(2, "--no-torch-variables", *python(code))
        self.assertEqual((done.status, sorted(done.out.splitlines())), (0, ["[0] []", "[1] []"]), done.err)

    def test_lines_of_ranks_never_mix(self):
        code = "for i in range(400):\n  os.write(1, f'{rank}:{i}:'.encode()); os.write(1, b'x' * 50 + b'\\n')"
        done = self.launch(3, *python(code))
        lines = done.out.splitlines()
        for rank in range(3):
            own = [line for line in lines if line.startswith(f"[{rank}] ")]
            self.assertEqual(own, [f"[{rank}] {rank}:{i}:{'x' * 50}" for i in range(400)])
        self.assertEqual(len(lines), 1200)

    def test_much_output_arrives_whole(self):
        code = "import sys; sys.stdout.write(''.join(f'{i:07}\\n' for i in range(200000)))"
        done = self.launch(2, *python(code))
        self.assertEqual(done.status, 0)
        for rank in range(2):
            own = [line for line in done.out.splitlines() if line.startswith(f"[{rank}] ")]
            self.assertEqual(own, [f"[{rank}] {i:07}" for i in range(200000)])

    def test_progress_bars_leave_their_last_state(self):
        done = self.launch(2, *python("import sys; sys.stdout.write('\\r10 %\\r20 %\\rready\\nthen\\rpart')"))
        for rank in range(2):
            own = [line for line in done.out.splitlines() if line.startswith(f"[{rank}] ")]
            self.assertEqual(own, [f"[{rank}] ready", f"[{rank}] part"])

    def test_output_files(self):
        done = self.launch(
            2,
            "--output-dir",
            "logs/deep",
            *python("import sys; print('out', rank); print('err', rank, file=sys.stderr)"),
        )
        self.assertEqual((done.status, done.out), (0, ""))
        self.assertEqual(len(done.err.splitlines()), 1, done.err)
        self.assertIn("logs/deep", done.err)
        for rank in range(2):
            self.assertEqual((self.folder / f"logs/deep/rank.{rank}.out").read_text(), f"out {rank}\n")
            self.assertEqual((self.folder / f"logs/deep/rank.{rank}.err").read_text(), f"err {rank}\n")

    def test_standard_input_goes_to_rank_0(self):
        done = self.launch(2, *python("import sys; print(repr(sys.stdin.read()))"), text="hello\n")
        self.assertEqual(sorted(done.out.splitlines()), [r"[0] 'hello\n'", "[1] ''"])

    def test_exit_status_of_the_first_rank_that_fails(self):
        done = self.launch(2, *python("import sys, time\nif rank == 1: sys.exit(42)\ntime.sleep(0.5); sys.exit(1)"))
        self.assertEqual(done.status, 42)
        self.assertEqual(len(done.own_lines()), 1, done.err)
        self.assertRegex(done.err, r"ruedarun: rank 1( on \S+)? \(pid \d+\) ended with exit status 42; ending the job")

    def test_a_killed_rank_and_survivors_that_report(self):
        code = (
            "import signal, sys, time\n"
            "if rank == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
            "time.sleep(2.2); print('I am still here', flush=True); sys.exit(1)"
        )
        done = self.launch(3, *python(code))
        self.assertEqual(done.status, 137, done.err)
        self.assertRegex(
            done.err, r"ruedarun: rank 1( on \S+)? \(pid \d+\) was killed by signal 9 \(Killed\); ending the job\n"
        )
        self.assertEqual(len(done.own_lines()), 1, done.err)
        self.assertEqual(sorted(done.out.splitlines()), ["[0] I am still here", "[2] I am still here"])

    def check_out_of_memory(self):
        with group_with_little_memory(256 << 20) as processes:
            if processes is None:
                self.skipTest("no control group can be made here")
            code = "import time\nif rank == 1: much = bytearray(1 << 30)\ntime.sleep(60)"
            done = self.launch(
                2, "--grace", 0, *python(code), preexec_fn=lambda: processes.write_text(str(os.getpid()))
            )
        self.assertEqual(done.status, 137)
        self.assertRegex(
            done.own_lines()[0],
            r"^ruedarun: rank 1( on \S+)? \(pid \d+\) was killed by signal 9 \(Killed\): the kernel ended 1 process for want of "
            r"memory meanwhile \(oom_kill of /sys/fs/cgroup/\S+\); raise the memory limit .*; ending the job$",
        )

    def test_survivors_that_hang_are_ended(self):
        code = (
            "import signal, time\n"
            "signal.signal(signal.SIGTERM, signal.SIG_IGN if rank == 0 else signal.SIG_DFL)\n"
            "open(f'ready.{rank}', 'w').close()\n"
            "while not all(os.path.exists(f'ready.{r}') for r in range(3)): time.sleep(0.01)\n"
            "if rank == 1: os.kill(os.getpid(), signal.SIGSEGV)\n"
            "time.sleep(100)"
        )
        done = self.launch(3, "--grace", "0.5", *python(code))
        self.assertEqual(done.status, 128 + signal.SIGSEGV, done.err)
        self.assertIn("ranks 0, 2 still run; sending SIGTERM", done.err)
        self.assertIn("rank 0 still runs; sending SIGKILL", done.err)
        self.assertLess(done.seconds, 15)

    def test_a_stopped_survivor_is_ended(self):
        code = (
            "import signal, time\n"
            "if rank == 0: os.kill(os.getpid(), signal.SIGSTOP)\n"
            "time.sleep(0.3); os._exit(5)"
        )
        done = self.launch(2, "--grace", "0.2", *python(code))
        self.assertEqual(done.status, 5)

    def interrupt(self, number, code, second=None):
        process = self.start([*self.way, "-np", 2, *python(code)])
        pids = self.pids_in("pid.0", "pid.1")
        process.send_signal(number)
        if second is not None:
            self.assertTrue(wait_until(lambda: all((self.folder / f"got.{r}").exists() for r in range(2))))
            process.send_signal(second)
        begin = time.monotonic()
        out, err = process.communicate(timeout=TIMEOUT)
        for pid in pids:
            self.assertFalse(is_alive(pid), f"rank {pid} was left")
        return Done(process.returncode, out, err, time.monotonic() - begin)

    WRITE_PID = "import signal, time\nopen(f'pid.{rank}', 'w').write(f'{os.getpid()}\\n')\n"

    def test_interrupt_and_terminate_end_all_ranks(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            done = self.interrupt(
                number,
                "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\n" + self.WRITE_PID + "time.sleep(100)",
            )
            self.assertEqual(done.status, 128 + number, done.err)
            self.assertLess(done.seconds, 4)
            self.assertIn(f"stopped by signal {int(number)}", done.err)
            for file in self.folder.glob("pid.*"):
                file.unlink()

    def test_ranks_may_end_well_on_a_signal(self):
        code = (
            "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: (print('saved'), sys.exit(0)))\n"
            + self.WRITE_PID
            + "time.sleep(100)"
        )
        done = self.interrupt(signal.SIGTERM, code)
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(sorted(done.out.splitlines()), ["[0] saved", "[1] saved"])

    STUBBORN = (
        "import signal\nfor n in (signal.SIGINT, signal.SIGTERM): "
        "signal.signal(n, lambda *_: open(f'got.{rank}', 'w').close())\n"
    )

    def test_stubborn_ranks_are_killed_after_five_seconds(self):
        done = self.interrupt(signal.SIGINT, self.STUBBORN + self.WRITE_PID + "while True: time.sleep(1)")
        self.assertEqual(done.status, 130, done.err)
        self.assertGreater(done.seconds, 4.5)
        self.assertLess(done.seconds, 9)

    def test_a_second_signal_kills_at_once(self):
        done = self.interrupt(
            signal.SIGINT, self.STUBBORN + self.WRITE_PID + "while True: time.sleep(1)", second=signal.SIGINT
        )
        self.assertEqual(done.status, 130, done.err)
        self.assertLess(done.seconds, 4)

    def test_two_signals_in_a_row_do_not_wait_for_a_reader(self):
        code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_DFL)\n" + self.WRITE_PID
        process = self.start([*self.way, "-np", 2, *python(code + "while True: print('y' * 100)")])
        pids = self.pids_in("pid.0", "pid.1")
        time.sleep(0.5)  # this sleep lets all pipes fill up; the result does not depend on its length
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        self.assertIn(process.wait(timeout=TIMEOUT), (143, 130))
        self.assertFalse(any(is_alive(pid) for pid in pids))
        process.communicate()

    def test_other_signals_reach_the_ranks(self):
        code = (
            "import signal\nsignal.signal(signal.SIGUSR1, lambda *_: (print('usr1', flush=True), os._exit(0)))\n"
            + self.WRITE_PID
            + "time.sleep(100)"
        )
        done = self.interrupt(signal.SIGUSR1, code)
        self.assertEqual((done.status, sorted(done.out.splitlines())), (0, ["[0] usr1", "[1] usr1"]))

    def test_a_suspended_job_goes_on_later(self):
        process = self.start(
            [
                *self.way,
                "-np",
                2,
                *python(self.WRITE_PID + "while not os.path.exists('go'): time.sleep(0.01)\nprint('went on')"),
            ]
        )
        pids = self.pids_in("pid.0", "pid.1")
        process.send_signal(signal.SIGTSTP)
        for pid in [*pids, process.pid]:
            self.assertTrue(wait_until(lambda pid=pid: state_of(pid) == "T"), f"{pid} was not stopped")
        (self.folder / "go").write_text("")
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual((process.returncode, sorted(out.splitlines())), (0, ["[0] went on", "[1] went on"]), err)

    GRANDCHILD = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(100)'], "
        "start_new_session=True)\n"
        "open(f'child.{rank}', 'w').write(f'{child.pid}\\n')\n"
    )

    def test_grandchildren_do_not_stay(self):
        for last in ("os._exit(0)", "os._exit(3)", "os.kill(os.getpid(), 9)"):
            done = self.launch(2, "--grace", "1", *python(self.GRANDCHILD + last))
            self.assertEqual(done.status, {"0)": 0, "3)": 3, "9)": 137}[last[-2:]])
            for pid in self.pids_in("child.0", "child.1"):
                self.assertFalse(is_alive(pid), f"{pid} was left after {last}")

    def test_nothing_stays_when_ruedarun_is_killed(self):
        process = self.start([*self.way, "-np", 2, *python(self.WRITE_PID + "time.sleep(100)")])
        pids = self.pids_in("pid.0", "pid.1")
        process.kill()
        process.communicate(timeout=TIMEOUT)
        self.assertTrue(wait_until(lambda: not any(is_alive(pid) for pid in pids)))
        self.assertTrue(wait_until(lambda: not marked_processes()), marked_processes())

    def test_a_reader_that_leaves_ends_the_ranks(self):
        process = self.start([*self.way, "-np", 2, *python("while True: print('y' * 100)")])
        process.stdout.read(1000)
        process.stdout.close()
        process.stderr.close()
        self.assertNotEqual(process.wait(timeout=TIMEOUT), 0)

    def test_a_reader_that_pauses_does_not_block_signals(self):
        process = self.start(
            [
                *self.way,
                "-np",
                2,
                *python(
                    "import signal; signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
                    + self.WRITE_PID
                    + "while True: print('y' * 100)"
                ),
            ]
        )
        pids = self.pids_in("pid.0", "pid.1")
        time.sleep(0.5)  # this sleep lets all pipes fill up; the result does not depend on its length
        process.send_signal(signal.SIGTERM)
        self.assertTrue(wait_until(lambda: not any(is_alive(pid) for pid in pids)))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=TIMEOUT), 143)
        process.communicate()

    def test_a_program_that_the_system_refuses(self):
        (self.folder / "bad").write_text("#!/no/such/interpreter\n")
        (self.folder / "bad").chmod(0o755)
        done = self.launch(2, "./bad")
        self.assertEqual(done.status, 127, done.err)
        self.assertIn("could not be started: './bad'", done.err)

    def test_dry_run_runs_nothing_and_can_be_pasted(self):
        program = python("open(f'ran.{rank}', 'w').write(os.environ['A'])")
        done = self.launch(2, "--dry-run", "-x", "A=it's; b", *program)
        self.assertEqual((done.status, done.err), (0, ""))
        self.assertEqual(list(self.folder.iterdir()), [])
        self.run_shell(done.out)
        self.assertEqual([(self.folder / f"ran.{r}").read_text() for r in range(2)], ["it's; b", "it's; b"])

    def test_a_pasted_command_sets_the_variables_of_torchrun(self):
        shown = python(
            f"open(f'ran.{{rank}}', 'w').write(' '.join(os.environ.get(name, '-') for name in {self.TORCH}))"
        )
        if self.way not in ([], DIRECT):
            # The test runs the command that --dry-run prints. This command does not know how many ranks each host has,
            # so three of the variables are not set.
            expected = [f"{rank} 2 0 1 - - -" for rank in range(2)]
        else:
            expected = [f"{rank} 2 {rank} 2 0 0 1" for rank in range(2)]
        cases = (
            ([], expected),
            (["-x", "LOCAL_RANK=5"], [f"{line[:4]}5{line[5:]}" for line in expected]),
            (["--no-torch-variables"], ["- - - - - - -"] * 2),
        )
        for more, lines in cases:
            self.run_shell(self.launch(2, *more, "--dry-run", *shown).out)
            self.assertEqual([(self.folder / f"ran.{r}").read_text() for r in range(2)], lines, more)

    RESTARTED = (
        "import sys\nattempt = int(os.environ['RUEDARUN_RESTART'])\nprint('try', attempt, flush=True)\n"
        "if rank == 1 and attempt < {failures}: sys.exit({status})\n"
    )

    def test_a_failed_job_is_started_again(self):
        done = self.launch(2, "--max-restarts", 3, *python(self.RESTARTED.format(failures=2, status=5)))
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(sorted(done.out.splitlines()), [f"[{r}] try {a}" for r in range(2) for a in range(3)])
        self.assertRegex(done.err, r"ruedarun: \d+\.\d s are lost; starting the job again \(1 of at most 3 times\)")
        self.assertRegex(done.err, r"ruedarun: the job was started 3 times and ended well; \d+\.\d s went into")

    def test_restarts_have_an_end(self):
        folder = ["--output-dir", "logs"]
        done = self.launch(2, "--max-restarts", 1, *folder, *python(self.RESTARTED.format(failures=9, status=5)))
        self.assertEqual(done.status, 5, done.err)
        self.assertIn("the job was started 2 times and failed", done.err)
        self.assertEqual((self.folder / "logs/rank.1.out").read_text(), "try 0\ntry 1\n")

    def test_a_failure_that_would_come_again_causes_no_restart(self):
        done = self.launch(2, "--max-restarts", 3, *python(self.RESTARTED.format(failures=9, status=2)))
        self.assertEqual((done.status, done.err.count("starting the job again")), (2, 0), done.err)
        (self.folder / "bad").write_text("#!/no/such/interpreter\n")
        (self.folder / "bad").chmod(0o755)
        done = self.launch(2, "--max-restarts", 3, self.folder / "bad")
        self.assertEqual((done.status, done.err.count("starting the job again")), (127, 0), done.err)

    def test_an_interrupted_job_is_not_started_again(self):
        code = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)\n" + self.WRITE_PID + "time.sleep(100)"
        process = self.start([*self.way, "-np", 2, "--max-restarts", 3, *python(code)])
        self.pids_in("pid.0", "pid.1")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual((process.returncode, err.count("starting the job again")), (130, 0), err)

    def test_the_last_line_is_the_first_cause(self):
        code = (
            "import sys, time\nif rank == 1: sys.exit(42)\n"
            "time.sleep(0.5); print('an echo', file=sys.stderr); sys.exit(1)"
        )
        done = self.launch(2, *python(code))
        self.assertEqual(done.status, 42)
        self.assertRegex(
            done.err.splitlines()[-1], r"ruedarun: the job failed because rank 1( on \S+)? \(pid \d+\) .* status 42$"
        )

    # The program of a rank that reads ruedarun's notifications (docs/design/failure.md).
    LINE = (
        "import socket, struct, sys, time\n"
        "fd, inode, own, ranks = map(int, os.environ['RUEDA_LAUNCHER_FD'].split(':'))\n"
        "assert os.fstat(fd).st_ino == inode and own == rank\n"
        "line = socket.socket(fileno=fd)\n"
        "line.settimeout(20)\n"
        "line.recv(4096)  # it brings the file in which steps are counted\n"
        "def receive():\n"
        "  message = line.recv(4096)\n"
        "  return (ranks, *struct.unpack('<4xIi4x', message[:16]), message[16:].decode())\n"
        "def abort(text):\n"
        "  line.send(struct.pack('<IIiI', 0x31574452, 3, rank, len(text)) + text.encode())\n"
        "  sys.exit(1)\n"
    )

    def test_every_rank_is_notified_how_another_one_ended(self):
        killed = r"\(3, 2, 1, 'rank 1( on \S+)? \(pid \d+\) was killed by signal 9 \(Killed\)'\)"
        well = r"\(3, 1, 1, 'rank 1( on \S+)? \(pid \d+\) ended with exit status 0'\)"
        for last, expected in (("os.kill(os.getpid(), 9)", killed), ("os._exit(0)", well)):
            done = self.launch(3, *python(self.LINE + f"if rank == 1: {last}\nprint(receive())"))
            lines = sorted(done.out.splitlines())
            self.assertEqual(len(lines), 2, done.err)
            for rank, line in zip((0, 2), lines):
                self.assertRegex(line, rf"^\[{rank}\] {expected}$")

    def test_a_rank_that_ends_because_of_an_abort_is_not_the_cause(self):
        code = "if rank != 1: abort('rank 1 is silent')\ntime.sleep(0.5); os._exit(3)"
        done = self.launch(3, *python(self.LINE + code))
        self.assertEqual(done.status, 3, done.err)
        self.assertRegex(done.own_lines()[0], r"rank 1( on \S+)? \(pid \d+\) ended with exit status 3$")

    def test_if_all_ranks_end_because_of_an_abort_its_reason_is_printed(self):
        done = self.launch(2, *python(self.LINE + "abort('host x has not answered')"))
        self.assertEqual(done.status, 1, done.err)
        self.assertRegex(
            done.own_lines()[-1],
            r"rank [01]( on \S+)? \(pid \d+\) ended with exit status 1, after the job was aborted: host x has not answered",
        )

    def test_a_single_rank_has_a_line_of_its_own(self):
        done = self.launch(1, *python(self.LINE + "print(ranks)"), env=environment(RUEDA_LAUNCHER_FD="0:1:0:2"))
        self.assertEqual((done.status, done.out.split()[-1]), (0, "1"), done.err)

    # The program of a rank whose first two attempts fail in step 7. Each attempt begins four steps later than the one
    # before.
    STEPS = (
        "import ctypes, sys\n"
        "library = ctypes.CDLL(sys.argv[1])\n"
        "attempt = int(os.environ['RUEDARUN_RESTART'])\n"
        "assert library.rueda_begin_step(ctypes.c_int64(0)) == 3\n"
        "assert library.rueda_init() == 0\n"
        "assert library.rueda_begin_step(ctypes.c_int64(-1)) == 1\n"
        "for step in range(4 * attempt, 12):\n"
        "  assert library.rueda_begin_step(ctypes.c_int64(step)) == 0\n"
        "  if rank == 1 and attempt < 2 and step == 7: os.kill(os.getpid(), 9)\n"
        "  if library.rueda_barrier(None) != 0: sys.exit(1)\n"
        "assert library.rueda_shutdown() == 0\n"
    )

    def test_restarts_report_how_many_steps_were_done_again(self):
        library = pathlib.Path(RUEDARUN).resolve().parent.parent / "lib" / "librueda.so"
        done = self.launch(2, "--max-restarts", 2, *python(self.STEPS), library)
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(done.err.count("s are lost, in step 7; starting"), 2, done.err)
        # Step 7 was begun twice, but never completed, because rank 1 died in it. So only the steps 4, 5 and 6 were
        # completed twice.
        self.assertRegex(done.err, r"was started 3 times and ended well; .* failed; 3 of 12 steps were done again")

    def test_another_number_of_ranks_in_world_size_is_said_once(self):
        library = pathlib.Path(RUEDARUN).resolve().parent.parent / "lib" / "librueda.so"
        code = (
            "import ctypes, sys\nl = ctypes.CDLL(sys.argv[1])\nassert l.rueda_init() == 0 and l.rueda_shutdown() == 0"
        )
        cases = (
            (2, None, None),
            (2, "2", None),
            (2, "8", r"Rueda's job has 2 ranks; .* would train with 8 ranks instead of 2; unset WORLD_SIZE"),
            (2, "1", r"Rueda's job has 2 ranks; .* would train with 1 rank instead of 2; unset WORLD_SIZE"),
            (2, "x", r"Rueda's job has 2 ranks; .* would train with 'x' ranks instead of 2; unset WORLD_SIZE"),
            (1, "1", None),
            (1, "2", r"this process is alone in Rueda's job: .* torchrun started; start the program with ruedarun"),
        )
        for ranks, value, expected in cases:
            given = () if value is None else ("-x", f"WORLD_SIZE={value}")
            done = self.launch(ranks, *given, *python(code), library)
            self.assertEqual(done.status, 0, done.err)
            found = [line for line in done.err.splitlines() if "WORLD_SIZE is" in line]
            self.assertEqual(len(found), 0 if expected is None else 1, done.err)
            if expected is not None:
                self.assertRegex(found[0], f"WORLD_SIZE is '{value}' in the environment, but {expected}")
            self.assertEqual("unset" in done.err, expected is not None and ranks == 2, done.err)

    def run_into(self, file, *arguments, limit=None):
        """Runs ruedarun with its standard output in a file that accepts at most `limit` bytes."""
        with open(file, "wb") as output:
            process = subprocess.run(
                [RUEDARUN, *self.way, *arguments],
                stdout=output,
                stderr=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                text=True,
                env=environment(),
                cwd=self.folder,
                timeout=TIMEOUT,
                preexec_fn=None
                if limit is None
                else (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))),
            )
        return Done(process.returncode, "", process.stderr, 0)

    def test_output_that_a_file_does_not_take(self):
        if self.way not in ([], DIRECT):
            self.skipTest("a test host has a shell between, which would have to write")
        code = "import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\nfor i in range(100000): print('x' * 99)"
        file = self.folder / "out.txt"
        full = {
            file: r"File too large \(errno 27\); .*ulimit -f",
            pathlib.Path("/dev/full"): r"No space left on device \(errno 28\)",
        }
        for name, reason in full.items():
            done = self.run_into(name, "-np", "2", *python(code), limit=8192 if name == file else None)
            self.assertEqual(done.status, 128 + signal.SIGPIPE, done.err)
            lines = [line for line in done.own_lines() if "writing the output" in line]
            self.assertEqual(len(lines), 1, done.err)
            self.assertRegex(lines[0], rf"to standard output \('{name}'\) failed: {reason}")
        self.assertEqual(file.stat().st_size, 8192)

    def test_ranks_have_the_default_of_the_signals_that_ruedarun_ignores(self):
        done = self.launch(1, "grep", "SigIgn", "/proc/self/status")
        ignored = int(done.out.split()[-1], 16)
        for number in (signal.SIGXFSZ, signal.SIGPIPE):
            self.assertEqual(ignored >> (number - 1) & 1, 0, done.out)

    # The other two ranks of this job call abort(), which the code in LINE defines. abort() sends the frame that the
    # library would send after a notification.
    def test_a_rank_that_leaves_early_with_status_0_is_the_cause(self):
        code = "if rank == 1: os._exit(0)\nabort(receive()[3])"
        done = self.launch(3, *python(self.LINE.replace("print(", "") + code))
        self.assertEqual(done.status, 1, done.err)
        expected = r"rank 1( on \S+)? \(pid \d+\) ended with exit status 0 without having called rueda::shutdown\(\)"
        self.assertRegex(done.own_lines()[0], rf"^ruedarun: {expected}(; ending the job)?$")

    def test_explain_says_why_and_runs_nothing(self):
        done = self.launch(2, "--explain", *python("open(f'ran.{rank}', 'w').write('')"))
        self.assertEqual((done.status, done.err, list(self.folder.iterdir())), (0, "", []))
        reasons = [line for line in done.out.splitlines() if line.startswith("# ")]
        self.assertTrue(
            any(
                re.match(r"# OMP_NUM_THREADS(=\d+: cores divided by ranks|: each host sets it)", line)
                for line in reasons
            )
        )
        self.run_shell(done.out)
        self.assertEqual(len(list(self.folder.glob("ran.*"))), 2)

    def test_verbose_says_what_was_chosen(self):
        done = self.launch(2, "--verbose", "true")
        self.assertEqual(done.status, 0)
        self.assertRegex(
            done.err, r"ruedarun: (\d ranks? on [\d.]+ usable core|the cores of the hosts are not known here)"
        )
        self.assertRegex(done.err, r"ruedarun: OMP_NUM_THREADS(=\d+: cores divided by ranks|: each host sets it)")

    def test_more_ranks_than_cores(self):
        ranks = 2 * os.cpu_count() + 1
        done = self.launch(ranks, *python("print(os.environ['OMP_NUM_THREADS'])"))
        self.assertEqual((done.status, sorted(done.out.splitlines())), (0, sorted(f"[{r}] 1" for r in range(ranks))))

    SHOW_THREADS = "print(*(os.environ.get(f'{n}_NUM_THREADS') for n in ('OMP', 'MKL', 'OPENBLAS')))"

    def test_the_ranks_share_the_cores_and_one_line_says_so(self):
        done = self.launch(2, *python(self.SHOW_THREADS))
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(len(done.about_threads), 1, done.about_threads)
        values = {line.split(maxsplit=1)[1] for line in done.out.splitlines()}
        self.assertEqual(len(values), 1, done.out)
        first = values.pop().split()[0]
        self.assertLessEqual(int(first), len(os.sched_getaffinity(0)))
        self.assertRegex(
            done.about_threads[0],
            rf"^threads of each rank: OMP_NUM_THREADS={first} MKL_NUM_THREADS={first} OPENBLAS_NUM_THREADS={first}"
            r"( KMP_BLOCKTIME=1)? \([\d.]+ cores? for 2 ranks( on a host)?\)$"
            r"|^each host sets OMP_NUM_THREADS, its usable cores divided by its ranks$",
        )
        printed = self.launch(2, "--dry-run", "true")
        self.assertIn("OMP_NUM_THREADS", printed.out)
        self.assertEqual(printed.about_threads, [])

    def test_the_threads_can_be_left_alone(self):
        done = self.launch(2, "--no-thread-variables", *python(self.SHOW_THREADS))
        self.assertEqual(sorted(done.out.splitlines()), [f"[{rank}] None None None" for rank in range(2)], done.err)
        self.assertEqual(done.about_threads, [])
        self.assertNotIn(
            "_NUM_THREADS", self.launch(2, "--no-thread-variables", "--dry-run", "true").out.split("--")[0]
        )
        done = self.launch(2, *python(self.SHOW_THREADS), env=environment(OMP_NUM_THREADS="5"))
        self.assertEqual(sorted(done.out.splitlines()), [f"[{rank}] 5 None None" for rank in range(2)], done.err)
        self.assertEqual(done.about_threads, [])


class Srun(LauncherTest):
    """Tests ruedarun under srun, which starts ruedarun once for each rank. Slurm is not installed, so the test sets
    srun's variables."""

    def task(self, rank, *arguments, **more):
        step = {
            "SLURM_JOB_ID": str(os.getpid()),
            "SLURM_STEP_ID": "0",
            "SLURM_STEP_NUM_TASKS": "2",
            "SLURM_STEP_NUM_NODES": "1",
            "SLURM_STEP_TASKS_PER_NODE": "2",
            "SLURM_PROCID": str(rank),
            "SLURM_LOCALID": str(rank),
            "SLURM_NODEID": "0",
        }
        return self.run_it(*arguments, env=environment(**{**step, **more}))

    def test_each_task_becomes_its_rank(self):
        for rank in range(2):
            done = self.task(rank, "sh", "-c", 'echo $RUEDA_RANK $RUEDA_SIZE "$RUEDA_RENDEZVOUS"; exit 7')
            self.assertEqual((done.status, done.err), (7, ""))
            self.assertEqual(done.out, f"{rank} 2 @rueda-slurm-{os.geteuid()}-{os.getpid()}.0-*\n")

    SHOW_TORCH = "echo " + " ".join(f"${name}" for name in (*BothWays.TORCH, "MASTER_ADDR", "MASTER_PORT"))

    def test_the_variables_of_torchrun_are_slurms(self):
        outer = {"RANK": "9", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "outer"}
        ports = set()
        for rank in range(2):
            done = self.task(rank, "sh", "-c", self.SHOW_TORCH + " ${TORCHELASTIC_RUN_ID-none}", **outer)
            self.assertRegex(done.out, rf"^{rank} 2 {rank} 2 0 0 1 127\.0\.0\.1 \d+ none\n$", done.err)
            ports.add(int(done.out.split()[-2]))
        self.assertEqual(len(ports), 1)
        self.assertTrue(12000 <= min(ports) < 32000)
        two_hosts = {
            "PMIX_RANK": "1",
            "SLURM_STEP_NUM_NODES": "2",
            "SLURM_STEP_TASKS_PER_NODE": "1(x2)",
            "SLURM_STEP_NODELIST": "n[07-08]",
            "SLURM_STEP_RESV_PORTS": "12321-12322",
        }
        step = {"SLURM_LOCALID": "0", "SLURM_NODEID": "1"}
        done = self.task(1, "sh", "-c", self.SHOW_TORCH, **two_hosts, **step)
        self.assertEqual((done.status, done.out), (0, "1 2 0 1 1 1 2 n07 12321\n"), done.err)
        done = self.task(1, "-x", "MASTER_PORT=4711", "sh", "-c", self.SHOW_TORCH, **two_hosts, **step)
        self.assertEqual((done.status, done.out), (0, "1 2 0 1 1 1 2 n07 4711\n"), done.err)
        done = self.task(1, "--no-torch-variables", "sh", "-c", "echo $RANK ${WORLD_SIZE-none}", **outer)
        self.assertEqual((done.status, done.out), (0, "9 none\n"), done.err)

    def test_with_pmi_mpi_gives_the_ranks(self):
        done = self.task(1, "--verbose", "sh", "-c", "echo ${RUEDA_RANK-none}", PMIX_RANK="1")
        self.assertEqual((done.status, done.out), (0, "none\n"))
        self.assertIn("srun set up PMIx", done.err)

    def test_options_without_effect_are_said_once(self):
        for rank in range(2):
            done = self.task(rank, "--output-dir", "logs", "--max-restarts", 2, "sh", "-c", "exit 7")
            self.assertEqual((done.status, done.err.count("\n")), (7, 1 - rank), done.err)
            if rank == 0:
                self.assertRegex(done.err, "without effect here, .*: --output-dir .*, --max-restarts ")
        self.assertFalse((self.folder / "logs").exists())

    def test_a_variable_that_is_not_set(self):
        done = self.task(0, "-x", "NO_SUCH_VARIABLE", "true")
        self.assertEqual((done.status, done.err.count("\n")), (2, 1))
        self.assertIn("-x NO_SUCH_VARIABLE: NO_SUCH_VARIABLE is not set", done.err)

    def test_in_the_shell_of_srun_ranks_are_started(self):
        done = self.task(0, "--no-mpi", "-np", 3, "sh", "-c", "echo $RUEDA_RANK of $RUEDA_SIZE", SLURM_PTY_PORT="40123")
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(sorted(done.out.splitlines()), [f"[{rank}] {rank} of 3" for rank in range(3)])
        self.assertEqual(done.err.count("\n"), 1, done.err)
        self.assertIn("this is the shell of srun --pty", done.err)

    def test_another_number_of_ranks_is_refused(self):
        done = self.task(0, "-np", 3, "true")
        self.assertEqual((done.status, done.err.count("\n")), (2, 1))
        self.assertIn("each would start a job of its own", done.err)

    def test_explain(self):
        done = self.task(0, "--explain", "echo", "a b")
        self.assertEqual(done.status, 0)
        self.assertIn("# srun has started 2 tasks; this is rank 0", done.out)
        self.assertRegex(done.out, r"\nenv RUEDA_CONTROL_PLANE=socket .* echo 'a b'\n$")


class Direct(BothWays, LauncherTest):
    way = DIRECT

    def test_what_ranks_find_in_their_environment(self):
        code = (
            "print(*(os.environ[f'RUEDA_{n}'] for n in "
            "('RANK', 'SIZE', 'LOCAL_RANK', 'LOCAL_SIZE', 'CONTROL_PLANE', 'RENDEZVOUS')))"
        )
        names = set()
        for _ in range(2):
            done = self.launch(2, *python(code), env=environment(RUEDA_RANK="7", HOROVOD_SIZE="9"))
            lines = sorted(done.out.splitlines())
            for rank in range(2):
                self.assertRegex(lines[rank], rf"^\[{rank}\] {rank} 2 {rank} 2 socket @rueda-[0-9a-f]{{32}}$")
            names.add(tuple(line.split()[-1] for line in lines))
        self.assertEqual(len(names), 2, "two jobs must not meet at one name")
        for pair in names:
            self.assertEqual(pair[0], pair[1])

    def test_variables_of_torchrun_of_an_outer_job_stay_where_ruedarun_sets_none(self):
        outer = environment(RANK="7", TORCHELASTIC_RUN_ID="outer")
        code = "print(os.environ['RANK'], os.environ['TORCHELASTIC_RUN_ID'])"
        done = self.launch(1, "--no-torch-variables", *python(code), env=outer)
        self.assertEqual((done.status, done.out), (0, "7 outer\n"), done.err)

    def test_jobs_at_the_same_time_have_different_ports(self):
        code = "import sys\nprint(os.environ['MASTER_PORT'], flush=True)\nsys.stdin.read()"
        jobs = [self.start([*DIRECT, "-np", 1, *python(code)], stdin=subprocess.PIPE) for _ in range(4)]
        ports = {job.stdout.readline() for job in jobs}
        for job in jobs:
            job.communicate("", timeout=TIMEOUT)
        self.assertEqual((len(ports), [job.returncode for job in jobs]), (4, [0] * 4), ports)

    def test_nobody_who_asks_for_any_port_gets_that_of_rank_0(self):
        # The network namespace of this test has four free ports. ruedarun reserves one of them until rank 0 listens on
        # it.
        if subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode != 0:
            self.skipTest("no network namespaces here")
        code = (
            "import socket\nwanted = int(os.environ['MASTER_PORT'])\ntaken = []\n"
            "try:\n"
            "  while len(taken) < 9:\n"
            "    taken.append(socket.socket()); taken[-1].bind(('127.0.0.1', 0))\n"
            "except OSError: taken.pop()\n"
            "print(len(taken), wanted in {one.getsockname()[1] for one in taken})\n"
            "socket.create_server(('', wanted)).close()\n"
        )
        script = 'ip link set lo up && echo "40000 40003" >/proc/sys/net/ipv4/ip_local_port_range && exec "$@"'
        done = subprocess.run(
            ["unshare", "--net", "sh", "-c", script, "sh", RUEDARUN, *DIRECT, "-np", "1", *python(code)],
            env=environment(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        self.assertEqual((done.returncode, done.stdout), (0, "3 False\n"), done.stderr)

    def test_out_of_memory(self):
        self.check_out_of_memory()

    def test_colours_and_progress_on_a_terminal(self):
        seen, status = self.on_a_terminal(
            [
                *DIRECT,
                "-np",
                2,
                *python(
                    "import time\nfor i in (10, 20): os.write(1, f'\\r{i} %'.encode()); time.sleep(0.3)\nos.write(1, b'\\n')"
                ),
            ]
        )
        self.assertEqual(status, 0)
        self.assertIn("\x1b[36m[0]\x1b[0m 10 %", seen)
        self.assertIn("\x1b[32m[1]\x1b[0m 10 %", seen)
        self.assertIn("\r\x1b[K", seen)
        self.assertTrue(seen.endswith("20 %\r\n"), repr(seen))

    def test_control_c_in_a_terminal(self):
        for ranks in (1, 2):
            seen, status = self.on_a_terminal(
                [
                    *DIRECT,
                    "-np",
                    ranks,
                    *python(
                        "import signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
                        "print('ready', flush=True); time.sleep(60)"
                    ),
                ],
                typed=b"\x03",
            )
            self.assertEqual(status, 130, seen)

    def test_one_rank_can_be_spoken_to_in_a_terminal(self):
        seen, status = self.on_a_terminal([*DIRECT, "-np", 1, *python("print('got', input('ready '))")], typed=b"yes\n")
        self.assertEqual(status, 0, seen)
        self.assertIn("got yes", seen)


def usable_mpirun():
    return shutil.which("mpirun") is not None


@unittest.skipUnless(usable_mpirun(), "there is no mpirun")
class Mpirun(BothWays, LauncherTest):
    way = []

    def test_what_ranks_find_in_their_environment(self):
        done = self.launch(
            2,
            *python("print(os.environ['RUEDA_CONTROL_PLANE'], 'RUEDA_RANK' in os.environ)"),
            env=environment(RUEDA_RANK="7"),
        )
        self.assertEqual(sorted(done.out.splitlines()), ["[0] mpi False", "[1] mpi False"])

    def test_out_of_memory(self):
        self.check_out_of_memory()

    def test_an_mpirun_that_fails(self):
        done = self.launch(2, "--mpi-args", "--no-such-option-of-mpirun", "true")
        self.assertNotEqual(done.status, 0)
        self.assertIn("no-such-option-of-mpirun", done.err)
        self.assertRegex(done.err, r"ruedarun: mpirun \(pid \d+\) ended with exit status \d+ before the job was over")

    def test_an_mpirun_that_is_killed(self):
        files = self.folder / "files"  # the files of mpirun, which a killed mpirun cannot remove
        files.mkdir()
        command = ["-np", 2, *python(self.WRITE_PID + "time.sleep(100)")]
        process = self.start(command, env=environment(TMPDIR=str(files)))
        self.pids_in("pid.0", "pid.1")
        mpirun = [pid for pid, line in marked_processes().items() if line.split()[0].endswith("mpirun")]
        self.assertEqual(len(mpirun), 1)
        os.kill(mpirun[0], signal.SIGKILL)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 137, err)
        self.assertRegex(err, r"ruedarun: mpirun \(pid \d+\) was killed by signal 9")
        self.assertEqual([str(path) for path in files.rglob("*") if not path.is_dir()], [])

    def test_a_supervisor_that_is_killed(self):
        process = self.start(["-np", 2, "--grace", "0.5", *python(self.WRITE_PID + "time.sleep(100)")])
        pids = self.pids_in("pid.0", "pid.1")
        supervisor = int(pathlib.Path(f"/proc/{pids[1]}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(supervisor, signal.SIGKILL)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 137, err)
        self.assertIn("rank 1", err)

    def test_one_rank_writes_to_the_terminal_itself(self):
        seen, status = self.on_a_terminal(["-np", 1, *python("print([os.isatty(fd) for fd in (1, 2)])")])
        self.assertEqual((status, seen.strip()), (0, "[True, True]"))

    def test_connections_of_other_programs_do_no_harm(self):
        code = "assert 'RUEDARUN_CONTROL' not in os.environ\n" + self.WRITE_PID
        process = self.start(
            ["--no-thread-variables", "-np", 2, *python(code + "while not os.path.exists('go'): time.sleep(0.01)")]
        )
        self.pids_in("pid.0", "pid.1")
        mpirun = [pid for pid, line in marked_processes().items() if line.split()[0].endswith("mpirun")]
        variables = pathlib.Path(f"/proc/{mpirun[0]}/environ").read_bytes().split(b"\0")
        control = next(v for v in variables if v.startswith(b"RUEDARUN_CONTROL="))
        secret, name = control.split(b"=", 1)[1].split(b"@", 1)
        for greeting in (b"GET / HTTP/1.0\r\n\r\n", handshake.frame(secret, 0, 1, 0, secret), bytes(100)):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.settimeout(TIMEOUT)
                stranger.connect(b"\0" + name[1:])
                stranger.sendall(greeting)
                self.assertTrue(handshake.is_closed(stranger))
        for known, expected in ((b"x" * len(secret), "not proven, closed"), (secret, "proven, closed")):
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.settimeout(TIMEOUT)
                stranger.connect(b"\0" + name[1:])
                # This foreign process knows the secret, but claims to be a rank that is already connected.
                self.assertEqual(handshake.greet(stranger, known), expected)
        (self.folder / "go").write_text("")
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual((process.returncode, Done(process.returncode, out, err, 0).err), (0, ""))

    def mpi(self, how, *options):
        if MPI_PROGRAM == "none":
            self.skipTest("there is no MPI to build programs with")
        return self.launch(2, *options, MPI_PROGRAM, how)

    def test_the_program_itself_initialises_mpi(self):
        done = self.mpi("well")
        self.assertEqual((done.status, sorted(done.out.splitlines()), done.err), (0, ["[0] sum 3", "[1] sum 3"], ""))

    def test_mpi_survivors_live_on_and_only_one_line_tells_it(self):
        for how, status, text in (("kill", 137, "was killed by signal 9 (Killed)"), ("exit", 3, "exit status 3")):
            done = self.mpi(how)
            self.assertEqual(done.status, status, done.err)
            self.assertIn("[0] alive 24", done.out)
            self.assertEqual(len(done.err.splitlines()), 1, done.err)
            self.assertIn(text, done.err)

    def test_mpi_survivors_that_hang_are_ended(self):
        done = self.mpi("kill", "--grace", "0.5")
        self.assertEqual(done.status, 137)
        self.assertIn("[0] alive 2", done.out)
        self.assertNotIn("[0] alive 20", done.out)

    def test_mpi_abort(self):
        done = self.mpi("abort", "--grace", "0.5")
        self.assertEqual(done.status, 7, done.err)
        self.assertRegex(done.err, r"ruedarun: rank 1 \(pid \d+\) ended with exit status 7; ending the job")


class SeveralHosts(BothWays, LauncherTest):
    """Runs ruedarun on the first of two test hosts. All tests of BothWays must also pass here."""

    way = ["-H", "rueda-h0,rueda-h1"]

    @classmethod
    def setUpClass(cls):
        reason = None if usable_mpirun() else "there is no mpirun"
        reason = reason or test_hosts.why_not()
        if reason:
            raise unittest.SkipTest(reason)
        cls.hosts = test_hosts.Hosts(2)
        cls.addClassCleanup(cls.hosts.close)

    def setUp(self):
        super().setUp()
        self.addCleanup(lambda: self.assertEqual(self.hosts.wait_until_empty(), {}, "left on the hosts"))

    def start(self, arguments, hosts=None, **options):
        options.setdefault("env", environment())
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("cwd", self.folder)
        return (hosts or self.hosts).popen(
            0, [RUEDARUN, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )

    def own_hosts(self, number):
        """Returns new hosts that only this test uses, so that the test may break their network."""
        hosts = test_hosts.Hosts(number)
        self.addCleanup(hosts.close)
        return hosts

    def run_shell(self, script):
        self.hosts.run(
            0,
            ["sh", "-c", script],
            env=environment(),
            cwd=self.folder,
            check=True,
            timeout=TIMEOUT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )

    WHERE = "import socket\nprint(socket.gethostname())"
    torch_places = ["0 3 0 2 0 0 2", "1 3 1 2 0 0 2", "2 3 0 1 1 1 2"]

    def test_the_place_of_rank_0_is_on_its_host(self):
        code = "print(os.environ['MASTER_ADDR'])"
        for first, address in (("rueda-h0:1,rueda-h1:1", "10.77.0.1"), ("rueda-h1:2", "10.77.0.2")):
            done = self.run_it("-H", first, *python(code))
            self.assertEqual((done.status, done.out.split()[1::2]), (0, [address] * 2), done.err)

    def test_the_place_of_rank_0_can_be_reached_from_all_hosts(self):
        """The supervisors of both ranks connect to ruedarun at 10.78.0.1, an address of the first host. In the same
        network, rank 0's host has the address 10.78.0.2. But rank 1's host can reach only the first host in this
        network."""
        hosts = self.own_hosts(3)
        between = f"link add extra type veth peer name extra netns {hosts.holders[2].pid}"
        for host, words in (
            (0, between),
            (0, "address add 10.78.0.1/24 dev extra"),
            (0, "link set extra up"),
            (1, "address add 10.78.0.2/24 dev extra"),
            (1, "link set extra up"),
            (2, "route add 10.78.0.1/32 via 10.77.0.1"),
        ):
            hosts.run(host, ["ip", *words.split()], check=True, timeout=TIMEOUT)
        ways = " ".join(f"--mca {name}_tcp_if_include 10.77.0.0/24" for name in ("oob", "btl"))
        words = ["-H", "rueda-h1:1,rueda-h2:1", "--network-interfaces", "extra", "--mpi-args", ways]
        process = self.start([*words, *python("print(os.environ['MASTER_ADDR'])")], hosts)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual((process.returncode, out.split()[1::2]), (0, ["10.77.0.2"] * 2), err)

    def test_hosts_of_one_name_are_two_hosts(self):
        for host, name in enumerate(self.hosts.names):
            self.addCleanup(self.hosts.run, host, ["hostname", name], check=True, timeout=TIMEOUT)
            self.hosts.run(host, ["hostname", "localhost"], check=True, timeout=TIMEOUT)
        code = f"import socket\nprint(socket.gethostname(), *(os.environ[name] for name in {self.TORCH}))"
        done = self.run_it("-H", "rueda-h0:1,rueda-h1:1", *python(code))
        self.assertEqual(
            (done.status, sorted(done.out.splitlines())),
            (0, [f"[{rank}] localhost {rank} 2 0 1 {rank} {rank} 2" for rank in range(2)]),
            done.err,
        )

    def test_ranks_fill_the_hosts_in_their_order(self):
        expected = ["[0] rueda-h0", "[1] rueda-h0", "[2] rueda-h1"]
        for words in (["-H", "rueda-h0:2,rueda-h1:1"], ["-H", "10.77.0.1:2,10.77.0.2:2", "-np", 3]):
            done = self.run_it(*words, *python(self.WHERE))
            self.assertEqual((done.status, sorted(done.out.splitlines())), (0, expected), done.err)
        # The host on which mpirun runs must come first, even if the list names another host first.
        (self.folder / "hosts.txt").write_text("rueda-h1 slots=1  # a remark\nrueda-h0:2\n")
        done = self.run_it("--hostfile", "hosts.txt", "--verbose", *python(self.WHERE))
        self.assertEqual((done.status, sorted(done.out.splitlines())), (0, expected), done.err)
        self.assertIn("rueda-h0 is moved to the front", done.err)
        done = self.run_it("-H", "rueda-h1:7", "--processes-per-host", 1, *python(self.WHERE))
        self.assertEqual((done.status, done.out), (0, "[0] rueda-h1\n"), done.err)

    def test_threads_are_those_of_each_host(self):
        done = self.run_it("-H", "rueda-h0:1,rueda-h1:2", *python("print(os.environ['OMP_NUM_THREADS'])"))
        threads = [self.host_threads(ranks) for ranks in (1, 2, 2)]
        self.assertEqual(sorted(done.out.splitlines()), [f"[{i}] {n}" for i, n in enumerate(threads)], done.err)
        done = self.run_it(
            "-H",
            "rueda-h0:1,rueda-h1:2",
            *python("print(os.environ['OMP_NUM_THREADS'])"),
            env=environment(OMP_NUM_THREADS="5"),
        )
        self.assertEqual(sorted(done.out.splitlines()), ["[0] 5", "[1] 5", "[2] 5"], done.err)
        done = self.run_it("-H", "rueda-h0:1,rueda-h1:2", "--explain", "true")
        self.assertIn("# OMP_NUM_THREADS: each host sets it, its usable cores divided by its ranks\n", done.out)

    def host_threads(self, ranks):
        """Returns the number of threads per rank in a job on one host. Each test host has all cores of this machine."""
        plan = self.run_it("--no-mpi", "-np", ranks, "--dry-run", "true").out
        return int(re.search(r"OMP_NUM_THREADS=(\d+)", plan)[1])

    def test_a_slurm_allocation_is_used(self):
        allocation = environment(
            SLURM_JOB_ID="17", SLURM_JOB_NODELIST="rueda-h[0-1]", SLURM_TASKS_PER_NODE="1(x2)", SLURM_NTASKS="2"
        )
        # Open MPI also reads Slurm's variables. Without these options, it would start its daemons by srun.
        done = self.run_it("--mpi-args", "--mca plm rsh --mca ras ^slurm", *python(self.WHERE), env=allocation)
        self.assertEqual((done.status, sorted(done.out.splitlines())), (0, ["[0] rueda-h0", "[1] rueda-h1"]), done.err)

    def test_only_what_was_asked_for_leaves_the_host(self):
        (self.folder / "job.env").write_text("FROM_FILE=yes\nDB_PASSWORD=hidden\n")
        there = environment(RUEDA_LOG_LEVEL="error", NCCL_DEBUG="INFO", HF_TOKEN="t", WANDB_API_KEY="k", OTHER="o")
        names = ["RUEDA_LOG_LEVEL", "NCCL_DEBUG", "HF_TOKEN", "WANDB_API_KEY", "OTHER", "FROM_FILE", "DB_PASSWORD"]
        code = f"if rank == 1: print(*(os.environ.get(n, '-') for n in {names}), 'RUEDARUN_CONTROL' in os.environ)"
        done = self.launch(2, "--env-file", "job.env", "-x", "HF_TOKEN", *python(code), env=there)
        self.assertEqual((done.status, done.out), (0, "[1] error INFO t - - yes - False\n"), done.err)
        self.assertIn("DB_PASSWORD looks like a secret and stays on this host", done.err)

    def test_settings_of_mpi_go_to_other_hosts_and_the_name_of_this_one_does_not(self):
        there = environment(
            OMPI_MCA_btl_tcp_links="2", UCX_TLS="tcp", FI_PROVIDER="tcp", RUEDA_HOSTNAME="box", HOROVOD_HOSTNAME="box"
        )
        names = ["OMPI_MCA_btl_tcp_links", "UCX_TLS", "FI_PROVIDER", "RUEDA_HOSTNAME", "HOROVOD_HOSTNAME"]
        done = self.launch(2, *python(f"if rank == 1: print(*(os.environ.get(n, '-') for n in {names}))"), env=there)
        self.assertEqual((done.status, done.out), (0, "[1] 2 tcp tcp - -\n"), done.err)

    def test_a_program_that_is_not_there(self):
        # No rank runs on the host of ruedarun, so the program need not exist there.
        done = self.run_it("-H", "rueda-h1:1", "./none")
        self.assertEqual(done.status, 127, done.err)
        self.assertRegex(done.err, r"rank 0 on rueda-h1 could not be started: './none': No such file")
        done = self.launch(2, "./none")
        self.assertEqual((done.status, done.err), (2, "ruedarun: there is no program './none'; check the path\n"))

    def test_out_of_memory(self):
        self.check_out_of_memory()

    def test_a_killed_rank_is_named_with_its_host(self):
        code = "import time\nif rank == 3: os.kill(os.getpid(), 9)\ntime.sleep(100)"
        done = self.launch(4, "--grace", "0.3", *python(code))
        self.assertEqual(done.status, 137)
        self.assertRegex(done.err, r"ruedarun: rank 3 on rueda-h1 \(pid \d+\) was killed by signal 9 \(Killed\)")

    def test_an_unknown_host_is_named_before_mpirun_speaks(self):
        done = self.run_it("-H", "rueda-h0:1,rueda-h9:1", "true")
        self.assertNotEqual(done.status, 0)
        self.assertRegex(
            done.err.splitlines()[0],
            r"^ruedarun: host 'rueda-h9' cannot be resolved here \(.+\); ruedarun starts mpirun anyway",
        )

    def test_control_c_ends_a_command_on_a_test_host_and_the_hosts(self):
        script = pathlib.Path(test_hosts.__file__)
        process = subprocess.Popen(
            [sys.executable, script, "--", RUEDARUN, *DIRECT, "-np", "2", *python(self.CTRL_C)],
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # as in a terminal, the job gets its own process group
        )
        self.pids_in("pid.0", "pid.1")
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 130, output)
        self.assertNotIn("Traceback", output)
        self.assertIn("ruedarun: stopped by signal 2", output)
        self.assertTrue(wait_until(lambda: not marked_processes()), marked_processes())

    CTRL_C = (
        "import signal, time; signal.signal(signal.SIGINT, signal.SIG_DFL)\n"
        "open(f'pid.{rank}', 'w').write(f'{os.getpid()}\\n')\ntime.sleep(100)"
    )

    def test_a_supervisor_that_is_killed(self):
        process = self.start([*self.way, "-np", 2, "--grace", "0.5", *python(self.WRITE_PID + "time.sleep(100)")])
        pids = self.pids_in("pid.0", "pid.1")
        supervisor = int(pathlib.Path(f"/proc/{pids[1]}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(supervisor, signal.SIGKILL)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 137, err)
        self.assertRegex(err, r"rank 1 on rueda-h1 \(pid \d+\) is lost")

    def test_a_host_that_is_cut_off(self):
        hosts = self.own_hosts(2)
        process = self.start(
            [*self.way, "-np", "2", "--grace", "0.5", *python(self.WRITE_PID + "time.sleep(100)")], hosts
        )
        self.pids_in("pid.0", "pid.1")
        hosts.unplug(1)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 137, err)
        self.assertRegex(err, r"rank 1 on rueda-h1 \(pid \d+\) is lost: its host does not answer any more")
        # The supervisor on the other host must also notice the cut, and end its rank.
        self.assertEqual(hosts.wait_until_empty(30), {})

    def test_connections_of_other_programs_do_no_harm(self):
        process = self.start(
            [*self.way, "-np", 2, *python(self.WRITE_PID + "while not os.path.exists('go'): time.sleep(0.01)")]
        )
        self.pids_in("pid.0", "pid.1")
        mpirun = [pid for pid, line in marked_processes().items() if line.split()[0].endswith("mpirun")]
        variables = pathlib.Path(f"/proc/{mpirun[0]}/environ").read_bytes().split(b"\0")
        secret, places = next(v for v in variables if v.startswith(b"RUEDARUN_CONTROL=")).split(b"=", 1)[1].split(b"@")
        for process_folder in pathlib.Path("/proc").glob("[0-9]*"):  # checks the ssh processes of the test hosts, too
            with contextlib.suppress(OSError):  # some processes end meanwhile
                self.assertNotIn(secret, (process_folder / "cmdline").read_bytes())
        script = handshake.__file__
        address, port = places.decode().split(",")[0].rsplit(":", 1)

        def tell(*words):
            done = self.hosts.run(
                1,
                [sys.executable, script, words[0], address, port, words[1]],
                capture_output=True,
                text=True,
                timeout=20,
            )
            return done.stdout.strip() or done.stderr

        for words in (b"GET / HTTP/1.0\r\n\r\n", handshake.frame(secret, 0, 1, 0, secret), b"\xff" * 100):
            self.assertEqual(tell("send", words.hex()), "closed")
        self.assertEqual(tell("connect", "x" * len(secret)), "not proven, closed")
        # this process knows the secret, but claims to be a rank that is already connected
        self.assertEqual(tell("connect", secret.decode()), "proven, closed")
        (self.folder / "go").write_text("")
        out, err = process.communicate(timeout=TIMEOUT)
        done = Done(process.returncode, out, err, 0)
        self.assertEqual((done.status, done.err), (0, ""))

    def test_a_listener_that_is_not_ruedarun_gets_no_secret(self):
        """Each host has its own network 172.17.0.0/16, like that of docker0, and the address 172.17.0.1 in this
        network. ruedarun runs on the first host. On the other host, an attacker listens at the same address."""
        ports = (47000, 47149)  # the ports that the first host's kernel may give to ruedarun
        for host in range(2):
            for words in (
                "link add docker0 type bridge",
                "address add 172.17.0.1/16 dev docker0",
                "link set docker0 up",
            ):
                self.hosts.run(host, ["ip", *words.split()], check=True, timeout=TIMEOUT)
            self.addCleanup(self.hosts.run, host, ["ip", "link", "del", "docker0"], check=True, timeout=TIMEOUT)
        for first, last in (ports, (32768, 60999)):
            change = f"echo {first} {last} > /proc/sys/net/ipv4/ip_local_port_range"
            if last == ports[1]:
                if self.hosts.run(0, ["sh", "-c", change], capture_output=True, timeout=TIMEOUT).returncode != 0:
                    self.skipTest("the range of ports cannot be set here")
            else:
                self.addCleanup(self.hosts.run, 0, ["sh", "-c", change], check=True, timeout=TIMEOUT)
        for mode in ("silent", "close", "reflect", "web"):
            with self.subTest(mode=mode):
                self.check_job_beside_attacker(mode, ports)

    def check_job_beside_attacker(self, mode, ports):
        seen = self.folder / f"seen.{mode}"
        attacker = self.hosts.popen(
            1,
            [sys.executable, handshake.__file__, "listen", mode, "172.17.0.1", *map(str, ports), str(seen)],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            self.assertEqual(attacker.stdout.readline(), "ready\n")
            begin = time.monotonic()
            show = self.WHERE + "\nprint(os.environ['MASTER_ADDR'])"
            done = self.run_it("-H", "rueda-h0:1,rueda-h1:1", *python(show))
            # The attacker's silence may delay the job by 0.3 s. If the job waited for an answer of the attacker, it
            # would fail after 60 s.
            self.assertLess(time.monotonic() - begin, 30)
        finally:
            attacker.kill()
            attacker.communicate()
        lines = [f"[{rank}] {text}" for rank in range(2) for text in ("10.77.0.1", f"rueda-h{rank}")]
        self.assertEqual((done.status, sorted(done.out.splitlines()), done.err), (0, lines, ""))
        # The attacker got two connections of rank 1's supervisor: one to find ruedarun, and one to try the addresses of
        # rank 0's host. On each it got at most the beginning of a handshake: a header and a random number.
        before, *connections = seen.read_bytes().split(b"[connection]")
        self.assertEqual((before, len(connections)), (b"", 2))
        for got in connections:
            self.assertIn(len(got), (0,) if mode == "close" else (0, handshake.OPENING_BYTES))
            self.assertTrue(got == b"" or got.startswith(handshake.header(handshake.CONNECTING)))

    def test_mpi_between_the_hosts(self):
        if MPI_PROGRAM == "none":
            self.skipTest("there is no MPI to build programs with")
        done = self.launch(2, MPI_PROGRAM, "well")
        self.assertEqual((done.status, sorted(done.out.splitlines())), (0, ["[0] sum 3", "[1] sum 3"]), done.err)
        done = self.launch(2, MPI_PROGRAM, "kill")
        self.assertEqual(done.status, 137, done.err)
        self.assertIn("[0] alive 24", done.out)
        self.assertIn("rank 1 on rueda-h1", done.err)

    def test_the_doctor_asks_the_other_hosts(self):
        done = self.run_it("--doctor", "-H", "rueda-h0:1,rueda-h1:1")
        for checked in (
            "rueda-h0: is this host; .*",
            "rueda-h1: mpirun reaches it, and ruedarun answers there",
            r"rueda-h1: has Rueda \d+\.\d+\.\d+, like this host",
            "rueda-h1: its clock differs from this host's by at most 1 s, as far as this check can tell",
        ):
            self.assertRegex(done.out, rf"(?m)^ok       host {checked}$")
        self.assertIn(done.status, (0, 1), done.out)
        done = self.run_it("--doctor", "-H", "rueda-h1:1,rueda-h9:1")
        self.assertEqual(done.status, 2, done.out)
        self.assertRegex(done.out, r"error +host rueda-h9: .*\n +-> try: ssh rueda-h9 true")

    def test_hosts_do_not_outlive_the_process_that_made_them(self):
        script = pathlib.Path(test_hosts.__file__)
        (self.folder / "tmp").mkdir()
        process = subprocess.Popen(
            [sys.executable, script, "--", "sh", "-c", "echo $$ >pid.0; exec sleep 100"],
            cwd=self.folder,
            env=environment(TMPDIR=str(self.folder / "tmp")),
            stdin=subprocess.DEVNULL,
        )
        (pid,) = self.pids_in("pid.0")
        self.assertEqual(len(list((self.folder / "tmp").iterdir())), 1)
        process.kill()
        process.wait()
        self.assertTrue(wait_until(lambda: not is_alive(pid)))
        self.assertTrue(wait_until(lambda: not list((self.folder / "tmp").iterdir())))
        self.assertTrue(wait_until(lambda: not marked_processes()), marked_processes())


class Document(LauncherTest):
    """Runs the commands of docs/ruedarun.md on two hosts a and b, with the files that the document shows."""

    PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "ruedarun.md"
    BLOCK = re.compile(
        r"(?:<!-- (?P<kind>[\w ]+): (?P<name>.*?) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)```", re.DOTALL
    )

    def test_every_command(self):
        reason = (None if usable_mpirun() else "there is no mpirun") or test_hosts.why_not()
        if reason:
            self.skipTest(reason)
        hosts = test_hosts.Hosts(names=["a", "b"])
        self.addCleanup(hosts.close)
        trainer = self.folder / "trainer"
        trainer.write_text('#!/bin/sh\necho "trained by $(hostname) $*"\n')
        trainer.chmod(0o755)
        blocks = list(self.BLOCK.finditer(self.PAGE.read_text()))
        for block in blocks:
            if block["kind"] == "file":
                (self.folder / block["name"]).write_text(block["text"])
        path = f"{pathlib.Path(RUEDARUN).parent}:{hosts.path_with_ssh()}"
        commands = 0
        for block in blocks:
            if block["language"] != "sh" or block["kind"] == "not run":
                continue
            for command in block["text"].splitlines():
                with self.subTest(command=command):
                    done = hosts.run(
                        0,
                        ["sh", "-c", command],
                        env=environment(PATH=path),
                        cwd=self.folder,
                        stdin=subprocess.DEVNULL,
                        capture_output=True,
                        text=True,
                        timeout=TIMEOUT,
                    )
                    self.assertEqual(done.returncode, 0, done.stderr)
                    shown = done.stdout + "".join(file.read_text() for file in self.folder.glob("logs/*.out"))
                    runs = "--explain" not in command and "--dry-run" not in command
                    self.assertIn("trained by" if runs else "mpirun", shown)
                    shutil.rmtree(self.folder / "logs", ignore_errors=True)
                commands += 1
        self.assertGreater(commands, 12)
        self.assertEqual(hosts.wait_until_empty(), {})


class Recipes(LauncherTest):
    """Runs the recipes of docs/cluster.md as far as possible without a cluster: the variables and files of Slurm,
    Kubernetes and SageMaker are imitated, and all hosts of a job are this host."""

    PAGE = Document.PAGE.with_name("cluster.md")

    # Stands for `srun --ntasks N program …` on one host.
    SRUN = """#!/bin/sh
[ "$1" = --ntasks ] || exit 64
export SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=$2 SLURM_STEP_NUM_NODES=1 SLURM_STEP_TASKS_PER_NODE=$2 SLURM_NODEID=0
last=$(($2 - 1))
shift 2
for task in $(seq 0 $last); do
    SLURM_PROCID=$task SLURM_LOCALID=$task "$@" &
done
wait
"""
    TRAINER = "#!/bin/sh\necho rank $RANK of $WORLD_SIZE with $OMP_NUM_THREADS\n"

    # The fields that a job of the MPI operator can set (API kubeflow.org/v2beta1). For the templates of pods, only the
    # fields that the recipe needs are listed. A tuple lists the values that the API allows for a field.
    POD = {
        "metadata": {"labels": dict},
        "spec": {
            "containers": [
                {
                    "name": str,
                    "image": str,
                    "command": [str],
                    "args": [str],
                    "env": [{"name": str, "value": str}],
                    "resources": {"limits": dict, "requests": dict},
                    "volumeMounts": [{"name": str, "mountPath": str}],
                }
            ],
            "volumes": [dict],
        },
    }
    REPLICAS = {"replicas": int, "restartPolicy": ("Never", "OnFailure", "Always", "ExitCode"), "template": POD}
    MPI_JOB = {
        "apiVersion": ("kubeflow.org/v2beta1",),
        "kind": ("MPIJob",),
        "metadata": {"name": str, "namespace": str},
        "spec": {
            "slotsPerWorker": int,
            "runLauncherAsWorker": bool,
            "launcherCreationPolicy": ("AtStartup", "WaitForWorkersReady"),
            "mpiImplementation": ("OpenMPI", "Intel", "MPICH"),
            "sshAuthMountPath": str,
            "runPolicy": {
                "cleanPodPolicy": ("None", "Running", "All"),
                "ttlSecondsAfterFinished": int,
                "activeDeadlineSeconds": int,
                "backoffLimit": int,
                "suspend": bool,
                "schedulingPolicy": dict,
            },
            "mpiReplicaSpecs": {"Launcher": REPLICAS, "Worker": REPLICAS},
        },
    }

    def text_of(self, language, name=None):
        blocks = list(Document.BLOCK.finditer(self.PAGE.read_text()))
        (found,) = (b["text"] for b in blocks if b["language"] == language and (name is None or b["name"] == name))
        return found

    def known_options(self):
        return set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", self.run_it("--help").out)) | {"-np"}

    def job(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("there is no PyYAML")
        return yaml.safe_load(self.text_of("yaml"))

    def write_program(self, name, text):
        file = self.folder / name
        file.write_text(text)
        file.chmod(0o755)
        return file

    def run_script(self, name, **variables):
        """Runs a script of the page in a folder that has a trainer and a stand-in for srun."""
        script = self.write_program(name, self.text_of("sh", name))
        self.write_program("trainer", self.TRAINER)
        self.write_program("srun", self.SRUN)
        path = f"{self.folder}:{pathlib.Path(RUEDARUN).parent}:{os.environ['PATH']}"
        process = subprocess.run(
            [script],
            env=environment(PATH=path, **variables),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        return Done(process.returncode, process.stdout, process.stderr, 0)

    def complaints(self, value, schema, place=""):
        """Returns one line for each part of a document that the schema does not allow."""
        if isinstance(schema, dict):
            if not isinstance(value, dict):
                return [f"{place} is no object"]
            found = [f"{place}.{key} does not exist" for key in value if key not in schema]
            return found + [
                line
                for key in value
                if key in schema
                for line in self.complaints(value[key], schema[key], f"{place}.{key}")
            ]
        if isinstance(schema, list):
            if not isinstance(value, list):
                return [f"{place} is no list"]
            return [line for i, item in enumerate(value) for line in self.complaints(item, schema[0], f"{place}[{i}]")]
        fits = value in schema if isinstance(schema, tuple) else type(value) is schema
        return [] if fits else [f"{place} is {value!r}"]

    def test_the_job_of_kubernetes_has_only_fields_of_its_api(self):
        job = self.job()
        self.assertEqual(self.complaints(job, self.MPI_JOB), [])
        job["spec"]["slots"] = 2
        job["spec"]["runPolicy"]["backoffLimit"] = "2"
        job["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = "Sometimes"
        self.assertEqual(
            self.complaints(job, self.MPI_JOB),
            [
                ".spec.slots does not exist",
                ".spec.runPolicy.backoffLimit is '2'",
                ".spec.mpiReplicaSpecs.Launcher.restartPolicy is 'Sometimes'",
            ],
        )

    def test_the_numbers_of_the_job_are_those_of_the_text(self):
        job = self.job()
        roles = job["spec"]["mpiReplicaSpecs"]
        self.assertEqual(sorted(roles), ["Launcher", "Worker"])
        containers = {role: spec["template"]["spec"]["containers"][0] for role, spec in roles.items()}
        self.assertEqual(containers["Launcher"]["image"], containers["Worker"]["image"])
        cores = containers["Worker"]["resources"]["limits"]["cpu"]
        threads = cores // job["spec"]["slotsPerWorker"]
        text = " ".join(self.PAGE.read_text().split())
        self.assertIn(
            f"limit is {cores} cores and `slotsPerWorker` is the number of ranks, so `OMP_NUM_THREADS` is {threads}.",
            text,
        )
        self.assertIn(
            f"`{job['metadata']['name']}-worker-0.train.default.svc slots={job['spec']['slotsPerWorker']}`", text
        )

    def hostfile_of_the_operator(self, job):
        slots, workers = job["spec"]["slotsPerWorker"], job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
        name = job["metadata"]["name"]
        return "".join(f"{name}-worker-{i}.{name}.default.svc slots={slots}\n" for i in range(workers))

    # The operator sets these variables in the launcher's container, for Open MPI.
    OPERATOR = {
        "K_MPI_JOB_ROLE": "launcher",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
        "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
        "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
    }

    def launcher_command(self, job):
        words = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"]
        self.assertEqual(words[:3], ["ruedarun", "--hostfile", "/etc/mpi/hostfile"])
        return words[3:]

    def test_the_command_of_the_launcher_with_the_hostfile_of_the_operator(self):
        if reason := None if usable_mpirun() else "there is no mpirun":
            self.skipTest(reason)
        job = self.job()
        program = self.launcher_command(job)
        hosts = self.folder / "hostfile"
        hosts.write_text(self.hostfile_of_the_operator(job))
        done = self.run_it("--hostfile", hosts, "--explain", *program, env=environment(**self.OPERATOR))
        self.assertEqual((done.status, done.err), (0, ""))
        for worker in range(2):
            self.assertIn(f"# host train-worker-{worker}.train.default.svc: 2 ranks\n", done.out)
        self.assertIn("# OMP_NUM_THREADS: each host sets it, its usable cores divided by its ranks\n", done.out)
        self.assertTrue(done.out.endswith("trainer --data /data/digits.csv.gz\n"), done.out)
        # Workers whose names do not exist yet are refused, as the page says.
        self.write_program("trainer", self.TRAINER)
        path = f"{self.folder}:{os.environ['PATH']}"
        done = self.run_it("--hostfile", hosts, *program, env=environment(PATH=path))
        self.assertEqual(done.status, 2, done.err)
        self.assertIn("train-worker-0.train.default.svc", done.err)

    def test_the_job_runs_if_a_worker_is_this_host(self):
        job = self.job()
        program = self.launcher_command(job)
        self.write_program("trainer", self.TRAINER)
        hosts = self.folder / "hostfile"
        hosts.write_text(f"localhost slots={job['spec']['slotsPerWorker']}\n")
        around = environment(**{**self.OPERATOR, "OMPI_MCA_orte_default_hostfile": str(hosts)})
        around["PATH"] = f"{self.folder}:{around['PATH']}"
        done = self.run_it("--hostfile", hosts, *program, env=around)
        self.assertEqual(done.status, 0, done.err)
        self.check_ranks_of_this_host(done, 2)

    def check_ranks_of_this_host(self, done, ranks):
        """Checks the lines of the trainer. If all ranks are on this host, its real cores are divided among them."""
        lines = sorted(re.sub(r" with \d+$", "", line) for line in done.out.splitlines())
        self.assertEqual(lines, [f"[{rank}] rank {rank} of {ranks}" for rank in range(ranks)], done.err)
        (threads,) = {int(line.split()[-1]) for line in done.out.splitlines()}
        self.assertIn(threads, range(1, max(1, len(os.sched_getaffinity(0)) // ranks) + 1))

    def test_the_trainer_of_the_job_is_in_the_image(self):
        words = self.job()["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"]
        image = self.text_of("dockerfile")
        self.assertEqual(words[0], "ruedarun")
        self.assertRegex(image, rf"(?m)^COPY --from=build \S+ /usr/local/bin/{words[words.index('--data') - 1]}$")
        self.assertRegex(image, rf"(?m)^COPY --from=build \S+ {re.escape(words[words.index('--data') + 1])}$")

    def options_of_sbatch(self, name):
        (line,) = re.findall(r"^#SBATCH (.*)$", self.text_of("sh", name), re.MULTILINE)
        return {word.split("=")[0]: word.partition("=")[2] for word in line.split()}

    def test_slurm_starts_ruedarun_once(self):
        options = self.options_of_sbatch("job.sbatch")
        self.assertEqual(sorted(options), ["--cpus-per-task", "--nodes", "--ntasks-per-node"])
        tasks, cores = int(options["--ntasks-per-node"]), int(options["--cpus-per-task"])
        done = self.run_script(
            "job.sbatch",
            SLURM_JOB_ID="17",
            SLURM_JOB_NODELIST=socket.gethostname(),
            SLURM_TASKS_PER_NODE=str(tasks),
            SLURM_JOB_CPUS_PER_NODE=str(tasks * cores),
            SLURM_CPUS_PER_TASK=str(cores),
            SLURM_NTASKS=str(tasks),
        )
        self.assertEqual(done.status, 0, done.err)
        self.check_ranks_of_this_host(done, tasks)

    def test_slurm_starts_the_ranks(self):
        options = self.options_of_sbatch("job-srun.sbatch")
        self.assertEqual(options["--nodes"], "1")
        tasks, cores = int(options["--ntasks-per-node"]), int(options["--cpus-per-task"])
        done = self.run_script("job-srun.sbatch", SLURM_JOB_ID=str(os.getpid()), SLURM_CPUS_PER_TASK=str(cores))
        self.assertEqual(done.status, 0, done.err)
        self.assertEqual(
            sorted(done.out.splitlines()), [f"rank {rank} of {tasks} with {cores}" for rank in range(tasks)], done.err
        )
        self.assertEqual(
            done.about_threads,
            [
                f"threads of each rank: OMP_NUM_THREADS={cores} MKL_NUM_THREADS={cores} OPENBLAS_NUM_THREADS={cores} "
                "KMP_BLOCKTIME=1 (SLURM_CPUS_PER_TASK)"
            ],
        )

    def resource_config(self, current, *hosts):
        """Writes the file that SageMaker gives to each container."""
        file = self.folder / "resourceconfig.json"
        file.write_text(json.dumps({"current_host": current, "hosts": hosts, "network_interface_name": "lo"}))
        return str(file)

    def test_sagemakers_first_host_starts_the_job(self):
        here = socket.gethostname()
        config = self.resource_config(here, here)
        done = self.run_script("entry.sh", CONFIG=config, TRAINER="./trainer", SM_NUM_GPUS="2", SM_NUM_CPUS="8")
        self.assertEqual(done.status, 0, done.err)
        self.check_ranks_of_this_host(done, 2)

    def test_sagemakers_entry_point_names_a_wrong_configuration(self):
        file = self.folder / "resourceconfig.json"
        for text in (None, "{", '{"hosts": []}', '{"hosts": ["algo-1"]}'):
            with self.subTest(text=text):
                if text is not None:
                    file.write_text(text)
                done = self.run_script("entry.sh", CONFIG=str(file), TRAINER="./trainer")
                self.assertEqual((done.status, done.out), (1, ""))
                lines = done.err.splitlines()
                self.assertEqual(len(lines), 1, done.err)
                self.assertTrue(lines[0].startswith(f"entry.sh: the file {file} does not name the hosts"), done.err)

    def test_sagemakers_first_host_waits_for_the_ssh_servers_of_the_others(self):
        # The stand-in for ssh reaches algo-2 at the second try, and algo-3 never.
        self.write_program(
            "ssh", '#!/bin/sh\necho "$*" >>calls\n[ "$5" = algo-2 ] && [ $(grep -c algo-2 calls) = 2 ]\n'
        )
        self.write_program("sleep", "#!/bin/sh\n")
        config = self.resource_config("algo-1", "algo-1", "algo-2", "algo-3")
        done = self.run_script("entry.sh", CONFIG=config, TRAINER="./trainer", TRIES="5")
        command = "-o BatchMode=yes -o ConnectTimeout=2 {} true"
        self.assertEqual((done.status, done.out), (1, ""))
        self.assertEqual(
            done.err,
            f"entry.sh on algo-1: gave up; this command still fails: ssh {command.format('algo-3')}\n",
        )
        calls = (self.folder / "calls").read_text().splitlines()
        self.assertEqual(calls, [command.format("algo-2")] * 2 + [command.format("algo-3")] * 5)

    def test_sagemakers_other_hosts_do_not_wait_forever(self):
        self.write_program("pgrep", "#!/bin/sh\nexit 1\n")
        self.write_program("sleep", "#!/bin/sh\n")
        self.write_program("sshd", "#!/bin/sh\n")
        config = self.resource_config("algo-2", "algo-1", "algo-2")
        done = self.run_script("entry.sh", CONFIG=config, SSHD="sshd", TRAINER="false", TRIES="5")
        self.assertEqual((done.status, done.out), (1, ""))
        self.assertIn("entry.sh on algo-2: gave up; this command still fails: pgrep -x orted|prted", done.err)

    def test_sagemakers_other_hosts_wait_for_the_daemon_of_mpirun(self):
        # The stand-in for pgrep finds orted at its second and third call.
        self.write_program(
            "pgrep",
            '#!/bin/sh\n[ "$*" = "-x orted|prted" ] || exit 64\necho >>calls\nn=$(wc -l <calls)\n[ $n = 2 ] || [ $n = 3 ]\n',
        )
        self.write_program("sleep", "#!/bin/sh\n")
        self.write_program("sshd", "#!/bin/sh\necho the server has started\n")
        config = self.resource_config("algo-2", "algo-1", "algo-2")
        done = self.run_script("entry.sh", CONFIG=config, SSHD="sshd", TRAINER="false")
        self.assertEqual((done.status, done.out, done.err), (0, "the server has started\n", ""))
        self.assertEqual(len((self.folder / "calls").read_text().splitlines()), 4)

    def test_every_option_of_ruedarun_that_the_pages_show_exists(self):
        text = (self.PAGE.read_text() + Document.PAGE.read_text()).replace("\\\n", " ")
        flags_of_horovodrun = {"--fusion-threshold-mb", "--cycle-time-ms"}
        mentioned = set()
        for line in text.splitlines():
            for command in re.findall(r"(?:^|\[|-n \d |-N 1 |exec )(?:ruedarun|rueda doctor)[ ,](.*)", line.strip()):
                before_the_program = re.split(r"\./|trainer|\$\{TRAINER|python3|sh -c", command.split("`")[0])[0]
                unquoted = re.sub(r'"[^"]*"', "", before_the_program)
                mentioned |= set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", unquoted))
        self.assertGreater(len(mentioned), 10, mentioned)
        self.assertEqual(mentioned - self.known_options() - flags_of_horovodrun, set())

    @staticmethod
    def packages_of_this_system():
        """Returns, for each installed package, the fields of its entry in dpkg's list."""
        entries = pathlib.Path("/var/lib/dpkg/status").read_text().split("\n\n")
        found = [dict(re.findall(r"^(\S+): (.*)$", entry, re.MULTILINE)) for entry in entries]
        return {entry["Package"]: entry for entry in found if "installed" in entry.get("Status", "").split()}

    @staticmethod
    def with_dependencies(names, packages):
        """Returns these packages and all packages on which they depend, as far as they are installed here."""
        found, waiting = set(), list(names)
        while waiting:
            name = waiting.pop()
            if name in found:
                continue
            found.add(name)
            entry = packages.get(name, {})
            lists = entry.get("Depends", "") + "," + entry.get("Pre-Depends", "")
            waiting += [match for match in re.findall(r"(?:^|,)\s*([a-z0-9][a-z0-9.+-]*)", lists)]
        return found

    def test_the_image_has_the_libraries_of_what_it_copies(self):
        system = pathlib.Path("/etc/os-release").read_text()
        if not all(line in system for line in ("ID=debian\n", 'VERSION_ID="12"')):
            self.skipTest("the image is a Debian 12, and this system is not")
        build = pathlib.Path(RUEDARUN).resolve().parent.parent
        copied = [build / "bin" / name for name in ("ruedarun", "rueda", "digits")]
        copied += [build / "lib" / f"librueda{name}.so" for name in ("", "_mpi", "_ucx", "_cuda")]
        copied += (build / "python" / "rueda").glob("_native*.so")
        copied = [file for file in copied if file.exists()]
        listed = subprocess.run(["readelf", "-d", *copied], capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", listed)) - {"librueda.so.0"}
        self.assertIn("libmpi.so.40", needed)
        owners = subprocess.run(["dpkg", "-S", *needed], capture_output=True, text=True, check=True).stdout
        packages = self.packages_of_this_system()
        base = [name for name, entry in packages.items() if entry.get("Priority") == "required" or name == "apt"]
        image = self.text_of("dockerfile")
        last_stage = image[image.rindex("FROM ") :].replace("\\\n", " ")
        installs = re.findall(r"apt-get install -y --no-install-recommends (.*)", last_stage)
        named = " ".join(installs).split()
        there = self.with_dependencies([*base, *named], packages)
        for library in sorted(needed):
            with self.subTest(library=library):
                found = set(re.findall(rf"^([^:\s]+)(?::\S+)?: \S*/{re.escape(library)}$", owners, re.MULTILINE))
                self.assertTrue(found & there, f"{library} is in {found}")

    def test_the_image_builds_what_it_copies(self):
        image = self.text_of("dockerfile").replace("\\\n", " ")
        # The quick start builds only a part of what is installed.
        self.assertLess(image.index("scripts/quickstart --yes"), image.index("cmake --build --preset release "))
        self.assertLess(image.index("cmake --build --preset release "), image.index("cmake --install build/release"))
        # entry.sh starts Python, so the image needs the Python package, and its build needs the headers of Python.
        self.assertLess(image.index("python3-dev"), image.index("scripts/quickstart --yes"))
        self.assertRegex(image, r"cp -rL build/release/python/rueda /opt/rueda/lib/python3.11/dist-packages\n")

    def test_the_image_can_be_reached_and_finds_the_library(self):
        image = self.text_of("dockerfile")
        last_stage = image[image.rindex("FROM ") :]
        self.assertLess(last_stage.index("COPY --from=build /opt/rueda /usr/local"), last_stage.index("RUN ldconfig"))
        script = self.text_of("sh", "entry.sh")
        for tool, package in (("pgrep", "procps"), ("python3", "python3"), ("ssh", "openssh-client")):
            self.assertRegex(script, rf"(?m)(^|[ (]){tool} ")
            self.assertRegex(last_stage, rf"[ ]{package}\s")
        for needed in (
            "/run/sshd",
            "StrictHostKeyChecking no",
            "openssh-server",
            "openmpi-bin",
            "ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519",
            "cp /root/.ssh/id_ed25519.pub /root/.ssh/authorized_keys",
        ):
            self.assertIn(needed, last_stage)
        instructions = {line.split()[0] for line in image.replace("\\\n", " ").splitlines() if line and line[0] != "#"}
        self.assertEqual(instructions, {"FROM", "COPY", "WORKDIR", "RUN"})


class Doctor(LauncherTest):
    """Tests the program `rueda` that is in the same folder as ruedarun."""

    def rueda(self, *arguments, **options):
        options.setdefault("env", environment())
        program = pathlib.Path(RUEDARUN).with_name("rueda")
        return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=TIMEOUT, **options)

    def test_looks_at_this_machine(self):
        done = self.rueda("doctor")
        self.assertIn(done.returncode, (0, 1, 2), done.stderr)
        self.assertEqual(done.stderr, "")
        for subject in ("mpirun", "cores", "threads", "memory", "locked memory", "shared memory", "network"):
            self.assertRegex(done.stdout, rf"(?m)^(ok|warning|error) +{subject}: ")
        warnings, errors = (len(re.findall(rf"(?m)^{name} ", done.stdout)) for name in ("warning", "error"))
        self.assertRegex(done.stdout, rf"\n{warnings} warnings?, {errors} errors?\n$")
        self.assertEqual(done.returncode, 2 if errors else 1 if warnings else 0)

    def test_tries_the_plugin_that_the_user_names(self):
        if not usable_mpirun():
            self.skipTest("there is no mpirun")
        done = self.rueda("doctor", env=environment(RUEDA_MPI_PLUGIN="/nonexistent/plugin.so"))
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertRegex(done.stdout, r"error +MPI plugin: none fits .*: /nonexistent/plugin\.so: cannot open shared")

    def test_finds_what_was_spoilt(self):
        done = self.rueda("doctor", "-np", "1000", env=environment(RUEDA_SLOTS="many", OMP_NUM_THREADS="64"))
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stdout, r"error +settings: RUEDA_SLOTS is 'many'")
        self.assertRegex(done.stdout, r"warning +cores: [\d.]+ usable for 1000 ranks\n +-> ")
        self.assertRegex(done.stdout, r"warning +threads: OMP_NUM_THREADS is 64: 64000 threads")

    def test_called_wrongly(self):
        for arguments in (["doctr"], ["doctor", "./program"], ["doctor", "--npp"], ["doctor", "-H", "a,,b"], []):
            done = self.rueda(*arguments)
            self.assertEqual((done.returncode, done.stdout), (3, ""), arguments)
        self.assertIn("Exit status:", self.rueda("--help").stdout)
        self.assertIn("Exit status:", self.rueda("doctor", "--help").stdout)
        self.assertRegex(self.rueda("--version").stdout, r"^rueda \d+\.\d+\.\d+\n$")


class Network(LauncherTest):
    """Tests failures between hosts without a second host."""

    def test_supervisors_that_do_not_come(self):
        tools = self.folder / "bin"
        tools.mkdir()
        (tools / "mpirun").write_text(
            '#!/bin/sh\n[ "$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit; }\nexec sleep 100\n'
        )
        (tools / "mpirun").chmod(0o755)
        patient = environment(PATH=f"{tools}:{os.environ['PATH']}", RUEDA_START_TIMEOUT="0.5")
        for where, rank in ((["-np", 2], "rank 0"), (["-H", "127.77.0.1:1,127.77.0.2:1"], "rank 0 on 127.77.0.1")):
            done = self.run_it(*where, "true", env=patient)
            self.assertEqual(done.status, 127, done.err)
            self.assertIn(f"{rank} could not be started: its supervisor has not reported within", done.err)
            self.assertLess(done.seconds, 20)

    def with_one_supervisor_of_two(self, **variables):
        """Starts a job whose mpirun starts only the supervisor of rank 0. No program of the job may start."""
        tools = self.folder / "bin"
        tools.mkdir()
        (tools / "mpirun").write_text(
            '#!/bin/sh\n[ "$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit; }\n'
            'until [ "$2" = --rank-supervisor ]; do shift; done\n'
            'OMPI_COMM_WORLD_RANK=0 "$@" &\nexec sleep 100\n'
        )
        (tools / "mpirun").chmod(0o755)
        there = environment(PATH=f"{tools}:{os.environ['PATH']}", **variables)
        process = self.start(["-H", "127.77.0.1:1,127.77.0.2:1", "touch", self.folder / "started"], env=there)
        self.addCleanup(lambda: self.assertFalse((self.folder / "started").exists()))
        return process

    def test_no_program_starts_where_a_supervisor_is_missing(self):
        process = self.with_one_supervisor_of_two(RUEDA_START_TIMEOUT="1")
        _, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 127, err)
        self.assertRegex(err, r"rank 1 on 127\.77\.0\.2 could not be started: its supervisor has not reported within")

    def test_a_signal_ends_a_job_that_has_not_started(self):
        process = self.with_one_supervisor_of_two()
        self.assertTrue(
            wait_until(lambda: any("--rank-supervisor -- touch" in line for line in marked_processes().values()))
        )
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 143, err)

    def test_a_supervisor_that_finds_no_ruedarun(self):
        with contextlib.closing(socket.socket()) as unused:
            unused.bind(("127.0.0.1", 0))
            control = f"secret@127.0.0.1:{unused.getsockname()[1]}"
        done = self.run_it(
            "--rank-supervisor",
            "--",
            "true",
            env=environment(RUEDARUN_CONTROL=control, OMPI_COMM_WORLD_RANK="0"),
        )
        self.assertEqual(done.status, 1)
        self.assertRegex(
            done.err,
            r"rank 0 cannot report to ruedarun: ruedarun could not be reached .* \(127\.0\.0\.1:\d+: Connection refused\)",
        )
        self.assertNotIn("secret@", done.err)

    def test_a_supervisor_counts_the_cores_of_its_own_host(self):
        code = "print(os.environ['OMP_NUM_THREADS'], os.environ.get('OMPI_MCA_mpi_yield_when_idle'))"

        def under_supervisor(neighbours, **more):
            there = environment(OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_LOCAL_SIZE=str(neighbours), **more)
            done = self.run_it("--rank-supervisor", "--", *python(code), env=there)
            self.assertEqual(done.status, 0, done.err)
            return done.out.split()

        alone = self.run_it("--no-mpi", "-np", 1, *python("print(os.environ['OMP_NUM_THREADS'])")).out.strip()
        self.assertEqual(under_supervisor(1), [alone, "0"])
        self.assertEqual(under_supervisor(1000), ["1", "1"])
        self.assertEqual(under_supervisor(1000, OMP_NUM_THREADS="7", OMPI_MCA_mpi_yield_when_idle="0"), ["7", "0"])
        cores = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, cores)
        os.sched_setaffinity(0, {min(cores)})
        self.assertEqual(under_supervisor(1), ["1", "0"])
        self.assertEqual(under_supervisor(2), ["1", "1"])


if __name__ == "__main__":
    RUEDARUN, MPI_PROGRAM = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
