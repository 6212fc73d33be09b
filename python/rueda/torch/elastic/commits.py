# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Stores the last commit (the saved state of the training) in a file, for a job that is started again. Rank 0 writes
the file, and always replaces it as a whole.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any

import torch

from rueda.errors import InvalidArgument

_SETTING = "RUEDA_ELASTIC_DIR"
_FILE = "rueda-commit.pt"
_FORMAT = 1


def folder() -> pathlib.Path | None:
    """Returns the folder for commits. If it is None, commits stay in memory."""
    given = os.environ.get(_SETTING)
    return pathlib.Path(given) if given else None


def write(where: pathlib.Path, number: int, content: dict[str, Any]) -> None:
    """Replaces the stored commit. A reader always sees a complete commit: either the new or the previous commit. This
    is also true if this process or the machine dies during the write.
    """
    where.mkdir(parents=True, exist_ok=True)
    new = where / f"{_FILE}.{os.getpid()}"
    try:
        with open(new, "wb") as file:
            torch.save({"format": _FORMAT, "number": number, "content": content}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, where / _FILE)
    finally:
        new.unlink(missing_ok=True)
    directory = os.open(where, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read(where: pathlib.Path) -> tuple[int, dict[str, Any]] | None:
    """Returns (number, content) of the stored commit; None if there is none.

    Raises:
        InvalidArgument: the file belongs to another user, or does not contain a commit.
    """
    path = where / _FILE
    if not path.exists():
        return None
    with open(path, "rb") as file:
        # Unpickling executes code from the file, so the user must trust whoever wrote the file.
        owner = os.fstat(file.fileno()).st_uid
        if owner not in (os.geteuid(), 0):
            raise InvalidArgument(
                f"{path} belongs to user {owner}; expected {os.geteuid()}: give {_SETTING} a folder of your own"
            )
        saved = torch.load(file, map_location="cpu", weights_only=False)
    if not isinstance(saved, dict) or saved.get("format") != _FORMAT:
        raise InvalidArgument(
            f"{path} is no commit of this version of Rueda; remove it, or give {_SETTING} another folder"
        )
    return saved["number"], saved["content"]


def remove(where: pathlib.Path) -> None:
    """Removes the commit, so that the next job starts from the beginning. Call it when the job has succeeded."""
    (where / _FILE).unlink(missing_ok=True)
