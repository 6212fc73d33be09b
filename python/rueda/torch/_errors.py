# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Errors that can be caught as two things: as Rueda's error, and as the error that Horovod raises in that place."""

from __future__ import annotations

from rueda import errors
from rueda.errors import HorovodInternalError


class Refused(errors.InvalidArgument, HorovodInternalError):
    """An operation that was started but that cannot be done: a rank is in join(), the tensor has no dimensions, or the root is no
    member.
    """


class NotInitialized(errors.NotInitialized, HorovodInternalError):
    """An operation before init(), after shutdown(), or in a forked process. Functions that return numbers, such as rank(), raise a
    plain rueda.NotInitialized, which is a ValueError only.
    """
