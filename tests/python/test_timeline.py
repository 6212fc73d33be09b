# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares the timeline of whole jobs with what the ranks report about their operations."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import timeline_rank

HERE = pathlib.Path(__file__).parent
RUEDA = os.environ["RUEDA"]
MPIRUN = shutil.which("mpirun")


def program(*arguments):
    return [sys.executable, "-B", str(HERE / "timeline_rank.py"), *arguments]


def run(command, **settings):
    """Runs a job. Returns the report of each rank and the standard error."""
    ran = subprocess.run(
        command, env=os.environ | settings, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100
    )
    if ran.returncode != 0:
        raise AssertionError(f"{command} ended with {ran.returncode}: {ran.stdout}{ran.stderr}")
    said = [json.loads(line[line.index("{") :]) for line in ran.stdout.splitlines() if "{" in line]
    return sorted(said, key=lambda one: one["rank"]), ran.stderr


def load(path):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))  # requires valid JSON


def end(event):
    return event["ts"] + event["dur"]


class Timeline(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / "timeline.json"

    def check(self, events, said, late):
        """Compares a timeline's events with what the ranks said about themselves. `late` is the rank that was late in
        step 1."""
        self.assertEqual({event["pid"] for event in events if event["name"] == "process_name"}, set(range(len(said))))
        for rank, one in enumerate(said):
            mine = [event for event in events if event["pid"] == rank]
            negotiations = sorted(
                (event for event in mine if event.get("cat") == "negotiation"),
                key=lambda event: event["args"]["number"],
            )
            self.assertEqual([event["args"]["name"] for event in negotiations], one["operations"])
            self.check_times(mine, negotiations)
            self.check_late(mine, negotiations, rank, late)
            steps = [event for event in mine if event.get("cat") == "step"]
            self.assertEqual([event["name"] for event in steps], ["step 0", "step 1", "step 2"])
            # only the late rank's step must be this long, because the other ranks may begin step 1 later
            if rank == late:
                self.assertGreaterEqual(steps[1]["dur"], timeline_rank.LATE_SECONDS * 1e6)
            busy = [event for event in mine if event["name"] == "being late"]
            self.assertEqual(len(busy), 1 if rank == late else 0)
            for event in busy:
                self.assertGreaterEqual(event["dur"], timeline_rank.LATE_SECONDS * 1e6)
            self.assertEqual(len([event for event in mine if event["name"] == "the last scope"]), 1)

    def check_times(self, mine, negotiations):
        """Checks that the parts of an operation follow each other and fill the operation's recorded time."""
        for negotiation in negotiations:
            announced, _, ended = negotiation["args"]["ns"]
            row = [event for event in mine if event.get("tid") == negotiation["tid"]]
            whole = [event for event in row if event.get("cat") == "operation" and near(event["ts"], end(negotiation))]
            self.assertEqual(len(whole), 1)
            self.assertEqual(negotiation["name"], "NEGOTIATE_" + whole[0]["name"])
            self.assertAlmostEqual(negotiation["dur"] + whole[0]["dur"], (ended - announced) / 1000, delta=0.01)
            inside = [
                event
                for event in row
                if event.get("cat") in ("queue", "execution")
                and event["ts"] > whole[0]["ts"] - 0.01
                and end(event) < end(whole[0]) + 0.01
            ]
            self.assertEqual([event["name"] for event in inside], ["QUEUE", "EXECUTE"])
            self.assertAlmostEqual(sum(event["dur"] for event in inside), whole[0]["dur"], delta=0.01)

    def check_late(self, mine, negotiations, rank, late):
        """Checks that in step 1 the other ranks waited for the late rank, at least in the step's first operation."""
        first = negotiations[7]
        self.assertEqual(first["args"]["name"], "gradient 0")
        self.assertEqual(first["args"]["last_rank"], late)
        waits = [event for event in mine if event.get("cat") == "wait" and event["tid"] == first["tid"]]
        longest = max((event["dur"] for event in waits), default=0)
        if rank == late:
            self.assertNotIn(f"waiting for rank {late}", {event["name"] for event in mine})
            return
        waits = [event for event in waits if event["dur"] == longest]
        self.assertEqual([event["name"] for event in waits], [f"waiting for rank {late}"])
        self.assertGreater(longest, timeline_rank.LATE_SECONDS * 1e6 / 2)
        row = [event for event in mine if event.get("cat") == "waits" and event["args"]["rank"] == late]
        self.assertGreater(max(event["dur"] for event in row), timeline_rank.LATE_SECONDS * 1e6 / 2)
        row = sorted((event for event in mine if event.get("cat") == "waits"), key=lambda event: event["ts"])
        for before, after in zip(row, row[1:], strict=False):
            self.assertLessEqual(end(before), after["ts"] + 0.01)

    def test_one_host(self):
        said, _ = run(
            [os.environ["RUEDARUN"], "--no-mpi", "-np", "4", "--timeline-filename", str(self.path), *program()]
        )
        events = load(self.path)
        self.check(events, said, 2)
        self.assertEqual(events[0]["args"]["clock_uncertainty_ns"], 0)
        self.assertEqual(events[-1]["args"], {"operations": 4 * 19, "lost": 0})
        self.assertNotIn("CYCLE_START", {event["name"] for event in events})

    def test_one_host_with_mpirun_and_cycles(self):
        if MPIRUN is None:
            self.skipTest("no mpirun")
        command = [MPIRUN, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "4", *program()]
        said, _ = run(command, HOROVOD_TIMELINE=str(self.path), HOROVOD_TIMELINE_MARK_CYCLES="1")
        events = load(self.path)
        self.check(events, said, 2)
        cycles = [event for event in events if event["name"] == "CYCLE_START"]
        self.assertEqual({event["ph"] for event in cycles}, {"i"})
        self.assertEqual({event["pid"] for event in cycles}, set(range(4)))

    def test_two_hosts(self):
        if MPIRUN is None:
            self.skipTest("no mpirun")
        settings = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        host = ["-np", "2", "-x", "RUEDA_HOSTNAME=a", *program(), ":", "-np", "2", "-x", "RUEDA_HOSTNAME=b", *program()]
        said, errors = run([MPIRUN, *settings, *host], RUEDA_TIMELINE=str(self.path))
        self.assertEqual([one["host"] for one in said], ["a", "a", "b", "b"])
        self.assertNotIn("timeline", errors)
        self.assertEqual(os.listdir(self.folder), ["timeline.json"])
        events = load(self.path)
        self.check(events, said, 2)
        self.assertTrue(events[0]["args"]["merged"])
        # Both hosts are this machine and have the same clock, so the measured offsets may differ only by their
        # uncertainty.
        hosts = [event["args"] for event in events if event["name"] == "rueda_timeline_host"]
        self.assertEqual([one["host"] for one in hosts], ["a", "b"])
        self.assertEqual(hosts[0]["clock_uncertainty_ns"], 0)
        self.assertGreater(hosts[1]["clock_uncertainty_ns"], 0)
        apart = abs(hosts[1]["clock_offset_ns"] - hosts[0]["clock_offset_ns"])
        self.assertLessEqual(apart, hosts[1]["clock_uncertainty_ns"])

    def merge(self, *parts):
        return subprocess.run([RUEDA, "timeline", *parts, "-o", self.path], capture_output=True, text=True)

    def test_a_job_that_dies_leaves_its_parts(self):
        if MPIRUN is None:
            self.skipTest("no mpirun")
        code = """
import os, sys, numpy, rueda
rueda.init()
rueda.start_timeline(sys.argv[1])
for step in range(3):
    rueda.allreduce(numpy.ones(3), "x")
rueda.stop_timeline()
rueda.allreduce(numpy.ones(3), "stopped")
if rueda.rank() == 1:
    rueda.abort("the test ends the job")
try:
    rueda.allreduce(numpy.ones(3), "y")
except rueda.Aborted:
    pass
rueda.shutdown()
"""
        program = [sys.executable, "-B", "-c", code, str(self.path)]
        settings = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        host = ["-np", "1", "-x", "RUEDA_HOSTNAME=a", *program, ":", "-np", "1", "-x", "RUEDA_HOSTNAME=b", *program]
        ran = subprocess.run(
            [MPIRUN, *settings, *host], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100
        )
        second = f"{self.path}.host1"
        self.assertIn(
            f"the timeline '{self.path}' stays in 2 parts, one for each host, because the job was aborted; this "
            f"command merges them: rueda timeline {self.path} {second} -o merged.json",
            ran.stderr,
        )
        self.assertEqual([{e["pid"] for e in load(part) if "ts" in e} for part in (self.path, second)], [{0}, {1}])

        again = self.merge(second)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn("the parts of 1 of 2 hosts are missing", again.stderr)
        again = self.merge(self.path, second)
        self.assertEqual(again.returncode, 2)
        self.assertIn("merged already", again.stderr)

    def test_merges_the_parts_that_it_gets(self):
        """The merged timeline may overwrite the file of one of its parts."""
        if MPIRUN is None:
            self.skipTest("no mpirun")
        # Each host writes to its own path, as if the hosts had no common file system.
        settings = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        code = (
            "import os, numpy, rueda; rueda.init(); "
            "rueda.start_timeline(os.environ['TIMELINE']); "
            "rueda.barrier(); [rueda.allreduce(numpy.ones(3), 'x') for _ in range(20)]; rueda.barrier()"
        )
        program = [sys.executable, "-B", "-c", code]
        host = []
        for name in "ab":
            (self.folder / name).mkdir()
            path = self.folder / name / "timeline.json"
            host += [":"] if host else []
            host += ["-np", "1", "-x", f"RUEDA_HOSTNAME={name}", "-x", f"TIMELINE={path}", *program]
        _, errors = run([MPIRUN, *settings, *host])
        self.assertIn("because this host does not see a complete ", errors)
        parts = [self.folder / "a" / "timeline.json", self.folder / "b" / "timeline.json.host1"]
        self.path = parts[0]
        ran = self.merge(*parts)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        events = load(self.path)
        for rank in range(2):
            names = [e["args"]["name"] for e in events if e["pid"] == rank and e.get("cat") == "negotiation"]
            self.assertEqual(names.count("x"), 20)
        self.assertEqual(self.merge("/dev/null").returncode, 2)

    def test_a_path_that_cannot_be_written(self):
        path = self.folder / "nothing" / "timeline.json"
        said, errors = run([os.environ["RUEDARUN"], "--no-mpi", "-np", "2", *program()], RUEDA_TIMELINE=str(path))
        self.assertEqual(len(said), 2)
        self.assertEqual(errors.count("there will be no timeline"), 1)
        self.assertIn("No such file or directory", errors)

    def test_of_the_flight_recorder(self):
        """The flight recorder's files of an aborted job become a timeline."""
        folder = self.folder / "diagnostics"
        code = """
import numpy, rueda
rueda.init()
for step in range(3):
    rueda.begin_step(step)
    rueda.allreduce(numpy.ones(3), "x")
if rueda.rank() == 1:
    rueda.abort("the test ends the job")
try:
    while True:
        rueda.allreduce(numpy.ones(3), "y")
except rueda.Aborted:
    pass
"""
        subprocess.run(
            [os.environ["RUEDARUN"], "--no-mpi", "-np", "2", sys.executable, "-B", "-c", code],
            env=os.environ | {"RUEDA_DIAGNOSTICS_DIR": str(folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=100,
        )
        ran = subprocess.run([RUEDA, "timeline", folder, "-o", self.path], capture_output=True, text=True)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        events = load(self.path)
        for rank in range(2):
            mine = [event for event in events if event["pid"] == rank]
            names = [event["args"]["name"] for event in mine if event.get("cat") == "negotiation"]
            self.assertEqual(names.count("x"), 3)
            self.assertEqual(len([event for event in mine if event.get("cat") == "step"]), 3)


def near(a, b):
    return abs(a - b) < 0.002


if __name__ == "__main__":
    unittest.main()
