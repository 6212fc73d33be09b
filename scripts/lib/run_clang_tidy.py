# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs clang-tidy over the sources of the given rooms (folders of the source tree), several files at a time. Skips
files that were clean before and have not changed.

A file's key is computed from its preprocessed text, its command, and .clang-tidy. For each clean file, the cache folder
has an empty file whose name is the key.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import time


def sources(database: list[dict], root: pathlib.Path, rooms: list[str]) -> list[dict]:
    def room(entry: dict) -> str:
        file = pathlib.Path(entry["file"])
        return file.relative_to(root).parts[0] if file.is_relative_to(root) else ""

    return [entry for entry in database if room(entry) in rooms]


def command_of(entry: dict) -> list[str]:
    """Returns the compiler's command without a compiler cache before it and without the output file."""
    words = shlex.split(entry["command"])
    while "ccache" in os.path.basename(words[0]):
        words = words[1:]
    output = words.index("-o")
    return words[:output] + words[output + 2 :]


def key_of(entry: dict, configuration: bytes) -> str:
    command = [word for word in command_of(entry) if word != "-c"]
    text = subprocess.run([*command, "-E"], cwd=entry["directory"], capture_output=True, check=True).stdout
    return hashlib.sha256(b"\0".join([text, " ".join(command).encode(), configuration])).hexdigest()


def check(entry: dict, build: pathlib.Path, cache: pathlib.Path, configuration: bytes, checks: str) -> tuple[str, str]:
    """Returns the outcome ("clean", "clean before" or "findings") and clang-tidy's output."""
    key = cache / key_of(entry, configuration)
    if key.exists():
        return "clean before", ""
    command = ["clang-tidy", "--quiet", f"--checks={checks}", "-p", str(build), entry["file"]]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        return "findings", run.stdout + run.stderr
    key.touch()
    return "clean", ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder with compile_commands.json of clang")
    parser.add_argument("--cache", type=pathlib.Path, required=True)
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--checks", default="", help="changes to the checks of .clang-tidy, in clang-tidy's form")
    parser.add_argument("rooms", nargs="+")
    arguments = parser.parse_args()

    root = pathlib.Path.cwd()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    configuration = (root / ".clang-tidy").read_bytes() + arguments.checks.encode()
    database = json.loads((arguments.build / "compile_commands.json").read_text())
    chosen = sources(database, root, arguments.rooms)
    if not chosen:
        print(f"no source of {', '.join(arguments.rooms)} in {arguments.build}/compile_commands.json")
        return 1

    begin = time.monotonic()
    counts = {"clean": 0, "clean before": 0, "findings": 0}
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        runs = [
            pool.submit(check, entry, arguments.build, arguments.cache, configuration, arguments.checks)
            for entry in chosen
        ]
        for run in concurrent.futures.as_completed(runs):
            outcome, text = run.result()
            counts[outcome] += 1
            print(text, end="")
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()), f"in {time.monotonic() - begin:.0f} s")
    return 1 if counts["findings"] else 0


if __name__ == "__main__":
    sys.exit(main())
