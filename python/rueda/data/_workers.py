# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Worker processes that make batches: the code of the consumer, the process that takes the batches."""

from __future__ import annotations

import dataclasses
import logging
import multiprocessing
import multiprocessing.util
import operator
import os
import select
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, NoReturn

import numpy.typing as npt

from rueda import _native
from rueda.data._channel import Kind
from rueda.data._errors import WorkerDied, WorkerFailed
from rueda.data._mapping import Pin
from rueda.data._process import Arrived, Task, WorkerProcess, end_all
from rueda.data._worker import Batch
from rueda.errors import InvalidArgument, RuedaError

_logger = logging.getLogger("rueda.data")

_ORDERS = ("fixed", "ready")
_ON_DEATH = ("raise", "replace")
_START_METHODS = ("spawn", "fork", "forkserver")
_MEMORY = ("shared", "pinned")
#: If a worker and this number of replacements die in a row without handing over a batch, the worker is not replaced
#: again.
_REPLACEMENTS = 3
#: In seconds: if the trainer waits longer for a batch, a warning names the worker.
_LONG_WAIT = 60.0


@dataclasses.dataclass
class WorkersStatistics:
    """Counts and times of worker processes. All times are in seconds. The times of the workers are sums over all
    workers, for the batches that were taken. The trainer waits for the first batch while the processes start. Therefore
    all times except `first_batch` leave the first batch out.
    """

    batches: int = 0  #: the number of batches that were taken
    bytes: int = 0  #: the size of their arrays
    first_batch: float = 0.0  #: the time that the trainer waited for the first batch
    seconds: float = 0.0  #: the time from the first batch to the last batch, or to the end of its epoch
    consumer_waited: float = 0.0  #: the time that the trainer waited for a batch or for the end of an epoch
    making: float = 0.0  #: the time in the generators
    copying: float = 0.0  #: the time for copying the generators' arrays into shared memory
    workers_waited: float = 0.0  #: the time that the workers waited, because the trainer had not taken earlier batches
    replaced: int = 0  #: the number of workers that died and were replaced


class Workers:
    """An iterable over batches that worker processes make. workers() returns such an object and describes it.

    Threads: one thread at a time may take batches. Arrays may die in any thread.
    """

    def __init__(self, task: Task, order: str, on_death: str, start_method: str, pinned_for: int | None = None) -> None:
        self._task = task
        self._pin = None if pinned_for is None else Pin(pinned_for)
        self._order = order
        self._on_death = on_death
        self._context = multiprocessing.get_context(start_method)
        self._epoch = 0
        self._taken = [0] * task.count  # for each worker: how many of its batches of this epoch were taken
        self._failure: RuedaError | None = None
        self._closed = False
        self._owner = os.getpid()
        self._statistics = WorkersStatistics()
        self._first: float | None = None  # the time of the first batch
        self._processes: list[WorkerProcess] = []
        # When this process exits, the module multiprocessing waits for all worker processes. This finalizer ends the
        # workers before that wait.
        self._finalizer = multiprocessing.util.Finalize(self, end_all, args=(self._processes,), exitpriority=100)
        self._start()

    def _start(self) -> None:
        self._turn = 0
        self._ended = [False] * self._task.count  # for each worker: whether it has made all its batches of this epoch
        self._arrived: list[deque[Arrived]] = [deque() for _ in range(self._task.count)]
        self._deaths: list[WorkerDied | None] = [None] * self._task.count
        # For each worker: how many of its processes in a row died without handing over a batch.
        self._in_vain = [0] * self._task.count
        if self._finished():
            return
        try:
            for index, taken in enumerate(self._taken):
                self._processes.append(WorkerProcess(self._context, self._task, index, self._epoch, taken, self._pin))
        except BaseException:
            self.close()
            raise

    def __iter__(self) -> Iterator[dict[str, npt.NDArray[Any]]]:
        """Returns the batches of one epoch. If the last loop stopped in the middle of an epoch, returns the remaining
        batches of this epoch.
        """
        if self._finished() and not self._closed:
            raise InvalidArgument(
                f"all {self._task.epochs} epochs of the data workers were taken; set epochs to the number of loops, or to 0"
            )
        # An iterator of iter() keeps no reference to a batch. A generator function would keep the last batch alive
        # while it waits for the next one.
        return iter(self._take, None)

    def _take(self) -> dict[str, npt.NDArray[Any]] | None:
        """Returns the next batch, or None at the end of the epoch."""
        asked, warn_at = time.perf_counter(), time.monotonic() + _LONG_WAIT
        if self._failure is not None:
            raise self._failure
        self._check_usable("taking a batch")
        self._receive()
        while (found := self._next()) is None:
            if all(self._ended):
                self._count_time(asked)
                self._begin_epoch()
                return None
            self._wait(warn_at)
            self._receive()
        index, arrived = found
        try:
            batch = arrived.arrays()
        except RuedaError as error:
            self._fail(error)
        arrived.acknowledgements.take()
        self._taken[index] += 1
        self._count(arrived, batch, asked)
        return batch

    def _check_usable(self, doing: str) -> None:
        if self._closed:
            raise InvalidArgument(f"{doing}: the data workers were closed; make new ones with rueda.data.workers()")
        if os.getpid() != self._owner:
            raise InvalidArgument(f"{doing}: the data workers belong to the process that made them, not to its child")

    def _count_time(self, asked: float) -> None:
        if self._first is not None:
            now = time.perf_counter()
            self._statistics.seconds = now - self._first
            self._statistics.consumer_waited += now - asked

    def _count(self, arrived: Arrived, batch: dict[str, npt.NDArray[Any]], asked: float) -> None:
        counts, report = self._statistics, arrived.report
        counts.batches += 1
        counts.bytes += sum(array.nbytes for array in batch.values())
        if self._first is None:
            self._first = time.perf_counter()
            counts.first_batch = self._first - asked
            return
        self._count_time(asked)
        counts.making += report.making
        counts.copying += report.copying
        counts.workers_waited += report.waiting

    def _next(self) -> tuple[int, Arrived] | None:
        """Returns the next batch that may be taken, and the index of its worker. Returns None if this batch has not
        arrived.
        """
        count = self._task.count
        for _ in range(count):
            index = self._turn
            if not self._ended[index]:
                if self._arrived[index]:
                    arrived = self._arrived[index].popleft()
                    if arrived.report.kind is Kind.BATCH:
                        self._turn = (index + 1) % count
                        return index, arrived
                    self._note_end(index, arrived)
                elif (death := self._deaths[index]) is not None:
                    self._fail(death)
                elif self._order == "fixed":
                    return None  # the next batch must come from this worker, even if other workers have one
            self._turn = (index + 1) % count
        return None

    def _note_end(self, index: int, arrived: Arrived) -> None:
        if arrived.report.kind is Kind.FAILED:
            pid = self._processes[index].pid
            last_line = arrived.text.strip().rpartition("\n")[2]
            self._fail(
                WorkerFailed(
                    f"the generator of data worker {index} (pid {pid}) failed: {last_line}\n\n{arrived.text}",
                    index,
                    pid,
                )
            )
        self._ended[index] = True
        arrived.acknowledgements.take()

    def _fail(self, failure: RuedaError) -> NoReturn:
        self._failure = failure
        self.close()
        raise failure

    def _begin_epoch(self) -> None:
        self._epoch += 1
        self._turn = 0
        self._taken = [0] * self._task.count
        self._ended = [False] * self._task.count
        if self._finished():
            end_all(self._processes)
            self._processes.clear()

    def _finished(self) -> bool:
        return 0 < self._task.epochs <= self._epoch

    def _wait(self, warn_at: float) -> None:
        """Sleeps until a worker sends a report or ends, or until a full socket to a worker accepts messages again. A
        generator may need any time, so this wait has no limit. If the wait lasts until `warn_at` (a time of
        time.monotonic()), one warning is logged.
        """
        poll = select.poll()
        for process in self._processes:
            for descriptor, events in process.descriptors():
                poll.register(descriptor, events)
        left = warn_at - time.monotonic()
        if left < 0:
            poll.poll()
        elif not poll.poll(1000 * left):
            self._warn_of_long_wait()

    def _warn_of_long_wait(self) -> None:
        where = "at its producer" if self._task.receives else f"pid {self._processes[self._turn].pid}"
        _logger.warning(
            "the trainer has waited %g s for a batch of data worker %d of %d (%s), which has not failed; the trainer waits on. "
            "Check whether the generator is slow, waits for something, or was stopped",
            _LONG_WAIT,
            self._turn,
            self._task.count,
            where,
        )

    def _receive(self) -> None:
        for index, process in enumerate(self._processes):
            try:
                process.receive(self._arrived[index])
            except RuedaError as error:  # a report is lost, so the pipeline cannot go on
                self._fail(error)
            # If Ctrl-C interrupts this replacement, the next call replaces the process.
            if process.ended and not process.finished and self._deaths[index] is None:
                self._replace_or_note(index, process)

    def _replace_or_note(self, index: int, process: WorkerProcess) -> None:
        how, killed_by, exit_code = process.how_it_ended()
        who = f"data worker {index} of {self._task.count}"
        text = f"{who} (pid {process.pid}) {how}" if process.lost is None else f"{who}: {process.lost}"
        text += f", after it had handed over {process.handed_over} batches"
        self._in_vain[index] = 0 if process.handed_over else self._in_vain[index] + 1
        if self._on_death == "replace":
            if self._in_vain[index] <= _REPLACEMENTS:
                _logger.warning("%s. It is replaced", text)
                process.end_by(time.monotonic())
                try:
                    self._processes[index] = WorkerProcess(
                        self._context, self._task, index, process.epoch, process.batches, self._pin
                    )
                    self._statistics.replaced += 1
                    return
                except Exception as error:
                    text += f"; replacing it failed: {error}"
            else:
                text += f"; it is not replaced, because {_REPLACEMENTS} replacements in a row had handed over nothing"
        if process.lost is None:
            text += ". Its messages on standard error may say why"
        self._deaths[index] = WorkerDied(text, index, process.pid, killed_by, exit_code)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position behind the last batch that was taken, for a checkpoint. The position is a dict with
        numbers and a list.

        Example::

            batches = rueda.data.workers(batches_of, count=2)
            for batch in batches:
                break
            state = batches.state_dict()
            batches.close()
        """
        return {"epoch": self._epoch, "taken": list(self._taken), "turn": self._turn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues at the position that state_dict() returned. The state must come from the same number of workers.
        The worker processes are started anew.

        Raises:
            InvalidArgument: the state is not the result of state_dict() for the same number of workers, the workers were
                closed, or they belong to the parent of this process.

        Example::

            batches = rueda.data.workers(batches_of, count=2)
            batches.load_state_dict({"epoch": 0, "taken": [2, 1], "turn": 1})
            for batch in batches:  # begins with the second batch of worker 1
                train(batch)
        """
        self._check_usable("load_state_dict")
        try:
            epoch, turn = operator.index(state["epoch"]), operator.index(state["turn"])
            taken = [operator.index(number) for number in state["taken"]]
            if min(epoch, *taken) < 0:
                raise ValueError("a negative number")
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgument(f"load_state_dict: {state!r} is not what state_dict() returns") from error
        if len(taken) != self._task.count or not 0 <= turn < len(taken):
            raise InvalidArgument(
                f"load_state_dict: the state is of {len(taken)} workers; this pipeline has {self._task.count}; set count to "
                f"{len(taken)}"
            )
        end_all(self._processes)
        self._processes.clear()
        self._epoch, self._taken = epoch, taken
        self._start()
        self._turn = turn

    def statistics(self) -> WorkersStatistics:
        """Returns the counts and times so far.

        Example::

            with rueda.data.workers(batches_of) as batches:
                for batch in batches:
                    train(batch)
            print(batches.statistics().consumer_waited)
        """
        return dataclasses.replace(self._statistics)

    def summary(self) -> str:
        """Returns one line of text: how much data was taken, how long the trainer and the workers waited, and which
        part is the slowest.

        Example::

            with rueda.data.workers(batches_of) as batches:
                for batch in batches:
                    train(batch)
            print(batches.summary())
        """
        counts = self._statistics
        seconds = max(counts.seconds, 1e-9)
        each = self._task.count * seconds
        making = "receiving from the producers" if self._task.receives else "in the generators"
        text = (
            f"data workers: {counts.batches} batches, {counts.bytes / 1e6:.0f} MB in {counts.seconds:.2f} s "
            f"after the first one, which took {counts.first_batch:.2f} s; the trainer waited {counts.consumer_waited:.2f} s "
            f"({100 * counts.consumer_waited / seconds:.0f} %); of their time, the {self._task.count} workers spent "
            f"{100 * counts.making / each:.0f} % {making}, {100 * counts.copying / each:.0f} % copying and "
            f"{100 * counts.workers_waited / each:.0f} % waiting for the trainer"
        )
        if counts.replaced:
            text += f"; {counts.replaced} workers died and were replaced"
        if counts.consumer_waited < 0.05 * seconds:
            return f"{text}; the trainer is the slowest part"
        if self._task.receives:
            return f"{text}; the slowest part is the producers or the network: use more producers, or a faster network"
        slowest = "copying" if counts.copying > counts.making else "the generators"
        advice = "let the generators fill worker.empty()" if slowest == "copying" else "use more workers"
        return f"{text}; the slowest part is {slowest}: {advice}"

    def close(self) -> None:
        """Ends the processes. Arrays that were taken stay valid. The end of a ``with`` block calls this function, and
        the end of the program ends the processes, too.

        Example::

            batches = rueda.data.workers(batches_of)
            batches.close()
        """
        self._closed = True
        try:
            self._finalizer()
        finally:
            self._processes.clear()

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def workers(
    make_generator: Callable[..., Iterable[Batch]],
    count: int = 2,
    *,
    args: Iterable[Any] = (),
    epochs: int = 1,
    prefetch: int = 2,
    order: str = "fixed",
    on_death: str = "raise",
    start_method: str = "spawn",
    memory: str = "shared",
    device: int | None = None,
) -> Workers:
    """Makes batches in worker processes. The arrays come through shared memory, so they are not pickled, and this
    process does not copy them.

    The processes start at once. In each epoch, each process calls ``make_generator(worker, *args)``, and hands over
    the dicts of arrays that this generator yields. ``worker`` is a WorkerInfo.

    The batches are dicts of NumPy arrays that this process may change. The worker gets their memory back when all
    arrays of the batch, and all views of these arrays, have been destroyed. As long as the program keeps arrays, they
    stay valid, and the worker uses more memory, but no file descriptors. torch.from_numpy() makes tensors of the arrays
    without a copy. A child that this process forks must copy the arrays that it keeps.

    No process and no memory is left behind, even if this process is killed. There is one exception: if native code in a
    generator holds the GIL and never returns, the worker of this generator outlives a trainer that is killed. close()
    ends this worker, too.

    Args:
        make_generator: returns an iterable of dicts of arrays. With ``start_method="spawn"`` it must be a function at
            the top level of a module, and the script must protect its main part with ``if __name__ == "__main__":``.
        count: the number of processes.
        args: further arguments for make_generator. Pickle must be able to send them.
        epochs: the number of epochs. 0: the epochs never end. Each loop over the result takes one epoch.
        prefetch: each worker makes up to this number of batches before the program takes them, and its generator
            works on one more.
        order: "fixed" takes a batch from each worker in turn, so that the order of the batches does not depend on timing.
            "ready" takes the next batch that is ready.
        on_death: what happens if a worker process dies. "raise" raises WorkerDied. "replace" logs a warning and
            starts a new process, which continues behind the last batch that the dead process handed over. With
            "replace", the generator must make the same batches again, or use WorkerInfo.first_batch().
        start_method: "spawn", "fork" or "forkserver", as in the module multiprocessing.
        memory: "shared" or "pinned". With "pinned", the memory of the batches is registered with NVIDIA's driver, so
            that a GPU can copy from it while this process goes on (``tensor.to("cuda", non_blocking=True)``). Rueda
            reuses the memory of a batch only after the arrays have died and the GPU has done the work that was then in
            its default stream. If another stream makes the copies, make the default stream wait for that stream while
            the arrays are alive.
        device: with ``memory="pinned"``, the number of the GPU to which the program copies. The default is
            rueda.local_device() if rueda.init() was called, and otherwise 0. Pass the number if the program copies to
            another GPU. Rueda cannot check this number. If it is wrong, a worker may write into the memory while a GPU
            still copies from it.

    Raises:
        InvalidArgument: an argument cannot be used, or pickle cannot send it. Or ``device`` is missing with ``memory="pinned"``,
            and this host has more ranks than GPUs.
        ResourceExhausted: the system refuses a process, or the driver cannot pin memory.
        Unsupported: ``memory="pinned"``, and there is no GPU, no driver or no plugin for it.

        The loop raises WorkerFailed with the text of an exception of a generator, WorkerDied for a dead process, and
        ResourceExhausted if the system refuses a file descriptor or memory for a batch.

    Example::

        def batches_of(worker):
            for number in range(worker.index, 10, worker.count):
                yield {"x": np.full((4, 8), number, "float32"), "y": np.arange(4)}

        with rueda.data.workers(batches_of, count=2) as batches:
            for batch in batches:
                train(batch)
    """
    if not callable(make_generator):
        raise InvalidArgument(f"workers: make_generator is {make_generator!r}; expected a function")
    check_numbers("workers", (("count", count, 1), ("epochs", epochs, 0), ("prefetch", prefetch, 1)))
    check_choices("workers", order, on_death, start_method, memory)
    task = Task(make_generator, tuple(args), count, epochs, prefetch)
    return Workers(task, order, on_death, start_method, pinned_device(memory, device))


def pinned_device(memory: str, device: int | None) -> int | None:
    """Returns the number of the GPU for which batches are pinned, or None if they are not pinned. Raises an error of
    Rueda if local_device() finds no GPU for this rank.
    """
    if memory != "pinned":
        return None
    if device is None:
        return _native.local_device() if _native.is_initialized() else 0
    return device


def check_numbers(function: str, numbers: Iterable[tuple[str, object, int]]) -> None:
    for name, number, least in numbers:
        if not isinstance(number, int) or number < least:
            raise InvalidArgument(f"{function}: {name} is {number!r}; expected a whole number of at least {least}")


def check_choices(function: str, order: str, on_death: str, start_method: str, memory: str) -> None:
    for name, text, allowed in (
        ("order", order, _ORDERS),
        ("on_death", on_death, _ON_DEATH),
        ("start_method", start_method, _START_METHODS),
        ("memory", memory, _MEMORY),
    ):
        if text not in allowed:
            raise InvalidArgument(f"{function}: {name} is {text!r}; expected one of {', '.join(map(repr, allowed))}")
