# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Receives the batches of producers, on the trainer's host.

For each remote worker, the trainer has a receiver. A receiver is a worker process whose generator takes the batches
from a connection. So the trainer gets these batches in the same way as batches of a local worker. The same code keeps
their order and handles the death of a worker. The bytes of the arrays go from the socket into the shared memory without
a copy in this program.
"""

from __future__ import annotations

import dataclasses
import socket
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy.typing as npt

from rueda.data import _channel
from rueda.data._process import Task as WorkersTask
from rueda.data._remote.messages import (
    FIRST_SECONDS,
    BadMessage,
    Connection,
    Kind,
    Task,
    check_secret,
    parse_batch,
    split_address,
)
from rueda.data._worker import Reported, WorkerInfo
from rueda.data._workers import Workers, check_choices, check_numbers, pinned_device
from rueda.errors import InvalidArgument, RuedaError

#: In seconds: the pause between two attempts to connect.
_PAUSE = 0.2


@dataclasses.dataclass
class Receiver:
    """A receiver process uses this object as its generator function. The object keeps its connection from epoch to
    epoch."""

    addresses: tuple[str, ...]
    # The text of this object may get into a log, so it must not show the secret.
    secret: str = dataclasses.field(repr=False)
    epochs: int
    ahead: int
    takes_over: bool
    patience: float
    largest: int
    _connection: Connection | None = None
    _address: str = ""

    def __call__(self, worker: WorkerInfo, *args: Any) -> Iterator[dict[str, npt.NDArray[Any]]]:
        task = Task(worker.index, worker.count, self.epochs, worker.epoch, worker.first_batch(), self.ahead, list(args))
        if self._connection is None:
            self._connection = self._connect(task)
        try:
            while True:
                kind, payload = self._connection.receive()
                if kind is Kind.BATCH:
                    yield self._receive_batch(self._connection, payload, worker)
                elif kind is Kind.END_OF_EPOCH:
                    return
                elif kind is not Kind.ALIVE:
                    self._report(kind, payload.decode(errors="replace"))
        except (OSError, BadMessage) as error:
            raise self._lost(str(error)) from error

    def _receive_batch(self, connection: Connection, payload: bytes, worker: WorkerInfo) -> dict[str, npt.NDArray[Any]]:
        described = parse_batch(payload, self.largest)
        worker._reserve([array.size for array in described], len(payload))
        batch = {array.name: worker.empty(array.shape, array.dtype) for array in described}
        connection.receive_into(list(batch.values()))
        return batch

    def _report(self, kind: Kind, text: str) -> None:
        if kind is Kind.FAILED:
            raise Reported(_channel.Kind.FAILED, f"at the producer {self._address}:\n{text}")
        raise self._lost(text if kind is Kind.DIED else f"it sent a message {kind.name} where none was expected")

    def _lost(self, reason: str) -> Reported:
        return Reported(_channel.Kind.LOST, f"the producer at {self._address} was lost: {reason}")

    def _connect(self, task: Task) -> Connection:
        """Connects to a producer, and sends it the task. Each worker has its own producer. If this producer cannot be
        reached, and other producers may take over, the function takes the next producer that can be reached.
        """
        first = task.index % len(self.addresses)
        candidates = self.addresses[first:] + self.addresses[:first] if self.takes_over else (self.addresses[first],)
        deadline = time.monotonic() + self.patience
        while True:
            reasons = []
            for self._address in candidates:
                try:
                    return self._ask(task)
                except InvalidArgument as error:
                    # The other side does not know the secret or is no producer, so another attempt would not help.
                    raise self._lost(f"{error}; give all producers and trainers the same secret") from error
                except (OSError, BadMessage, RuedaError) as error:
                    # Another attempt may help: a producer also closes a connection before the proof if it has too many
                    # connections or is being restarted.
                    reasons.append(f"{self._address}: {error}")
            if time.monotonic() >= deadline:
                raise Reported(
                    _channel.Kind.LOST,
                    f"no producer could be reached within {self.patience:g} s ({'; '.join(reasons)})",
                )
            time.sleep(_PAUSE)

    def _ask(self, task: Task) -> Connection:
        """Connects to the current address, and sends the task. Raises OSError, BadMessage or an error of Rueda."""
        connected = socket.create_connection(split_address(self._address), timeout=FIRST_SECONDS)
        try:
            connection = Connection(connected, False, self.secret)
            connection.limit_wait(FIRST_SECONDS)
            connection.send(Kind.TASK, task.to_payload())
            kind, payload = connection.receive()
            if kind is not Kind.ACCEPTED:
                raise BadMessage(f"it refused: {payload.decode(errors='replace')}")
            connection.limit_wait(None)
            connection.limit_silence()
        except BaseException:
            connected.close()
            raise
        return connection


def remote(
    addresses: Iterable[str],
    *,
    secret: str,
    count: int | None = None,
    args: Iterable[Any] = (),
    epochs: int = 1,
    prefetch: int = 2,
    order: str = "fixed",
    on_death: str = "raise",
    start_method: str = "spawn",
    memory: str = "shared",
    device: int | None = None,
    patience: float = 30.0,
    largest_batch: int = 1 << 32,
) -> Workers:
    """Takes batches from producers on other hosts, on which serve() runs. The result has the same functions as the
    result of workers(). The same guarantees hold for the order of the batches, for resuming in the middle of an epoch,
    and for the memory of the arrays.

    Worker i of `count` runs at the producer number i modulo the number of addresses. For each worker, this host gets a process
    that receives the batches into shared memory.

    Args:
        addresses: the producers, each as "host:port".
        secret: the secret of the producers.
        count: the number of workers at all producers together. By default there is one at each producer.
        args: further arguments for the generators, sent as JSON: numbers, texts, booleans, None, lists and dicts.
        epochs, order, start_method, memory, device: as for workers().
        prefetch: the producer makes up to this number of batches for each worker before they are sent, and this host
            receives up to this number before the program takes them.
        on_death: what happens if a producer is lost, or the process that makes the batches dies. "raise" raises
            WorkerDied. "replace" logs a warning. Then the same producer, or the next one that can be reached, continues
            behind the last batch that this host has received.
        patience: the number of seconds in which a producer must become reachable.
        largest_batch: the maximum number of bytes of a batch. A larger batch has the same effect as the loss of its
            producer.

    Raises:
        InvalidArgument, ResourceExhausted, Unsupported: as for workers().

        The loop raises the same errors as for workers().

    Example::

        with rueda.data.remote(["cpu-host-1:7400", "cpu-host-2:7400"], secret=secret, count=8, args=[names]) as batches:
            for batch in batches:
                train(batch)
    """
    known = (addresses,) if isinstance(addresses, str) else tuple(addresses)
    if not known:
        raise InvalidArgument("remote: there are no addresses; give at least one producer, as 'host:port'")
    for address in known:
        split_address(address)
    check_secret(secret)
    count = len(known) if count is None else count
    check_numbers("remote", (("count", count, 1), ("epochs", epochs, 0), ("prefetch", prefetch, 1)))
    check_numbers("remote", (("largest_batch", largest_batch, 1),))
    check_choices("remote", order, on_death, start_method, memory)
    if not isinstance(patience, int | float) or not patience >= 0:
        raise InvalidArgument(f"remote: patience is {patience!r}; expected a number of seconds")
    given = tuple(args)
    Task(0, 1, 0, 0, 0, 1, list(given)).to_payload()  # refuses args that cannot be sent
    receiver = Receiver(known, secret, epochs, prefetch, on_death == "replace", float(patience), largest_batch)
    task = WorkersTask(receiver, given, count, epochs, prefetch, receives=True)
    return Workers(task, order, on_death, start_method, pinned_device(memory, device))
