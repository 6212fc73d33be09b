# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs benchmarks/compare with Rueda and Open MPI as users run it. Also tests arguments that the command must
refuse."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

COMMAND = Path(__file__).resolve().parents[2] / "benchmarks" / "compare" / "compare"
sys.path.insert(0, str(COMMAND.parent))

from rueda_compare import rendering  # noqa: E402

NAMES = (*(table.name for table in rendering.TABLES), "summary", "measured", "not-measured")


WITH_RUEDA = ("--peers", "rueda", "--build", os.environ["RUEDA_BUILD"])


def compare(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-B", str(COMMAND), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=240, check=False)


class Quick(unittest.TestCase):
    def test_rueda_and_open_mpi(self):
        peers = "rueda,openmpi" if shutil.which("mpicxx") and shutil.which("mpirun") else "rueda"
        with tempfile.TemporaryDirectory() as folder:
            result = compare(
                *("--quick", "--ranks", "2", "--sizes", "4,8K", "--seconds", "0.01", "--gradients", "recommender"),
                *("--backward", "recommender=3", "--between", "64K"),
                *(
                    "--operations",
                    "allreduce,broadcast,allgather,reducescatter,alltoall",
                    "--peers",
                    f"{peers},bound",
                    "--idle",
                    "0.2",
                ),
                *("--build", os.environ["RUEDA_BUILD"], "--output", folder),
            )
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            report = json.loads(Path(folder, "report.json").read_text())
            page = Path(folder, "report.md").read_text()
        self.check_rows(report["rows"], peers)
        self.check_backward([row for row in report["rows"] if row["operation"] == "backward"], peers)
        self.assertEqual(report["failures"], [])
        self.assertIn("before each operation every rank writes 64 KiB of other memory", page)
        standing = {entry["runner"]: entry for entry in report["standing"]}
        self.assertEqual(list(standing), peers.split(","))
        self.assertTrue(0 < standing["rueda"]["init_mebibytes"] < 64, standing)
        self.assertEqual(result.stderr, "", "no progress where there is no terminal")
        if "openmpi" in peers:
            self.assertEqual(len([e for e in report["comparison"] if e["operation"] == "broadcast"]), 2 * 2)
            self.assertRegex(page, r"\| 8 KiB \| staged \| [\d.,]+ \| openmpi each \| [\d.,]+ \| [\d.]+× \|.*≥ 2×")
        for title in ("Allreduce", "Allgather", "Gradients, all under way at once", "Batches under load"):
            self.assertIn(f"## {title}, 2 ranks", page)

    def test_a_sweep_has_a_row_for_every_setting(self):
        with tempfile.TemporaryDirectory() as folder:
            result = compare(
                *("--sweep", "--quick", "--ranks", "2", "--seconds", "0.01", "--backward", "recommender=2"),
                *("--thresholds", "0,1M", "--holds", "0,200", "--build", os.environ["RUEDA_BUILD"], "--output", folder),
            )
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            rows = json.loads(Path(folder, "report.json").read_text())["rows"]
            page = Path(folder, "report.md").read_text()
        self.assertEqual(len({row["runner"] for row in rows}), 2 * 2 * 2)
        self.assertEqual({(row["operation"], row["wrong_elements"]) for row in rows}, {("backward", 0)})
        self.assertRegex(page, r"\| 1 MiB \| -?[\d.]+ \(-?[\d.]+\) \| -?[\d.]+ \(-?[\d.]+\) \|")

    def check_backward(self, rows, peers):
        """A step includes the computation, which takes the requested time on any machine, even on a busy one."""
        runners = ["rueda staged", "rueda resident", "rueda staged, 1 ms cycle", "rueda staged, 5 ms cycle"]
        runners += [f"openmpi {way}" for way in ("each", "nonblocking", "packed")] if "openmpi" in peers else []
        self.assertEqual([row["runner"] for row in rows], runners)
        for row in rows:
            load, step = row["load"], row["microseconds"]["median"]
            self.assertGreater(load["alone"], 1500, row)
            self.assertAlmostEqual(load["alone"] + load["exposed"], step, 6)
            self.assertEqual((row["set"], row["tensors"], row["wrong_elements"]), ("recommender", 912, 0))

    def check_rows(self, rows, peers):
        kinds = {(row["runner"], row["operation"], row["set"], row["bytes"]) for row in rows}
        self.assertEqual(len(kinds), len(rows))
        for runner in ("rueda staged", "rueda resident", *(["openmpi each"] if "openmpi" in peers else [])):
            for operation in ("allreduce", "broadcast", "allgather"):
                for size in (4, 8192):
                    self.assertIn((runner, operation, "", size), kinds)
            for operation in ("reducescatter", "alltoall"):  # one element cannot be divided between two ranks
                self.assertIn((runner, operation, "", 8192), kinds)
        self.assertIn(("bound crossing", "allreduce", "", 8192), kinds)
        for row in rows:
            self.assertEqual(row["wrong_elements"], 0, row)
            self.assertGreaterEqual(row["iterations"], 5)
            times = row["microseconds"]
            self.assertTrue(0 < times["p10"] <= times["median"] <= times["p90"], row)
        self.assertEqual({row["tensors"] for row in rows if row["set"]}, {912})


class Page(unittest.TestCase):
    def test_a_section_is_measured_shown_and_kept(self):
        command = [
            sys.executable,
            "-B",
            str(COMMAND.with_name("page")),
            "--quick",
            "--build",
            os.environ["RUEDA_BUILD"],
        ]
        with tempfile.TemporaryDirectory() as folder:
            command += ["--data", f"{folder}/d.json", "--page", f"{folder}/p.md", "--only", "overlap"]
            Path(folder, "p.md").write_text("".join(f"<!-- table: {name} -->\n<!-- end -->\n" for name in NAMES))
            first = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
            page = Path(folder, "p.md").read_text()
            again = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(first.returncode, 0, first.stdout + first.stderr)
        self.assertIn("overlap: ", first.stdout)
        self.assertRegex(page, r"\| a step alone \| [\d.]+ \|")
        self.assertNotIn("overlap: ", again.stdout, "a section that is measured is kept")
        self.assertEqual(first.stderr, "", "no progress where there is no terminal")


class Refused(unittest.TestCase):
    def refused(self, words: str, *arguments: str):
        result = compare(*arguments)
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(words, result.stderr)

    def test_wrong_arguments(self):
        self.refused("peer 'gluu' is not known", "--peers", "gluu", "--dry-run")
        self.refused("size '3'", "--sizes", "3", "--dry-run")
        self.refused("size '3'", "--between", "3", "--dry-run")
        self.refused("--backward 'resnet50=soon'", "--backward", "resnet50=soon", "--dry-run")
        self.refused("--holds '1ms'", "--sweep", "--holds", "1ms", "--dry-run")
        self.refused("--lock 'nowhere'", "--lock", "nowhere", *WITH_RUEDA, "--output", "unused")
        self.refused("--ranks 'two'", "--ranks", "two", "--dry-run")
        self.refused("--output FOLDER is needed")
        self.refused("is not a folder", "--output", str(COMMAND))

    def test_a_dry_run_runs_nothing(self):
        result = compare("--dry-run", "--peers", "rueda", "--build", os.environ["RUEDA_BUILD"], "--ranks", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("2 ranks, rueda resident: allreduce/4, ", result.stdout)
        self.assertIn("compare_rueda resident", result.stdout)

    def test_a_peer_that_is_missing_is_skipped_with_the_reason(self):
        with tempfile.TemporaryDirectory() as folder:
            result = compare("--dry-run", "--peers", "rueda,bound", "--build", folder)
        self.assertIn("skipped: rueda: no ", result.stdout)
        self.assertIn("none of the peers is here", result.stderr)
        self.assertEqual(result.returncode, 2)


if __name__ == "__main__":
    unittest.main()
