# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The rules of the source tree, as functions from text to complaints."""

import os
import pathlib
import re

# A room may include itself, what stands here, and the public headers.
ROOMS = {
    "base": set(),
    "ops": {"base"},
    "collectives": {"base", "ops"},
    "core": {"base", "ops", "collectives"},
    "training": {"base", "ops", "collectives", "core"},
    "launcher": {"base"},
    "python": set(),
    "include": set(),
    "examples": set(),
}

# Inside a room: a folder, and the parts of the same room that stand above it.
UPPER_PARTS = {
    "collectives/host": {"collectives/hierarchical", "collectives/mpi"},
    "collectives/mpi": {"collectives/hierarchical", "collectives/host"},
    "core/negotiation": {"core/c_interface", "core/runtime", "core/operations", "core/fusion", "core/diagnostics"},
    "core/fusion": {"core/c_interface", "core/runtime", "core/operations", "core/diagnostics"},
    "core/diagnostics": {"core/c_interface", "core/runtime"},
    "core/runtime": {"core/c_interface"},
    "core/operations": {"core/c_interface"},
    "core/messages": {"core/c_interface"},
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
CODE = {".cpp", ".hpp", ".h", ".c", ".cu", ".cuh"}
SPDX_SUFFIXES = CODE | {".py", ".sh", ".cmake"}
SPDX = ("SPDX-License-Identifier: Apache-2.0", "SPDX-FileCopyrightText: ")


def files(root: pathlib.Path) -> list[pathlib.PurePosixPath]:
    """Files of the tree, relative to it; without hidden folders and build folders."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not re.match(r"^(\..*|build(-.*)?|__pycache__|digits-run)$", name)]
        found += [pathlib.PurePosixPath(pathlib.Path(folder, name).relative_to(root).as_posix()) for name in names]
    return sorted(found)


def include_complaints(path: pathlib.PurePosixPath, text: str, exists) -> list[str]:
    """What is wrong with the includes of one file; `exists` says whether a path of the tree is there."""
    room = path.parts[0]
    if room not in ROOMS:
        return []
    complaints = []
    for quote, name in INCLUDE.findall(text):
        target = pathlib.PurePosixPath(name)
        first = target.parts[0]
        beside = (path.parent / target).as_posix()
        if ".." in target.parts:
            complaints.append(f"{path} includes {name}: includes are written from the root of the tree")
        elif first == "rueda" and exists(f"include/{name}"):
            continue
        elif first in ROOMS and exists(name):
            if first != room and first not in ROOMS[room]:
                complaints.append(f"{path} includes {name}: {room} may use {allowed(room)}")
            part = "/".join(path.parts[:2])
            if any(name.startswith(f"{upper}/") for upper in UPPER_PARTS.get(part, ())):
                complaints.append(f"{path} includes {name}: it stands above {part}")
        elif quote == '"' and not (room == "examples" and exists(beside)):
            complaints.append(f'{path} includes "{name}": there is no such file; libraries are included with <>')
    return complaints


def allowed(room: str) -> str:
    return ", ".join([room, *sorted(ROOMS[room]), "rueda/"])


def has_spdx(text: str) -> bool:
    """Both lines stand at the top; a #! line or an opening of a comment may come first."""
    return all(any(line in head for head in text.splitlines()[:6]) for line in SPDX)


def needs_spdx(path: pathlib.PurePosixPath, first_line: str) -> bool:
    return path.suffix in SPDX_SUFFIXES or path.name == "CMakeLists.txt" or first_line.startswith("#!")
