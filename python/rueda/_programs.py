# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs the programs `ruedarun` and `rueda`, which are part of this package, as commands."""

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
    """Runs `ruedarun`, which starts the processes of a job."""
    _run("ruedarun")


def rueda() -> NoReturn:
    """Runs `rueda`, which inspects the machine and its jobs, for example by `rueda doctor` or `rueda top`."""
    _run("rueda")
