# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests elastic jobs: ranks die, are replaced, join and leave, and the survivors keep their processes.

Usage: elastic_test.py RUEDARUN ELASTIC_JOB [unittest arguments…]
"""

import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
import elastic_jobs  # noqa: E402
from elastic_jobs import is_alive, parent_of  # noqa: E402

RUEDARUN, JOB = sys.argv[1:3]
LONG = "--long" in sys.argv


def start_job(*arguments: object) -> elastic_jobs.Job:
    words = [RUEDARUN, "--no-mpi", "--no-thread-variables", *map(str, arguments)]
    return elastic_jobs.Job(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))


class Elastic(elastic_jobs.ElasticTest):
    def test_survivors_keep_their_processes(self):
        job = start_job("-np", 3, "--min-np", 2, JOB, 20, "kill=0,7,1")
        self.check_result(job, 20, 2)
        first = self.check_members(job, 0, 3)
        self.assertEqual(self.check_members(job, 1, 2), [first[0], first[2]])
        self.assertEqual(job.started(1)[0].step, 7)  # the step of the last commit
        self.assertIn(f"rank 1 (pid {first[1]}) was killed by signal 9 (Killed)", job.err)
        self.assertIn("the job goes on with 2 ranks (generation 1)", job.err)

    def test_a_rank_that_waits_and_one_that_runs_die_together(self):
        """Two ranks die, one that waits and one that runs. ruedarun notices both deaths together, so the waiting rank
        must not get a place in the next generation."""
        steps = 10
        with tempfile.TemporaryDirectory() as folder:
            end = pathlib.Path(folder) / "end"
            job = start_job(
                *("-np", 4, "--min-np", 1, "--blacklist-cooldown-range", 60, 60),
                *(JOB, steps, "pause=5", f"until={end}"),
            )
            job.wait_for(lambda: len(job.started(0)) == 4)
            pids = [line.pid for line in job.started(0)]
            os.kill(pids[0], signal.SIGSTOP)  # SIGSTOP keeps this rank in its step
            os.kill(pids[3], signal.SIGKILL)
            job.wait_for(lambda: "was killed by signal 9" in job.err)
            # During this sleep, the other two ranks leave the generation and wait, without printing a line.
            time.sleep(1)
            job.kill_together(pids[0], pids[1])
            end.touch()  # the job continues until this file exists
            self.check_result(job, steps, 1)
        self.assertEqual(self.check_members(job, 1, 1), [pids[2]])

    def test_the_processes_of_a_dead_worker_end(self):
        """A worker is a shell that runs a helper and the training. If the shell dies, the helper and the training must
        end, too."""
        steps = 10
        with tempfile.TemporaryDirectory() as folder:
            end = pathlib.Path(folder) / "end"
            script = f"sleep 1000 & echo helper pid=$!; {JOB} {steps} pause=5 until={end}; exit $?"
            job = start_job(
                *("-np", 2, "--min-np", 1, "--blacklist-cooldown-range", 60, 60),
                *("sh", "-c", script),
            )
            job.wait_for(lambda: len(job.started(0)) == 2)
            first, second = (line.pid for line in job.started(0))
            shell = parent_of(second)
            helpers = [line.pid for line in list(job.lines) if line.what == "helper"]
            self.assertEqual(len(helpers), 2)
            helper = next(pid for pid in helpers if parent_of(pid) == shell)
            os.kill(shell, signal.SIGKILL)
            try:
                job.wait_for(lambda: not is_alive(second) and not is_alive(helper))
            finally:
                end.touch()  # the job continues until this file exists
            self.check_result(job, steps, 1)
        self.assertEqual(self.check_members(job, 1, 1), [first])

    def test_a_replacement_joins_at_a_commit(self):
        job = start_job(
            *("-np", 2, "--min-np", 1, "--blacklist-cooldown-range", 1, 1),
            *(JOB, 20, "kill=0,5,0", "size=2", "pause=1"),
        )
        self.check_result(job, 20, 2)
        first = self.check_members(job, 0, 2)
        self.assertEqual(self.check_members(job, 1, 1), [first[1]])
        last = self.check_members(job, 2, 2)
        self.assertEqual(last[0], first[1])  # the survivor has become rank 0, because it has the state
        self.assertNotIn(last[1], first)

    def test_too_few_survivors_wait_for_a_replacement(self):
        job = start_job(
            *("-np", 2, "--min-np", 2, "--blacklist-cooldown-range", "0.1,1"),
            *(JOB, 20, "kill=0,5,1", "kill=1,9,0"),
        )
        self.check_result(job, 20, 2)
        first, second, third = (self.check_members(job, generation, 2) for generation in range(3))
        self.assertEqual(second[0], first[0])
        self.assertEqual(third[0], second[1])

    def test_the_script_adds_and_removes_slots(self):
        with tempfile.TemporaryDirectory() as folder:
            hosts = pathlib.Path(folder) / "hosts"
            script = pathlib.Path(folder) / "script"
            script.write_text(f"#!/bin/sh\nexec cat {hosts}\n")
            script.chmod(0o755)
            hosts.write_text("localhost:1\n")
            job = start_job(
                *("--min-np", 1, "--max-np", 3, "--host-discovery-script", script, "--slots-per-host", 3),
                *(JOB, 10, "pause=2", "size=4"),
            )
            job.wait_for_size(1)
            hosts.write_text("localhost\n")
            job.wait_for_size(3)
            hosts.write_text("localhost:2\n")
            generation = job.wait_for_size(2)
            pids = self.check_members(job, generation, 2)
            self.assertEqual(pids[0], job.started(0)[0].pid)
            self.assertEqual(job.started(generation)[0].step, 10)
            job.process.send_signal(signal.SIGINT)
            self.assertEqual(job.wait(), 130, job.err)

    def test_the_job_ends_if_too_few_ranks_remain(self):
        begin = time.monotonic()
        job = start_job("-np", 2, "--min-np", 2, "--elastic-timeout", 0.5, JOB, 20, "kill=0,5,1")
        self.assertEqual(job.wait(), 137, job.err)
        self.assertLess(time.monotonic() - begin, 20)
        self.assertIn("after 0.5 s (--elastic-timeout) there are 1 of at least 2 ranks", job.err)
        self.assertIn("failed: init: ruedarun gives this process no place in the elastic job", job.err)

    def test_the_job_fails_without_slots(self):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "script"
            script.write_text("#!/bin/sh\necho localhost\n")
            script.chmod(0o755)
            job = start_job("--min-np", 2, "--host-discovery-script", script, "--elastic-timeout", 0.3, "true")
            self.assertNotEqual(job.wait(), 0, job.err)
            self.assertIn("gives 'localhost' no number of slots", job.err)
            self.assertIn("after 0.3 s (--elastic-timeout) there are 0 of at least 2 ranks", job.err)

    def test_a_script_that_cannot_be_started(self):
        job = start_job("--min-np", 2, "--host-discovery-script", "/nowhere/script", "true")
        self.assertEqual(job.wait(), 2, job.err)
        self.assertIn("--host-discovery-script: ", job.err)
        self.assertIn("/nowhere/script", job.err)

    def test_the_limit_of_resets(self):
        job = start_job(
            *("-np", 3, "--min-np", 1, "--reset-limit", 1),
            *(JOB, 20, "kill=0,5,1", "kill=1,9,1"),
        )
        self.assertEqual(job.wait(), 137, job.err)
        self.check_members(job, 1, 2)
        self.assertIn("it has had 1 new generations, and --reset-limit allows no more", job.err)

    def test_the_end_by_ctrl_c_while_ranks_wait(self):
        job = start_job("-np", 2, "--min-np", 2, JOB, 20, "kill=0,5,1")
        job.wait_for(lambda: "was killed by signal 9" in job.err)
        begin = time.monotonic()
        job.process.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(), 130, job.err)
        self.assertLess(time.monotonic() - begin, 4)

    def test_programs_without_elastic_training(self):
        self.assertEqual(start_job("--min-np", 2, "-np", 2, "true").wait(), 0)
        failed = start_job("--min-np", 2, "-np", 2, "sh", "-c", "exit 3")
        self.assertEqual(failed.wait(), 3)
        self.assertIn("ranks could start", failed.err)

    def test_without_options_about_mpi_and_threads(self):
        """Without options, the job must run without MPI. The ranks must divide the cores, even if only the discovery
        script knows the number of ranks."""
        cores = len(os.sched_getaffinity(0))
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "script"
            script.write_text(f"#!/bin/sh\necho localhost:{cores}\n")
            script.chmod(0o755)
            done = subprocess.run(
                [RUEDARUN, "--host-discovery-script", script, "sh", "-c", "echo threads=$OMP_NUM_THREADS"],
                env={name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the job is elastic, so its ranks run without MPI", done.stderr)
        self.assertEqual(re.findall(r"threads=\d*", done.stdout), ["threads=1"] * cores, done.stdout)

    def test_random_kills(self):
        """Kills random workers at random times, and compares the result with that of an undisturbed run.

        A victim may be in any state: it trains, waits, joins, or has just been started. Some kills hit two workers at
        once. At least one worker with the values of the training is never killed, because without such a worker the job
        must fail.
        """
        kills, steps = (100, 3000) if LONG else (8, 300)
        seed = int(os.environ.get("RUEDA_SEED", time.time_ns() % 10**6))
        print(f"RUEDA_SEED={seed}", file=sys.stderr)
        choice = random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            end = pathlib.Path(folder) / "end"
            job = start_job(
                *("-np", 3, "--min-np", 1, "--blacklist-cooldown-range", 0.1, 0.1),
                *(JOB, steps, "pause=5", f"until={end}"),
            )
            done = 0
            while done < kills and job.process.poll() is None:
                time.sleep(choice.choice([0, choice.uniform(0, 0.05), choice.uniform(0.05, 0.3)]))
                living = job.living_children()
                with_values = sorted(job.trained().intersection(living))
                if len(living) < 2 or not with_values:
                    time.sleep(0.01)
                    continue
                spared = choice.choice(with_values)
                others = [pid for pid in living if pid != spared]
                victims = choice.sample(others, min(len(others), choice.choice([1, 1, 2])))
                job.kill_together(*victims)
                done += len(victims)
            end.touch()
            self.assertEqual(job.wait(240), 0, job.err)
        self.assertGreaterEqual(done, kills, job.err)
        self.check_values(job, steps)
        self.assertEqual({line.arenas for line in job.lines}, {1})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + [word for word in sys.argv[3:] if word != "--long"])
