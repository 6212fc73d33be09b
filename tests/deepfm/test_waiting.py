# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Lets a rank of deepfm wait for the writer of its FIFO. The rank must say what it waits for. The test takes more than 10
seconds, but needs almost no processor time."""

import subprocess
import threading
import unittest

from deepfm_job import ENVIRONMENT, TIMEOUT, DeepFmTest


class Waiting(DeepFmTest):
    def test_a_rank_that_waits_for_a_writer_says_so(self):
        begin = threading.Event()
        early = self.feed("early", "train-000.tfrecord")
        late = self.feed("late", "train-001.tfrecord", begin=begin)
        command = self.job(2, "--fifo", "--format", "tfrecord", train=[early, late])
        job = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, env={**ENVIRONMENT, "RUEDA_STALL_CHECK_TIME_SECONDS": "2"})  # fmt: skip
        timer = threading.Timer(TIMEOUT, job.kill)
        timer.start()
        output = []
        with job.stdout:
            for line in job.stdout:
                output.append(line)
                if "rank 1 has waited 10 s" in line:
                    begin.set()
        timer.cancel()
        text = "".join(output)
        self.assertEqual(job.wait(), 0, text)
        self.assertIn(f"for samples of epoch 1/1 from the FIFOs '{self.folder}/late_0'", text)
        self.assertIn("busy with 'waiting for samples'", text)
        self.assertIn("after 50 steps", text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
