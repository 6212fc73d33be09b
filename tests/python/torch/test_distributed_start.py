# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests all methods of starting processes with the backend "rueda", and the errors of ranks that cannot connect."""

import concurrent.futures
import datetime
import functools
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import rueda.torch.distributed
import torch
from rueda.torch.distributed._groups import Rendezvous

HERE = pathlib.Path(__file__).parent
RANK = str(HERE / "started_rank.py")
PYTHON = [sys.executable, "-B"]
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def clean():
    return {
        name: value
        for name, value in os.environ.items()
        if name not in LAUNCHERS and not re.match("OMPI_|PMIX_|PMI_|TORCHELASTIC|RUEDA_(RANK|SIZE|RENDEZVOUS)", name)
    }


def output_of(command, **environment):
    ended = subprocess.run(
        command, env={**clean(), **environment}, capture_output=True, text=True, timeout=120, check=False
    )
    return ended.returncode, ended.stdout, ended.stderr


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def has_ucx():
    """Returns whether the plugin for UCX lies in the folder of the librueda.so that this process uses."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        libraries = {line.split()[-1] for line in maps if "/librueda.so" in line}
    return any((pathlib.Path(library).parent / "librueda_ucx.so").exists() for library in libraries)


@functools.cache
def torchrun_works():
    """Returns whether torchrun works. PyTorch 1.13's torchrun cannot start programs with Python 3.11."""
    code, _, _ = output_of([*PYTHON, "-m", "torch.distributed.run", "--nproc_per_node=1", "--no_python", "true"])
    return code == 0


class Starts(unittest.TestCase):
    def check(self, size, command, **environment):
        code, said, errors = output_of(command, **environment)
        expected = sorted(f"<rank {rank} of {size}: {size * (size + 1) // 2}>" for rank in range(size))
        self.assertEqual((code, sorted(re.findall("<rank .*?>", said))), (0, expected), said + errors)

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "store")

    def test_ruedarun(self):
        self.check(2, [os.environ["RUEDARUN"], "--no-mpi", "-np", "2", *PYTHON, RANK, "ruedarun"])

    def check_listeners(self, options):
        program = (
            "import os, torch, torch.distributed as d, rueda.torch.distributed\n"
            "assert {'RANK', 'WORLD_SIZE', 'MASTER_ADDR', 'MASTER_PORT'} <= os.environ.keys()\n"
            "d.init_process_group('rueda')\n"
            "mine = {os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{fd}')}\n"
            "for version in ('tcp', 'tcp6'):\n"
            "    for fields in map(str.split, list(open(f'/proc/self/net/{version}'))[1:]):\n"
            "        if fields[3] == '0A' and f'socket:[{fields[9]}]' in mine:\n"
            "            os.write(1, f'<rank {d.get_rank()}: {fields[1].split(\":\")[0]}>'.encode())\n"
            "d.barrier()\n"
        )
        code, said, errors = output_of([os.environ["RUEDARUN"], *options, "-np", "2", *PYTHON, "-c", program])
        store = [found for found in re.findall("<.*?>", said) if found.startswith("<rank 0")]
        self.assertEqual((code, store), (0, ["<rank 0: 0100007F>"]), said + errors)

    def test_under_ruedarun_the_store_listens_on_the_loopback_alone(self):
        """Under ruedarun the store must listen on the loopback interface only. PyTorch's own store would listen on all
        interfaces."""
        if "master_listen_fd" not in (torch.distributed.TCPStore.__init__.__doc__ or ""):
            self.skipTest("the TCPStore of this PyTorch takes no socket")
        self.check_listeners(["--no-mpi"])

    def test_worlds_of_other_backends_under_a_launcher(self):
        """A program that passes rank, world_size and the address does not need Rueda's rendezvous."""
        program = (
            "import os, sys, torch, torch.distributed as d, rueda.torch.distributed\n"
            "rank = int(os.environ['RUEDA_RANK'])\n"
            "os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=sys.argv[1 + rank // 2])\n"
            "d.init_process_group('gloo', rank=rank % 2, world_size=2)\n"
            "total = torch.tensor([rank])\n"
            "d.all_reduce(total)\n"
            "os.write(1, f'<rank {rank}: {total.item()}>'.encode())\n"
            "d.destroy_process_group()\n"  # PyTorch 2.15 may abort a process that ends while it has a Gloo group
        )
        ports = [str(free_port()), str(free_port())]
        code, said, errors = output_of([os.environ["RUEDARUN"], "--no-mpi", "-np", "4", *PYTHON, "-c", program, *ports])
        expected = ["<rank 0: 1>", "<rank 1: 1>", "<rank 2: 5>", "<rank 3: 5>"]
        self.assertEqual((code, sorted(re.findall("<rank .*?>", said))), (0, expected), said + errors)

    def test_mpirun(self):
        if shutil.which("mpirun") is None:
            self.skipTest("no mpirun here")
        mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        self.check(2, [*mpirun, "-np", "2", *PYTHON, RANK, "mpirun"])
        # These ranks run on two hosts (this machine under two names), and find each other through a TCPStore.
        one = ["-np", "1", "-x", "RUEDA_HOSTNAME=a", *PYTHON, RANK, "mpirun"]
        other = ["-np", "1", "-x", "RUEDA_HOSTNAME=b", *PYTHON, RANK, "mpirun"]
        self.check(2, [*mpirun, *one, ":", *other], MASTER_ADDR="localhost")

    def test_torchrun(self):
        if not torchrun_works():
            self.skipTest("the torchrun of this PyTorch starts nothing")
        module = "torch.distributed.run"
        port = f"--master_port={free_port()}"
        self.check(3, [*PYTHON, "-m", module, "--nproc_per_node=3", port, RANK, "torchrun"], OMP_NUM_THREADS="1")

    def test_two_jobs_beside_each_other(self):
        """Runs two jobs at the same time, one through the launcher and one through a store. They must not disturb each
        other."""
        program = (
            "import os, pathlib, sys, time, torch, torch.distributed as d, rueda.torch.distributed\n"
            "folder, mine, other, first = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])\n"
            "given = dict(rank=int(os.environ['ALONE']), world_size=2, init_method=f'file://{folder}/store') if mine == 'b' else {}\n"
            "d.init_process_group('rueda', **given)\n"
            "(folder / f'{mine}{d.get_rank()}').touch()\n"
            "while not (folder / f'{other}0').exists(): time.sleep(0.01)\n"
            "for turn in range(200):\n"
            "    total = torch.full((1000,), first + d.get_rank())\n"
            "    d.all_reduce(total)\n"
            "    assert (total == 2 * first + 1).all(), total\n"
            "d.barrier(d.new_group())\n"
            "os.write(1, f'<{mine}{d.get_rank()}: {total[0].item():g}>'.encode())\n"
        )
        folder = str(pathlib.Path(self.file).parent)
        jobs = [([os.environ["RUEDARUN"], "--no-mpi", "-np", "2", *PYTHON, "-c", program, folder, "a", "b", "10"], {})]
        jobs += [([*PYTHON, "-c", program, folder, "b", "a", "70"], {"ALONE": str(rank)}) for rank in range(2)]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            outputs = list(pool.map(lambda job: output_of(job[0], **job[1]), jobs))
        said = sorted(re.findall("<.*?>", "".join(output for _, output, _ in outputs)))
        self.assertEqual(said, ["<a0: 21>", "<a1: 21>", "<b0: 141>", "<b1: 141>"], outputs)
        self.assertEqual([code for code, _, _ in outputs], [0, 0, 0])

    def test_torchrun_under_mpirun(self):
        """Under torchrun, Rueda must ignore mpirun's variables."""
        if not torchrun_works():
            self.skipTest("the torchrun of this PyTorch starts nothing")
        port = f"--master_port={free_port()}"
        command = [*PYTHON, "-m", "torch.distributed.run", "--nproc_per_node=2", port, RANK, "torchrun"]
        self.check(2, command, OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_RANK="0", OMP_NUM_THREADS="1")

    def test_spawn(self):
        self.check(2, [*PYTHON, RANK, "spawn", self.file, "2"])

    def test_a_worker_that_fails_is_the_one_that_is_told(self):
        code, _, errors = output_of([*PYTHON, RANK, "failing workers", self.file])
        self.assertEqual(code, 1)
        self.assertIn("-- Process 1 terminated with the following error:", errors)
        self.assertRegex(errors, r"(?m)^ValueError: my data is missing$")

    def test_torchrun_names_the_rank_that_failed(self):
        if not torchrun_works():
            self.skipTest("the torchrun of this PyTorch starts nothing")
        start = [*PYTHON, "-m", "torch.distributed.run", "--nproc_per_node=3", f"--master_port={free_port()}"]
        code, _, errors = output_of([*start, RANK, "failing rank"], OMP_NUM_THREADS="1")
        self.assertEqual(code, 1)
        self.assertIn("ended the job: ValueError: my data is missing", errors)
        cause = errors.split("Root Cause (first observed failure):")[1]
        self.assertRegex(cause, r"rank +: 1 \(local_rank: 1\)")

    def test_by_hand(self):
        ranks = [
            subprocess.Popen(
                [*PYTHON, RANK, "by hand", f"{self.file}.by-hand"],
                env={
                    **clean(),
                    "RANK": str(rank),
                    "WORLD_SIZE": "2",
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                },
                stdout=subprocess.PIPE,
                text=True,
            )
            for port in [free_port()]
            for rank in range(2)
        ]
        said = "".join(rank.communicate(timeout=60)[0] for rank in ranks)
        self.assertEqual(sorted(re.findall("<rank .*?>", said)), ["<rank 0 of 2: 3>", "<rank 1 of 2: 3>"])

    def test_one_alone(self):
        self.check(
            1,
            [*PYTHON, RANK, "alone", self.file],
            RANK="0",
            WORLD_SIZE="1",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(free_port()),
        )

    def test_entry_point(self):
        """Tests the entry points of an installed wheel with a program that does not import Rueda."""
        if not rueda.torch.distributed.offers("entry point"):
            self.skipTest("this PyTorch reads none")
        project = (HERE.parents[2] / "pyproject.toml").read_text()
        declared = re.search(
            r'^\[project.entry-points."(torch.distributed.backends)"\]\n(rueda) = "(.*)"$', project, re.M
        )
        folder = pathlib.Path(self.file).with_name("rueda-0.dist-info")
        folder.mkdir()
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: rueda\nVersion: 0\n")
        (folder / "entry_points.txt").write_text(f"[{declared[1]}]\n{declared[2]} = {declared[3]}\n")
        self.check(
            1,
            [*PYTHON, RANK, "no import", self.file],
            PYTHONPATH=os.pathsep.join([str(folder.parent), *filter(None, [os.environ.get("PYTHONPATH")])]),
            RANK="0",
            WORLD_SIZE="1",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(free_port()),
        )

    def test_an_end_in_the_middle_of_a_callback(self):
        """At its end, the interpreter must wait for a running callback, but not for a pending operation."""
        program = (
            "import atexit, os, time, torch, torch.distributed as d, rueda.torch.distributed\n"
            "d.init_process_group('rueda')\n"
            "atexit.register(lambda: os.write(1, b'<soon>' * (time.monotonic() - end < 4)))  # after the callbacks' own\n"
            "future = d.all_reduce(torch.ones(1), async_op=True).get_future()\n"
            "future.then(lambda done: (time.sleep(0.5), os.write(1, b'<called>')))\n"
            "future.then(lambda done: (d.all_reduce(done.value()[0]), os.write(1, b'<collective>')))\n"
            "future.wait()\n"
            "never = d.irecv(torch.ones(1), 1 - d.get_rank(), tag=5).get_future().then(lambda done: None)\n"
            "further = never.then(lambda done: None)\n"
            "end = time.monotonic()\n"
        )
        code, said, errors = output_of([os.environ["RUEDARUN"], "--no-mpi", "-np", "2", *PYTHON, "-c", program])
        counts = tuple(said.count(word) for word in ("<called>", "<collective>", "<soon>"))
        self.assertEqual((code, *counts), (0, 2, 2, 2), said + errors)
        self.assertNotIn("Traceback", errors)

    def test_url(self):
        code, said, errors = output_of([os.environ["RUEDARUN"], "--no-mpi", "-np", "2", *PYTHON, RANK, "url"])
        self.assertEqual(code, 0, said + errors)
        self.assertEqual(len(re.findall("<rank . of 2: url>", said)), 2)


class Refusals(unittest.TestCase):
    def ranks(self, program, **environments):
        port = free_port()
        started = [
            subprocess.Popen(
                [*PYTHON, "-c", program],
                env={
                    **clean(),
                    "RANK": str(rank),
                    "WORLD_SIZE": "2",
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    **{name: values[rank] for name, values in environments.items() if values[rank]},
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        return [one.communicate(timeout=90)[1] for one in started]

    def test_several_hosts_without_mpi(self):
        if not has_ucx():
            self.skipTest("Rueda was built without UCX (Debian: libucx-dev)")
        program = (
            "import sys, torch, torch.distributed as d, rueda.torch.distributed\n"
            "d.init_process_group('rueda')\n"
            "mine = torch.full((100_000,), d.get_rank() + 1.0)\n"
            "d.all_reduce(mine)\n"
            "assert mine.eq(3).all() and rueda.local_size() == 1 and rueda.size() == 2\n"
            "assert not any('libmpi' in line for line in open('/proc/self/maps'))\n"
            "assert 'RUEDA_RENDEZVOUS_SECRET' not in __import__('os').environ\n"
            "d.destroy_process_group()\n"
            "print('trained', file=sys.stderr)"
        )
        for errors in self.ranks(program, RUEDA_HOSTNAME=["first", "second"]):
            self.assertEqual(errors.strip().splitlines()[-1:], ["trained"], errors)

    def test_several_hosts_without_mpi_and_without_ucx(self):
        program = "import torch.distributed as d, rueda.torch.distributed\nd.init_process_group('rueda')"
        nowhere = "/nowhere/librueda_ucx.so"
        for errors in self.ranks(program, RUEDA_HOSTNAME=["first", "second"], RUEDA_UCX_PLUGIN=[nowhere, nowhere]):
            self.assertRegex(
                errors,
                "the ranks run on several hosts and meet without MPI, so their data goes over UCX, and UCX cannot be "
                f"used: rank 0: the UCX plugin '{nowhere}' cannot be loaded",
            )

    def test_rank_0_of_several_hosts_has_no_free_port(self):
        program = (
            "import torch.distributed as d, rueda.torch.distributed\n"
            "from rueda.torch.distributed import _tcp_offer\n"
            "def refuse(*_): raise OSError(98, 'Address already in use')\n"
            "_tcp_offer.socket.socket.bind = refuse\n"
            "d.init_process_group('rueda')"
        )
        for errors in self.ranks(program, RUEDA_HOSTNAME=["first", "second"]):
            self.assertIn(
                "backend rueda: rank 0 cannot reserve a port at which the ranks of other hosts could connect: its host has "
                "no free TCP port",
                errors,
            )

    def test_jobs_of_one_that_were_there_before(self):
        program = "import rueda.torch.distributed, torch.distributed as d\nrueda.init()\nd.init_process_group('rueda')"
        for errors in self.ranks(program):
            self.assertIn(r"the ranks of the group are [0, 0] of the jobs they are in, so these are several", errors)

    def test_who_does_not_come_is_named(self):
        program = (
            "import datetime, os, torch.distributed as d, rueda.torch.distributed\n"
            "d.init_process_group('gloo')\n"
            "if d.get_rank() == 0: d.new_group([0, 1], backend='rueda', timeout=datetime.timedelta(seconds=2))\n"
        )
        first = self.ranks(program)[0]
        self.assertIn("backend rueda: rank 1 of the group did not come within 2 s", first)


class RendezvousOfThreads(unittest.TestCase):
    """Tests the rendezvous without a job: the ranks are threads, which exchange data through a store."""

    def meet(self, store, rank, size, timeout):
        return Rendezvous(store, rank, size, datetime.timedelta(seconds=timeout)).exchange(f"rank {rank} of {size}")

    def all_meet(self, store, size):
        with concurrent.futures.ThreadPoolExecutor(size) as threads:
            said = list(threads.map(lambda rank: self.meet(store, rank, size, 30), range(size)))
        self.assertEqual(said, [[f"rank {rank} of {size}" for rank in range(size)]] * size)

    def test_one_that_failed_spoils_none_of_the_next(self):
        store = torch.distributed.HashStore()
        for rank in range(3):  # each rank comes alone, so all but the last fail
            expected = ", ".join(str(other) for other in range(3) if other > rank)
            if expected:
                with self.assertRaisesRegex(RuntimeError, rf"ranks? {expected} of the group did not come within 0.1 s"):
                    self.meet(store, rank, 3, 0.1)
            else:
                self.meet(store, rank, 3, 0.1)  # the last rank finds the messages of the ranks whose rendezvous failed
        self.all_meet(store, 3)

    def test_smaller_and_larger_groups_of_one_store(self):
        store = torch.distributed.PrefixStore("group", torch.distributed.FileStore(self.file(), 4))
        for size in (2, 4, 1, 3, 2):
            self.all_meet(store, size)

    def file(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return os.path.join(folder.name, "store")

    def test_a_store_that_is_gone(self):
        holder = "import sys, torch.distributed as d\nstore = d.TCPStore('127.0.0.1', int(sys.argv[1]), None, True)\nprint(flush=True)\nsys.stdin.read()"
        port = free_port()
        process = subprocess.Popen(
            [*PYTHON, "-c", holder, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        process.stdout.readline()
        store = torch.distributed.TCPStore("127.0.0.1", port, None, False)
        rendezvous = Rendezvous(store, 0, 2, datetime.timedelta(seconds=60))
        process.communicate("")
        began = time.monotonic()
        with self.assertRaisesRegex(RuntimeError, "the store of a group of 2 ranks cannot be used any more"):
            rendezvous.exchange("here")
        self.assertLess(time.monotonic() - began, 30)


if __name__ == "__main__":
    print(torch.__version__, file=sys.stderr)
    unittest.main()
