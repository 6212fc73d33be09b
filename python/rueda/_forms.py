# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Makes the blocking form of an operation from the form that returns a handle.

For a blocking form, ``help()``, ``inspect.signature()`` and type checkers (by ParamSpec) show the parameters of the
``_async`` form.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias

from rueda._native import Handle, start_to_wait

P = ParamSpec("P")
if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import TypeVar

    Array: TypeAlias = NDArray[Any]
    #: The type of an operation's result: the type of ``out`` if the caller passes it, otherwise a new array.
    Result = TypeVar("Result", default=Array)


def blocking_form_of(start: Callable[P, Handle[Result]]) -> Callable[[Callable[[], None]], Callable[P, Result]]:
    """Decorates a function that has only a name and a docstring.

    The decorated function calls ``start`` with its arguments, waits for the handle, and returns the result. In a
    completion callback it raises InvalidArgument and starts no operation, because a callback must not wait.
    """

    def decorate(documented: Callable[[], None]) -> Callable[P, Result]:
        @functools.wraps(documented)
        def blocking(*args: P.args, **kwargs: P.kwargs) -> Result:
            return start_to_wait(start, args, kwargs).result()

        signature = inspect.signature(start)
        result = str(signature.return_annotation).removeprefix("Handle[").removesuffix("]")
        blocking.__signature__ = signature.replace(return_annotation=result)  # type: ignore[attr-defined]
        return blocking

    return decorate
