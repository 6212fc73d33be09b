# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Lists of dynamic symbols: what a library exports, what the list contains, and what to do if they differ."""

import re
import subprocess

# Symbols that sanitizers add to everything they build.
INSTRUMENTATION = re.compile(r"^(__)?(asan|ubsan|tsan|sanitizer|odr_asan|start___|stop___|sancov|___asan)")


def listed(text: str) -> set[str]:
    """The names in a list, which has one name on each line, without comments."""
    return {line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")}


def shown(listing: str) -> set[str]:
    """The names that `nm --dynamic --defined-only` prints, without version suffixes and without the symbols of versions
    (type A)."""
    rows = [line.split() for line in listing.splitlines() if line]
    names = {re.sub(r"@.*$", "", row[-1]) for row in rows if row[-2] != "A"}
    return {name for name in names if not INSTRUMENTATION.match(name)}


def shown_by(library: str, nm: str) -> set[str]:
    command = [nm, "--dynamic", "--defined-only", library]
    return shown(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def complaints(library: str, names: set[str], expected: set[str], where: str) -> list[str]:
    """One line for each difference. The line says what to do."""
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
