# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The exceptions of Rueda. Each class has a ``code``, the status of the C interface (``rueda_status`` in rueda.h)."""

from __future__ import annotations


class RuedaError(Exception):
    """The base of all errors of Rueda. The message names the thing, what was found, what was expected, and what to do."""

    code = 9


class InvalidArgument(RuedaError, ValueError):
    """An argument that cannot be used.

    If this rank alone can see the mistake, the call raises at once and sends nothing to other ranks. If the ranks agree on
    something that cannot be done, such as an allgather of a scalar, it is raised on all of them after all have called.
    """

    code = 1


class DuplicateName(RuedaError, ValueError):
    """An operation of this name is pending on this rank: wait for it, or use another name."""

    code = 2


class NotInitialized(RuedaError, ValueError):
    """Called before ``rueda.init()``, after ``rueda.shutdown()``, or in a process forked after ``init()``."""

    code = 3


class HorovodInternalError(RuedaError, RuntimeError):
    """The base of errors of operations that were started. The name is Horovod's."""


class Mismatch(HorovodInternalError):
    """The ranks disagree on shape, dtype, operation, root or factors. All of them get this error, which names ranks and values."""

    code = 4


class Aborted(HorovodInternalError):
    """The job has ended: a rank died or gave up. The message says which rank, and how it ended if that is known."""

    code = 5


class Timeout(HorovodInternalError, TimeoutError):
    """A wait took longer than its timeout. The operation goes on, and still uses its tensors."""

    code = 6


class ResourceExhausted(HorovodInternalError):
    """There is not enough memory, or no place for another tensor. Rueda reports it before the system's limit is reached."""

    code = 7


class Unsupported(HorovodInternalError):
    """This version cannot do it."""

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
