# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The module ``horovod.common.elastic``, with the names that programs for PyTorch import from it."""

from rueda.torch.elastic.loop import run_fn
from rueda.torch.elastic.state import ObjectState, State

__all__ = ["ObjectState", "State", "run_fn"]
