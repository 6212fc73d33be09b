# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Checks the sources of a unity build (cmake/RuedaUnity.cmake), in which two files of one unit must not define the same
name in their anonymous namespaces. The compiler only parses each unit, which takes a quarter of the time of compiling
it.

Usage: unity_sources.py SOURCE WORK [arguments for cmake…]
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

source, work = sys.argv[1:3]


def parse(entry):
    """Returns the unit's name and the compiler's messages about the unit. The messages are empty if the unit is
    right."""
    command = shlex.split(entry["command"])
    at = command.index("-o")
    del command[at : at + 2]
    done = subprocess.run([*command, "-fsyntax-only"], cwd=entry["directory"], capture_output=True, text=True)
    name = str(pathlib.Path(entry["file"]).relative_to(work))
    return name, done.stderr if done.returncode != 0 else ""


subprocess.run(
    [
        *("cmake", "-G", "Ninja", "-S", source, "-B", work, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"),
        *("-DCMAKE_UNITY_BUILD=ON", "-DRUEDA_BUILD_PYTHON=ON", "-DRUEDA_WARNINGS_AS_ERRORS=ON"),
        *("-DRUEDA_BUILD_TESTS=OFF", "-DRUEDA_BUILD_EXAMPLES=OFF", "-DRUEDA_BUILD_BENCHMARKS=OFF"),
        *sys.argv[3:],
    ],
    check=True,
    stdout=subprocess.DEVNULL,
)
entries = json.loads(pathlib.Path(work, "compile_commands.json").read_text())
units = [entry for entry in entries if "/Unity/" in entry["file"]]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as threads:
    errors = {name: text for name, text in threads.map(parse, units) if text}
for name, text in errors.items():
    print(f"{name}:\n{text}")
print(f"{len(units)} units, {len(errors)} with errors")
# Each of the rooms (parts of the source tree) base, ops, collectives, core, training, data and launcher has at least
# one unit.
sys.exit(0 if not errors and len(units) >= 7 else 1)
