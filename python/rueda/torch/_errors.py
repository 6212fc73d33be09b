# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Errors that are to be caught as two things: as what they are in Rueda, and as what Horovod raises in that place."""

from __future__ import annotations

from rueda import errors
from rueda.errors import HorovodInternalError


class Refused(errors.InvalidArgument, HorovodInternalError):
    """An operation that was started, and that no rank could do: with a rank in join(), of a tensor without dimensions, or with a root
    that is no member."""


class NotInitialized(errors.NotInitialized, HorovodInternalError):
    """An operation before init(), after shutdown(), or in a forked process. What asks for numbers, such as rank(), raises
    a plain rueda.NotInitialized, which is a ValueError only."""
