# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Starts jobs of ranks on test hosts.

The environment variables MPIRUN, HOSTS_RANK, CONFORMANCE, DIGITS (may be empty) and RUEDA_MPI_PLUGIN name the programs. RUEDA_UCX_PLUGIN
is set if the UCX plugin was built.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SUPPORT = pathlib.Path(__file__).parent.parent / "support"
sys.path[:0] = [str(SUPPORT), str(SUPPORT / "hosts")]
import hosts as test_hosts  # noqa: E402
import job_environment  # noqa: E402

MPIRUN = os.environ["MPIRUN"]
HOSTS_RANK = os.environ["HOSTS_RANK"]
HAS_UCX = "RUEDA_UCX_PLUGIN" in os.environ
TIMEOUT = 120

# Without OMP_NUM_THREADS, ruedarun prints a line about the number of threads.
ENVIRONMENT = {
    **job_environment.job_environment(keep=("RUEDA_MPI_PLUGIN", "RUEDA_UCX_PLUGIN")),
    "OMP_NUM_THREADS": "1",
}


# With these flags, mpirun behaves like ruedarun: it does not end the other ranks when one rank ends. But with these
# flags, the exit status of mpirun is always 0.
SURVIVING = ("--mca", "orte_abort_on_non_zero_status", "0", "--mca", "orte_enable_recovery", "1")


def mpirun(hosts, layout, program, flags=(), **settings):
    """Returns the command that starts layout[h] ranks on host h."""
    places = ",".join(f"{name}:{ranks}" for name, ranks in zip(hosts.names, layout))
    words = [MPIRUN, "--allow-run-as-root", "--host", places, "-np", str(sum(layout)), "--map-by", "slot"]
    words += ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    words += flags
    for name in ("RUEDA_MPI_PLUGIN", "RUEDA_UCX_PLUGIN", "LSAN_OPTIONS"):
        words += ["-x", name] if name in ENVIRONMENT else []
    for name, value in settings.items():
        words += ["-x", f"{name}={value}"]
    return [*words, *map(str, program)]


def left_in_memory():
    """Returns the names of Rueda's files in /dev/shm."""
    return {entry.name for entry in pathlib.Path("/dev/shm").iterdir() if entry.name.startswith("rueda")}


def remove_what_open_mpi_left():
    """Removes the files that Open MPI leaves behind if mpirun is killed. The names of these files contain the name of a
    test host."""
    for entry in pathlib.Path("/dev/shm").glob(f"vader_segment.{test_hosts.PREFIX}*"):
        entry.unlink()


class HostsTest(unittest.TestCase):
    """Creates hosts for all tests of a class, and a folder for each test. Requires that jobs leave no processes and
    files behind."""

    count = 3
    rate = None  # the rate limit of each link, in the notation of tc; None: no limit
    delay_ms = 0  # the delay of each packet in each direction

    @classmethod
    def setUpClass(cls):
        cls.hosts = test_hosts.Hosts(cls.count, rate=cls.rate, delay_ms=cls.delay_ms)
        cls.addClassCleanup(cls.hosts.close)

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="rueda-hosts-test-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.addCleanup(remove_what_open_mpi_left)
        before = left_in_memory()
        self.addCleanup(lambda: self.assertEqual(left_in_memory() - before, set(), "left in /dev/shm"))

    def expect_empty_hosts(self):
        self.assertEqual(self.hosts.wait_until_empty(), {}, "left on the hosts")

    def run_job(self, layout, *program, timeout=TIMEOUT, **settings):
        done = self.hosts.run(
            0,
            mpirun(self.hosts, layout, program, **settings),
            env=ENVIRONMENT,
            cwd=self.folder,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
        )
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.expect_empty_hosts()
        return done.stdout


def main(limits=False):
    """Runs the tests, or skips them if this machine cannot create hosts or, with `limits`, cannot limit links."""
    reason = test_hosts.why_not() or (test_hosts.why_no_limits() if limits else None)
    if reason:
        print(f"skipped: {reason}")
        sys.exit(test_hosts.SKIPPED)
    unittest.main(verbosity=2)
