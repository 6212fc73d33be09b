# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Slots: pieces of shared memory that hold one batch each.

A worker creates each slot as a memfd and sends its descriptor to the consumer, the process that takes the batches. So
no file with a name can be left behind, and the size of /dev/shm is no limit. The kernel frees a slot when no process
maps it any more.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from rueda.errors import InvalidArgument, ResourceExhausted

#: Arrays begin at multiples of this number, as in the batches of the C++ pipeline. It is the size of a cache line and
#: of the widest vector.
_ALIGNMENT = 64
#: The size of a large slot is a multiple of this number, the size of a huge page of x86-64. With huge pages, there
#: are fewer page faults.
_HUGE_PAGE = 2 << 20


def _aligned(number: int, step: int = _ALIGNMENT) -> int:
    return -(-number // step) * step


def _address_of(memory: mmap.mmap) -> int:
    address: int = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
    return address


class Slot:
    """A slot in the worker, which creates and fills it."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.capacity = _aligned(max(size, 1), _HUGE_PAGE if size >= _HUGE_PAGE else mmap.PAGESIZE)
        self.descriptor: int | None = os.memfd_create("rueda-batch", os.MFD_CLOEXEC)  # None: the consumer has it
        os.ftruncate(self.descriptor, self.capacity)
        self.memory = mmap.mmap(self.descriptor, self.capacity)
        _prefer_huge_pages(self.memory)
        self.address = _address_of(self.memory)

    def close_descriptor(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def array(self, shape: Any, dtype: np.dtype[Any], offset: int) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = np.ndarray(shape, dtype, self.memory, offset)
        return array

    def offset_of(self, array: npt.NDArray[Any]) -> int | None:
        """Returns the offset of the array in this slot. Returns None if the array does not lie in this slot or is not
        contiguous.
        """
        offset: int = array.__array_interface__["data"][0] - self.address
        inside = offset >= 0 and offset + array.nbytes <= self.capacity
        return offset if inside and array.flags.c_contiguous else None


def _prefer_huge_pages(memory: mmap.mmap) -> None:
    # If the system has no huge pages for shared memory, the slot has small pages.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        memory.madvise(mmap.MADV_HUGEPAGE)


class Packer:
    """Writes batches into slots, in the worker. When the consumer has released a slot, the slot is free again."""

    def __init__(self) -> None:
        self._free: list[Slot] = []
        self._handed_over: dict[int, Slot] = {}
        self._next_number = 0
        self._usual_size = 0  # the bytes of the largest batch so far
        self._open: Slot | None = None  # the slot of the next batch, if empty() was called for this batch
        self._used = 0  # the bytes of `_open` in which arrays of empty() lie

    def empty(self, shape: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Returns an array in the slot of the next batch. If the array does not fit into the slot, it is in private
        memory.
        """
        kind = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        if self._open is None:
            self._open, self._used = self._free_slot(max(size, self._usual_size)), 0
        if kind.hasobject or self._used + size > self._open.capacity:
            return np.empty(shape, kind)
        array = self._open.array(shape, kind, self._used)
        self._used += _aligned(size)
        return array

    def pack(self, batch: Mapping[str, npt.ArrayLike]) -> tuple[Slot, int, int]:
        """Writes a batch into a slot. Returns the slot, and the offset and length of the description of the arrays.
        Arrays that lie in the slot already (from empty()) are not copied.
        """
        arrays = {name: _array_of(name, value) for name, value in batch.items()}
        slot, used, places = self._open, self._used, self._places(arrays, self._open)
        needed = used + sum(_aligned(arrays[name].nbytes) for name in arrays if name not in places)
        description = _describe(arrays, places, used)
        needed += len(description)
        if slot is None or needed > slot.capacity:
            used, places = 0, {}
            description = _describe(arrays, places, used)
            needed = sum(_aligned(array.nbytes) for array in arrays.values()) + len(description)
            slot = self._free_slot(needed)
        self._usual_size = max(self._usual_size, needed)
        for name, array in arrays.items():
            if name not in places:
                np.copyto(slot.array(array.shape, array.dtype, used), array, casting="no")
                used += _aligned(array.nbytes)
        slot.memory[used : used + len(description)] = description
        if self._open is not None and self._open is not slot:
            self._free.append(self._open)
        self._open = None
        self._handed_over[slot.number] = slot
        return slot, used, len(description)

    @staticmethod
    def _places(arrays: Mapping[str, npt.NDArray[Any]], slot: Slot | None) -> dict[str, int]:
        places: dict[str, int] = {}
        if slot is not None:
            for name, array in arrays.items():
                place = slot.offset_of(array)
                if place is not None:
                    places[name] = place
        return places

    def _free_slot(self, size: int) -> Slot:
        for index, slot in enumerate(self._free):
            if slot.capacity >= size:
                return self._free.pop(index)
        self._next_number += 1
        return Slot(self._next_number - 1, size)

    def release(self, number: int, keep: int) -> list[int]:
        """Takes a slot back that the consumer has released. Keeps at most `keep` free slots, and none that is too small
        for the batches. Returns the numbers of the slots that it does not keep.
        """
        self._free.append(self._handed_over.pop(number))
        too_small = [slot for slot in self._free if slot.capacity < self._usual_size]
        useful = [slot for slot in self._free if slot.capacity >= self._usual_size]
        self._free, given_up = useful[:keep], too_small + useful[keep:]
        for slot in given_up:
            slot.close_descriptor()
        return [slot.number for slot in given_up]


def _array_of(name: object, value: npt.ArrayLike) -> npt.NDArray[Any]:
    if not isinstance(name, str):
        raise InvalidArgument(f"a batch has the key {name!r}; expected texts as keys")
    array = np.asarray(value)
    if array.dtype.hasobject or np.dtype(array.dtype.str) != array.dtype:
        raise InvalidArgument(
            f"handing over the array '{name}' of a batch: its dtype is {array.dtype}; expected numbers, booleans, dates or "
            "texts of fixed size; convert it, or take another view of it (array.view)"
        )
    return array


def _describe(arrays: Mapping[str, npt.NDArray[Any]], places: Mapping[str, int], used: int) -> bytes:
    entries = []
    for name, array in arrays.items():
        place = places.get(name)
        if place is None:
            place, used = used, used + _aligned(array.nbytes)
        entries.append([name, array.dtype.str, array.shape, place])
    return json.dumps(entries).encode()


class Releases(Protocol):
    """An object that is told the number of a slot when the slot's arrays have died."""

    def release(self, slot: int) -> None: ...


class MappedSlot:
    """A slot in the consumer, which maps the worker's memory."""

    def __init__(self, number: int, descriptor: int, capacity: int) -> None:
        self.number = number
        try:
            # The pages exist already. Mapping all of them at once is cheaper than a page fault for each page.
            flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
            self.memory = mmap.mmap(descriptor, capacity, flags)
        except OSError as error:
            raise ResourceExhausted(f"mapping {capacity} bytes of a data worker's batch failed: {error}") from error
        finally:
            os.close(descriptor)
        self.address = _address_of(self.memory)

    def views(self, place: int, length: int, owner: Releases) -> dict[str, npt.NDArray[Any]]:
        """Returns the arrays of the batch in the slot, without a copy. When the last array dies, `owner.release()` is
        called.
        """
        whole = np.asarray(_Lease(self, owner))
        return {
            name: np.ndarray(tuple(shape), np.dtype(dtype), whole, offset)
            for name, dtype, shape, offset in json.loads(self.memory[place : place + length])
        }


class _Lease:
    """The base object of all arrays of one batch: each array keeps it alive. When it dies, it releases the slot."""

    __slots__ = ("__array_interface__", "_owner", "_process", "_slot")

    def __init__(self, slot: MappedSlot, owner: Releases) -> None:
        self._slot = slot
        self._owner = owner
        self._process = os.getpid()
        self.__array_interface__ = {
            "data": (slot.address, False),
            "shape": (len(slot.memory),),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        # A forked child has copies of the arrays. When the copies die, the consumer may still use its own arrays.
        if os.getpid() == self._process:
            self._owner.release(self._slot.number)
