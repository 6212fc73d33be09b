# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Checks which symbols librueda.so exports, and which libraries it needs."""

import os
import re
import subprocess
import unittest

LIBRARY = os.environ["RUEDA_LIBRARY"]
OURS = re.compile(r"^(rueda_\w+|(typeinfo( name)? for |vtable for )?rueda::.*|RUEDA_\d+)$")
# Sanitizers add these symbols to every file.
INSTRUMENTATION = re.compile(r"^__(asan|ubsan|tsan|sanitizer|odr_asan|start___|stop___|sancov)")
C_FUNCTION = re.compile(r"RUEDA_API\s+[\w\s*]+?\b(rueda_\w+)\s*\(")


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Library(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        listing = run(os.environ.get("RUEDA_NM") or "nm", "--dynamic", "--defined-only", "--demangle", LIBRARY)
        names = [line.split(" ", 2)[2] for line in listing.splitlines() if line]
        cls.symbols = {re.sub(r"@@?RUEDA_\d+$", "", name) for name in names}

    def test_shows_only_our_names(self):
        foreign = sorted(s for s in self.symbols if not OURS.match(s) and not INSTRUMENTATION.match(s))
        self.assertEqual(foreign, [])

    def test_shows_the_whole_c_interface(self):
        with open(os.path.join(os.environ["RUEDA_SOURCE"], "include/rueda/rueda.h"), encoding="utf-8") as header:
            declared = set(C_FUNCTION.findall(header.read()))
        self.assertGreater(len(declared), 20)
        self.assertEqual(sorted(declared - self.symbols), [])

    def test_needs_neither_mpi_nor_ucx(self):
        dynamic = run(os.environ.get("RUEDA_READELF") or "readelf", "--dynamic", "--wide", LIBRARY)
        needed = re.findall(r"\(NEEDED\)[^\[]*\[([^\]]+)\]", dynamic)
        self.assertTrue(any(name.startswith("libc.so") for name in needed), needed)
        self.assertEqual(
            [name for name in needed if re.search(r"mpi|pmix|open-(rte|pal)|prte|libuc[mpst]\b", name)], []
        )
        self.assertRegex(dynamic, r"\(SONAME\)[^\[]*\[librueda\.so\.\d+\]")


if __name__ == "__main__":
    unittest.main()
