# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Keeps torch.compile out of this package. Otherwise torch.compile would follow calls from a compiled model into this
package, which contains nothing to compile.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch


def hide(package: str) -> None:
    """Marks all functions of the package's loaded modules. torch.compile calls a marked function without tracing it."""
    skip = _skipping()
    if skip is None:
        return
    for name, module in list(sys.modules.items()):
        if name == package or name.startswith(f"{package}."):
            for code in _codes_of(vars(module), package):
                skip(code)


def _skipping() -> Callable[[types.CodeType], object] | None:
    """Returns the function that marks a code object. Returns None if this PyTorch has no torch.compile (before 2.0)."""
    evaluation: Any = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    if hasattr(evaluation, "set_code_exec_strategy"):
        skipped = evaluation._FrameAction.SKIP
        return lambda code: evaluation.set_code_exec_strategy(code, evaluation._FrameExecStrategy(skipped, skipped))
    return getattr(evaluation, "skip_code", None)


def _codes_of(members: Any, package: str) -> Iterator[types.CodeType]:
    for member in list(members.values()):
        if isinstance(member, property):
            member = member.fget
        if isinstance(member, types.FunctionType) and member.__module__.startswith(package):
            yield from _and_within(member.__code__)
        elif isinstance(member, type) and member.__module__.startswith(package):
            yield from _codes_of(vars(member), package)


def _and_within(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _and_within(constant)
