# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Finds the Python of a library with which a benchmark compares Rueda."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

INSTALLED = Path(__file__).resolve().parents[2] / "build" / "compare"
INSTALL = "benchmarks/compare/compare --install"


def python_of(peer: str, package: str | None = None) -> str | None:
    """Returns the Python into which ``compare --install PEER`` has installed the library. If no such Python exists,
    returns the Python that runs this program, or None if this Python does not have the package. The package usually has
    the name of the peer."""
    if (INSTALLED / peer / "installed").exists():  # `compare` creates this file last, if nothing failed
        return str(INSTALLED / peer / "bin" / "python")
    return sys.executable if importlib.util.find_spec(package or peer) else None


def required(peer: str) -> str:
    """Like python_of(), but ends the program if there is no such Python."""
    return python_of(peer) or sys.exit(f"{peer} is missing; install it with `{INSTALL} {peer}`")
