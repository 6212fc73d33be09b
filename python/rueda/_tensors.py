# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Makes tensors from Python objects, and NumPy arrays from Rueda's memory. NumPy is imported when the first array is
made.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from rueda import _native
from rueda._gpu import current_stream, stream_for_dlpack, view_of_cuda_array
from rueda._native import Memory, TensorView
from rueda.errors import InvalidArgument, Unsupported
from rueda.types import DType

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[Any]

#: A NumPy array, a TensorView, or an object with the buffer protocol, DLPack or __cuda_array_interface__.
Tensor: TypeAlias = Any

_OF_ML_DTYPES = (DType.bfloat16, DType.float8_e4m3fn, DType.float8_e5m2)
_SUPPORTED = ", ".join(dtype.name for dtype in DType)


@functools.cache
def numpy() -> Any:
    """Returns the module NumPy. The first call imports it."""
    try:
        import numpy
    except ImportError as error:
        raise ImportError(
            "Rueda makes its results as NumPy arrays, and there is no NumPy: pip install numpy, "
            "or give the memory of the result (the forms ending in _, and out=)"
        ) from error
    return numpy


@functools.cache
def numpy_dtype(number: int) -> np.dtype[Any]:
    """Returns NumPy's type for a DType. The package ml_dtypes provides bfloat16 and the 8-bit floats."""
    name = DType(number).name
    if number not in _OF_ML_DTYPES:
        return numpy().dtype(name)  # type: ignore[no-any-return]
    try:
        import ml_dtypes
    except ImportError as error:
        raise Unsupported(
            f"NumPy has no {name}: pip install ml_dtypes, or give the memory of the result (the forms ending in _, and out=)"
        ) from error
    return numpy().dtype(getattr(ml_dtypes, name))  # type: ignore[no-any-return]


def adapt(tensor: Tensor, writable: bool) -> TensorView:
    """Makes a view of a tensor for which the buffer protocol is not enough, for example of a bfloat16 array. If no view
    can be made, raises an error that says why.
    """
    loaded = sys.modules.get("numpy")
    if loaded is not None and isinstance(tensor, loaded.ndarray | loaded.generic):
        return _view_of_array(tensor, writable)
    if hasattr(tensor, "__dlpack__"):
        return _view_of_dlpack(tensor, writable)
    if hasattr(tensor, "__cuda_array_interface__"):
        return view_of_cuda_array(tensor, writable)
    try:
        with memoryview(tensor) as view:
            problem = _problem_of_buffer(view, writable)
    except TypeError as error:
        raise TypeError(
            f"{type(tensor).__name__} is no tensor: expected a NumPy array, or an object with the buffer protocol, DLPack or "
            "__cuda_array_interface__"
        ) from error
    raise problem


def _problem_of_buffer(view: memoryview, writable: bool) -> Exception:
    if writable and view.readonly:
        return InvalidArgument("the buffer is read-only and cannot be an output; give one that can be written")
    if not view.c_contiguous:
        return InvalidArgument("the buffer's elements do not lie one after the other; give a contiguous one")
    return TypeError(f"the buffer's format is '{view.format}'; Rueda takes {_SUPPORTED}")


def _view_of_array(array: Any, writable: bool) -> TensorView:
    name = array.dtype.name
    if name not in DType.__members__ or not array.dtype.isnative:
        shown = name if array.dtype.isnative else f"{name} of another byte order"
        raise TypeError(f"the array's dtype is {shown}; Rueda takes {_SUPPORTED}")
    if writable and not array.flags.writeable:
        raise InvalidArgument(
            f"the array of shape {array.shape} is read-only and cannot be an output; give one that can be written"
        )
    if not array.flags.c_contiguous:
        if writable:
            raise InvalidArgument(
                f"the array of shape {array.shape} and strides {array.strides} is not C-contiguous and cannot be an "
                "output: its elements have to lie one after the other; use the form without _ or out="
            )
        array = numpy().ascontiguousarray(array)
    if not array.shape:
        # Converts a NumPy scalar to an array. The address of a scalar itself would belong to a temporary array.
        array = numpy().asarray(array)
    address = array.__array_interface__["data"][0]
    return TensorView(address, array.shape, DType[name], array, writable)


def _view_of_dlpack(tensor: Any, writable: bool) -> TensorView:
    # __dlpack__() makes this stream wait for the work that writes the tensor's memory. For memory of the CPU, `stream`
    # is None.
    stream = stream_for_dlpack(tensor)
    options = {} if stream is None else {"stream": stream}
    try:
        try:
            capsule = tensor.__dlpack__(max_version=(1, 1), **options)
        except TypeError:  # raised by a producer that only knows version 0 of DLPack
            capsule = tensor.__dlpack__(**options)
        view = _native.view_of_dlpack(capsule, 0 if stream is None else current_stream())
    except BufferError as error:
        raise InvalidArgument(str(error)) from error
    if writable and not view.writable:
        raise InvalidArgument("the tensor is read-only and cannot be an output; give one that can be written")
    return view


def has_buffer(candidate: object) -> bool:
    """Returns True if the object has the buffer protocol."""
    try:
        memoryview(candidate).release()  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def with_output(tensor: Tensor) -> tuple[Tensor, Array]:
    """Returns the tensor as an input, and a new array of its shape and dtype."""
    np = numpy()
    if isinstance(tensor, np.ndarray | np.generic):
        return tensor, np.empty(tensor.shape, tensor.dtype)
    if not isinstance(tensor, TensorView):
        if not hasattr(tensor, "__dlpack__") and has_buffer(tensor):
            array = np.asarray(memoryview(tensor))
            return array, np.empty(array.shape, array.dtype)
        tensor = adapt(tensor, False)
    if tensor.device >= 0:
        raise InvalidArgument(
            "the tensor is in the memory of a GPU, where Rueda allocates nothing: use the form whose name ends in _ (such as "
            "allreduce_), or give out="
        )
    return tensor, np.empty(tensor.shape, numpy_dtype(tensor.dtype))


def array_of(
    memory: Memory | None, shape: tuple[int, ...] | None, dtype: int | None, _splits: tuple[int, ...] | None = None
) -> Array:
    """Returns the output that Rueda allocated, as an array without a copy. The array keeps the memory alive."""
    assert memory is not None and shape is not None and dtype is not None
    return array_over(memory, shape, numpy_dtype(dtype))


def arrays_of(outputs: list[tuple[Memory, tuple[int, ...], int]]) -> list[Array]:
    """Returns the outputs that Rueda allocated for a group."""
    return [array_of(*output) for output in outputs]


def array_over(memory: Memory, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Returns Rueda's memory as an array of the given shape."""
    np = numpy()
    if math.prod(shape) == 0:
        return np.empty(shape, dtype)  # type: ignore[no-any-return]
    return np.frombuffer(memory, dtype).reshape(shape)  # type: ignore[no-any-return]


def with_received_splits(
    out: Tensor | None,
) -> Callable[[Memory | None, tuple[int, ...] | None, int | None, tuple[int, ...] | None], tuple[Any, Array]]:
    """Returns the function that makes the result of an alltoall: (output, number of rows from each rank)."""

    def finish(
        memory: Memory | None, shape: tuple[int, ...] | None, dtype: int | None, splits: tuple[int, ...] | None
    ) -> tuple[Any, Array]:
        output = array_of(memory, shape, dtype) if out is None else out
        np = numpy()
        return output, np.array(splits, np.int64)

    return finish
