# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Functions that change the batches of a pipeline, called in the order of the batches."""

from __future__ import annotations

import atexit
import collections
import json
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rueda import _native
from rueda.data._batches import Batch, take_batch
from rueda.data._errors import MapFailed
from rueda.data._terms import Hash, LookUp
from rueda.errors import InvalidArgument

Map = Callable[[Batch], "Batch | None"]


def divide_maps(
    maps: Sequence[Map], is_ahead: bool
) -> tuple[list[dict[str, Any]], list[object], list[tuple[int, Map]]]:
    """Returns the stages that the library's threads execute, their vocabularies, and the remaining functions with their
    numbers. Only stages at the beginning can be executed by the library, because the functions are called in order.
    """
    stages: list[dict[str, Any]] = []
    vocabularies: list[object] = []
    functions: list[tuple[int, Map]] = []
    for number, each in enumerate(maps):
        if not callable(each):
            raise InvalidArgument(f"Pipeline: maps[{number}] is {each!r}; expected a function")
        grows = isinstance(each, LookUp) and each.vocabulary.grows
        if grows and is_ahead:
            raise InvalidArgument(
                f"Pipeline: maps[{number}] looks up texts in a vocabulary that grows. With map_ahead, it would depend on "
                "timing which terms a batch finds; set map_ahead to 0, or freeze() the vocabulary first"
            )
        if isinstance(each, Hash) and not functions:
            stages.append(each._stage())
        elif isinstance(each, LookUp) and not functions and not grows:
            stages.append({"kind": "look_up", "columns": list(each.columns), "vocabulary": len(vocabularies)})
            vocabularies.append(each.vocabulary._vocabulary)
        else:
            functions.append((number, each))
    return stages, vocabularies, functions


class _Mapped(NamedTuple):
    """A batch, or None at the end of an epoch, and the state after this batch: the pipeline's description, and the
    seconds that the functions have taken.
    """

    batch: Batch | None
    description: str
    mapping: float


#: The objects whose threads may run.
_working: weakref.WeakSet[MappedBatches] = weakref.WeakSet()


class MappedBatches:
    """The batches of a pipeline after the map functions. The functions run in the caller's thread, or in a thread of
    this object that works ahead.

    Threads: one thread, the consumer, calls next() and describe(). Only the object's own thread uses the
    pipeline, if there is such a thread. Any thread may call stop() and begin_stop().
    """

    def __init__(self, pipeline: object, functions: list[tuple[int, Map]], ahead: int) -> None:
        self._pipeline: object | None = pipeline
        self._functions = functions
        self._ahead = ahead
        self._description = _native.data_describe(pipeline)  # after the last batch that next() returned
        self._mapping = 0.0  # the seconds that the functions took for the batches that next() returned
        self._mapping_ahead = 0.0  # the same for all batches that _produce() made
        self._waited = 0.0  # the seconds that the consumer spent in next()
        self._begin: float | None = None  # the time of the first call of next()
        self._failure: BaseException | None = None
        self._owner = os.getpid()
        # The condition guards the members below. next() waits for a batch, which _work() appends; _work() waits for
        # room, which next() makes. begin_stop() wakes both.
        self._changed = threading.Condition()
        self._ready: collections.deque[_Mapped | BaseException] = collections.deque()
        self._stopped = False
        self._thread: threading.Thread | None = None
        if ahead > 0:
            # The thread is a daemon, so that it does not keep the program alive. _stop_all() stops it at exit.
            self._thread = threading.Thread(target=self._work, name="rueda-maps", daemon=True)
            _working.add(self)
            self._thread.start()

    def next(self) -> Batch | None:
        """Returns the next batch, or None at the end of an epoch. After a failure, raises the same error each time."""
        if self._failure is not None:
            raise self._failure
        since = time.perf_counter()
        if self._begin is None:
            self._begin = since
        try:
            mapped = self._produce() if self._thread is None else self._take()
        except Exception as error:
            self._failure = error
            raise
        finally:
            self._waited += time.perf_counter() - since
        self._description, self._mapping = mapped.description, mapped.mapping
        return mapped.batch

    def describe(self) -> dict[str, Any]:
        """Returns the description of the pipeline after the last batch that next() returned. Its times are those of the
        consumer of this object.
        """
        description: dict[str, Any] = json.loads(self._description)
        counts = description["statistics"]
        library_waited = counts["consumer_waited"]
        counts["seconds"] = 0.0 if self._begin is None else time.perf_counter() - self._begin
        counts["consumer_waited"] = self._waited
        counts["python_mapping"] = self._mapping
        description["summary"] = summarize(counts, library_waited, description["slowest"], self._ahead > 0)
        return description

    def _take(self) -> _Mapped:
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._stopped)
            if not self._ready:
                raise InvalidArgument("the pipeline was closed; make a new one")
            taken = self._ready.popleft()
            self._changed.notify_all()
        if isinstance(taken, BaseException):
            # The thread has ended. This may be an exception that next() does not catch, for example a SystemExit.
            self._failure = taken
            raise taken
        return taken

    def _work(self) -> None:
        finished = False
        while not finished:
            try:
                made: _Mapped | BaseException = self._produce()
                finished = not isinstance(made, BaseException) and bool(json.loads(made.description)["finished"])
            except BaseException as error:  # the consumer raises it, whatever it is
                made, finished = error, True
            with self._changed:
                self._changed.wait_for(lambda: len(self._ready) < self._ahead or self._stopped)
                if self._stopped:
                    return
                self._ready.append(made)
                self._changed.notify_all()
            del made  # otherwise the last batch would live while this thread waits for the next one

    def _produce(self) -> _Mapped:
        batch = take_batch(self._pipeline, lambda: self._stopped)
        description = _native.data_describe(self._pipeline)
        if batch is not None:
            for number, function in self._functions:
                batch = self._call(number, function, batch, description)
        return _Mapped(batch, description, self._mapping_ahead)

    def _call(self, number: int, function: Map, batch: Batch, description: str) -> Batch:
        since = time.perf_counter()
        try:
            result = function(batch)
            if result is not None and not isinstance(result, dict):
                raise TypeError(
                    f"the function returned {type(result).__name__}; expected a dict, or None for no new one"
                )
        except Exception as error:
            place = json.loads(description)
            epoch, step = place["epoch"], place["step"] - 1
            name = getattr(function, "__name__", type(function).__name__)
            raise MapFailed(
                f"Pipeline: maps[{number}] ({name}) failed for batch {step} of epoch {epoch}: "
                f"{type(error).__name__}: {error}",
                epoch,
                step,
            ) from error
        finally:
            self._mapping_ahead += time.perf_counter() - since
        return batch if result is None else result

    def begin_stop(self) -> None:
        """Tells the thread to end, and does not wait for it. The garbage collector may call this function in any thread
        and at any place. The thread that it interrupts may hold a lock for which the map function waits, so waiting
        for the map function here could take forever.
        """
        # The thread does not exist in a forked child, and there another thread may have held the condition at the fork.
        if os.getpid() != self._owner:
            return
        with self._changed:
            self._stopped = True
            dropped, self._ready = self._ready, collections.deque()
            self._changed.notify_all()
        del dropped  # outside the condition, because the end of a batch may call any function

    def stop(self) -> None:
        """Ends the thread, waits until the function that it calls has returned, and drops the pipeline."""
        self.begin_stop()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread() and os.getpid() == self._owner:
            thread.join()
        self._pipeline = None


def summarize(counts: dict[str, float], library_waited: float, slowest: str, is_ahead: bool) -> str:
    """Returns the summary of a pipeline with functions. For the library, they are the consumer: ``library_waited`` says
    how long they waited for its batches, and ``slowest`` names the slowest of its own stages.
    """
    seconds = max(counts["seconds"], 1e-9)
    waited, mapping = counts["consumer_waited"], counts["python_mapping"]
    if waited < 0.02 * seconds:  # this is only the ordinary cost of handing over batches (as in summary.cpp)
        slowest = "the consumer is the slowest stage"
    elif mapping > library_waited:
        advice = "" if is_ahead else "; map_ahead would let a thread call them while the trainer works"
        slowest = f"the slowest stage is the functions of maps ({mapping:.2f} s in one thread){advice}"
    text = (
        f"input: {counts['batches']} batches, {counts['records']} samples, {counts['bytes'] / 1e6:.1f} MB in "
        f"{counts['seconds']:.2f} s ({counts['records'] / seconds:.0f} samples/s); the consumer waited {waited:.2f} s "
        f"({100 * waited / seconds:.0f} %); {slowest}"
    )
    return text if counts["malformed"] == 0 else f"{text}; {counts['malformed']} malformed records were left out"


def _stop_all() -> None:
    """Ends all threads at the exit of the program: Python stops daemon threads at any place, also within the library."""
    for each in list(_working):
        each.stop()


atexit.register(_stop_all)
