# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A training hangs because one rank waits for its batch. The stall report must show the line in which this rank
waits."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(__file__).with_name("waiting_rank.py")
# ruedarun writes the rank's number before each line, if all ranks are on one host.
REPORT = (
    r"missing: rank 1\b(?s:.*)"
    r"rank 1{host} \(pid \d+\): [^\n]*in step 3;[^\n]*\n"
    r"[^\n]*Python, innermost first:\n"
    r"[^\n]*load_batch, [^\n]*waiting_rank\.py:\d+\n"
    r"[^\n]*train, [^\n]*waiting_rank\.py:\d+\n"
    r"[^\n]*<module>, [^\n]*waiting_rank\.py:\d+\n"
    r"[^\n]*native, innermost first[^\n]*\n"
    r"([^\n]*\n)*[^\n]* of the Python interpreter\n"
)


class HangingLoader(unittest.TestCase):
    def run_until(self, pattern, launch, kind, **settings):
        """Runs the job. Lets the late rank continue when the pattern appears in the output."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "go")
            job = subprocess.Popen(
                [*launch, kind, str(path)],
                env=os.environ | {"RUEDA_STALL_CHECK_TIME_SECONDS": "1"} | settings,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            text = ""
            for line in job.stderr:
                text += line
                if re.search(pattern, text):
                    path.touch()
            job.stderr.close()
            self.assertEqual(job.wait(), 0, text)
        self.assertRegex(text, pattern)

    def test_on_one_host(self):
        launch = [os.environ["RUEDARUN"], "--no-mpi", "-np", "2", sys.executable, "-B", str(PROGRAM)]
        for kind in ("ddp", "optimizer"):
            with self.subTest(kind):
                self.run_until(REPORT.replace("{host}", r"[^(\n]*"), launch, kind)

    def test_on_two_hosts(self):
        mpirun = shutil.which("mpirun")
        if not mpirun or "Open MPI" not in subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout:
            self.skipTest("there is no Open MPI")
        # Both hosts are this machine under different names; each has one rank.
        shell = f'RUEDA_HOSTNAME=host$OMPI_COMM_WORLD_RANK exec "{sys.executable}" -B "{PROGRAM}" "$@"'
        launch = [mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "2"]
        command = [*launch, "sh", "-c", shell, "sh"]
        self.run_until(REPORT.replace("{host}", " on host1"), command, "ddp", MASTER_ADDR="localhost")


if __name__ == "__main__":
    unittest.main()
