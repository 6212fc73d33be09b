# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Divides a nested state, such as an optimizer's state_dict(), into named tensors and a text, and puts it together
again. So the state can be stored in a safetensors file. In contrast to a pickle, such a file cannot run code when it is
read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rueda._native import TensorView
from rueda._tensors import Tensor, has_buffer, numpy, numpy_dtype
from rueda.errors import InvalidArgument
from rueda.types import DType


def torch_if_loaded() -> Any:
    """Returns the module torch if the program has imported it, otherwise None."""
    return sys.modules.get("torch")


def is_torch(value: object) -> bool:
    """Returns True for a tensor of PyTorch."""
    torch = torch_if_loaded()
    return torch is not None and isinstance(value, torch.Tensor)


def is_array(value: object) -> bool:
    """Returns True for an array of NumPy."""
    np = sys.modules.get("numpy")
    return np is not None and isinstance(value, np.ndarray)


def state_of(value: Any) -> Any:
    """Returns the state of an object that has state_dict(), otherwise the value itself."""
    return value.state_dict() if hasattr(value, "state_dict") else value


def divide(value: Any, prefix: str) -> tuple[list[tuple[str, Tensor]], Any]:
    """Returns the tensors of a nested value, with their names, and a description of the rest as JSON.

    Raises: TypeError: the value contains something that cannot be saved. The message says where in the value this is.
    """
    tensors: list[tuple[str, Tensor]] = []
    names: set[str] = set()

    def take(tensor: Tensor, name: str, kind: str) -> dict[str, str]:
        while name in names:  # for example, {"a.b": x, "a": {"b": y}} has two tensors with the name a.b
            name += "_"
        names.add(name)
        tensors.append((name, tensor))
        return {"tensor": name, "kind": kind}

    def describe(value: Any, name: str) -> Any:
        value = state_of(value)
        if value is None or isinstance(value, str | bool | int) or type(value) is float:
            return value
        if is_torch(value):
            return take(value, name, "torch")
        if is_array(value):
            return take(value, name, "numpy")
        if isinstance(value, Mapping):
            return {"dict": [[describe(key, name), describe(each, join(name, key))] for key, each in value.items()]}
        if isinstance(value, tuple):
            return {"tuple": [describe(each, join(name, index)) for index, each in enumerate(value)]}
        if isinstance(value, list):
            return [describe(each, join(name, index)) for index, each in enumerate(value)]
        if hasattr(value, "item") and getattr(value, "shape", None) == ():
            return describe(value.item(), name)  # a scalar of NumPy
        if has_buffer(value):
            return take(numpy().asarray(memoryview(value)), name, "numpy")
        raise TypeError(
            f"checkpoint: '{name}' is of the type {type(value).__name__}; expected a tensor, a number, a text, a dict, a "
            "list, a tuple, or an object with state_dict() and load_state_dict()"
        )

    def join(name: str, key: object) -> str:
        return f"{name}.{key}" if name else str(key)

    return tensors, describe(value, prefix)


def put_together(description: Any, tensor: Callable[[str], Tensor]) -> Any:
    """Rebuilds the value from its description. ``tensor`` is a function that returns the tensor with the given name."""
    if isinstance(description, list):
        return [put_together(each, tensor) for each in description]
    if not isinstance(description, dict):
        return description
    if "tensor" in description:
        return tensor(description["tensor"])
    if "tuple" in description:
        return tuple(put_together(each, tensor) for each in description["tuple"])
    return {put_together(key, tensor): put_together(each, tensor) for key, each in description["dict"]}


def kinds_in(description: Any) -> dict[str, str]:
    """Returns the name of each tensor in a description, with the library that it belongs to: "torch" or "numpy"."""
    if isinstance(description, list):
        parts = description
    elif not isinstance(description, dict):
        parts = []
    elif "tensor" in description:
        return {description["tensor"]: description["kind"]}
    else:
        parts = description.get("tuple") or [each for _, each in description.get("dict", ())]
    found: dict[str, str] = {}
    for part in parts:
        found.update(kinds_in(part))
    return found


def to_text(description: Any) -> str:
    """Returns the description as one text."""
    return json.dumps(description, separators=(",", ":"))


def from_text(text: str) -> Any:
    """Returns the description that to_text() turned into a text."""
    return json.loads(text)


def new_tensor(kind: str, dtype: int, shape: list[int]) -> Tensor:
    """Makes a tensor in the CPU's memory. Its elements are not initialised."""
    if kind == "torch":
        import torch

        return torch.empty(shape, dtype=getattr(torch, DType(dtype).name), device="cpu")
    return numpy().empty(shape, numpy_dtype(dtype))


def dtype_of(tensor: Tensor) -> DType:
    """Returns the dtype of a tensor."""
    return DType[_dtype_name(tensor)]


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).rpartition(".")[2]  # PyTorch says "torch.float32", and NumPy says "float32"


def check_dtype(name: str, tensor: Tensor) -> None:
    """Checks that a file can hold the tensor.

    Raises:
        TypeError: the tensor has a dtype that Rueda does not have, or is a DTensor. The message contains the tensor's
            name.
    """
    _refuse_divided(name, tensor)
    if _dtype_name(tensor) not in DType.__members__:
        raise TypeError(
            f"checkpoint: '{name}' has the dtype {_dtype_name(tensor)}; Rueda takes {', '.join(DType.__members__)}"
        )


def _refuse_divided(name: str, tensor: object) -> None:
    """Refuses a DTensor of PyTorch, for example a parameter of FSDP2. This rank has only a part of the DTensor's
    values, and operations on a DTensor communicate.
    """
    if hasattr(tensor, "to_local"):
        raise TypeError(
            f"checkpoint: '{name}' is a DTensor, and this rank has only a part of it; pass a TensorPart of "
            "tensor.to_local() to save_parts() and restore_parts(), as docs/checkpoints.md shows for FSDP2"
        )


def view_of(tensor: Tensor) -> Tensor:
    """Returns an object through which Rueda can use a contiguous tensor in the CPU's memory. For a NumPy array this is
    the array itself. For a tensor of PyTorch it is a TensorView, because DLPack in PyTorch 1.13 does not support bool.
    """
    if not is_torch(tensor):
        return tensor
    return TensorView(tensor.data_ptr(), tuple(tensor.shape), dtype_of(tensor), tensor, True)


def views_of(tensors: Iterable[tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
    """Applies view_of() to each tensor, and keeps the names."""
    return [(name, view_of(tensor)) for name, tensor in tensors]


def host_memory_of(tensor: Tensor) -> Tensor:
    """Returns a contiguous tensor in the CPU's memory, of the same shape and dtype. This is the given tensor itself if
    its memory is contiguous, writable and of the CPU. Otherwise it is a new tensor, whose elements are not initialised.
    """
    if is_torch(tensor):
        tensor = tensor.detach()
        is_plain = tensor.device.type == "cpu" and tensor.is_contiguous()
        return tensor if is_plain else torch_if_loaded().empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    is_plain = tensor.flags.c_contiguous and tensor.flags.writeable
    return tensor if is_plain else numpy().empty(tensor.shape, tensor.dtype)


def copy_into(target: Tensor, source: Tensor) -> None:
    """Copies the elements of `source` into `target`. Does nothing if both have the same memory. Both tensors must have
    the same shape and dtype, and belong to the same library (PyTorch or NumPy).
    """
    if is_torch(target):
        if target.data_ptr() != source.data_ptr():
            with torch_if_loaded().no_grad():
                target.copy_(source)
    elif target is not source:
        numpy().copyto(target, source)


class Copies:
    """Copies of tensors in the CPU's memory. The memory is kept between checkpoints, because getting new pages from the
    kernel takes longer than the copy. Threads: one thread at a time.
    """

    def __init__(self) -> None:
        self._memory: dict[tuple[str, str], Tensor] = {}

    def copy(self, group: str, tensors: list[tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
        """Returns copies of the tensors, with the tensors' names. The copies are valid until the next call with the
        same ``group``.
        """
        copies = []
        for name, tensor in tensors:
            memory = self._memory.get((group, name))
            if memory is None or not _have_same_form(memory, tensor):
                memory = _memory_for_copy(tensor)
                self._memory[group, name] = memory
            copy_into(memory, tensor)
            copies.append((name, memory))
        return copies


def _have_same_form(one: Tensor, other: Tensor) -> bool:
    same_library = is_torch(one) == is_torch(other)
    return same_library and bool(one.shape == other.shape) and bool(one.dtype == other.dtype)


def _memory_for_copy(tensor: Tensor) -> Tensor:
    if is_torch(tensor):
        try:
            return torch_if_loaded().empty(tensor.shape, dtype=tensor.dtype, device="cpu")
        except RuntimeError as error:  # PyTorch has no separate exception for a lack of memory
            raise MemoryError(str(error)) from error
    return numpy().empty(tensor.shape, tensor.dtype)


def model_tensors(model: Any) -> list[tuple[str, Tensor]]:
    """Returns the tensors of a model, with their names. The model is a dict of tensors, or an object with state_dict().

    Raises:
        TypeError: a value is no tensor, or is a DTensor.
    """
    state = state_of(model)
    if not isinstance(state, Mapping):
        raise TypeError(
            f"checkpoint: the model is of the type {type(model).__name__}; expected a dict of tensors, or an object with "
            "state_dict()"
        )
    for name, tensor in state.items():
        if not isinstance(name, str) or not (is_torch(tensor) or is_array(tensor)):
            raise TypeError(
                f"checkpoint: '{name}' in the model is of the type {type(tensor).__name__}; expected a PyTorch tensor or a "
                "NumPy array. Other values belong into the state"
            )
        _refuse_divided(name, tensor)
    return list(state.items())


def check_targets(state: Mapping[str, Any]) -> None:
    """Checks that a restore can write into each value of ``state``.

    Raises:
        InvalidArgument: a value is neither a tensor nor a dict nor an object with load_state_dict(). The message
            contains the key of this value.
    """
    for key, target in state.items():
        if not (hasattr(target, "load_state_dict") or is_torch(target) or is_array(target) or isinstance(target, dict)):
            raise InvalidArgument(
                f"checkpoint: the state '{key}' is of the type {type(target).__name__}, which cannot take a restored value; "
                "expected an object with load_state_dict(), a tensor or a dict"
            )


def put_into_state(state: Mapping[str, Any], loaded: Mapping[str, Any]) -> None:
    """Gives each object of ``state`` the value that was loaded under its key. check_targets() must have succeeded.

    Raises:
        InvalidArgument: an object has no value in the checkpoint, or a tensor has another shape or dtype there.
    """
    for key, target in state.items():
        if key not in loaded:
            known = ", ".join(f"'{each}'" for each in loaded) or "none"
            raise InvalidArgument(f"checkpoint: the state '{key}' is not in it; it has {known}")
        value = loaded[key]
        if hasattr(target, "load_state_dict"):
            target.load_state_dict(value)
        elif isinstance(target, dict):
            target.clear()
            target.update(value)
        else:
            _put_into_tensor(key, target, value)


def _put_into_tensor(key: str, target: Tensor, value: Any) -> None:
    torch = torch_if_loaded()
    if is_torch(target) and is_array(value):
        value = torch.from_numpy(value)
    elif is_array(target) and is_torch(value):
        value = value.numpy()
    found = f"{value.dtype} {list(value.shape)}" if hasattr(value, "dtype") else f"of the type {type(value).__name__}"
    wanted = f"{target.dtype} {list(target.shape)}"
    if found != wanted:
        raise InvalidArgument(f"checkpoint: the state '{key}' is {found} in it and {wanted} in this program")
    if is_torch(target):
        with torch.no_grad():
            target.copy_(value)
    else:
        numpy().copyto(target, value)
