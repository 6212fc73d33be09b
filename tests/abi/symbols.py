# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Functions for lists of dynamic symbols: they read what a library exports, read a list, and describe each
difference."""

import re
import subprocess

# Symbols that a compiler adds to every file that it compiles with a sanitizer.
INSTRUMENTATION = re.compile(r"^(__)?(asan|ubsan|tsan|sanitizer|odr_asan|start___|stop___|sancov|___asan)")


def listed(text: str) -> set[str]:
    """Returns the names in a list file, which has one name on each line. Ignores comments."""
    return {line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")}


def shown(listing: str) -> set[str]:
    """Returns the names that `nm --dynamic --defined-only` prints, without their versions. Ignores the symbols that
    stand for versions (type A)."""
    rows = [line.split() for line in listing.splitlines() if line]
    names = {re.sub(r"@.*$", "", row[-1]) for row in rows if row[-2] != "A"}
    return {name for name in names if not INSTRUMENTATION.match(name)}


def shown_by(library: str, nm: str) -> set[str]:
    command = [nm, "--dynamic", "--defined-only", library]
    return shown(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def complaints(library: str, names: set[str], expected: set[str], where: str) -> list[str]:
    """Returns one line for each difference. The line also says what the developer has to do."""
    added = [
        f"{library} shows {name}, which {where} does not list. Meant for programs: add the line there, and a note to "
        "CHANGELOG.md. Not meant: leave out RUEDA_API, or keep the library it comes from hidden (the version script)."
        for name in sorted(names - expected)
    ]
    gone = [
        f"{library} no longer shows {name}, which {where} lists: programs that use it do not start any more. Bring it "
        "back; or raise the major version first (tests/abi/README.md)."
        for name in sorted(expected - names)
    ]
    return added + gone
