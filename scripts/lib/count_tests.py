# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Sums the JUnit files that ctest wrote: prints "passed failed skipped". A file that cannot be read is an error."""

import sys
import xml.etree.ElementTree as ElementTree


def counts(path: str) -> tuple[int, int, int]:
    passed = failed = skipped = 0
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("failure") is not None or case.get("status") == "fail":
            failed += 1
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


if __name__ == "__main__":
    print(*(sum(column) for column in zip((0, 0, 0), *(counts(path) for path in sys.argv[1:]))))
