# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""``horovod.common.elastic``."""

from rueda.torch.elastic.loop import run_fn
from rueda.torch.elastic.state import ObjectState, State

__all__ = ["ObjectState", "State", "run_fn"]
