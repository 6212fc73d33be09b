# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests rueda.data.remote() between test hosts, which have networks of their own. Without root rights, the test is
skipped."""

import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "support" / "hosts"))
import hosts as test_hosts  # noqa: E402

SECRET = "a secret of sixteen or more characters"
#: Takes batches and prints their numbers. A host that does not answer is noticed after 3 s.
TRAINER = """
import logging, sys
import rueda.data
from rueda.data._remote import messages, receiver
messages.KEEP_ALIVE, receiver.FIRST_SECONDS = (1, 1, 2), 1
addresses, on_death, args = sys.argv[1].split(","), sys.argv[2], [float(one) if "." in one else int(one) for one in sys.argv[3:]]
with rueda.data.remote(
    addresses, secret="a secret of sixteen or more characters", args=args, on_death=on_death, start_method="fork"
) as batches:
    try:
        for batch in batches:
            assert (batch["number"] == batch["number"][0]).all()
            print(int(batch["number"][0]), flush=True)
    except rueda.data.WorkerDied as error:
        print(error)
"""


class Hosts(unittest.TestCase):
    def setUp(self):
        self.hosts = test_hosts.Hosts(3)
        self.addCleanup(self.hosts.close)
        self.addresses = []
        for number in (1, 2):
            command = [sys.executable, "-B", str(HERE / "producer_process.py"), "0.0.0.0:0", SECRET]
            process = self.hosts.popen(
                number, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
            )
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.wait)
            self.addCleanup(process.stdin.close)
            self.addresses.append(process.stdout.readline().strip())

    def trainer(self, on_death, *args):
        command = [sys.executable, "-B", "-c", TRAINER, ",".join(self.addresses), on_death, *map(str, args)]
        process = self.hosts.popen(0, command, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        return process.stdout

    def test_another_host_takes_over_for_one_that_does_not_answer(self):
        self.assertRegex(self.addresses[0], r"^rueda-h1:\d+$")
        printed = self.trainer("replace", 60, 100_000, 0.02)
        before = [printed.readline().strip() for _ in range(10)]
        self.hosts.unplug(1)
        self.assertEqual(before + printed.read().split(), [str(number) for number in range(60)])

    def test_a_host_that_does_not_answer_is_named(self):
        printed = self.trainer("raise", 1000, 1000, 0.02)
        self.assertEqual(printed.readline(), "0\n")
        self.hosts.unplug(2)
        last = printed.read().splitlines()[-1]
        self.assertIn(f"data worker 1 of 2: the producer at {self.addresses[1]} was lost: ", last)
        self.assertIn("timed out", last)


if __name__ == "__main__":
    reason = test_hosts.why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(test_hosts.SKIPPED)
    unittest.main()
