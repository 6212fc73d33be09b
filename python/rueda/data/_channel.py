# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Messages between a worker process and the consumer, the process that takes the worker's batches. The messages are
short, because the arrays are in shared memory.

The consumer has a socket pair for each worker. Its type is SOCK_SEQPACKET: such a socket keeps the boundaries of
messages, can send file descriptors, and reports the end of the other process.
"""

from __future__ import annotations

import array
import enum
import os
import socket
import struct
import threading
from collections import deque
from typing import NamedTuple

from rueda.errors import ResourceExhausted


class Kind(enum.IntEnum):
    """The kinds of a worker's reports."""

    BATCH = 1  # a batch is in a slot
    END_OF_EPOCH = 2
    FORGET = 3  # the worker does not use a slot any more; the consumer unmaps the slot
    FAILED = 4  # the generator raised an exception; the report contains the exception's text
    FINISHED = 5  # all epochs have ended
    LOST = 6  # the worker has lost the producer from which it received batches; the report says why; the worker ends


class Report(NamedTuple):
    """A message of a worker. The fields after `kind` describe a batch; the three times are in seconds."""

    kind: Kind
    slot: int = 0
    capacity: int = 0  # bytes of the slot
    place: int = 0  # offset of the description in the slot
    length: int = 0  # bytes of the description
    making: float = 0.0  # the time in the generator
    copying: float = 0.0  # the time for copying the arrays into the slot
    waiting: float = 0.0  # the time in which the worker waited, because the consumer had not taken earlier batches


_REPORT = struct.Struct("=IIQQQddd")
#: The text of an exception is cut to this number of bytes, because the system limits the size of a message.
_LONGEST_TEXT = 60_000
#: If the text of an exception is too long, its middle is left out. This number of bytes at the beginning stays, and as
#: much of the end as fits. (A traceback ends with the innermost function and the exception.)
_BEGIN_OF_TEXT = 5_000
_OMISSION = b"\n[...]\n"
#: An acknowledgement names at most this number of slots.
_MOST_SLOTS = 256


def _shortened(text: bytes) -> bytes:
    if len(text) <= _LONGEST_TEXT:
        return text
    end = _LONGEST_TEXT - _BEGIN_OF_TEXT - len(_OMISSION)
    return text[:_BEGIN_OF_TEXT] + _OMISSION + text[-end:]


def send_report(connection: socket.socket, report: Report, descriptor: int | None = None, text: str = "") -> None:
    """Sends a report, and waits while the socket is full. The consumer wakes this process when it reads."""
    data = _REPORT.pack(*report) + _shortened(text.encode(errors="replace"))
    rights = []
    if descriptor is not None:
        rights.append((socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor])))
    connection.sendmsg([data], rights)


def receive_report(connection: socket.socket) -> tuple[Report, int | None, str] | None:
    """Returns a report, its file descriptor, and its text. Returns None if the other process has closed the socket.
    Raises BlockingIOError if there is no report yet, and ResourceExhausted if this process has too many open files to
    receive the descriptor.
    """
    room = socket.CMSG_SPACE(array.array("i", [0]).itemsize)
    data, rights, flags, _ = connection.recvmsg(_REPORT.size + _LONGEST_TEXT, room, socket.MSG_CMSG_CLOEXEC)
    if not data:
        return None
    numbers = array.array("i")
    for _level, _kind, received in rights:
        numbers.frombytes(received)
    if flags & socket.MSG_CTRUNC:
        for number in numbers:
            os.close(number)
        raise ResourceExhausted(
            "receiving a batch of a data worker: this process has too many open files, so the system dropped the descriptor of the "
            "batch; close files, or raise the limit (ulimit -n)"
        )
    kind, *fields = _REPORT.unpack_from(data)
    report = Report(Kind(kind), *fields)
    return report, numbers[0] if numbers else None, data[_REPORT.size :].decode(errors="replace")


class Acknowledgements:
    """Sends the consumer's messages to one worker. A message has the number of reports that the consumer took since
    the last message, and the numbers of the slots whose arrays have died.

    Threads: an array may be destroyed on any thread, also while the garbage collector runs. So release() never waits,
    neither for the worker nor for a lock.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._released: deque[int] = deque()
        self._taken: deque[int] = deque()
        self._sending = threading.Lock()

    def take(self) -> None:
        """Tells the worker that a report was taken, so the worker may send one more."""
        self._taken.append(1)
        self.flush()

    def release(self, slot: int) -> None:
        """Tells the worker that it may use the slot again."""
        self._released.append(slot)
        self.flush()

    def waiting(self) -> bool:
        """Returns whether messages wait to be sent. This happens if the socket is full, because the worker has not
        read the earlier messages.
        """
        return bool(self._taken or self._released)

    def flush(self) -> None:
        """Sends the messages that wait to be sent, if the socket accepts them now and no other call of flush() is
        running.
        """
        if not self._sending.acquire(blocking=False):
            # flush() is already running on another thread. Or it is running on this thread, and the garbage collector
            # has called release() inside it. The running call or the next call sends the messages.
            return
        try:
            while self.waiting():
                self._send(_all_of(self._taken), _all_of(self._released))
        except BlockingIOError:
            pass  # the next call of flush() sends the message
        except OSError:  # the worker has ended
            self._taken.clear()
            self._released.clear()
        finally:
            self._sending.release()

    def _send(self, taken: list[int], slots: list[int]) -> None:
        try:
            self.connection.send(struct.pack(f"={1 + len(slots)}I", len(taken), *slots), socket.MSG_DONTWAIT)
        except BlockingIOError:
            self._taken.extend(taken)
            self._released.extend(slots)
            raise


def _all_of(queue: deque[int]) -> list[int]:
    """Removes at most _MOST_SLOTS elements from the queue and returns them. Other threads may append elements at the
    same time.
    """
    found: list[int] = []
    while queue and len(found) < _MOST_SLOTS:
        found.append(queue.popleft())
    return found


def receive_acknowledgement(connection: socket.socket, wait: bool) -> tuple[int, list[int]] | None:
    """Reads a message of the consumer. Returns the number of reports that the consumer took, and the slots that it
    released. Returns None if the consumer has closed the socket. Raises BlockingIOError if there is no message and
    `wait` is False.
    """
    data = connection.recv(4 * (1 + _MOST_SLOTS), 0 if wait else socket.MSG_DONTWAIT)
    if not data:
        return None
    taken, *slots = struct.unpack(f"={len(data) // 4}I", data)
    return taken, slots
