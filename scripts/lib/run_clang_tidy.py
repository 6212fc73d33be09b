# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs clang-tidy over the sources of the given rooms (folders of the source tree). Skips sources that were clean in an
earlier run and have not changed since.

clang-tidy spends most of its time on headers. So one run of clang-tidy checks a unit: a file that includes several
sources, as in a unity build. If the sources of a unit cannot be compiled together, each of them is checked by itself.

For each clean unit, the cache folder has an empty file. The name of this file is a key, which is computed from the
unit's preprocessed text, its command, and .clang-tidy. The key does not depend on the path of the source tree, so
another clone of the same sources finds the same keys.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

OUTCOMES = ["clean before", "clean", "findings"]  # ordered from the best to the worst outcome


def sources(database: list[dict], root: pathlib.Path, rooms: list[str]) -> list[dict]:
    def room(entry: dict) -> str:
        file = pathlib.Path(entry["file"])
        return file.relative_to(root).parts[0] if file.is_relative_to(root) else ""

    return [entry for entry in database if room(entry) in rooms]


def command_of(entry: dict) -> list[str]:
    """Returns the compiler's command without three parts: the compiler cache at its beginning, the output file, and the
    source.
    """
    words = shlex.split(entry["command"])
    while "ccache" in os.path.basename(words[0]):
        words = words[1:]
    output = words.index("-o")
    words = words[:output] + words[output + 2 :]
    return words[: words.index("-c")]


def is_compiled_repeatedly(source: str) -> bool:
    """Returns whether the source includes itself once for each SIMD instruction set."""
    return "HWY_TARGET_INCLUDE" in pathlib.Path(source).read_text()


class Unit:
    """Sources that one run of clang-tidy checks. They are compiled with the same command in the same folder."""

    def __init__(self, command: list[str], directory: str, sources: list[str]):
        self.command = command
        self.directory = directory
        self.sources = sources

    def parts(self) -> list["Unit"]:
        return [Unit(self.command, self.directory, [source]) for source in self.sources]

    def main_source(self, includes: pathlib.Path) -> str:
        """Returns the file that clang-tidy checks. If there is only one source, this is the source. Otherwise it is
        `includes`, into which this function writes an #include of every source.
        """
        if len(self.sources) == 1:
            return self.sources[0]
        includes.write_text("".join(f'#include "{source}"\n' for source in self.sources))
        return str(includes)


# Matches a declaration such as "using base::Status;". The group in the pattern matches the name that the declaration
# introduces, here "Status".
USING = re.compile(r"^\s*using (?:\w+::)+(\w+);", re.MULTILINE)


def unused_usings(source: str) -> str:
    """Returns a line for each using-declaration whose name does not occur anywhere else in the source. clang-tidy's
    check misc-unused-using-decls does not look at included files, so it finds nothing in a unit of several sources.
    """
    text = pathlib.Path(source).read_text()
    found = []
    for using in USING.finditer(text):
        name = using.group(1)
        if len(re.findall(rf"\b{name}\b", text)) == 1:
            line = text.count("\n", 0, using.start(1)) + 1
            found.append(f"{source}:{line}: error: the using-declaration of '{name}' is not used\n")
    return "".join(found)


def suppressions(source: str) -> bytes:
    """Returns the comments that suppress findings. The preprocessor's output does not contain them."""
    return b"".join(line for line in pathlib.Path(source).read_bytes().splitlines() if b"NOLINT" in line)


def units_of(entries: list[dict], sources_per_run: int) -> list[Unit]:
    alike: dict[tuple, list[str]] = {}
    units = []
    for entry in entries:
        command = command_of(entry)
        if is_compiled_repeatedly(entry["file"]):
            units.append(Unit(command, entry["directory"], [entry["file"]]))
        else:
            alike.setdefault((entry["directory"], *command), []).append(entry["file"])
    for (directory, *command), files in alike.items():
        count = -(-len(files) // sources_per_run)
        files.sort()
        units += [
            Unit(command, directory, files[len(files) * i // count : len(files) * (i + 1) // count])
            for i in range(count)
        ]
    # the longest runs first, so that all jobs end at about the same time
    return sorted(units, key=lambda unit: -len(unit.sources))


class Checker:
    """Threads: any."""

    def __init__(self, cache: pathlib.Path, root: pathlib.Path, checks: str):
        self.cache = cache
        self.root = root
        self.checks = checks
        self.configuration = pathlib.Path(".clang-tidy").read_bytes() + checks.encode()

    def check(self, unit: Unit) -> tuple[str, int, str]:
        """Returns the outcome ("clean", "clean before" or "findings"), the number of sources, and clang-tidy's output."""
        with tempfile.TemporaryDirectory(dir=self.cache) as folder:
            source = unit.main_source(pathlib.Path(folder) / "unit.cpp")
            key = self.cache / self.key_of(unit, source)
            if key.exists():
                return "clean before", len(unit.sources), ""
            # bugprone-suspicious-include is switched off, because it would report each source that a unit includes.
            checks = ",".join(filter(None, [self.checks, "-bugprone-suspicious-include"]))
            configuration = f"--config-file={pathlib.Path('.clang-tidy').resolve()}"
            run = subprocess.run(
                ["clang-tidy", "--quiet", f"--checks={checks}", configuration, source, "--", *unit.command[1:]],
                cwd=unit.directory,
                capture_output=True,
                text=True,
            )
        unused = "".join(map(unused_usings, unit.sources))
        if run.returncode == 0 and not unused:
            key.touch()
            return "clean", len(unit.sources), ""
        if len(unit.sources) > 1 and "clang-diagnostic-error" in run.stdout:
            results = [self.check(part) for part in unit.parts()]
            worst = max((outcome for outcome, _, _ in results), key=OUTCOMES.index)
            return worst, len(unit.sources), "".join(text for _, _, text in results)
        return "findings", len(unit.sources), run.stdout + run.stderr + unused

    def key_of(self, unit: Unit, source: str) -> str:
        run = subprocess.run([*unit.command, "-E", "-P", source], cwd=unit.directory, capture_output=True)
        text = (
            run.stdout if run.returncode == 0 else os.urandom(16)
        )  # a random key is never in the cache, so a source that cannot be compiled is checked again
        parts = [text, " ".join(unit.command).encode(), self.configuration]
        for each in unit.sources:
            parts += [each.encode(), suppressions(each)]
        return hashlib.sha256(b"\0".join(parts).replace(str(self.root).encode(), b".")).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder with compile_commands.json of clang")
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--checks", default="", help="changes to the checks of .clang-tidy, in clang-tidy's form")
    parser.add_argument("--sources-per-run", type=int, default=16)
    parser.add_argument("rooms", nargs="+")
    arguments = parser.parse_args()

    root = pathlib.Path.cwd()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    database = json.loads((arguments.build / "compile_commands.json").read_text())
    chosen = sources(database, root, arguments.rooms)
    if not chosen:
        print(f"no source of {', '.join(arguments.rooms)} in {arguments.build}/compile_commands.json")
        return 1

    begin = time.monotonic()
    counts = dict.fromkeys(OUTCOMES, 0)
    checker = Checker(arguments.cache.resolve(), root, arguments.checks)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [pool.submit(checker.check, unit) for unit in units_of(chosen, arguments.sources_per_run)]
        for run in concurrent.futures.as_completed(runs):
            outcome, number, text = run.result()
            counts[outcome] += number
            print(text, end="")
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()), f"in {time.monotonic() - begin:.0f} s")
    return 1 if counts["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
