# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests jobs in which a rank is killed or fails. Every other rank must get Aborted, whatever its operation is and
however it waits. The job must then end and leave no processes or files behind."""

import ast
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).parent
LIMIT = 5  # the longest time from the end of a rank to a survivor's error, in seconds
# With these flags, ranks survive another rank's end, as under ruedarun. The flags also forbid MPI to copy messages
# directly between processes, because MPI would end a rank whose peer dies during such a copy.
MPIRUN = (
    *("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"),
    *("--mca", "orte_abort_on_non_zero_status", "0", "--mca", "orte_enable_recovery", "1"),
    *("--mca", "btl_vader_single_copy_mechanism", "none"),
)


class KilledRank(unittest.TestCase):
    def check_survivors(self, right, *arguments):
        program = HERE / "faulty_rank.py"
        command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "4", sys.executable, "-B", str(program), *arguments]
        job = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(job.returncode, 0)
        said = dict(re.findall(r"<(\d): ([^>]*)>", job.stdout))
        self.assertEqual(said, {rank: right for rank in ("0", "2", "3")}, job.stdout + job.stderr)

    def test_every_survivor_learns_of_it(self):
        self.check_survivors("; ".join(["Aborted, naming rank 1"] * 3 + ["in time"]))

    def test_while_members_make_a_set(self):
        self.check_survivors("Aborted, naming rank 1; in time", "members")


class KilledBeforeTheOthersHaveLeft(unittest.TestCase):
    """The other ranks only wait in shutdown(), so shutdown() must report the death."""

    KILLED = "import os, signal, rueda; rueda.init(); rueda.barrier()\nif rueda.rank() == 1: os.kill(os.getpid(), 9)\n"
    LINE = r"rueda.*Aborted: shutdown: the job ended before all ranks had left it: rank 1 "

    def run_job(self, program):
        shell = '"$@"; echo "<$RUEDA_RANK: $?>"'
        command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "2", "sh", "-c", shell, "sh", sys.executable, "-B", "-c"]
        job = subprocess.run([*command, program], capture_output=True, text=True, timeout=60, check=False)
        self.assertRegex(job.stderr, self.LINE)
        return dict(re.findall(r"<(\d): ([^>]*)>", job.stdout))

    def test_shutdown_raises(self):
        self.assertEqual(self.run_job(self.KILLED + "rueda.shutdown()"), {"0": "1", "1": "137"})

    def test_a_program_that_does_not_call_it_ends_with_status_1(self):
        self.assertEqual(self.run_job(self.KILLED), {"0": "1", "1": "137"})

    def test_a_program_that_catches_it_ends_as_it_likes(self):
        caught = "try: rueda.shutdown()\nexcept rueda.Aborted as error: print('rueda, Aborted:', error, file=__import__('sys').stderr)"
        self.assertEqual(self.run_job(self.KILLED + caught), {"0": "0", "1": "137"})


class FailedWorker(unittest.TestCase):
    """A worker's exception does not reach the interpreter's exit handling, because multiprocessing catches it first."""

    def check(self, way, reason, exits):
        for start in ("fork", "spawn"):
            command = [sys.executable, "-B", str(HERE / "failing_workers.py"), start, way]
            job = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            heard = {rank: f"rank 1 has ended the job: {reason}" for rank in "02"} if reason else {}
            self.assertEqual(dict(re.findall(r"<(\d): (.*)>", job.stdout)), heard, job.stdout + job.stderr)
            self.assertEqual(job.stdout.splitlines()[-1], f"{exits}", job.stderr)

    def test_one_that_raises(self):
        self.check("raise", "ValueError: my data is missing", [0, 1, 0])

    def test_one_that_exits(self):
        self.check("exit", "SystemExit: 5", [0, 5, 0])

    def test_an_orderly_end(self):
        self.check("orderly", None, [0, 0, 0])


class FailedRank(unittest.TestCase):
    """If a rank ends with an error, the other ranks must not wait for it, and the job's failure must name the error."""

    def run_job(self, way, seconds_of_rank_2, *flags):
        program = pathlib.Path(__file__).with_name("failing_rank.py")
        command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "3", *flags]
        command += [sys.executable, "-B", str(program), way, str(seconds_of_rank_2)]
        begin = time.monotonic()
        job = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        said = dict(re.findall(r"<(\d): ([^>]*)>", job.stdout))
        return job, said, time.monotonic() - begin

    def check(self, way, status, reason, ranks):
        job, said, _ = self.run_job(way, 1)
        reason = f"rank 1 has ended the job: {reason}"
        self.assertEqual(said, dict.fromkeys(ranks, reason), job.stdout + job.stderr)
        self.assertEqual(job.returncode, status, job.stderr)
        self.assertIn("rank 1 ", job.stderr.splitlines()[-1])
        self.assertIn(f"ended with exit status {status}", job.stderr.splitlines()[-1])

    def test_an_uncaught_exception_ends_the_job(self):
        self.check("raise", 1, "ValueError: bad batch", "02")

    def test_an_exit_with_a_status_ends_the_job(self):
        self.check("exit", 5, "it ended with exit status 5, without calling rueda.shutdown()", "02")

    def test_a_signal_comes_before_the_error_that_comes_with_it(self):
        job, said, _ = self.run_job("interrupt", 5, "--grace", "20")
        heard = "rank 1 has ended the job: interrupted"
        self.assertEqual(said, {"0": heard, "1": "KeyboardInterrupt", "2": heard}, job.stdout + job.stderr)
        self.assertNotIn("lost sys.stderr", job.stderr + job.stdout)

    def test_a_program_ends_the_job(self):
        job, said, _ = self.run_job("abort", 1)
        self.assertEqual(sorted(said), ["0", "1", "2"], job.stdout + job.stderr)
        for text in said.values():
            self.assertEqual(text, "rank 1 has ended the job: the loss is nan")
        self.assertEqual(job.returncode, 4, job.stderr)

    def test_a_rank_that_computes_is_not_waited_for(self):
        job, said, seconds = self.run_job("raise", 90, "--grace", "1")
        self.assertEqual(said["0"], "rank 1 has ended the job: ValueError: bad batch", job.stdout + job.stderr)
        self.assertEqual(job.returncode, 1, job.stderr)
        self.assertLess(seconds, 60)


class LeavingRank(unittest.TestCase):
    """Rank 0 waits in shutdown() for a rank that does not call shutdown()."""

    def run_job(self, way, *before, **settings):
        program = pathlib.Path(__file__).with_name("leaving_rank.py")
        with tempfile.TemporaryDirectory() as folder:
            command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "2"]
            command += [*before, sys.executable, "-B", str(program), way, folder]
            environment = {**os.environ, **settings}
            job = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
        return job, re.findall(r"<(\d): ([^>]*)>", job.stdout)

    def test_an_interruption_can_be_caught(self):
        job, said = self.run_job("catch")
        self.assertEqual(job.returncode, 0, job.stderr)
        self.assertEqual(
            [text for rank, text in said if rank == "0"],
            [
                "KeyboardInterrupt, initialized True",
                "NotInitialized",
                "init: this process has begun to leave its job",
                "shut down, initialized False",
            ],
            job.stdout + job.stderr,
        )
        self.assertIn(("1", "shut down"), said)

    def test_an_interruption_at_exit_ends_the_job(self):
        job, said = self.run_job("interrupt at exit", "sh", "-c", '"$@"; echo "<$RUEDA_RANK: status $?>"', "sh")
        expected = [("0", "status 1"), ("1", "rank 0 has ended the job: KeyboardInterrupt"), ("1", "status 7")]
        self.assertEqual(sorted(said), expected, job.stdout + job.stderr)

    def test_the_wait_at_exit_is_reported_and_ends(self):
        job, said = self.run_job("exit", RUEDA_STALL_CHECK_TIME_SECONDS="0.5", RUEDA_STALL_SHUTDOWN_TIME_SECONDS="1.2")
        self.assertIn("shutdown() was called by a subset of the ranks", job.stderr)
        self.assertRegex(job.stderr, r"shutdown\(\): waiting for [0-9.]+ s; ready: rank 0; missing: rank 1\n")
        self.assertEqual(len(said), 1, job.stdout + job.stderr)
        self.assertRegex(
            said[0][1],
            r"^shutdown\(\) has waited for rank 1 for [0-9.]+ s, more than RUEDA_STALL_SHUTDOWN_TIME_SECONDS \(1.2\); "
            r"ready: rank 0; the job is ended",
        )
        self.assertEqual(job.returncode, 79, job.stderr)  # 79 is the exit status of a job that ended because of a stall


def has_open_mpi() -> bool:
    try:
        version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return False
    return "Open MPI" in version and "RUEDA_MPI_PLUGIN" in os.environ


class KilledInTheMiddle(unittest.TestCase):
    """Kills one of four ranks during many allreduces. FAULT_SEED chooses the kills, and FAULT_ROUNDS sets their
    number."""

    def job(self, launcher, kind, victim, seconds, *hosts):
        program = [
            sys.executable,
            "-B",
            str(HERE / "faulty_steps_rank.py"),
            kind,
            str(victim),
            f"{seconds:.3f}",
            *hosts,
        ]
        with tempfile.TemporaryDirectory() as folder:
            job = subprocess.run(
                [*launcher, "-np", "4", *program],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
                env={**os.environ, "TMPDIR": folder},
            )
            left = [str(path) for path in pathlib.Path(folder).rglob("*") if not path.is_dir()]
        left += [str(path) for path in pathlib.Path("/dev/shm").glob("rueda*")]
        text = f"rank {victim} is killed after {seconds:.3f} s of {kind}\n{job.stdout}{job.stderr}"
        self.assertEqual(left, [], text)
        return job.stdout, text

    def check(self, launcher, kind, victim, seconds, *hosts):
        said, text = self.job(launcher, kind, victim, seconds, *hosts)
        pid, killed = re.search(r"<killed (\d+) ([\d.]+)>", said).groups()
        survivors = re.findall(r"<rank (\d) (\d+) ([\d.]+) ('.*'|\".*\"|None) ('.*'|\".*\"|None)>", said)
        self.assertEqual(sorted(int(rank) for rank, *_ in survivors), [r for r in range(4) if r != victim], text)
        for _, its_pid, failed, error, after in survivors:
            self.assertLess(float(failed) - float(killed), LIMIT, text)
            first, then = ast.literal_eval(error), ast.literal_eval(after)
            self.assertRegex(first, rf"^tensor 'tensor \d': rank {victim} (on host-. )?\(pid {pid}\)", text)
            # The error of a later operation must have the same reason.
            self.assertEqual(then.removeprefix("tensor 'after': "), first.split("': ", 1)[1], text)
            self.assertFalse(pathlib.Path("/proc", its_pid).exists(), text)
        self.assertFalse(pathlib.Path("/proc", pid).exists(), text)

    def kills(self):
        plan = random.Random(int(os.environ.get("FAULT_SEED", "1")))
        for _ in range(int(os.environ.get("FAULT_ROUNDS", "2"))):
            for kind in ("adasum", "compression", "small"):
                yield kind, plan.randrange(4), plan.uniform(0, 0.2)

    def test_on_one_host(self):
        for kill in self.kills():
            self.check([os.environ["RUEDARUN"], "--no-mpi"], *kill)

    @unittest.skipUnless(has_open_mpi(), "no Open MPI here")
    def test_on_two_hosts(self):
        for kill in self.kills():
            self.check(MPIRUN, *kill, "aabb")

    @unittest.skipUnless(has_open_mpi(), "no Open MPI here")
    def test_small_tensors_on_three_hosts(self):
        for kind, victim, seconds in self.kills():
            if kind == "small":
                # Only ranks of the first host: another rank of the victim's host must tell the others how it died.
                self.check(MPIRUN, kind, victim % 2, seconds, "aabc")


if __name__ == "__main__":
    unittest.main()
