# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The exceptions of Rueda. Each class has a ``code``, the status of the C interface (``rueda_status`` in rueda.h)."""

from __future__ import annotations


class RuedaError(Exception):
    """Base of all errors of Rueda. The message names the thing, what was found, what was expected, and what to do."""

    code = 9


class InvalidArgument(RuedaError, ValueError):
    """An argument that cannot be used.

    What this rank alone can see is refused at once, and nothing was sent to other ranks. What no rank can do, as an
    allgather of a scalar, is refused on all of them when all have come.
    """

    code = 1


class DuplicateName(RuedaError, ValueError):
    """An operation of this name is pending on this rank: wait for it, or give another name."""

    code = 2


class NotInitialized(RuedaError, ValueError):
    """Called before ``rueda.init()``, after ``rueda.shutdown()``, or in a process forked after ``init()``."""

    code = 3


class HorovodInternalError(RuedaError, RuntimeError):
    """Base of what can go wrong in an operation that was started; the name is Horovod's."""


class Mismatch(HorovodInternalError):
    """The ranks disagree on shape, dtype, operation, root or factors; all of them get this error, naming rank and value."""

    code = 4


class Aborted(HorovodInternalError):
    """The job is over: a rank has died or given up. The message says which, and how where that is known."""

    code = 5


class Timeout(HorovodInternalError, TimeoutError):
    """A wait's time has passed. The operation goes on, and still uses its tensors."""

    code = 6


class ResourceExhausted(HorovodInternalError):
    """Not enough memory, or no place for another tensor; said before any limit of the system is hit."""

    code = 7


class Unsupported(HorovodInternalError):
    """Something this version does not do."""

    code = 8


class Internal(HorovodInternalError):
    """A bug in Rueda: please report it with the message."""

    code = 9


# In the order of their codes, from 1.
BY_CODE = (
    InvalidArgument,
    DuplicateName,
    NotInitialized,
    Mismatch,
    Aborted,
    Timeout,
    ResourceExhausted,
    Unsupported,
    Internal,
)
