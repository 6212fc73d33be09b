# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests RUEDA_CALL_SITES, RUEDA_VERIFY and RUEDA_CHECK_NAN in jobs of several processes, on one host and on two.

The environment variable RUEDARUN names the launcher. The two hosts are this machine under different names
(RUEDA_HOSTNAME). Jobs on two hosts need Open MPI's mpirun.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HEAD = """import os, signal, sys, time
import numpy as np
import rueda
def say(text): os.write(1, f"<{rueda.rank()}: {text}>\\n".encode())
def failed(call):
    try: call()
    except rueda.RuedaError as error: return f"{type(error).__name__}: {error}"
    return "no error"
rueda.init()
me = rueda.rank()
"""


def has_open_mpi() -> bool:
    if shutil.which("mpirun") is None:
        return False
    version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False, timeout=30)
    return "Open MPI" in version.stdout


class Job:
    """A program that ran on three ranks. `said` contains the lines of each rank, in their order. `errors` is the
    standard error."""

    def __init__(self, body: str, hosts: str = "", **settings: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program.py")
            program.write_text(HEAD + body, encoding="utf-8")
            rank = [sys.executable, "-B", str(program)]
            environment = os.environ | settings
            if hosts:
                command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
                for i, host in enumerate(hosts):
                    command += [":"] if i else []
                    command += ["-np", "1", "-x", f"RUEDA_HOSTNAME={host}"]
                    command += [word for name in settings for word in ("-x", name)] + rank
            else:
                command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "3", *rank]
            self.job = subprocess.run(
                command, capture_output=True, text=True, timeout=100, check=False, env=environment
            )
        self.errors = self.job.stderr
        self.said = {
            rank: re.findall(f"<{rank}: ([^>]*)>", self.job.stdout) for rank in range(3)
        }  # the pattern matches the beginning of the line; the rest may be any text

    def text(self) -> str:
        return self.job.stdout + self.job.stderr


def line_of(body: str, mark: str) -> int:
    """Returns the number of the line that contains `mark`."""
    return next(i for i, line in enumerate((HEAD + body).splitlines(), start=1) if mark in line)


MISMATCH = """
def ours(tensor):
    return rueda.allreduce(tensor, "w")  # usual
if me == 1:
    text = failed(lambda: rueda.allreduce(np.ones(4, "float32"), "w"))  # odd
else:
    text = failed(lambda: ours(np.ones(3, "float32")))
say(text)
say(failed(lambda: rueda.allreduce(np.ones(1), "w", 9)))  # refused
handle = rueda.allreduce_async(np.ones(2 + me), "later")  # started
say(failed(handle.wait))
say(failed(lambda: rueda.allreduce(np.ones(3), "w")))
rueda.barrier()
"""


class CallSites(unittest.TestCase):
    def test_errors_say_who_called_from_where(self):
        job = Job(MISMATCH, RUEDA_CALL_SITES="1")
        usual, odd, refused, started = (
            line_of(MISMATCH, f"# {mark}") for mark in ("usual", "odd", "refused", "started")
        )
        for rank, said in job.said.items():
            with self.subTest(rank=rank):
                self.assertEqual(len(said), 4, job.text())
                self.assertRegex(
                    said[0],
                    r"^Mismatch: tensor 'w': the ranks disagree about the shape: ranks 0, 2: \[3\]; rank 1: \[4\]; called "
                    rf"from: ranks 0, 2: \S*program.py:{usual}; rank 1: \S*program.py:{odd}$",
                )
                self.assertRegex(said[1], rf"^InvalidArgument: .*; called from \S*program.py:{refused}$")
                self.assertRegex(
                    said[2], rf"^Mismatch: tensor 'later'.*; called from: ranks 0-2: \S*program.py:{started}$"
                )
                self.assertEqual(said[3], "no error")

    def test_messages_and_jobs_of_some_ranks(self):
        body = """
rueda.shutdown()
rueda.init([0, 1, 2])
say(failed(lambda: rueda.send(np.ones(3), 7)))  # sends
say(failed(lambda: rueda.receive(np.ones(3), 7)))  # receives
handle = rueda.receive_async(np.ones(2), 1) if me == 0 else None  # started
if me == 1:
    failed(lambda: rueda.send(np.ones(3), 0))
say(failed(handle.wait) if me == 0 else "")
rueda.barrier()
"""
        job = Job(body, RUEDA_CALL_SITES="1")
        sends, receives, started = (line_of(body, f"# {mark}") for mark in ("sends", "receives", "started"))
        for said in job.said.values():
            self.assertEqual(len(said), 3, job.text())
            self.assertRegex(said[0], rf"^InvalidArgument: .*; called from \S*program.py:{sends}$")
            self.assertRegex(said[1], rf"^InvalidArgument: .*; called from \S*program.py:{receives}$")
        self.assertRegex(job.said[0][2], rf"^Mismatch: .*; called from \S*program.py:{started}$")

    def test_without_the_setting_nobody_looks(self):
        job = Job(MISMATCH)
        for said in job.said.values():
            self.assertEqual(len(said), 4, job.text())
            self.assertNotIn("called from", " ".join(said))

    def test_stall_reports(self):
        body = """
if me == 1:
    time.sleep(2.5)
elif me == 0:
    rueda.join()  # waits
rueda.allreduce(np.ones(3), "gradient") if me else None  # calls
rueda.join() if me else None
"""
        self.check_stall(
            body, Job(body, RUEDA_CALL_SITES="1", RUEDA_STALL_CHECK_TIME_SECONDS="0.5"), "ranks 0, 2", "rank 2"
        )

    @unittest.skipUnless(has_open_mpi(), "no Open MPI here")
    def test_stall_reports_of_two_hosts(self):
        body = """
if me == 1:
    time.sleep(4)
rueda.allreduce(np.ones(3), "gradient")  # calls
"""
        job = Job(body, hosts="aab", RUEDA_CALL_SITES="1", RUEDA_STALL_CHECK_TIME_SECONDS="0.5")
        self.check_stall(body, job, "ranks 0, 2", "ranks 0, 2")

    def check_stall(self, body: str, job: Job, ready: str, called: str) -> None:
        self.assertRegex(
            job.errors,
            rf"tensor 'gradient': waiting for .* ready: {ready}; missing: rank 1; called from: {called}: "
            rf"\S*program.py:{line_of(body, '# calls')}\n",
        )
        self.assertEqual(job.job.returncode, 0, job.text())

    def test_a_rank_dies(self):
        body = """
if me == 1:
    os.kill(os.getpid(), signal.SIGKILL)
say(failed(lambda: rueda.allreduce(np.ones(3), "w")))  # waits
"""
        job = Job(body, RUEDA_CALL_SITES="1")
        for rank in (0, 2):
            self.assertEqual(len(job.said[rank]), 1, job.text())
            self.assertRegex(
                job.said[rank][0], rf"^Aborted: .*rank 1.*; called from \S*program.py:{line_of(body, '# waits')}$"
            )


class Unnamed(unittest.TestCase):
    def test_one_call_too_many(self):
        body = """
for step in range(5):
    rueda.allreduce(np.ones(3))
if me == 1:
    rueda.allreduce(np.ones(3))
else:
    time.sleep(1.5)
    rueda.allreduce(np.ones(3))
"""
        job = Job(body, RUEDA_STALL_CHECK_TIME_SECONDS="0.5")
        self.assertRegex(
            job.errors,
            "the 6th unnamed operation of this process set: waiting for .* ready: rank 1; missing: ranks 0, 2; rank 1 has "
            "started 6 unnamed operations, ranks 0, 2: 5; they match by the order of the calls",
        )


CHECKS = """
tensor = np.ones(1000, "float32")
tensor[17] = np.nan if me == 2 else 1
say(failed(lambda: rueda.allreduce(tensor, "w")))
tensor[17] = 1
say(failed(lambda: rueda.allreduce(tensor, "w")))
if me == 1:
    handle = rueda.allreduce_async_(tensor, "changed")
    tensor[5] = 7
    rueda.barrier("then")
else:
    rueda.barrier("then")
    handle = rueda.allreduce_async_(tensor, "changed")
say(failed(handle.wait))
parameters = {f"layer{i}": np.full(50, float(i)) for i in range(20)}
rueda.broadcast_parameters(parameters)
rueda.barrier()
"""


class Checks(unittest.TestCase):
    def check(self, job: Job) -> None:
        for rank, said in job.said.items():
            with self.subTest(rank=rank):
                self.assertEqual(len(said), 3, job.text())
                self.assertEqual(
                    said[0],
                    "InvalidArgument: tensor 'w': the input of this allreduce has values that are not finite "
                    "(RUEDA_CHECK_NAN): rank 2: NaN at element 17; look for their cause before this operation",
                )
                self.assertEqual(said[1], "no error")
                self.assertIn(
                    "Mismatch: tensor 'changed': the input of this allreduce was changed while the operation was under "
                    "way (RUEDA_VERIFY): rank 1; leave it alone",
                    said[2],
                )
        self.assertEqual(job.job.returncode, 0, job.text())

    def test_on_one_host(self):
        self.check(Job(CHECKS, RUEDA_VERIFY="1", RUEDA_CHECK_NAN="1"))

    @unittest.skipUnless(has_open_mpi(), "no Open MPI here")
    def test_on_two_hosts(self):
        self.check(Job(CHECKS, hosts="aab", RUEDA_VERIFY="1", RUEDA_CHECK_NAN="1"))

    @unittest.skipUnless(has_open_mpi(), "no Open MPI here")
    def test_call_sites_on_two_hosts(self):
        """Each rank knows the call sites of its own host only."""
        job = Job(MISMATCH, hosts="aab", RUEDA_CALL_SITES="1")
        usual, odd = line_of(MISMATCH, "# usual"), line_of(MISMATCH, "# odd")
        here = rf"; called from: rank 0: \S*program.py:{usual}; rank 1: \S*program.py:{odd}$"
        for rank, where in {0: here, 1: here, 2: rf"; called from: rank 2: \S*program.py:{usual}$"}.items():
            self.assertEqual(len(job.said[rank]), 4, job.text())
            self.assertRegex(job.said[rank][0], r"ranks 0, 2: \[3\]; rank 1: \[4\]" + where)


if __name__ == "__main__":
    unittest.main()
