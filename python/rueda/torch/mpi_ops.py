# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
# ruff: noqa: F401, F403
"""Offers the operations under Horovod's module name. Rueda itself imports them from operations/."""

from rueda.torch import *
from rueda.torch._basics import is_homogeneous
from rueda.torch.operations.allgather import HorovodAllgather, HorovodGroupedAllgather
from rueda.torch.operations.allreduce import HorovodAllreduce, HorovodGroupedAllreduce
from rueda.torch.operations.alltoall import HorovodAlltoall
from rueda.torch.operations.broadcast import HorovodBroadcast
from rueda.torch.operations.handles import _handle_map
from rueda.torch.operations.reducescatter import HorovodGroupedReducescatter, HorovodReducescatter
