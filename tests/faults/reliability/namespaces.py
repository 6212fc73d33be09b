# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs a command in namespaces of its own, so that all its processes, mounts, sockets and shared memory can be found."""

import contextlib
import os
import pathlib
import shutil
import subprocess

KINDS = ("--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc")


def command(words):
    """Returns a command line that runs `words` as the first process of new namespaces."""
    return ["unshare", *KINDS, *words]


def why_not():
    """Returns the reason why this machine cannot make such namespaces, or None."""
    for tool in ("unshare", "mount", "ip"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    tried = subprocess.run(command(["true"]), capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return None if tried.returncode == 0 else f"no namespaces can be made here: {tried.stderr.strip()}"


def within(folders, where):
    """Returns the folders that are below the folder `where`. Leaves out folders that are below another returned
    folder."""
    below = {path for path in map(pathlib.Path, folders) if pathlib.Path(where) in path.parents}
    return sorted(path for path in below if not below & set(path.parents))


def mount_over(where, words, kept):
    """Mounts something over the folder `where`, by the command `mount WORDS where`. The folders `kept` stay visible at
    their paths, so that a source or build folder below /tmp can still be used. Call this in new namespaces only."""
    with contextlib.ExitStack() as cleanups:
        opened = []
        for folder in within(kept, where):
            opened.append((os.open(folder, os.O_PATH | os.O_DIRECTORY), folder))
            cleanups.callback(os.close, opened[-1][0])
        subprocess.run(["mount", *words, where], check=True)
        for descriptor, folder in opened:
            folder.mkdir(parents=True)
            # The path now leads to the new mount. The descriptor still leads to the old folder.
            old = f"/proc/self/fd/{descriptor}"
            subprocess.run(["mount", "--no-canonicalize", "--rbind", old, folder], check=True, pass_fds=[descriptor])
