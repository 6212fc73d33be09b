# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The module ``horovod.common.exceptions``, with the names that programs for PyTorch import from it."""

from rueda.errors import HorovodInternalError
from rueda.torch.elastic.exceptions import HostsUpdatedInterrupt

__all__ = ["HorovodInternalError", "HorovodVersionMismatchError", "HostsUpdatedInterrupt"]


class HorovodVersionMismatchError(ImportError):
    """Horovod raises this error if Horovod was built for another version of a framework. Rueda never raises it, because
    Rueda is not built for a particular version.
    """
