# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Runs a command in namespaces of its own, so that all its processes, mounts, sockets and shared memory can be found."""

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
