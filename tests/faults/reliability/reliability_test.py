# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests the program that injects faults, without a job."""

import argparse
import contextlib
import io
import itertools
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import namespaces
import page
import reliability
from catalogue import FAULTS, GOES_ON, HOSTS, ONE_HOST, Fault
from injections import Injection
from judge import failed, judged

ENDS = Fault("ends", "It ends", ONE_HOST, Injection(), (9,), "is gone", "rank 1 died", (0, 2), limit=1)
LIVES = Fault("lives", "It lives", GOES_ON, Injection(), goes_on=True, notes=("slow",))
GOOD = {
    "status": 9,
    "over": 0.5,
    "lines": [[0.1, "hello"], [0.2, "rank 1 is gone"]],
    "errors": {"0": [0.3, "rank 1 died"], "2": [0.4, "rank 1 died"]},
    "ended": [False, False, False],
    "notes": [],
    "left": [],
    "patience": 1.0,
}


class Judging(unittest.TestCase):
    def test_a_run_as_expected(self):
        run = judged(ENDS, GOOD)
        self.assertEqual((run["problems"], run["line"], run["noticed"]), ([], "rank 1 is gone", 0.4))

    def test_each_fact_is_looked_at(self):
        for changed, problem in (
            ({"status": None}, "the job hangs"),
            ({"status": 0}, "the exit status is 0"),
            ({"over": 1.5}, "the job was over after 1.50 s"),
            ({"lines": [[0.1, "hello"]]}, "no line of the output"),
            ({"errors": {"0": [0.3, "rank 1 died"]}}, "rank 2 has no error"),
            ({"errors": GOOD["errors"] | {"2": [0.3, "Timeout"]}}, "the error of rank 2 is 'Timeout'"),
            ({"left": ["the file /tmp/x"]}, "left behind: the file /tmp/x"),
        ):
            problems = judged(ENDS, GOOD | changed)["problems"]
            self.assertEqual(len(problems), 1, problems)
            self.assertIn(problem, problems[0])

    def test_a_job_that_trains_on(self):
        run = GOOD | {"status": 0, "over": None, "errors": {}, "ended": [True, True, False], "notes": ["a slow step"]}
        self.assertEqual(judged(LIVES, run)["problems"], ["rank 2 has not ended in order"])
        run |= {"ended": [True] * 3, "notes": []}
        self.assertEqual(judged(LIVES, run)["problems"], ["no rank notes 'slow'"])

    def test_a_run_without_facts_keeps_its_problems(self):
        self.assertEqual(judged(ENDS, failed("no start")), failed("no start"))

    def test_an_error_that_nobody_must_have_is_refused(self):
        with self.assertRaisesRegex(ValueError, "odd: `error` and `survivors` need each other"):
            Fault("odd", "", ONE_HOST, Injection(), error="rank 1")
        with self.assertRaisesRegex(ValueError, "odd: `error` and `survivors` need each other"):
            Fault("odd", "", ONE_HOST, Injection(), survivors=(0,))


class Page(unittest.TestCase):
    def rows(self, results, skipped):
        other = Fault("other", "Other", HOSTS, Injection())
        lines = page.tables((ENDS, LIVES, other), results, skipped).splitlines()
        return [line for line in lines if line.startswith("| ") and not line.startswith("| fault")]

    def test_faults_without_runs(self):
        rows = self.rows({"ends": [judged(ENDS, GOOD)]}, {"other": "there is no mpirun"})
        self.assertEqual(
            rows,
            [
                "| It ends | `rank 1 is gone` | 0.40, 0.40 | 0.50, 0.50 | nothing | 1 |",
                "| Other | not run: there is no mpirun | — | — | — | 0 |",
                "| It lives | not run | — | 0 |",
            ],
        )

    def test_rows_of_other_faults_stay(self):
        old = page.tables((ENDS, LIVES), {"ends": [judged(ENDS, GOOD)] * 20, "lives": []}, {})
        old = old.replace("Measured on ", "Measured on 1 May 2020, and not on ")
        run = GOOD | {"status": 0, "over": None, "errors": {}, "ended": [True] * 3, "notes": ["a slow step"]}
        new = page.tables((ENDS, LIVES), {"lives": [judged(LIVES, run)] * 3}, {}, old)
        self.assertIn("| It ends | `rank 1 is gone` | 0.40, 0.40 | 0.50, 0.50 | nothing | 20 |", new)
        self.assertIn("| It lives | nothing: the job trains on | nothing | 3 |", new)
        self.assertRegex(new, r"Measured from 1 May 2020 to \d+ \w+ \d+, in 23 runs")
        with_other = page.tables((ENDS, LIVES), {"ends": [judged(ENDS, GOOD | {"status": 0})]}, {}, new)
        self.assertIn("| nothing | 1, 1 of them otherwise |", with_other)
        self.assertRegex(with_other, r"Measured from 1 May 2020 to .*, in 4 runs")

    def test_runs_that_ended_otherwise(self):
        [row, _, _] = self.rows({"ends": [judged(ENDS, GOOD), judged(ENDS, GOOD | {"status": 0})]}, {})
        self.assertTrue(row.endswith("| nothing | 2, 1 of them otherwise |"), row)


class Program(unittest.TestCase):
    """Tests reliability.py with simulated runs, which start no job."""

    def main(self, *words, skip=(), result=None):
        """Returns the exit status, the output, and the keys of the faults that were run."""
        keys = []

        def run_once(fault, _options, _work, _delay):
            keys.append(fault.key)
            return result or GOOD | {"problems": [], "line": None, "noticed": None}

        with contextlib.ExitStack() as stack:
            build = stack.enter_context(tempfile.TemporaryDirectory())
            replace = lambda *a: stack.enter_context(mock.patch.object(*a))  # noqa: E731
            replace(sys, "argv", ["reliability.py", "--build", build, *words])
            replace(reliability, "run_once", run_once)
            replace(reliability, "judged", lambda _fault, run: run)
            replace(reliability, "why_not", lambda fault, _build: "no such thing" if fault.key in skip else None)
            replace(namespaces, "why_not", lambda: None)
            if "--random" in words:
                replace(reliability.Runs, "is_over", lambda _runs: len(keys) >= 20)
            output = stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            return reliability.main(), output.getvalue(), keys

    def test_runs_in_turn(self):
        status, output, keys = self.main("--only", "sigkill,cut", "--times", "2")
        self.assertEqual((status, keys), (0, ["sigkill", "cut"] * 2), output)
        self.assertIn("planned 4, run 4, fewest runs of a fault 2\n", output)

    def test_a_fault_that_was_not_injected(self):
        status, output, keys = self.main("--within", "0")
        self.assertEqual((status, keys), (1, []), output)
        self.assertIn(f"planned {len(FAULTS)}, run 0, fewest runs of a fault 0\n", output)

    def test_a_run_that_was_not_as_expected(self):
        self.assertEqual(self.main("--only", "sigkill", result=failed("it is broken"))[0], 1)

    def test_faults_that_this_machine_cannot_inject(self):
        self.assertEqual(self.main("--only", "sigkill,cut", skip=("cut",))[0], 0)
        status, output, _ = self.main("--only", "cut", skip=("cut",))
        self.assertEqual(status, reliability.SKIPPED, output)

    def test_the_same_seed_draws_the_same_faults(self):
        faults = [reliability.drawn(FAULTS, seed) for seed in (7, 7, 8)]
        first, again, other = (
            [(fault.key, delay) for fault, delay in itertools.islice(sequence, 20)] for sequence in faults
        )
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)
        self.assertTrue(all(0 <= delay <= reliability.LONGEST_DELAY for _, delay in first))
        self.assertGreater(len({delay for _, delay in first}), 10)
        status, output, keys = self.main("--random", "--within", "1", "--only", "sigkill,cut")
        self.assertEqual((status, set(keys)), (0, {"sigkill", "cut"}), output)
        self.assertRegex(output, r"--seed \d+ draws them again")

    def test_results_of_an_earlier_call_without_some_of_the_faults(self):
        with tempfile.TemporaryDirectory() as folder:
            earlier = pathlib.Path(folder) / "earlier.json"
            earlier.write_text('{"cut": [], "a fault of the past": [{"problems": ["x"]}]}')
            written = pathlib.Path(folder) / "page.md"
            written.write_text(f"{page.BEGIN}{page.END}")
            words = ["--only", "sigkill", "--with", str(earlier), "--page", str(written)]
            status, output, _ = self.main(*words)
            self.assertEqual(status, 0, output)
            self.assertEqual(page.complaints(written, FAULTS), [])


class Folders(unittest.TestCase):
    def test_folders_below_another_one(self):
        kept = ["/tmp/a/build", "/tmp/a", "/usr", "/tmp", "/tmp/b"]
        self.assertEqual(namespaces.within(kept, "/tmp"), [pathlib.Path("/tmp/a"), pathlib.Path("/tmp/b")])

    def test_a_folder_stays_visible(self):
        """Mounts something over a folder in new namespaces, and reads a file of a folder that is kept."""
        if reason := namespaces.why_not():
            self.skipTest(reason)
        with tempfile.TemporaryDirectory() as name:
            where = pathlib.Path(name)
            (where / "clone" / "build").mkdir(parents=True)
            (where / "clone" / "build" / "file").write_text("kept")
            (where / "other").write_text("hidden")
            program = (
                "import sys, pathlib, namespaces\n"
                "where = pathlib.Path(sys.argv[1])\n"
                "namespaces.mount_over(where, ['-t', 'tmpfs', 'tmpfs'], [where / 'clone' / 'build'])\n"
                "print((where / 'clone' / 'build' / 'file').read_text(), (where / 'other').exists())\n"
            )
            command = namespaces.command([sys.executable, "-B", "-c", program, str(where)])
            here = pathlib.Path(__file__).parent
            done = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
            self.assertEqual((done.stdout, done.returncode), ("kept False\n", 0), done.stderr)


class Arguments(unittest.TestCase):
    def test_wrong_ones(self):
        for words in (["--random"], ["--seed", "1"], ["--random", "--within", "1", "--page", "x"], ["--only", "x"]):
            with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                reliability.parse(["--build", ".", *words])
        options = reliability.parse(["--build", ".", "--random", "--within", "1", "--seed", "3"])
        self.assertIsInstance(options, argparse.Namespace)
        self.assertEqual(options.seed, 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
