# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Operations on a GPU whose outputs have sizes that the ranks must exchange first: allgather and alltoall.

Rueda allocates no memory of a GPU: PyTorch does. Before PyTorch can allocate the output, this rank must know how many
rows the other ranks send. The ranks therefore exchange these numbers by a small operation in the CPU's memory. When
this exchange has ended, PyTorch allocates the output, and the operation itself is started.

The exchange has the name that the program gave to the operation. A rank whose tensor is in the CPU's memory starts the
operation itself with this name. So the ranks notice that the devices differ, and all of them get a Mismatch.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from rueda._native import Handle
from rueda.errors import DuplicateName
from rueda.torch import _devices

#: A function that starts the operations when the sizes are known. It returns their handles, and the result.
Start: TypeAlias = Callable[[Any], "tuple[list[Handle[Any]], Any]"]

#: The operations whose results the program has not fetched. The key is the number of the process set and the name.
_pending: weakref.WeakValueDictionary[tuple[int, str], DeferredOperation] = weakref.WeakValueDictionary()


# If the program gives no name, the operation gets a name with a number. The numbers repeat after this many operations.
# Rueda already knows repeated names, and need not negotiate them again. The names of allgather and alltoall together
# take half of the initial slots (RUEDA_SLOTS). A name can be used again only when its last operation has ended. So
# about 256 more operations can be started while an operation is pending.
_NAMES = 256

# How many operations without a name were started. The keys are the number of the process set and the operation. If a
# set is removed, its count stays, and a new set with the same number continues this count. This does no harm: the ranks
# use the largest of their numbers, so their counts need not be equal.
_numbers: dict[tuple[int, str], Iterator[int]] = {}


def new_number(process_set: int, operation: str, name: str | None) -> int:
    """Returns a number for operation_name(). Every rank sends its number with the exchange of the sizes."""
    if name is not None:
        return 0
    # setdefault() is one step under the GIL, so two threads get the same counter
    return next(_numbers.setdefault((process_set, operation), itertools.count(1)))


def operation_name(operation: str, name: str | None, number: int) -> str:
    """Returns the name of an operation whose exchange had the given name.

    If the caller gave no name, the ranks name the operation after the largest of their numbers. The ranks start
    exchanges without a name in the same order, and each rank's numbers rise. So no two operations in flight get the
    same name. The ranks' numbers may differ, because a call that ended with a Mismatch takes a number only on some of
    the ranks.
    """
    return f"rueda.{operation}.{number % _NAMES}.gpu" if name is None else f"{name}.gpu"


def check_name(process_set: int, name: str | None) -> None:
    """Raises DuplicateName if an operation with this name is pending. Without this check, Rueda would notice the
    duplicate too late. When the exchange of the sizes has ended, its name can be used again, but the operation itself
    may still be pending.
    """
    earlier = None if name is None else _pending.get((process_set, name))
    if earlier is not None and not earlier.is_launched():
        raise DuplicateName(
            f"'{name}': an operation with this name is still pending; wait for it first, or give the operations different names"
        )


class DeferredOperation:
    """A handle of an operation that is started later. It has those methods of Handle that this package needs.

    The operation is started by the first thread that learns the sizes: a thread of Rueda, or a thread that waits.

    Threads: any thread may call the methods. A thread holds the lock while it starts the operation, which does not
    block.
    """

    def __init__(self, sizes: Handle[Any], device: int, start: Start, key: tuple[int, str] | None = None) -> None:
        """`key` consists of the process set and the name, for check_name(); None if the operation has no name."""
        self._sizes = sizes
        self._start: Start | None = start
        # The output is allocated for the stream that is current now, in the caller's thread. The operation may be
        # started later by a thread of Rueda, in which another stream is current.
        self._stream = _devices.current_stream(device)
        self._device = device
        self._starting = threading.Lock()
        self._handles: list[Handle[Any]] = []
        self._result: Any = None
        self._error: BaseException | None = None
        if key is not None:
            _pending[key] = self
        sizes.add_done_callback(lambda _: self._start_once())

    def _start_once(self) -> None:
        """Starts the operation, if no thread has done it. The exchange of the sizes must have ended."""
        with self._starting:
            if self._start is None:
                return
            start, self._start = self._start, None
            try:
                sizes = self._sizes.result()
                with _devices.on_stream(self._stream):
                    self._handles, self._result = start(sizes)
            except BaseException as error:
                # Also stores a KeyboardInterrupt (Ctrl-C), because the operation was not started and will have no
                # result.
                self._error = error
                if not isinstance(error, Exception):
                    raise

    def is_launched(self) -> bool:
        """Returns True if the operation's work was put into a stream of the GPU, or if the operation has failed. In
        both cases the operation's name is free."""
        with self._starting:
            if self._start is not None:
                return False
        # the program has no work in this stream, so the wait delays nothing of the program
        stream = _devices.side_stream(self._device, "names").cuda_stream
        return all(handle._try_to_wait_on_stream(stream, 0.0) for handle in self._handles)

    def poll(self) -> bool:
        """Returns True if the operation has completed."""
        if not self._sizes.poll():
            return False
        self._start_once()
        return all(handle.poll() for handle in self._handles)

    def _torch_result(self, timeout: float | None) -> Any:
        """Waits until the operation's work was put into a stream of the GPU. Makes the current stream wait for the end
        of the operation. Returns the result.
        """
        self._sizes.wait(timeout)
        self._start_once()
        if self._error is not None:
            raise self._error
        for handle in self._handles:
            handle._torch_result(timeout)
        return self._result

    def result(self) -> Any:
        """Waits until the GPU has done the operation, and returns the result."""
        result = self._torch_result(None)
        for handle in self._handles:
            handle.wait()
        return result

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Calls the function when the operation has completed."""

        def follow(_: Any) -> None:
            self._start_once()
            left = list(self._handles)

            def completed(_: Any) -> None:
                # pop() takes one element in one step under the GIL, so no other thread can take the same element
                left.pop()
                if not left:
                    callback(self)

            for handle in [*left]:
                handle.add_done_callback(completed)
            if not self._handles:
                callback(self)

        self._sizes.add_done_callback(follow)
