# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Finds and opens the checkpoints of a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rueda import _native
from rueda.errors import InvalidArgument
from rueda.training import _trees

#: The key under which a checkpoint stores the description of its state, as one of its values.
STRUCTURE = "python.structure"


class Candidates:
    """The checkpoints that rank 0 finds in a folder, and the reasons why some of them are left out."""

    def __init__(self, folder: str, warn: Callable[[str], None]) -> None:
        self._folder = folder
        self._warn = warn
        self._damaged: list[str] = []

    def find(self, which: str, better: str) -> list[str]:
        """Returns the names of the complete checkpoints, in the order in which they should be tried."""
        listing = json.loads(_native.checkpoint_list(os.fsencode(self._folder)))
        for reason in listing["damaged"]:
            self.leave_out(reason)
        found = listing["complete"]
        if which == "best":
            measured = [each for each in found if each["metric"] is not None]
            if found and not measured:
                raise InvalidArgument(
                    f"checkpoints in {self._folder}: none has a metric, so none is the best; give a metric when you save, "
                    "or restore the newest"
                )
            found = sorted(measured, key=lambda each: each["metric"], reverse=better == "higher")
        return [each["name"] for each in found]

    def leave_out(self, reason: str) -> None:
        """Remembers that a checkpoint is damaged, and warns."""
        self._damaged.append(reason)
        self._warn(f"{reason}. This checkpoint is left out, and the one before it is used")

    def raise_if_all_are_damaged(self) -> None:
        """Raises InvalidArgument if damaged checkpoints were found. Call it if no checkpoint could be restored. If the
        training then began from the start without an error, nobody would notice the loss.
        """
        if self._damaged:
            raise InvalidArgument(
                f"no checkpoint in {self._folder} can be read; remove the folder to train from the beginning: "
                f"{'; '.join(self._damaged)}"
            )


class Opened(NamedTuple):
    """An opened checkpoint. Only its headers were read. ``entry`` describes the checkpoint, and ``structure`` describes
    its state. ``state`` has new tensors into which the tensors of the state will be read.
    """

    checkpoint: object
    entry: dict[str, Any]
    structure: Any
    state: dict[str, Any]


def open_checkpoint(path: bytes) -> Opened:
    """Opens one checkpoint.

    Raises:
        InvalidArgument: the checkpoint is damaged.
        ResourceExhausted: memory or file descriptors are used up. The checkpoint may be undamaged.
    """
    checkpoint = _native.checkpoint_open(path)
    entry = json.loads(_native.checkpoint_describe(checkpoint))
    try:
        structure = structure_of(entry)
        state = new_tensors(entry["state"], structure)
        # put_together() raises an error if the description does not fit the tensors. Its result is not needed here.
        _trees.put_together(structure, state.__getitem__)
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise InvalidArgument(
            f"checkpoint {os.fsdecode(path)}: the description of its state is damaged: {type(error).__name__}: {error}"
        ) from error
    return Opened(checkpoint, entry, structure, state)


def structure_of(entry: Mapping[str, Any]) -> Any:
    """Returns the description of a checkpoint's state. The checkpoint of a C++ program has no description, and its
    state is a dict of arrays.
    """
    text = entry["values"].get(STRUCTURE)
    if text is None:
        return {"dict": [[name, {"tensor": name, "kind": "numpy"}] for name, _, _ in entry["state"]]}
    return _trees.from_text(text)


def new_tensors(forms: list[tuple[str, int, list[int]]], structure: Any) -> dict[str, Any]:
    """Makes tensors for a state. Their elements are not initialised. ``forms`` has their names, dtypes and shapes."""
    kinds = _trees.kinds_in(structure)
    return {name: _trees.new_tensor(kinds.get(name, "numpy"), dtype, shape) for name, dtype, shape in forms}
