# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Messages between the consumer and a worker process. The messages are short: arrays travel through shared memory.

Each worker has a socket pair of the type SOCK_SEQPACKET, which keeps messages apart, sends file descriptors, and reports
when the other process ends.
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
    """What a worker reports."""

    BATCH = 1  # a batch is in a slot
    END_OF_EPOCH = 2
    FORGET = 3  # the worker has given up a slot
    FAILED = 4  # the generator raised an exception; its text follows
    FINISHED = 5  # all epochs have ended


class Report(NamedTuple):
    """A message of a worker. The three times are in seconds, and belong to this batch."""

    kind: Kind
    slot: int = 0
    capacity: int = 0  # bytes of the slot
    place: int = 0  # offset of the description in the slot
    length: int = 0  # bytes of the description
    making: float = 0.0  # in the generator
    copying: float = 0.0  # into the slot
    waiting: float = 0.0  # until the consumer had taken an earlier batch


_REPORT = struct.Struct("=IIQQQddd")
#: The text of an exception is cut to this number of bytes, because the system limits the size of a message.
_LONGEST_TEXT = 60_000
#: The begin of a longer text. The rest is its end, because a traceback ends with the innermost function and the exception.
_BEGIN_OF_TEXT = 5_000
_OMISSION = b"\n[...]\n"
#: An acknowledgement has at most this number of slots.
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
    Raises BlockingIOError if there is no report yet, and ResourceExhausted if this process cannot have its descriptor.
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
    """The consumer's messages to one worker: the number of reports that were taken, and the slots whose arrays have died.

    Threads: arrays die in any thread, also inside of the garbage collector. So release() never waits, neither for the
    worker nor for a lock.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._released: deque[int] = deque()
        self._taken: deque[int] = deque()
        self._sending = threading.Lock()

    def take(self) -> None:
        """Lets the worker hand over one more report."""
        self._taken.append(1)
        self.flush()

    def release(self, slot: int) -> None:
        """Lets the worker use the slot again."""
        self._released.append(slot)
        self.flush()

    def waiting(self) -> bool:
        """Returns whether something is left to send because the worker has not read the earlier messages."""
        return bool(self._taken or self._released)

    def flush(self) -> None:
        """Sends what is left to send, if the socket accepts it now and no other thread is sending."""
        if not self._sending.acquire(blocking=False):
            return  # the caller of another thread or, in the garbage collector, of this thread sends at its next flush
        try:
            while self.waiting():
                self._send(_all_of(self._taken), _all_of(self._released))
        except BlockingIOError:
            pass  # the next flush sends it
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
    """Removes the elements of the queue, at most as many as a message may have. Other threads may append meanwhile."""
    found: list[int] = []
    while queue and len(found) < _MOST_SLOTS:
        found.append(queue.popleft())
    return found


def receive_acknowledgement(connection: socket.socket, wait: bool) -> tuple[int, list[int]] | None:
    """Returns the number of reports that were taken and the slots that were released. Returns None if the consumer has
    closed the socket. Raises BlockingIOError if there is no message and `wait` is False.
    """
    data = connection.recv(4 * (1 + _MOST_SLOTS), 0 if wait else socket.MSG_DONTWAIT)
    if not data:
        return None
    taken, *slots = struct.unpack(f"={len(data) // 4}I", data)
    return taken, slots
