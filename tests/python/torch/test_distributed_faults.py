# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests which errors the other ranks get if a rank is killed or calls another operation. No rank may hang or crash."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import rueda.torch.distributed

MISMATCH = """
import os, torch, torch.distributed as dist
import rueda.torch
dist.init_process_group("rueda")
try:
    dist.all_reduce(torch.ones(3 + dist.get_rank()))
except RuntimeError as error:
    os.write(1, f"<{dist.get_rank()}: {error}>\\n".encode())
dist.destroy_process_group()
"""

TOO_LATE = """
import datetime, os, time, torch, torch.distributed as dist
import rueda.torch
dist.init_process_group("rueda")
first = torch.tensor(os.getpid())
dist.broadcast(first, 0)
while dist.get_rank() == 1 and os.path.exists(f"/proc/{first.item()}"):
    time.sleep(0.05)
try:
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.3))
except RuntimeError as error:
    os.write(1, f"<{dist.get_rank()}: {error}>\\n".encode())
os._exit(0)  # without a word, and without waiting for the other
"""


def run_program(text, **settings):
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "program.py")
        program.write_text(text)
        return subprocess.run(
            [os.environ["RUEDARUN"], "--no-mpi", "-np", "2", sys.executable, "-B", str(program)],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
            env={**os.environ, **settings},
        )


class KilledRank(unittest.TestCase):
    def test_every_survivor_learns_of_it(self):
        program = pathlib.Path(__file__).with_name("faulty_rank.py")
        command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "3", sys.executable, "-B", str(program)]
        job = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        self.assertNotEqual(job.returncode, 0)
        said = dict(re.findall(r"<(\d): ([^>]*)>", job.stdout))
        right = "; ".join(["named"] * 5 + ["in time"])
        self.assertEqual(said, {"0": right, "1": right}, job.stdout + job.stderr)


UNCAUGHT = """
import datetime, signal, torch, torch.distributed as dist
import rueda.torch
dist.init_process_group("rueda", timeout=datetime.timedelta(seconds=60))
network = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
dist.group.WORLD.set_timeout(datetime.timedelta(seconds=1))
dist.barrier()
if dist.get_rank() == 1:
    while True:
        signal.pause()  # returns when the stack of this rank is taken
network(torch.ones(2, 4)).sum().backward()
"""


class HungRank(unittest.TestCase):
    def test_every_wait_ends_by_the_timeout_and_names_it(self):
        program = pathlib.Path(__file__).with_name("hung_rank.py")
        command = [os.environ["RUEDARUN"], "--no-mpi", "-np", "2", "--grace", "1", sys.executable, "-B", str(program)]
        job = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
        said = dict(re.findall(r"<(\w+): ([^>]*)>", job.stdout))
        names = "wait asynchronous future chained collected backward unused hook batch barrier objects".split()
        if rueda.torch.distributed.offers("functional collectives"):
            names.append("functional")
        self.assertEqual(said, dict.fromkeys(names, "Timeout named in time"), job.stdout + job.stderr)

    def test_a_backward_pass_that_nobody_catches_ends_the_job(self):
        job = run_program(UNCAUGHT)
        self.assertNotEqual(job.returncode, 0)
        self.assertRegex(job.stdout + job.stderr, "not completed after 1 s: rank 1 has not announced it, rank 0 has")


class Disagreement(unittest.TestCase):
    def test_call_sites_are_lines_of_the_program(self):
        job = run_program(MISMATCH, RUEDA_CALL_SITES="1")
        line = MISMATCH.splitlines().index("    dist.all_reduce(torch.ones(3 + dist.get_rank()))") + 1
        said = re.findall(r"<(\d): ([^>]*)>", job.stdout)
        self.assertEqual(sorted(rank for rank, _ in said), ["0", "1"], job.stdout + job.stderr)
        for rank, text in said:
            with self.subTest(rank=rank):
                self.assertRegex(
                    text, rf"the ranks disagree about the shape: .*; called from: ranks 0, 1: \S*program.py:{line}$"
                )


class LateRank(unittest.TestCase):
    @unittest.skipUnless(rueda.torch.distributed.offers("monitored_barrier"), "not with this PyTorch")
    def test_monitored_barrier_says_that_the_first_rank_has_left(self):
        job = run_program(TOO_LATE)
        said = dict(re.findall(r"<(\d): ([^>]*)>", job.stdout))
        self.assertEqual(sorted(said), ["0", "1"], job.stdout + job.stderr)
        self.assertEqual(said["0"], "monitored_barrier: rank 1 of the group has not come within 0.3 s")
        self.assertRegex(
            said["1"],
            "^monitored_barrier: rank 1 of the group has come, and rank 0 cannot answer any more; it waits for 0.3 s, and may "
            r"have given up before \(.*rank 0 \(pid \d+\) ended with exit status 0 and had not finished rueda(::|\.)shutdown\(\), .*\)$",
        )


if __name__ == "__main__":
    unittest.main()
