# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Slots: pieces of shared memory that hold one batch each.

A worker makes its slots as memfds and sends their descriptors. So the slots have no names in a file system, nothing can
be left behind there, and the size of /dev/shm is no limit. The worker closes its descriptor after it was sent. The
consumer closes the received descriptor after it has mapped the slot. So a batch that the consumer keeps costs memory
and a mapping, but no descriptor. The kernel frees a slot when no process maps it any more.
"""

from __future__ import annotations

import json
import mmap
import os
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from rueda.data._mapping import Pin, SharedMapping
from rueda.errors import InvalidArgument, ResourceExhausted

#: Arrays begin at multiples of this number, as in the batches of the C++ pipeline. It is the size of a cache line and
#: of the widest vector.
_ALIGNMENT = 64
#: The size of a large slot is a multiple of this number, the size of a huge page of x86-64. With huge pages, there
#: are fewer page faults.
_HUGE_PAGE = 2 << 20
#: The usual size of a batch is the size of the largest batch among the last _RECENT batches.
_RECENT = 16
#: A slot is given up if it is this many times as large as the usual batch. Otherwise one very large batch would make
#: all slots large.
_TOO_LARGE = 4


def _aligned(number: int, step: int = _ALIGNMENT) -> int:
    return -(-number // step) * step


def _capacity_for(size: int) -> int:
    return _aligned(max(size, 1), _HUGE_PAGE if size >= _HUGE_PAGE else mmap.PAGESIZE)


def _address_of(array: npt.NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


class Slot:
    """A slot in the worker, which creates and fills it."""

    def __init__(self, number: int, size: int) -> None:
        self.number = number
        self.capacity = _capacity_for(size)
        self.descriptor: int | None = None  # None: the consumer has it
        try:
            self.descriptor = os.memfd_create("rueda-batch", os.MFD_CLOEXEC)
            os.ftruncate(self.descriptor, self.capacity)
            self.mapping = SharedMapping(self.descriptor, self.capacity)
        except OSError as error:
            self.close_descriptor()
            raise ResourceExhausted(
                f"making {self.capacity} bytes of shared memory for a batch failed: {error}"
            ) from error
        self.mapping.prefer_huge_pages()
        self.memory = self.mapping.array()

    def close_descriptor(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def array(self, shape: Any, dtype: np.dtype[Any], offset: int) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = np.ndarray(shape, dtype, self.memory, offset)
        return array

    def write(self, data: bytes, offset: int) -> None:
        self.memory[offset : offset + len(data)] = np.frombuffer(data, np.uint8)


class _Given(NamedTuple):
    """The addresses of an array that empty() returned."""

    begin: int
    end: int


class Packer:
    """Writes batches into slots, in the worker. When the consumer has released a slot, the slot is free again."""

    def __init__(self) -> None:
        self._free: list[Slot] = []
        self._handed_over: dict[int, Slot] = {}
        self._next_number = 0
        self._recent: deque[int] = deque(maxlen=_RECENT)  # the sizes of the last batches
        self._open: Slot | None = None  # the slot of the next batch; None if empty() was not called for it
        self._used = 0  # bytes of the open slot
        self._given: list[_Given] = []  # where the arrays of empty() lie in the open slot
        # All mappings of slots that still exist. A slot that was given up keeps its mapping as long as the generator has an
        # array in it.
        self._mappings: weakref.WeakSet[SharedMapping] = weakref.WeakSet()

    def empty(self, shape: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Returns an array in the slot of the next batch. An array that does not fit into the slot is in private
        memory.
        """
        kind = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
        if self._open is None:
            self._open = self._free_slot(max(size, self._usual_size()))
        if kind.hasobject or self._used + size > self._open.capacity:
            return np.empty(shape, kind)
        array = self._open.array(shape, kind, self._used)
        address = self._open.mapping.address + self._used
        self._given.append(_Given(address, address + size))
        self._used += _aligned(size)
        return array

    def reserve(self, sizes: Sequence[int], description: int) -> None:
        """Takes a slot for the next batch that has room for arrays of these sizes and for their description."""
        if self._open is None:
            # The description has 32 more bytes for each array, because it also contains the array's offset.
            needed = sum(_aligned(size) for size in sizes) + description + 32 * len(sizes)
            self._open = self._free_slot(max(needed, self._usual_size()))

    def pack(self, batch: Mapping[str, npt.ArrayLike]) -> tuple[Slot, int, int]:
        """Writes a batch into a slot. Returns the slot, and the offset and length of the description of the arrays.
        Arrays that lie in the slot already (from empty()) are not copied.
        """
        arrays = {name: _array_of(name, value) for name, value in batch.items()}
        slot, used, places = self._open, self._used, self._places(arrays)
        needed = used + sum(_aligned(arrays[name].nbytes) for name in arrays if name not in places)
        description = _describe(arrays, places, used)
        needed += len(description)
        if slot is None or needed > slot.capacity:
            used, places = 0, {}
            description = _describe(arrays, places, used)
            needed = sum(_aligned(array.nbytes) for array in arrays.values()) + len(description)
            slot = self._free_slot(max(needed, self._usual_size()))
        self._recent.append(needed)
        for name, array in arrays.items():
            if name not in places:
                np.copyto(slot.array(array.shape, array.dtype, used), array, casting="no")
                used += _aligned(array.nbytes)
        slot.write(description, used)
        if self._open is slot:
            self._open = None
        self.drop()
        self._handed_over[slot.number] = slot
        return slot, used, len(description)

    def drop(self) -> None:
        """Forgets the arrays that empty() made for a batch. Call it if the batch is not sent to the consumer, or lies
        in another slot.
        """
        if self._open is not None:
            # A slot that still has its descriptor was never sent to the consumer. So the slot can be given up without
            # telling the consumer.
            if self._open.descriptor is not None and self._open.capacity < self._usual_size():
                self._open.close_descriptor()
            else:
                self._free.append(self._open)
        self._open, self._used = None, 0
        self._given.clear()

    def _usual_size(self) -> int:
        return max(self._recent, default=0)

    def _places(self, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, int]:
        """Finds those arrays that empty() made for this batch, and returns their offsets in the open slot. Raises
        InvalidArgument for an array that empty() made for an earlier batch. The consumer may still read and change the
        memory of such an array, and a later batch may overwrite it.
        """
        places: dict[str, int] = {}
        for name, array in arrays.items():
            if array.nbytes == 0:
                continue  # an array without elements has no memory, so its address says nothing
            address = _address_of(array)
            given = next((one for one in self._given if one.begin <= address < one.end), None)
            if self._open is not None and given is not None:
                # An array that is not contiguous is copied later, like an array that empty() did not make.
                if array.flags.c_contiguous and address + array.nbytes <= given.end:
                    places[name] = address - self._open.mapping.address
            elif any(0 <= address - mapping.address < mapping.size for mapping in self._mappings):
                raise InvalidArgument(
                    f"handing over the array '{name}' of a batch: worker.empty() made it, and it was made for an earlier batch, "
                    "which the trainer may still use; call worker.empty() for every batch, or yield a copy of the array"
                )
        return places

    def _free_slot(self, size: int) -> Slot:
        for index, slot in enumerate(self._free):
            if slot.capacity >= size:
                return self._free.pop(index)
        slot = Slot(self._next_number, size)
        self._next_number += 1
        self._mappings.add(slot.mapping)
        return slot

    def release(self, number: int, keep: int) -> list[int]:
        """Records that the consumer has released a slot. Then gives up slots if more than `keep` slots are free, and
        slots that are too small or much too large for the batches. Returns the numbers of the slots that were given up.
        """
        self._free.append(self._handed_over.pop(number))
        usual = self._usual_size()
        kept: list[Slot] = []
        given_up: list[Slot] = []
        for slot in self._free:
            fits = usual <= slot.capacity <= _TOO_LARGE * _capacity_for(usual)
            (kept if fits and len(kept) < keep else given_up).append(slot)
        self._free = kept
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
    """An object that is told when a slot's arrays have died."""

    def release(self, slot: MappedSlot) -> None: ...


class MappedSlot:
    """A slot in the consumer, which maps the worker's memory."""

    def __init__(self, number: int, descriptor: int, capacity: int, pin: Pin | None = None) -> None:
        self.number = number
        try:
            # MAP_POPULATE is not used. The pages exist already, and Linux maps 16 of them at each page fault. So mapping
            # all pages here would take as long as the page faults of the first reader, and the trainer would wait.
            self.mapping = SharedMapping(descriptor, capacity)
        except OSError as error:
            raise ResourceExhausted(f"mapping {capacity} bytes of a data worker's batch failed: {error}") from error
        finally:
            os.close(descriptor)
        self.is_pinned = pin is not None
        if pin is not None:
            self.mapping.pin(pin)
        self.memory = self.mapping.array()

    def views(self, place: int, length: int, owner: Releases) -> dict[str, npt.NDArray[Any]]:
        """Returns the arrays of the batch in the slot, without a copy. When the last array dies, `owner.release()` is
        called.
        """
        whole = np.asarray(_Lease(self, owner))
        return {
            name: np.ndarray(tuple(shape), np.dtype(dtype), whole, offset)
            for name, dtype, shape, offset in json.loads(self.memory[place : place + length].tobytes())
        }


class _Lease:
    """The base object of all arrays of one batch: each array keeps it alive. When it dies, it releases the slot."""

    __slots__ = ("__array_interface__", "_owner", "_process", "_slot")

    def __init__(self, slot: MappedSlot, owner: Releases) -> None:
        self._slot = slot
        self._owner = owner
        self._process = os.getpid()
        self.__array_interface__ = slot.mapping.__array_interface__

    def __del__(self) -> None:
        # A forked child has copies of the arrays. When the copies in the child die, the consumer may still use its own
        # arrays, so the child does not release the slot.
        if os.getpid() == self._process:
            self._owner.release(self._slot)
