# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Checks that the built libraries export exactly the listed symbols. The environment variable ABI_LIBRARIES has a line
`list=library` for each library."""

import os
import pathlib
import re
import unittest

import symbols

FOLDER = pathlib.Path(__file__).parent
LISTS = FOLDER / "symbols"


class Libraries(unittest.TestCase):
    def test_each_shows_what_is_listed(self):
        found = []
        libraries = [line.split("=", 1) for line in os.environ["ABI_LIBRARIES"].splitlines() if line.strip()]
        self.assertGreaterEqual(len(libraries), 1)
        for name, library in libraries:
            expected = symbols.listed((LISTS / f"{name}.txt").read_text(encoding="utf-8"))
            names = symbols.shown_by(library, os.environ.get("ABI_NM") or "nm")
            found += symbols.complaints(os.path.basename(library), names, expected, f"tests/abi/symbols/{name}.txt")
        self.assertEqual(found, [], "\n" + "\n".join(found))

    def test_every_c_function_has_its_signature_written_down(self):
        expected = symbols.listed((LISTS / "librueda.txt").read_text(encoding="utf-8"))
        functions = {name for name in expected if name.startswith("rueda_")}
        text = (FOLDER / "functions.c").read_text(encoding="utf-8")
        declared = set(re.findall(r"\b(rueda_\w+)\(", text))
        self.assertEqual(sorted(functions ^ declared), [], "tests/abi/functions.c and symbols/librueda.txt differ")


class Rules(unittest.TestCase):
    LISTING = (
        "0000000000000000 A RUEDA_0\n00000000000c2b90 T rueda_init@@RUEDA_0\n0000000000000010 V _ZTISt9exception\n"
        "0000000000000020 B __asan_globals_registered\n"
    )

    def test_a_listing_is_read(self):
        self.assertEqual(symbols.shown(self.LISTING), {"rueda_init", "_ZTISt9exception"})
        self.assertEqual(symbols.listed("# a comment\nrueda_init\n\n"), {"rueda_init"})

    def test_what_is_foreign_new_or_gone_is_seen(self):
        names = symbols.shown(self.LISTING)
        self.assertEqual(symbols.complaints("l.so", names, names, "list"), [])
        foreign = symbols.complaints("l.so", names, {"rueda_init"}, "list")
        self.assertEqual(len(foreign), 1)
        self.assertIn("l.so shows _ZTISt9exception, which list does not list", foreign[0])
        gone = symbols.complaints("l.so", names, names | {"rueda_wait"}, "list")
        self.assertEqual(len(gone), 1)
        self.assertIn("no longer shows rueda_wait", gone[0])


if __name__ == "__main__":
    unittest.main()
