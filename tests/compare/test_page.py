# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests benchmarks/compare/page: how it renders measured data, and that docs/performance.md has this rendering. Nothing
is measured here."""

import copy
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = ROOT / "benchmarks" / "compare" / "page"
sys.path.insert(0, str(COMMAND.parent))

from rueda_compare import rendering, sections  # noqa: E402
from rueda_compare.page import data_text  # noqa: E402

PAGE = ROOT / "docs" / "performance.md"
EMPTY = {"format": 1, "machine": {"processor": "x"}, "sections": {}}
NAMES = [*(table.name for table in rendering.TABLES), "summary", "measured", "not-measured"]
EMPTY_PAGE = "# Title\n\n" + "".join(f"<!-- table: {name} -->\n<!-- end -->\n\n" for name in NAMES)


def row(**more) -> dict:
    given = {"table": "messages", "case": "4 B", "kind": "staged", "rueda": [2.0, 4.0, 8.0]}
    return given | {"peers": {"A": [3.0, 6.0, 12.0], "B": [1.0, 8.0, 8.0]}, "bounds": {"hand": [1.8, 3.6, 7.6]}} | more


def data_with(*rows, section="messages", **more) -> dict:
    facts = {"date": "2026-11-28 10:00", "commit": "abc", "seconds": 61.2, "rounds": 3, "rows": list(rows)}
    return {**EMPTY, "sections": {section: facts | more}}


def part(data: dict, name: str) -> str:
    return rendering.parts(data)[name]


def page(*arguments: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-B", str(COMMAND), *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


class Rendering(unittest.TestCase):
    def test_a_ratio_is_the_median_of_the_rounds(self):
        # B is the fastest peer in two of three rounds: its ratios are 0.5, 2 and 1.
        head, _, line = part(data_with(row(kind="")), "messages").splitlines()[:3]
        self.assertEqual(head, "| bytes | fastest peer | its time, µs | Rueda, µs | ratio (rounds) | of the bound |")
        self.assertEqual(line, "| 4 B | B | 8 | 4 | 1.00× (0.50–2.00) | 90 % (hand, 3.6) |")

    def test_staged_and_resident_tensors_share_a_line(self):
        rows = (row(), row(case="64 B"), row(kind="resident", rueda=[1.0, 1.0, 1.0]))
        first, second = part(data_with(*rows), "messages").splitlines()[2:4]
        resident = "| 1 | 8.00× (1.00–8.00) | 360 % (hand, 3.6) |"
        self.assertEqual(first, f"| 4 B | B | 8 | 4 | 1.00× (0.50–2.00) | 90 % (hand, 3.6) {resident}")
        self.assertTrue(second.endswith("| – | – | – |"), second)

    def test_a_row_below_1_is_marked_and_named_with_its_share_of_the_bound(self):
        text = part(data_with(row(peers={"A": [1.9, 3.8, 7.6]})), "messages")
        self.assertIn("| **0.95×** (0.95–0.95) |", text)
        self.assertIn("- Rueda reaches at least 90 % of the bound: 4 B, staged (0.95× A, 90 % of the bound).", text)
        low = row(peers={"A": [1.9, 3.8, 7.6]}, bounds={"hand": [1.0, 2.0, 4.0]})
        text = part(data_with(low), "messages")
        self.assertIn("- Rueda reaches less than 90 % of the bound: 4 B, staged (0.95× A, 50 % of the bound).", text)

    def test_a_bound_that_a_peer_beats_explains_nothing(self):
        text = part(data_with(row(peers={"A": [1.0, 2.0, 4.0]})), "messages")
        self.assertIn("- The peer is faster than the bound as well, so the bound explains nothing: 4 B", text)
        text = part(data_with(row(peers={"A": [1.0, 2.0, 4.0]}, bounds={})), "messages")
        self.assertIn("- No bound was measured: 4 B, staged (0.50× A).", text)

    def test_a_table_in_which_rueda_is_never_slower_says_so(self):
        text = part(data_with(row(peers={"A": [3.0, 6.0, 12.0]})), "messages")
        self.assertIn("No peer is faster than Rueda in any of the 1 rows.", text)

    def test_rows_without_peers_show_the_rounds(self):
        mine = {"table": "python-calls", "case": "allreduce_", "rueda": [2.0, 3.0, 1.0]}
        text = part(data_with(mine, section="python-calls"), "python-calls")
        self.assertEqual(text.splitlines()[0], "| call | Rueda, µs | rounds |")
        self.assertEqual(text.splitlines()[2], "| allreduce_ | 2 | 1 to 3 |")

    def test_time_that_is_not_exposed_has_no_ratio(self):
        mine = row(table="load", rueda=[-1.0, -2.0, -1.0], bounds={})
        self.assertIn("| 4 B | staged | -1 |", part(data_with(mine, section="load"), "load"))

    def test_what_is_missing_is_named(self):
        data = data_with(row(), missing={"impi": "no mpicxx"}, failures=["gloo (default) failed: killed"])
        data["sections"]["hosts"] = {"date": "d", "commit": "c", "reason": "no tc"}
        self.assertEqual(part(data, "hosts"), "This table was not measured: no tc.\n")
        self.assertEqual(part(data, "alltoall"), "This table was not measured: the section has not been run yet.\n")
        text = part(data, "not-measured")
        for line in ("`hosts`: no tc.", "impi: no mpicxx (`messages`)", "gloo (default) failed: killed (`messages`)"):
            self.assertIn(line, text)
        self.assertIn("- The section `alltoall` has not been run yet.", text)

    def test_the_summary_counts_the_rows_in_which_a_peer_is_faster(self):
        slow = row(peers={"A": [1.9, 3.8, 7.6]})
        text = part(data_with(row(peers={"A": [3.0, 6.0, 12.0]}), slow), "summary")
        self.assertIn("| [messages](#messages) | 2 | 1 | 1 | 0.95× | 1.23× | 1.50× |", text)

    def test_rendering_twice_changes_nothing(self):
        once = rendering.render(EMPTY_PAGE, data_with(row()))
        self.assertNotEqual(once, EMPTY_PAGE)
        self.assertEqual(rendering.render(once, data_with(row())), once)

    def test_a_page_needs_all_markers_and_no_others(self):
        for text, words in (
            (EMPTY_PAGE.replace("table: messages", "table: letters"), "there is no such table"),
            (EMPTY_PAGE.replace("<!-- table: summary -->\n<!-- end -->", ""), "'<!-- table: summary -->'"),
        ):
            with self.assertRaises(rendering.DataError) as caught:
                rendering.render(text, EMPTY)
            self.assertIn(words, str(caught.exception))

    def test_the_written_data_is_read_as_it_was(self):
        data = data_with(row(), row(case="row 0 of messages"))
        self.assertEqual(json.loads(data_text(data)), data)


class Sections(unittest.TestCase):
    def test_every_section_has_a_table(self):
        self.assertEqual([section.name for section in sections.ALL], [table.name for table in rendering.TABLES])

    def test_rows_of_a_report_of_compare(self):
        def entry(family, way, times, setting="default"):
            facts = {"operation": "broadcast", "set": "", "bytes": 4096, "tensors": 1, "setting": setting}
            return facts | {"family": family, "way": way, "round_medians": times}

        report = {
            "peers": {"rueda": {"version": "1"}, "openmpi5": {"version": "5.0.11"}, "bound": {"version": "b"}, "impi": {"skipped": "no mpicxx"}},
            "rows": [
                entry("rueda", "staged", [4]), entry("rueda", "resident", [3]), entry("bound", "by hand", [2]),
                entry("bound", "cells by hand", [3]), entry("openmpi5", "each", [5], "large eager"),
            ],
            "failures": [{"runner": "gloo", "setting": "default", "ranks": 2, "reason": "died"}],
        }  # fmt: skip
        result = next(s for s in sections.ALL if s.name == "broadcast").result({"compare": [report]})
        staged, resident = result.rows
        self.assertEqual((staged["case"], staged["kind"], staged["rueda"]), ("4 KiB", "staged", [4]))
        self.assertEqual(staged["peers"], {"Open MPI 5 (large eager)": [5]})
        self.assertEqual(staged["bounds"], {"cells by hand": [3]}, "tensors in private memory are not in shared memory")
        self.assertEqual(resident["bounds"], {"by hand": [2], "cells by hand": [3]})
        self.assertEqual(result.versions, {"Rueda": "1", "Open MPI 5": "5.0.11"})
        self.assertEqual(result.missing, {"impi": "no mpicxx"})
        self.assertEqual(result.failures, ["gloo (default) failed: died"])

    def test_rows_between_hosts(self):
        line = {"bytes": 4, "rueda": 0.02, "mpi": 0.01, "bound": 0.005}
        output = {"hosts": 2, "ranks": 1, "rows": [line]}
        (found,) = next(s for s in sections.ALL if s.name == "hosts").result({"0": [output, output]}).rows
        self.assertEqual((found["case"], found["kind"]), ("1 Gbit/s", "2 × 1, 4 B"))
        self.assertEqual((found["rueda"], found["bounds"]), ([0.02, 0.02], {"link": [0.005, 0.005]}))

    def test_rows_of_a_step_of_pytorch(self):
        def output(**not_hidden):
            return {"pytorch": "2.15", "alone": 100.0, "not_hidden": not_hidden}

        rueda = output(**{"rueda.torch, auto": 20.0, "DDP, Gloo": 90.0})
        outputs = {"None": [rueda], "zero": [rueda], "Horovod None": [output(Horovod=40.0)]}
        rows = next(s for s in sections.ALL if s.name == "torch-step").result(outputs).rows
        self.assertEqual([(r["case"], r["kind"]) for r in rows], [("to None", "auto"), ("to zero", "auto")])
        self.assertEqual(rows[0]["peers"], {"DDP, Gloo": [90.0], "Horovod": [40.0]})
        self.assertEqual(rows[1]["peers"], {"DDP, Gloo": [90.0]})


class Command(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.files = ("--data", self.folder / "d.json", "--page", self.folder / "p.md")
        (self.folder / "p.md").write_text(EMPTY_PAGE)

    def write(self, data: object) -> None:
        (self.folder / "d.json").write_text(data if isinstance(data, str) else json.dumps(data))

    def refused(self, words: str, *arguments: object) -> None:
        result = page(*self.files, *arguments)
        self.assertEqual(result.returncode, 2, result.stdout)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(words, result.stderr)

    def test_a_table_that_was_edited_is_noticed(self):
        self.write(data_with(row()))
        self.assertEqual(page(*self.files, "--check").returncode, 1)
        self.assertEqual(page(*self.files, "--render").returncode, 0)
        self.assertEqual(page(*self.files, "--check").returncode, 0)
        path = self.folder / "p.md"
        path.write_text(path.read_text().replace("1.00×", "1.10×"))
        result = page(*self.files, "--check")
        self.assertEqual(result.returncode, 1)
        self.assertIn("does not have the tables of the data", result.stderr)

    def test_damaged_data_gets_a_clear_answer(self):
        good = data_with(row())
        cases: list[tuple[object, str]] = [
            ("{", "is not JSON"),
            ({"format": 2}, "the format is not 1"),
            ({"format": 1}, "'machine' or 'sections' is missing"),
            (data_with(row(), section="letters"), "section 'letters' is not known"),
            (data_with(row(rueda=[])), "section 'messages', row 1: 'rueda' is not a list of times"),
            (data_with(row(), row(peers={"A": ["fast"]})), "row 2: 'A' is not a list of times"),
            (data_with(row(table="letters")), "table 'letters' is not known"),
        ]
        for key in ("date", "commit", "seconds", "rows"):
            damaged = copy.deepcopy(good)
            del damaged["sections"]["messages"][key]
            cases.append((damaged, f"section 'messages' has no '{key}'"))
        for data, words in cases:
            with self.subTest(words):
                self.write(data)
                self.refused(words, "--check")
        (self.folder / "d.json").unlink()
        self.refused("measure first", "--render")

    def test_wrong_arguments(self):
        self.refused("--only: section 'letters' is not known", "--only", "letters", "--dry-run")
        self.refused("--again: section 'letters' is not known", "--again", "letters", "--dry-run")
        self.refused("--rounds at least 1", "--rounds", "0", "--dry-run")
        self.refused(
            "no nowhere/bin/compare_rueda".replace("nowhere", str(Path("nowhere").resolve())), "--build", "nowhere"
        )

    def test_sections_of_another_machine_are_not_mixed_in(self):
        self.write(data_with(row()))
        self.refused("was measured on another machine (processor: 'x'", "--only", "hosts", "--dry-run")
        shown = page(*self.files, "--again", "all", "--only", "messages", "--dry-run").stdout
        self.assertIn("messages:", shown)

    def test_a_dry_run_shows_only_what_is_left(self):
        shown = page(*self.files, "--only", "messages,overlap", "--dry-run").stdout
        self.assertEqual([line for line in shown.splitlines() if line[0] != " "], ["messages:", "overlap:"])
        self.assertIn("--operations message", shown)


class ThePage(unittest.TestCase):
    def test_the_page_has_the_tables_of_the_data(self):
        result = page("--check")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_links_to_headings_of_the_page_lead_somewhere(self):
        def anchors(text: str) -> set[str]:
            titles = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
            return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}

        there = anchors(PAGE.read_text(encoding="utf-8"))
        files = subprocess.run(["git", "-C", ROOT, "ls-files", "*.md"], capture_output=True, text=True, check=False)
        found = []
        for name in files.stdout.split() or ["docs/performance.md"]:
            text = (ROOT / name).read_text(encoding="utf-8")
            links = re.findall(r"\]\([^)\s]*performance\.md#([^)]+)\)", text)
            links += re.findall(r"\]\(#([^)]+)\)", text) if name == "docs/performance.md" else []
            found += [f"{name}: #{link}" for link in links if link not in there]
        self.assertEqual(found, [])


if __name__ == "__main__":
    unittest.main()
