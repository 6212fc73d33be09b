# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The package ``horovod``, with the names that programs for PyTorch import from it."""

from __future__ import annotations

from typing import NoReturn

#: The version of Horovod whose interface this package has. Some scripts check this version.
__version__ = "0.28.1"

#: The error message for horovod.run and its module, horovod.runner.
NO_RUN = (
    "Rueda stands for Horovod here, and has no horovod.run() in this version; it is planned for a later one. Put the function into a "
    "script and start it with `ruedarun -np N python script.py`: a result of every rank can be collected with "
    "hvd.allgather_object()"
)


def __getattr__(name: str) -> NoReturn:
    if name == "run":
        raise AttributeError(NO_RUN)
    raise AttributeError(f"module 'horovod' has no attribute {name!r}")
