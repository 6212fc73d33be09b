# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""NumPy arrays in resident memory, which all ranks of a host share."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rueda import _native
from rueda._tensors import array_over, numpy
from rueda.errors import InvalidArgument

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray


def empty(shape: int | tuple[int, ...], dtype: DTypeLike = "float32") -> NDArray[Any]:
    """Returns an array of zeros in memory that all ranks of the host share. The ranks work on this memory in place,
    without copies.

    Args:
        shape: the extents of the array.
        dtype: any NumPy dtype without Python objects; operations take the dtypes of ``rueda.DType``.

    Returns:
        A C-contiguous array, aligned to 64 bytes, or to a page if it has 64 KiB or more. The memory is freed with the
        last array that uses it. The array may be used after shutdown(), but not in a forked child.

    Raises:
        NotInitialized: before init().
        ResourceExhausted: the array would exceed a memory limit; the message says which.

    Threads: any thread may call this function.

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
