# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""ruedarun as its users see it: real processes, both ways to start them.

Called as: ruedarun_test.py RUEDARUN MPI_PROGRAM [unittest's arguments]; MPI_PROGRAM is "none" where there is no MPI.
"""

import os
import pathlib
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RUEDARUN = ""
MPI_PROGRAM = ""
TIMEOUT = 60
DIRECT = ["--no-mpi"]
# Every process of a test carries this in its environment, so that one that is left behind can be found.
MARK = f"RUEDARUN_TEST_MARK={os.getpid()}.{time.monotonic_ns()}"
RANK = "import os; rank = int(os.environ.get('RUEDA_RANK') or os.environ['OMPI_COMM_WORLD_RANK'])\n"


def environment(**changes):
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RUEDA_", "HOROVOD_", "OMPI_", "PMIX_", "OMP_", "MKL_", "OPENBLAS_"))
    }
    name, value = MARK.split("=")
    kept[name] = value
    kept.pop("PYTHONUNBUFFERED", None)
    kept.update(changes)
    return kept


def marked_processes():
    """Those that are left of a test: {pid: command line}."""
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
    """As ps shows it: R, S, T, ...; X for a process that is no more."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def is_alive(pid):
    """A dead process that its new parent has not reaped yet counts as gone."""
    return state_of(pid) not in "ZX"


def wait_until(condition, seconds=20):
    """Waits for something another process does; the result is its last value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(0.01)


def python(code):
    return [sys.executable, "-c", RANK + code]


class Done:
    def __init__(self, status, out, err, seconds):
        self.status, self.out, self.err, self.seconds = status, out, err, seconds

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
        """Process numbers that ranks wrote into files, once all are there."""
        files = [self.folder / name for name in names]
        self.assertTrue(
            wait_until(lambda: all(f.exists() and f.read_text().endswith("\n") for f in files)),
            f"{names} were not written",
        )
        return [int(f.read_text()) for f in files]


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
        self.assertIn("RUEDA_CELLS is 'many'", self.refused("-np", "2", "true", env=environment(RUEDA_CELLS="many")))

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


class BothWays:
    """Tests that must hold however the ranks were started."""

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
        self.assertRegex(done.err, r"ruedarun: rank 1 \(pid \d+\) ended with exit status 42; ending the job")

    def test_a_killed_rank_and_survivors_that_report(self):
        code = (
            "import signal, sys, time\n"
            "if rank == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
            "time.sleep(2.2); print('I am still here', flush=True); sys.exit(1)"
        )
        done = self.launch(3, *python(code))
        self.assertEqual(done.status, 137, done.err)
        self.assertRegex(done.err, r"ruedarun: rank 1 \(pid \d+\) was killed by signal 9 \(Killed\); ending the job\n")
        self.assertEqual(len(done.own_lines()), 1, done.err)
        self.assertEqual(sorted(done.out.splitlines()), ["[0] I am still here", "[2] I am still here"])

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
        time.sleep(0.5)  # not a synchronisation: lets all pipes fill up
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
        subprocess.run(
            ["sh", "-c", done.out],
            cwd=self.folder,
            env=environment(),
            check=True,
            timeout=TIMEOUT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        self.assertEqual([(self.folder / f"ran.{r}").read_text() for r in range(2)], ["it's; b", "it's; b"])

    def test_verbose_says_what_was_chosen(self):
        done = self.launch(2, "--verbose", "true")
        self.assertEqual(done.status, 0)
        self.assertRegex(done.err, r"ruedarun: 2 ranks on [\d.]+ usable core")
        self.assertRegex(done.err, r"ruedarun: OMP_NUM_THREADS=\d+: cores divided by ranks")

    def test_more_ranks_than_cores(self):
        ranks = 2 * os.cpu_count() + 1
        done = self.launch(ranks, *python("print(os.environ['OMP_NUM_THREADS'])"))
        self.assertEqual((done.status, sorted(done.out.splitlines())), (0, sorted(f"[{r}] 1" for r in range(ranks))))


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

    def on_a_terminal(self, arguments, typed=b"", seconds=30):
        """What a person sees who runs ruedarun in a terminal, and its exit status."""
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

    def test_an_mpirun_that_refuses(self):
        done = self.launch(2, "--mpi-args", "--no-such-option-of-mpirun", "true")
        self.assertNotEqual(done.status, 0)
        self.assertIn("no-such-option-of-mpirun", done.err)
        self.assertRegex(done.err, r"ruedarun: mpirun \(pid \d+\) ended with exit status \d+ before the job was over")

    def test_an_mpirun_that_is_killed(self):
        process = self.start(["-np", 2, *python(self.WRITE_PID + "time.sleep(100)")])
        self.pids_in("pid.0", "pid.1")
        mpirun = [pid for pid, line in marked_processes().items() if line.split()[0].endswith("mpirun")]
        self.assertEqual(len(mpirun), 1)
        os.kill(mpirun[0], signal.SIGKILL)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 137, err)
        self.assertRegex(err, r"ruedarun: mpirun \(pid \d+\) was killed by signal 9")

    def test_a_supervisor_that_is_killed(self):
        process = self.start(["-np", 2, "--grace", "0.5", *python(self.WRITE_PID + "time.sleep(100)")])
        pids = self.pids_in("pid.0", "pid.1")
        supervisor = int(pathlib.Path(f"/proc/{pids[1]}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(supervisor, signal.SIGKILL)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 137, err)
        self.assertIn("rank 1", err)

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


if __name__ == "__main__":
    RUEDARUN, MPI_PROGRAM = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
