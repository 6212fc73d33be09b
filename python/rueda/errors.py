# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Rueda's exceptions. The ``code`` of each class is the status in the C interface (``rueda_status`` in rueda.h)."""

from __future__ import annotations


class RuedaError(Exception):
    """The base class of all errors of Rueda. The message says which object is wrong, what was found, what was expected,
    and what to do.
    """

    code = 9


class InvalidArgument(RuedaError, ValueError):
    """An argument cannot be used.

    If this rank can see the mistake without the other ranks, the call raises at once and sends nothing. In other cases
    the arguments of the ranks agree, but the operation cannot be done, for example an allgather of a scalar. In these
    cases all ranks raise the error, after all of them have made the call.
    """

    code = 1


class DuplicateName(RuedaError, ValueError):
    """An operation with this name is pending on this rank. Wait for it, or use another name."""

    code = 2


class NotInitialized(RuedaError, ValueError):
    """The function was called before ``rueda.init()``, after ``rueda.shutdown()``, or in a process that was forked
    after ``init()``.
    """

    code = 3


class HorovodInternalError(RuedaError, RuntimeError):
    """The base class of errors of operations that were started. Horovod has a class of the same name."""


class Mismatch(HorovodInternalError):
    """The ranks passed different shapes, dtypes, operations, roots or factors. All of them get this error, which names
    the ranks and the values.
    """

    code = 4


class Aborted(HorovodInternalError):
    """The job has ended because a rank died or called abort(). The message says which rank, and, if known, how that
    rank ended.
    """

    code = 5


class Timeout(HorovodInternalError, TimeoutError):
    """A wait took longer than its timeout. The operation is still pending, and still uses its tensors."""

    code = 6


class ResourceExhausted(HorovodInternalError):
    """There is not enough memory, or Rueda's limit for the number of tensors is reached. Rueda reports this before the
    system's own limit is reached.
    """

    code = 7


class Unsupported(HorovodInternalError):
    """This version of Rueda cannot do what the call asks for."""

    code = 8


class Internal(HorovodInternalError):
    """A bug in Rueda. Please report the bug with the message."""

    code = 9


# The exception classes, ordered by their status codes from 1 on.
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
