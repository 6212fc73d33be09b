# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Messages between a producer and a receiver, over TCP.

A message is a header (kind and length of the payload), the payload, and an authentication code of 16 bytes. The code
depends on the key of the connection, the number of the message, the header and the payload. So nobody can change, leave
out, repeat or invent a message without the secret. The arrays of a batch follow its message. The code does not cover
them: like the data of MPI, they are neither encrypted nor checked, because a hash would be slower than the network.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import hmac
import json
import math
import re
import select
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rueda import _native
from rueda.errors import InvalidArgument

#: The purpose for which the handshake proves the secret. The proof includes this text (docs/design/0021-handshake.md).
#: The number in the text must change if the format of the messages changes.
_PURPOSE = "rueda data 1"
#: In seconds: the time for the handshake and for the first message.
FIRST_SECONDS = 10.0
#: Three settings of TCP's keep-alive. If the other host has sent nothing for the first number of seconds, the system
#: sends a probe. It sends further probes at intervals of the second number of seconds, and ends the connection after
#: the third number of probes without an answer. The kernel of the other host answers the probes, so a
#: generator may need any time for a batch. A receiver sends nothing after its task, so these probes tell it that a
#: producer's host has vanished. If a trainer's host vanishes, TCP itself ends the connection after about 15 minutes,
#: because Linux sends no probes while bytes wait to be sent or acknowledged.
KEEP_ALIVE = (5, 2, 5)
#: In seconds: if a producer has nothing to send for this time, it sends the message ALIVE. This message is needed if a
#: producer's process is stopped (for example by SIGSTOP): the kernel still answers TCP's probes, but the receiver
#: notices that no ALIVE comes.
ALIVE_SECONDS = 5.0
#: In seconds: if a receiver needs bytes and gets none for this time, it gives up the producer.
SILENCE_SECONDS = 30.0
#: In bytes: the maximum size of a payload.
LONGEST_PAYLOAD = 1 << 20
_MOST_DIMENSIONS = 32  # the limit of NumPy 1
_HEADER = struct.Struct("<II")
_CODE_BYTES = 16
#: The number of buffers in one system call. The limit of Linux is 1024.
_MOST_BUFFERS = 64
#: The dtypes of batches, as in the attribute `str` of NumPy: numbers, booleans, dates and texts of fixed size.
_DTYPE = re.compile(
    r"[<>|](b1|[iu][1248]|f(2|4|8|16)|c(8|16|32)|[SUV][1-9][0-9]{0,9}|[mM]8(\[[0-9]{0,10}[a-zA-Z]{1,2}\])?)"
)


class Kind(enum.IntEnum):
    """The kinds of messages. Only the receiver sends TASK, and only the producer sends the other kinds."""

    TASK = 1  # what the producer must make; the payload is JSON
    BATCH = 2  # the payload describes the arrays, whose bytes follow
    END_OF_EPOCH = 3
    ACCEPTED = 4  # the producer begins with the task
    FAILED = 5  # the generator raised an exception; the payload is its traceback
    DIED = 6  # the process of the generator has died; the payload says how
    REFUSED = 7  # the producer has too many workers; the payload says how many
    ALIVE = 8  # the producer lives, and the worker has not made the next batch yet


class BadMessage(Exception):
    """The other side sent something that does not follow the protocol. The text says what was found and expected."""


@dataclasses.dataclass(frozen=True)
class Task:
    """The request of a receiver to a producer: it asks for the batches of one worker, from a given position in an epoch
    on."""

    index: int  #: the number of the worker
    count: int  #: the number of workers
    epochs: int  #: the number of epochs; 0 if they never end
    epoch: int  #: the first epoch
    first_batch: int  #: the number of batches that are left out in the first epoch
    ahead: int  #: the number of batches that the producer makes before it can send them
    args: list[Any]  #: arguments of the generator

    def to_payload(self) -> bytes:
        try:
            payload = json.dumps(dataclasses.asdict(self)).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgument(
                f"the args for the producers cannot be sent: {error}; expected numbers, texts, booleans, None, lists and dicts"
            ) from error
        if len(payload) > LONGEST_PAYLOAD:
            raise InvalidArgument(
                f"the args for the producers have {len(payload)} bytes as JSON; expected at most {LONGEST_PAYLOAD}; let the "
                "generator read large data from a file"
            )
        return payload


def parse_task(payload: bytes) -> Task:
    """Checks and returns the task in a payload. Raises BadMessage."""
    given = _parsed(payload)
    names = [field.name for field in dataclasses.fields(Task)]
    if not isinstance(given, dict) or sorted(given) != sorted(names):
        raise BadMessage(f"the task is not an object with the members {', '.join(names)}")
    least = {"index": 0, "count": 1, "epochs": 0, "epoch": 0, "first_batch": 0, "ahead": 1}
    for name, smallest in least.items():
        if not _is_number(given[name], smallest):
            raise BadMessage(f"the member {name} of the task is no whole number of at least {smallest}")
    if given["index"] >= given["count"] or 0 < given["epochs"] <= given["epoch"] or not isinstance(given["args"], list):
        raise BadMessage("the members of the task do not fit together")
    return Task(**given)


class Described(NamedTuple):
    """An array of a batch, before its bytes arrive."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def describe_batch(batch: Mapping[str, npt.NDArray[Any]]) -> bytes:
    for name, array in batch.items():
        # A dtype with elements of 0 bytes is refused, because NumPy on the receiver would make elements of another size
        # from it.
        if array.dtype.itemsize == 0:
            raise InvalidArgument(
                f"sending the array '{name}' of a batch: its dtype is {array.dtype.str}; expected elements of at least one byte"
            )
    payload = json.dumps([[name, array.dtype.str, array.shape] for name, array in batch.items()]).encode()
    if len(payload) > LONGEST_PAYLOAD:
        raise InvalidArgument(
            f"the description of a batch has {len(payload)} bytes; expected at most {LONGEST_PAYLOAD}; yield fewer arrays"
        )
    return payload


def parse_batch(payload: bytes, largest: int) -> list[Described]:
    """Checks and returns the description of a batch of at most `largest` bytes. Raises BadMessage."""
    given = _parsed(payload)
    if not isinstance(given, list):
        raise BadMessage("the description of a batch is no list")
    arrays = [_parse_array(entry) for entry in given]
    if len({array.name for array in arrays}) < len(arrays):
        raise BadMessage("two arrays of a batch have the same name")
    if (total := sum(array.size for array in arrays)) > largest:
        raise BadMessage(
            f"a batch has {total} bytes; expected at most {largest}; if this is right, raise largest_batch"
        )
    return arrays


def _parse_array(entry: object) -> Described:
    if not isinstance(entry, list) or len(entry) != 3:
        raise BadMessage("an array of a batch is not described by name, dtype and shape")
    name, text, shape = entry
    if not isinstance(name, str) or not isinstance(text, str) or _DTYPE.fullmatch(text) is None:
        raise BadMessage(f"an array of a batch has the name {name!r:.100} and the dtype {text!r:.100}")
    if not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS or not all(_is_number(one, 0) for one in shape):
        raise BadMessage(f"the array {name!r:.100} of a batch has the shape {shape!r:.100}")
    try:
        dtype = np.dtype(text)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadMessage(f"the array {name!r:.100} of a batch has the dtype {text!r}: {error}") from error
    # An extent of 0 counts as 1 here. NumPy also multiplies the other extents of an array without elements, and refuses
    # a product that is too large.
    if math.prod(max(one, 1) for one in shape) * max(dtype.itemsize, 1) >= 1 << 62:
        raise BadMessage(f"the array {name!r:.100} of a batch has the shape {shape!r:.100}, which is too large")
    return Described(name, dtype, tuple(shape))


def _is_number(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 1 << 62


def _parsed(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"a payload is no JSON: {error}") from error


class Connection:
    """A connection whose other side has proved that it knows the secret. Threads: one at a time; any thread may call
    shut().
    """

    def __init__(self, connected: socket.socket, accepted: bool, secret: str) -> None:
        """Runs the handshake. `accepted` is True on the side that accepted the connection. Raises an error of Rueda if
        the other side does not prove that it knows the secret. The caller then closes the socket.
        """
        self._socket = connected
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _set_keep_alive(connected)
        self._sending, self._receiving = _native.data_prove(
            connected.fileno(), accepted, secret, _PURPOSE, FIRST_SECONDS
        )
        connected.settimeout(None)
        self._sent = self._received = 0  # the numbers of messages

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, kind: Kind, payload: bytes = b"", arrays: Iterable[npt.NDArray[Any]] = ()) -> None:
        """Sends a message, and waits until the system has taken all of it. With a slow receiver, this takes long.
        Raises OSError. Never causes SIGPIPE: a program may have restored this signal's default action, which would end
        the process.
        """
        header = _HEADER.pack(kind, len(payload))
        code = _code(self._sending, self._sent, header, payload)
        self._sent += 1
        buffers = [memoryview(header + payload + code)]
        buffers += [_bytes_of(array) for array in arrays if array.nbytes > 0]
        while buffers:
            sent = self._socket.sendmsg(buffers[:_MOST_BUFFERS], [], socket.MSG_NOSIGNAL)
            while buffers and sent >= len(buffers[0]):
                sent -= len(buffers.pop(0))
            if sent > 0:
                buffers[0] = buffers[0][sent:]

    def receive(self) -> tuple[Kind, bytes]:
        """Waits for a message, checks its authentication code, and returns it. Raises OSError and BadMessage."""
        header = self._receive_bytes(_HEADER.size)
        kind, length = _HEADER.unpack(header)
        if length > LONGEST_PAYLOAD:
            raise BadMessage(f"a message has {length} bytes; expected at most {LONGEST_PAYLOAD}")
        rest = self._receive_bytes(length + _CODE_BYTES)
        payload, code = rest[:length], rest[length:]
        if not hmac.compare_digest(code, _code(self._receiving, self._received, header, payload)):
            raise BadMessage("the code of a message is wrong")
        self._received += 1
        try:
            return Kind(kind), payload
        except ValueError as error:
            raise BadMessage(f"a message has the kind {kind}") from error

    def receive_into(self, arrays: Sequence[npt.NDArray[Any]]) -> None:
        """Waits for the bytes of the arrays. Raises OSError."""
        for array in arrays:
            if array.nbytes > 0:
                self._receive_into(_bytes_of(array))

    def wait_for_end(self) -> None:
        """Waits until the other side ends the connection or sends something. shut() and a host that is lost end the wait, too.

        A producer calls this function after its last message. If the producer closed the socket at once, Linux would
        after a few minutes drop the bytes that a slow receiver has not taken. Linux keeps these bytes as long as the
        socket is open.
        """
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.poll()

    def limit_wait(self, seconds: float | None) -> None:
        """Limits the time of each wait for bytes. None: no limit."""
        self._socket.settimeout(seconds)

    def limit_silence(self) -> None:
        """Limits how long the other side may send nothing while this side waits for bytes. Unlike with limit_wait(),
        the socket stays blocking. So one system call can receive a whole array.
        """
        limit = struct.pack("@ll", int(SILENCE_SECONDS), int(SILENCE_SECONDS % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)

    def _receive_bytes(self, size: int) -> bytes:
        data = bytearray(size)
        self._receive_into(memoryview(data))
        return bytes(data)

    def _receive_into(self, view: memoryview) -> None:
        """Waits until the view is full. The bytes of the other side, or the end of the connection, wake this thread. If
        neither comes, the limits of limit_wait() and limit_silence() end the wait.
        """
        while len(view) > 0:
            try:
                received = self._socket.recv_into(view, flags=socket.MSG_WAITALL)
            except BlockingIOError as error:
                raise TimeoutError(
                    f"it sent nothing for {SILENCE_SECONDS:g} s; check whether its process is stopped or its host overloaded"
                ) from error
            if received == 0:
                raise ConnectionResetError("the other side closed the connection")
            view = view[received:]

    def shut(self) -> None:
        """Ends the connection. A thread that waits in another function gets an error."""
        shut(self._socket)

    def close(self) -> None:
        self._socket.close()


def shut(connected: socket.socket) -> None:
    """Ends a connection for both sides. Closing the descriptor would not be enough, because a forked child may have a
    copy.
    """
    with contextlib.suppress(OSError):  # raised if the connection has already ended
        connected.shutdown(socket.SHUT_RDWR)


def _bytes_of(array: npt.NDArray[Any]) -> memoryview:
    """Returns the memory of an array that has elements and lies in one piece."""
    return array.reshape(-1).view(np.uint8).data


def _code(key: bytes, number: int, header: bytes, payload: bytes) -> bytes:
    """Computes the authentication code of a message, in the same way as base/security/message_codes."""
    return hmac.digest(key, struct.pack("<Q", number) + header + payload, "sha256")[:_CODE_BYTES]


def _set_keep_alive(connected: socket.socket) -> None:
    idle, interval, count = KEEP_ALIVE
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, idle)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, count)


def split_address(address: str) -> tuple[str, int]:
    """Returns host and port of "host:port" or "[IPv6 address]:port"."""
    host, colon, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not host or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise InvalidArgument(
            f"the address of a producer is {address!r}; expected 'host:port' or '[IPv6 address]:port'"
        )
    try:
        # Without this check, the module socket would raise the UnicodeError later, when it encodes the host name.
        # Callers that expect an OSError would then get a UnicodeError.
        host.encode("idna")
    except UnicodeError as error:
        raise InvalidArgument(
            f"the address of a producer is {address!r:.200}, and its host is no possible host name: {error}"
        ) from error
    return host, int(port)


def check_secret(secret: str) -> None:
    is_text = isinstance(secret, str) and "\0" not in secret and not any("\ud800" <= one <= "\udfff" for one in secret)
    if not is_text or len(secret) < 16:
        raise InvalidArgument(
            "the secret of producers must be a text of at least 16 characters without NUL, the same for producers and trainers; "
            "make one with secrets.token_hex(16)"
        )
