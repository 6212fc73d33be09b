# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Errors with two base classes. An ``except`` clause can catch them as Rueda's error, or as the error that Horovod
raises in the same case.
"""

from __future__ import annotations

from rueda import errors
from rueda.errors import HorovodInternalError


class Refused(errors.InvalidArgument, HorovodInternalError):
    """The operation was started but cannot be done. For example, a rank is in join(), the tensor has no dimensions, or
    the root is not a member.
    """


class NotInitialized(errors.NotInitialized, HorovodInternalError):
    """An operation was called before init(), after shutdown(), or in a forked process. (Functions that return numbers,
    such as rank(), raise rueda.NotInitialized, which is only a ValueError.)
    """
