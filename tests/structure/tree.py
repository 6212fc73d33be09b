# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The rules of the source tree. Each rule is a function that returns complaints about a text."""

import os
import pathlib
import re

# For each room (part of the source tree): the rooms that it may include, besides its own files and the public headers.
# A room inside another room has rules of its own.
ROOMS = {
    "base": set(),
    "ops": {"base"},
    "collectives": {"base", "ops"},
    "core": {"base", "ops", "collectives"},
    "training": {"base", "ops", "collectives", "core"},
    "data": {"base"},
    "data/c_interface": {"base", "collectives", "core", "data"},
    "launcher": {"base"},
    "python": set(),
    "include": set(),
    "examples": set(),
}

# For each room (part of the source tree): its folders. A folder may include files of the folders that come before it in
# this list. "" is the room's own folder.
LAYERS = {
    "base": [
        "",
        "safetensors",
        "security",
        "network",
        "settings",
        "shared_memory",
        "system",
        "gpus",
        "recorder",
        "stacks",
        "timeline",
    ],
    "collectives": [
        "",
        "host/arena",
        "host/sockets",
        "host/tasks",
        "host",
        "mpi",
        "cuda",
        "cuda/nccl",
        "cuda/memory",
        "cuda/order",
        "cuda/staged",
        "cuda/replicas",
        "cuda/ipc",
        "cuda/plugin",
        "tcp",
        "ucx",
        "hierarchical",
        "selection",
    ],
    "core": [
        "negotiation",
        "pending",
        "messages",
        "operations",
        "setup",
        "diagnostics/stacks",
        "diagnostics",
        "diagnostics/files",
        "recording",
        "metrics",
        "metrics/prometheus",
        "timeline",
        "hosts",
        "termination",
        "process_set/common",
        "process_set/batches",
        "process_set/announcing",
        "process_set/coordination",
        "process_set",
        "engine",
        "process_sets",
        "runtime",
        "c_interface",
    ],
    "training": ["", "checkpoints", "metrics", "optimizers", "replicas"],
    "data": ["", "sources", "formats", "pipeline", "terms"],
    "launcher": [
        "options",
        "processes",
        "jobs",
        "activity",
        "gpus",
        "hosts",
        "plan",
        "connection",
        "top/hosts",
        "top",
        "top/show",
        "stacks",
        "output",
        "watch",
        "supervisor",
        "doctor",
        "analyze",
        "timeline",
        "evaluate",
        "start",
        "elastic",
        "",
    ],
}
# Pairs of folders that must not include each other, although LAYERS would allow it.
STRANGERS = {("collectives/mpi", "collectives/host"), ("launcher/start", "launcher/doctor")}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
CODE = {".cpp", ".hpp", ".h", ".c", ".cu", ".cuh"}
SPDX_SUFFIXES = CODE | {".py", ".sh", ".cmake"}
SPDX = ("SPDX-License-Identifier: Apache-2.0", "SPDX-FileCopyrightText: 2026 The Rueda authors")


def files(root: pathlib.Path) -> list[pathlib.PurePosixPath]:
    """Returns all files with paths relative to `root`, without hidden folders and build folders."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not re.match(r"^(\..*|build(-.*)?|__pycache__|digits-run)$", name)]
        found += [pathlib.PurePosixPath(pathlib.Path(folder, name).relative_to(root).as_posix()) for name in names]
    return sorted(found)


def include_complaints(path: pathlib.PurePosixPath, text: str, exists) -> list[str]:
    """Returns complaints about a file's includes. `exists` tells whether the tree has a path."""
    room = room_of(path)
    if room not in ROOMS:
        return []
    complaints = []
    for quote, name in INCLUDE.findall(text):
        target = pathlib.PurePosixPath(name)
        other = room_of(target)
        beside = (path.parent / target).as_posix()
        if ".." in target.parts:
            complaints.append(f"{path} includes {name}: includes are written from the root of the tree")
        elif other == "rueda" and exists(f"include/{name}"):
            continue
        elif other in ROOMS and exists(name):
            if other != room and other not in ROOMS[room]:
                complaints.append(f"{path} includes {name}: {room} may use {allowed(room)}")
            elif other == room and not is_below(target.parent, path.parent):
                complaints.append(f"{path} includes {name}: {path.parent} may not use {target.parent}")
        elif quote == '"' and not (room == "examples" and exists(beside)):
            complaints.append(f'{path} includes "{name}": there is no such file; libraries are included with <>')
    return complaints


def room_of(path: pathlib.PurePosixPath) -> str:
    """Returns the innermost room that contains the path, or the path's first folder if no room does."""
    return next((str(folder) for folder in path.parents if str(folder) in ROOMS), path.parts[0])


def is_below(lower: pathlib.PurePosixPath, upper: pathlib.PurePosixPath) -> bool:
    """Returns whether files in the folder `upper` may include files in the folder `lower` of the same room."""
    room = room_of(upper / "file")
    if lower == upper or room not in LAYERS:
        return True
    if any(
        upper.as_posix().startswith(one) and lower.as_posix().startswith(other)
        for pair in STRANGERS
        for one, other in (pair, pair[::-1])
    ):
        return False
    below, above = (folder.relative_to(room).as_posix().replace(".", "") for folder in (lower, upper))
    return below in LAYERS[room] and above in LAYERS[room] and LAYERS[room].index(below) < LAYERS[room].index(above)


def allowed(room: str) -> str:
    return ", ".join([room, *sorted(ROOMS[room]), "rueda/"])


def has_spdx(text: str) -> bool:
    """Returns whether both SPDX lines are at the top of the file. A #! line, or the line that begins a comment, may
    come before them."""
    return all(any(head.rstrip(" */").endswith(line) for head in text.splitlines()[:6]) for line in SPDX)


def needs_spdx(path: pathlib.PurePosixPath, first_line: str) -> bool:
    return path.suffix in SPDX_SUFFIXES or path.name == "CMakeLists.txt" or first_line.startswith("#!")
