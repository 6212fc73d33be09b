# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Resident memory for NumPy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rueda import _native
from rueda._tensors import array_over, numpy
from rueda.errors import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


def empty(shape: int | tuple[int, ...], dtype: DTypeLike = "float32") -> NDArray[Any]:
    """An array in resident memory, of zeros: the ranks of a host work on it in place, and nothing is copied.

    Args:
        shape: its extents.
        dtype: any NumPy dtype without Python objects; operations take those of ``rueda.DType``.

    Returns:
        A C-contiguous array, aligned to 64 bytes (to a page from 64 KiB on). The memory is given back with the last
        array that views it, and may outlive shutdown(). A forked child must not touch it.

    Raises:
        NotInitialized: before init().
        ResourceExhausted: a limit of memory would be passed; the message says which.

    Threads: any.

    Example::

        gradient = rueda.empty((1000, 1000), "float32")
        rueda.allreduce_(gradient, "gradient")
    """
    np = numpy()
    kind = np.dtype(dtype)
    if kind.hasobject:
        raise InvalidArgument(f"dtype {kind} holds Python objects, which other processes cannot use")
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(extent < 0 for extent in extents):
        raise InvalidArgument(f"the shape is {extents}; extents must not be negative")
    return array_over(_native.allocate(math.prod(extents) * kind.itemsize), extents, kind)
