# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The commands `ruedarun` and `rueda`, which lie in the package as programs."""

from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn


def _run(program: str) -> NoReturn:
    path = pathlib.Path(__file__).parent / "bin" / program
    try:
        os.execv(path, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}; expected there by an installed wheel: pip install --force-reinstall rueda")


def ruedarun() -> NoReturn:
    """Start the processes of a job."""
    _run("ruedarun")


def rueda() -> NoReturn:
    """Look at the machine and its jobs: `rueda doctor`, `rueda ps`, `rueda top`."""
    _run("rueda")
