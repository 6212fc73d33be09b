# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests settings that differ between two hosts. Both hosts are this machine under two names, so the tests need no
permission. hosts_job.py describes the environment variables."""

import os
import subprocess
import unittest

from hosts_job import ENVIRONMENT, HAS_UCX, HOSTS_RANK, MPIRUN, SURVIVING

BASICS = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
SUM = 1 + 2 + 3


def start(on_a, on_b):
    """Starts two ranks on host a and one on host b. `on_a` and `on_b` are the settings of the hosts."""
    sets = []
    for name, ranks, settings in (("a", 2, on_a), ("b", 1, on_b)):
        words = ["-np", str(ranks), "-x", f"RUEDA_HOSTNAME={name}"]
        for setting in ("RUEDA_MPI_PLUGIN", "RUEDA_UCX_PLUGIN", "LSAN_OPTIONS"):
            words += ["-x", setting] if setting in ENVIRONMENT and setting not in settings else []
        for setting, value in settings.items():
            words += ["-x", f"{setting}={value}"]
        sets.append([*words, HOSTS_RANK, "layout"])
    return subprocess.run(
        [MPIRUN, *BASICS, *SURVIVING, *sets[0], ":", *sets[1]],
        env=ENVIRONMENT | {name: os.environ[name] for name in os.environ if name.endswith("ALLOW_RUN_AS_ROOT")},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=100,
    )


class Differ(unittest.TestCase):
    def test_rank_0s_count_and_one_warning_says_so(self):
        # Only host b has these settings. They choose algorithms that do not fit those of host a, and other sizes of
        # tables. If each host used its own values, a host could wait for messages that the other host never sends.
        there = {
            "RUEDA_DOUBLING_LIMIT": "0",
            "RUEDA_HOLD_TIME": "0.001",
            "RUEDA_NETWORK_CHUNK": "64",
            "RUEDA_SLOTS": "80",
            "RUEDA_HOST_TIMEOUT": "60",
        }
        done = start({}, there)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count(f"sum {SUM}\n"), 3, done.stdout)
        warnings = [line for line in done.stderr.splitlines() if "rank 0's counts" in line]
        self.assertEqual(len(warnings), 1, done.stderr)
        for name, value in there.items():
            self.assertRegex(warnings[0], f"{name} is '[^']+' on ranks 0, 1 and '{value}' on rank 2[;:]")
            self.assertIn(f" -x {name}=VALUE", warnings[0])

    def test_a_setting_that_decides_results_is_refused_on_all_ranks(self):
        done = start({}, {"RUEDA_COMPRESSION": "bf16"})
        text = (
            "RUEDA_COMPRESSION is 'none' on ranks 0, 1 and 'bf16' on rank 2; expected the same on all ranks, as results "
            "depend on it: pass it to all, as ruedarun -x RUEDA_COMPRESSION=VALUE does"
        )
        self.assertEqual(done.stderr.count(text), 3, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_equal_settings_are_no_matter(self):
        same = {"RUEDA_COMPRESSION": "bf16", "RUEDA_DOUBLING_LIMIT": "1024"}
        done = start(same, same)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count(f"sum {SUM}\n"), 3, done.stdout)
        self.assertNotIn("counts", done.stderr)


class Transports(unittest.TestCase):
    """Rank 2 has no UCX plugin. The other ranks have one, if Rueda was built with UCX."""

    def start(self, transport):
        return start(
            {"RUEDA_TRANSPORT": transport},
            {"RUEDA_TRANSPORT": transport, "RUEDA_UCX_PLUGIN": "/nowhere/librueda_ucx.so"},
        )

    def test_ranks_without_ucx_use_mpi_and_rank_0_says_why(self):
        done = self.start("auto")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count(f"sum {SUM}\n"), 3, done.stdout)
        warnings = [line for line in done.stderr.splitlines() if "RUEDA_TRANSPORT" in line]
        self.assertEqual(len(warnings), 1, done.stderr)
        self.assertIn(
            "data between hosts goes over MPI (RUEDA_TRANSPORT=auto), because UCX cannot be used: rank ", warnings[0]
        )
        if HAS_UCX:
            self.assertIn("rank 2: the UCX plugin '/nowhere/librueda_ucx.so' cannot be loaded", warnings[0])

    def test_a_rank_without_ucx_ends_a_job_that_requires_it(self):
        done = self.start("ucx")
        text = "RUEDA_TRANSPORT=ucx: the ranks cannot send their data over UCX: rank "
        self.assertEqual(done.stderr.count(text), 3, done.stderr)
        self.assertIn("(Debian: libucx", done.stderr)
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
