# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Watches an elastic job whose workers run tests/training/elastic_job.cpp."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import unittest


def expected_sum(steps: int) -> int:
    return sum(number * number % 1009 for number in range(16 * steps))


def stat_fields(pid: int) -> list[str]:
    """Returns the fields of /proc/PID/stat from field 3 (the state) to the end. Returns an empty list if there is no
    such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def parent_of(pid: int) -> int:
    """Returns the parent of the process; 0 if there is no such process."""
    return int((stat_fields(pid) or ["", "0"])[1])


def is_alive(pid: int) -> bool:
    return stat_fields(pid)[:1] not in ([], ["Z"])


def wait_until(condition) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("this did not happen within 30 s")
        time.sleep(0.001)


class Line:
    """A line that a worker has printed. `what` is its first word. `values` has its numbers, for example the
    generation."""

    def __init__(self, text: str) -> None:
        self.what = re.sub(r"^\[\d+\] ", "", text).split()[0]
        self.values = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", text)}

    def __getattr__(self, name: str) -> int:
        return self.values[name]


class Job:
    """A running job. Its lines can be read while it runs."""

    def __init__(self, process: subprocess.Popen) -> None:
        """`process` is ruedarun; its output and errors are pipes."""
        self.process = process
        self.lines: list[Line] = []
        self.err = ""
        self._readers = [threading.Thread(target=self._read_lines), threading.Thread(target=self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read_lines(self) -> None:
        for text in self.process.stdout:
            if "pid=" in text:
                self.lines.append(Line(text))

    def _read_errors(self) -> None:
        for text in self.process.stderr:
            self.err += text

    def kill_together(self, *victims: int) -> None:
        """Kills workers so that ruedarun notices all deaths at the same time. Ignores workers that have ended."""
        self.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: stat_fields(self.process.pid)[:1] in (["T"], ["Z"], []))
        for victim in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        wait_until(lambda: not any(is_alive(victim) for victim in victims))
        self.process.send_signal(signal.SIGCONT)

    def living_children(self) -> list[int]:
        """Returns ruedarun's living children: the workers of its host, also those that have printed nothing yet."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return sorted(pid for pid in pids if parent_of(pid) == self.process.pid and is_alive(pid))

    def trained(self) -> set[int]:
        """Returns the ids of all processes that have begun to train. These processes have the training's values."""
        return {line.pid for line in list(self.lines) if line.what == "start"}

    def wait(self, seconds: float = 60) -> int:
        status = self.process.wait(seconds)
        for reader in self._readers:
            reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        return status

    def wait_for(self, condition) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise AssertionError(f"this did not happen; the job has printed {self.err}")
            time.sleep(0.01)

    def wait_for_size(self, size: int) -> int:
        """Waits until the newest generation has this number of ranks, and all of them have begun to train. Returns the
        generation's number."""

        def newest() -> int:
            return max((line.generation for line in self.lines), default=0)

        self.wait_for(lambda: [line.size for line in self.started(newest())] == [size] * size)
        return newest()

    def started(self, generation: int) -> list[Line]:
        found = [line for line in self.lines if line.what == "start" and line.generation == generation]
        return sorted(found, key=lambda line: line.rank)

    def ended(self) -> list[Line]:
        return sorted((line for line in self.lines if line.what == "end"), key=lambda line: line.rank)


class ElasticTest(unittest.TestCase):
    def check_members(self, job: Job, generation: int, size: int) -> list[int]:
        """Checks that all ranks of the generation have the same values. Returns their processes in the order of ranks."""
        lines = job.started(generation)
        self.assertEqual([line.rank for line in lines], list(range(size)), job.err)
        self.assertEqual([line.RANK for line in lines], list(range(size)))
        self.assertEqual({line.size for line in lines} | {line.WORLD_SIZE for line in lines}, {size})
        self.assertEqual(len({(line.step, line.sum) for line in lines}), 1)
        # Each process must have only one arena: it must have released the arenas of earlier generations.
        self.assertEqual({line.arenas for line in lines}, {1}, job.err)
        return [line.pid for line in lines]

    def check_values(self, job: Job, steps: int) -> None:
        self.assertGreater(len(job.ended()), 0, job.err)
        for line in job.ended():
            self.assertEqual((line.step, line.sum), (steps, expected_sum(steps)))

    def check_result(self, job: Job, steps: int, size: int) -> None:
        self.assertEqual(job.wait(), 0, job.err)
        self.assertEqual(len(job.ended()), size, job.err)
        self.assertEqual({line.size for line in job.ended()}, {size})
        self.check_values(job, steps)
