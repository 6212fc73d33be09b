# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Fetches the metrics of real jobs over HTTP, as Prometheus does.

Usage: endpoint_test.py RUEDARUN MEASURED_RANK LIBRUEDA PLUGIN [unittest's arguments]. PLUGIN is "" in a build without
prometheus-cpp.
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

RUEDARUN = MEASURED_RANK = LIBRUEDA = PLUGIN = ""
RANKS = 3
TIMEOUT = 60
LISTENS = "0A"  # the state of a listening socket in /proc/net/tcp


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def listening(pid):
    """Returns the addresses on which a process listens for TCP, as /proc/net/tcp writes them."""
    inodes = set()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link))
        except FileNotFoundError:
            continue
        if found:
            inodes.add(found.group(1))
    addresses = []
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == LISTENS and columns[9] in inodes:
                addresses.append(columns[1])
    return addresses


def parse(text):
    """Parses Prometheus' text format. Returns {(name, labels): value}; the labels are in alphabetical order."""
    samples = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
            samples[name, ",".join(sorted((labels or "").split(",")))] = float(value)
    return samples


class WithJob(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="rueda-metrics-test-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.stop = self.folder / "stop"

    def start(self, mode="work", **variables):
        """Starts a job and waits until its ranks have done their work. The job then runs until end() is called."""
        kept = {
            n: v for n, v in os.environ.items() if not n.startswith(("RUEDA_", "HOROVOD_", "SLURM_", "OMPI_", "PMIX_"))
        }
        self.errors = self.folder / "errors"
        with self.errors.open("w") as errors:
            self.job = subprocess.Popen(
                [RUEDARUN, "--no-mpi", "--grace", str(TIMEOUT), "-np", str(RANKS), MEASURED_RANK, mode, self.stop],
                stdout=subprocess.PIPE,
                stderr=errors,
                stdin=subprocess.DEVNULL,
                text=True,
                env={**kept, **variables},
            )
        self.addCleanup(self.end)
        line = self.job.stdout.readline().rstrip()
        self.assertEqual(line.split()[-1:], ["worked"], self.errors.read_text())
        # The ranks are ruedarun's child processes, in the order of their start.
        children = pathlib.Path(f"/proc/{self.job.pid}/task/{self.job.pid}/children").read_text()
        self.pids = [int(pid) for pid in children.split()]
        self.assertEqual(len(self.pids), RANKS)

    def end(self):
        """Ends the job. Returns its exit status and its standard error."""
        if self.job.returncode is None:
            self.stop.write_text("")
            try:
                self.job.wait(TIMEOUT)
            finally:
                self.job.kill()
                self.job.wait()
                self.job.stdout.close()
        return self.job.returncode, self.errors.read_text()

    def warnings(self):
        status, errors = self.end()
        self.assertEqual(status, 0, errors)
        return [line for line in errors.splitlines() if "RUEDA_METRICS_PORT" in line]


def fetch(port, path="/metrics"):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=TIMEOUT) as answer:
        return answer.read().decode()


class Off(WithJob):
    def test_nothing_listens_by_default(self):
        self.start()
        self.assertEqual([listening(pid) for pid in self.pids], [[]] * RANKS)
        self.assertEqual(self.warnings(), [])

    def test_without_the_plugin_there_is_one_warning(self):
        alone = self.folder / "lib"
        alone.mkdir()
        for file in pathlib.Path(LIBRUEDA).parent.glob("librueda.so*"):
            shutil.copy(file, alone / file.name, follow_symlinks=False)
        self.start(LD_LIBRARY_PATH=str(alone), RUEDA_METRICS_PORT=str(free_port()))
        self.assertEqual([listening(pid) for pid in self.pids], [[]] * RANKS)
        (warning,) = self.warnings()
        self.assertIn("librueda_prometheus.so was not found in", warning)
        self.assertIn("the job goes on without it", warning)


class Endpoint(WithJob):
    def setUp(self):
        if not PLUGIN:
            self.skipTest("this build has no prometheus-cpp")
        super().setUp()
        self.port = free_port()

    def test_one_rank_shows_all(self):
        self.start(RUEDA_METRICS_PORT=str(self.port))
        samples = parse(fetch(self.port))
        self.assertEqual(samples["rueda_job_ranks", ""], RANKS)
        self.assertEqual(samples["rueda_job_aborted", ""], 0)
        for rank in range(RANKS):

            def kind(name, one, rank=rank):
                return samples[name, f'kind="{one}",rank="{rank}"']

            def value(name, rank=rank):
                return samples[name, f'rank="{rank}"']

            self.assertEqual(kind("rueda_operations_total", "allreduce"), 10)
            self.assertEqual(kind("rueda_operation_bytes_total", "allreduce"), 10 * 65536)
            self.assertEqual(kind("rueda_operations_total", "broadcast"), 10)
            self.assertEqual(kind("rueda_operation_bytes_total", "broadcast"), 10 * 4)
            self.assertEqual(kind("rueda_operations_total", "alltoall"), 0)
            self.assertGreater(kind("rueda_operation_executing_seconds_total", "allreduce"), 0)
            self.assertGreater(kind("rueda_operation_waiting_seconds_total", "allreduce"), 0)
            self.assertLess(kind("rueda_operation_waiting_seconds_total", "allreduce"), 10 * TIMEOUT)
            self.assertEqual(value("rueda_rank_up"), 1)
            self.assertEqual(value("rueda_steps_total"), 10)
            self.assertEqual(value("rueda_step"), 9)
            self.assertEqual(value("rueda_operations_failed_total"), 0)
            self.assertGreaterEqual(value("rueda_batched_operations_total"), value("rueda_batches_total"))
            self.assertGreaterEqual(value("rueda_batches_total"), 2)
        with self.assertRaises(urllib.error.HTTPError) as missing:
            fetch(self.port, "/other")
        self.assertEqual(missing.exception.code, 404)
        missing.exception.close()
        self.assertEqual(self.warnings(), [])

    def test_only_one_rank_listens_and_on_loopback(self):
        self.start(RUEDA_METRICS_PORT=str(self.port))
        addresses = [address for pid in self.pids for address in listening(pid)]
        self.assertEqual(addresses, [f"0100007F:{self.port:04X}"])

    def test_another_address(self):
        self.start(RUEDA_METRICS_PORT=str(self.port), RUEDA_METRICS_ADDRESS="0.0.0.0")
        addresses = [address for pid in self.pids for address in listening(pid)]
        self.assertEqual(addresses, [f"00000000:{self.port:04X}"])
        self.assertIn("rueda_job_ranks 3", fetch(self.port))

    def test_a_port_in_use(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", self.port))
            other.listen()
            self.start(RUEDA_METRICS_PORT=str(self.port))
            self.assertEqual([listening(pid) for pid in self.pids], [[]] * RANKS)
        (warning,) = self.warnings()
        self.assertIn(f"cannot listen on 127.0.0.1:{self.port}: Address already in use", warning)

    def test_a_silent_client_does_not_hold_up_the_end(self):
        self.start(RUEDA_METRICS_PORT=str(self.port))
        with socket.create_connection(("127.0.0.1", self.port), TIMEOUT):
            began = time.monotonic()
            self.assertEqual(self.warnings(), [])
            self.assertLess(time.monotonic() - began, TIMEOUT / 2)

    def test_an_aborted_job_can_still_be_seen(self):
        self.start("abort", RUEDA_METRICS_PORT=str(self.port))
        deadline = time.monotonic() + TIMEOUT
        while parse(fetch(self.port))["rueda_job_aborted", ""] == 0:
            self.assertLess(time.monotonic(), deadline)

    def test_a_killed_rank_is_down(self):
        self.start(RUEDA_METRICS_PORT=str(self.port))
        (serves,) = (pid for pid in self.pids if listening(pid))
        os.kill(next(pid for pid in self.pids if pid != serves), signal.SIGKILL)
        deadline = time.monotonic() + TIMEOUT
        up = RANKS
        while up == RANKS:
            self.assertLess(time.monotonic(), deadline)
            up = sum(value for (name, _), value in parse(fetch(self.port)).items() if name == "rueda_rank_up")
        self.assertEqual(up, RANKS - 1)


if __name__ == "__main__":
    RUEDARUN, MEASURED_RANK, LIBRUEDA, PLUGIN = sys.argv[1:5]
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]])
