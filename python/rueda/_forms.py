# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Makes the blocking form of an operation from the form that returns a handle.

Type checkers see the parameters of the asynchronous form (ParamSpec); ``help()`` and ``inspect.signature()`` do, too.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias

from rueda._native import Handle, check_may_wait

P = ParamSpec("P")
if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import TypeVar

    Array: TypeAlias = NDArray[Any]
    #: The result of an operation: what the caller gives as ``out``, else a new array.
    Result = TypeVar("Result", default=Array)


def blocking_form_of(start: Callable[P, Handle[Result]]) -> Callable[[Callable[[], None]], Callable[P, Result]]:
    """Decorates a function without a body, which gives the name and the documentation.

    The decorated function calls ``start`` with its arguments, waits for the handle, and returns the result. It raises
    InvalidArgument in a completion callback, where nothing may wait; then it starts nothing.
    """

    def decorate(documented: Callable[[], None]) -> Callable[P, Result]:
        @functools.wraps(documented)
        def blocking(*args: P.args, **kwargs: P.kwargs) -> Result:
            check_may_wait()
            return start(*args, **kwargs).result()

        signature = inspect.signature(start)
        result = str(signature.return_annotation).removeprefix("Handle[").removesuffix("]")
        blocking.__signature__ = signature.replace(return_annotation=result)  # type: ignore[attr-defined]
        return blocking

    return decorate
