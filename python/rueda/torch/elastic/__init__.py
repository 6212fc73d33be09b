# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Elastic training, which continues after failures. The interface is that of ``horovod.torch.elastic``."""

from rueda.torch._basics import init, shutdown
from rueda.torch.elastic.exceptions import HostsUpdatedInterrupt
from rueda.torch.elastic.loop import run
from rueda.torch.elastic.sampler import ElasticSampler
from rueda.torch.elastic.state import ObjectState, State, TorchState

__all__ = [
    "ElasticSampler",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "TorchState",
    "init",
    "run",
    "shutdown",
]
