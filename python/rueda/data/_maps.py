# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Functions that change the batches of a pipeline, called in the order of the batches."""

from __future__ import annotations

import atexit
import collections
import json
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from rueda import _native
from rueda.data._batches import Batch, Ragged, take_batch
from rueda.data._decode import Decode
from rueda.data._errors import MapFailed
from rueda.data._terms import Hash, LookUp
from rueda.errors import InvalidArgument

Map = Callable[[Batch], "Batch | None"]
_logger = logging.getLogger("rueda.data")


def _for_padding(function: Map, weights: str | None) -> Map:
    """Returns a function that passes the name of the column of weights to a Decode or LookUp. The Decode or LookUp does
    not store this name, because the program may use the object in other pipelines, too.
    """
    if weights is None or not isinstance(function, Decode | LookUp):
        return function
    stage = function

    def with_weights(batch: Batch) -> Batch | None:
        return stage(batch, weights)

    with_weights.__name__ = type(stage).__name__  # for error messages
    return with_weights


def _name_of(function: Map) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def divide_maps(
    maps: Sequence[Map], is_ahead: bool, weights: str | None = None
) -> tuple[list[dict[str, Any]], list[object], list[tuple[int, Map]]]:
    """Divides the functions of a pipeline. Returns the stages that the library's threads execute, the vocabularies of
    these stages, and the remaining functions with their numbers. The library can execute only stages at the beginning
    of the list, because the functions are called in order. ``weights`` is the name of the column of weights if the
    batches are padded.
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
            functions.append((number, _for_padding(each, weights)))
    return stages, vocabularies, functions


def _count_samples(batch: Batch, weights: str | None) -> int | None:
    """Returns the number of samples of a batch, or None if its columns do not show it."""
    column = batch.get(weights) if weights is not None else None
    if isinstance(column, np.ndarray):
        return int(np.count_nonzero(column))
    lengths = [
        len(each) for each in batch.values() if isinstance(each, Ragged) or (isinstance(each, np.ndarray) and each.ndim)
    ]
    return max(lengths, default=None)


class _Mapped(NamedTuple):
    """A batch (None at the end of an epoch), and the state after this batch: the pipeline's description, and the
    seconds that the map functions have taken so far.
    """

    batch: Batch | None
    description: str
    mapping: float


#: All MappedBatches whose threads may still be running.
_working: weakref.WeakSet[MappedBatches] = weakref.WeakSet()


class MappedBatches:
    """The batches of a pipeline after the map functions. The functions run in the caller's thread, or in a thread of
    this object that works ahead.

    Threads: one thread, the consumer, calls next() and describe(). Only the object's own thread uses the
    pipeline, if there is such a thread. Any thread may call stop() and begin_stop().
    """

    def __init__(
        self, pipeline: object, functions: list[tuple[int, Map]], ahead: int, weights: str | None = None
    ) -> None:
        self._pipeline: object | None = pipeline
        self._functions = functions
        self._weights = weights
        self._warnings: list[str] = []  # at most one line
        self._ahead = ahead
        # The description of the pipeline after the last batch that next() returned.
        self._description = _native.data_describe(pipeline)
        self._mapping = 0.0  # the seconds that the map functions took for the batches that next() returned
        self._mapping_ahead = 0.0  # the seconds that the map functions took for all batches of _produce()
        self._waited = 0.0  # the seconds that the consumer spent in next()
        self._begin: float | None = None  # the time of the first call of next()
        self._failure: BaseException | None = None
        self._owner = os.getpid()
        # The condition guards the attributes below. next() waits for a batch, which _work() appends; _work() waits for
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
        """Returns the description of the pipeline after the last batch that next() returned. Its
        ``consumer_waited`` is the time that the caller of next() waited, and not the time that map functions waited.
        """
        description: dict[str, Any] = json.loads(self._description)
        counts = description["statistics"]
        library_waited = counts["consumer_waited"]
        counts["seconds"] = 0.0 if self._begin is None else time.perf_counter() - self._begin
        counts["consumer_waited"] = self._waited
        counts["python_mapping"] = self._mapping
        description["warnings"] += self._warnings
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
            # The exception has ended the thread. next() stores only an Exception, so this line also stores others, for
            # example a SystemExit.
            self._failure = taken
            raise taken
        return taken

    def _work(self) -> None:
        finished = False
        while not finished:
            try:
                made: _Mapped | BaseException = self._produce()
                finished = not isinstance(made, BaseException) and bool(json.loads(made.description)["finished"])
            except BaseException as error:  # the consumer raises every exception of this thread
                made, finished = error, True
            with self._changed:
                self._changed.wait_for(lambda: len(self._ready) < self._ahead or self._stopped)
                if self._stopped:
                    return
                self._ready.append(made)
                self._changed.notify_all()
            del made  # the last batch must not stay alive while this thread waits for the next one

    def _produce(self) -> _Mapped:
        batch = take_batch(self._pipeline, lambda: self._stopped)
        description = _native.data_describe(self._pipeline)
        if batch is not None:
            count = _count_samples(batch, self._weights)
            for number, function in self._functions:
                batch = self._call(number, function, batch, description)
                before, count = count, _count_samples(batch, self._weights)
                if count == 0 and before and not self._warnings:
                    self._warn_of_empty_batch(number, function, description)
        return _Mapped(batch, description, self._mapping_ahead)

    def _warn_of_empty_batch(self, number: int, function: Map, description: str) -> None:
        place = json.loads(description)
        self._warnings.append(
            f"this rank has no samples in step {place['step'] - 1} of epoch {place['epoch']} (counted from 0), because "
            f"maps[{number}] ({_name_of(function)}) left all of them out; take part in this step with gradients of zero "
            "(a mean over no samples, or with weights that are all 0, would be NaN)"
        )
        _logger.warning("input: %s (a pipeline logs this warning once)", self._warnings[-1])

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
            raise MapFailed(
                f"Pipeline: maps[{number}] ({_name_of(function)}) failed for batch {step} of epoch {epoch}: "
                f"{type(error).__name__}: {error}",
                epoch,
                step,
            ) from error
        finally:
            self._mapping_ahead += time.perf_counter() - since
        return batch if result is None else result

    def begin_stop(self) -> None:
        """Tells the thread to end, but does not wait until it has ended. The garbage collector may call this function
        at any time, on any thread, and the interrupted code may hold a lock for which the map function waits. If
        begin_stop() waited for the map function, both would wait forever.
        """
        # A forked child does not have the thread, and another thread may have held the condition during the fork.
        if os.getpid() != self._owner:
            return
        with self._changed:
            self._stopped = True
            dropped, self._ready = self._ready, collections.deque()
            self._changed.notify_all()
        # The batches are destroyed only now, after the condition was released, because destroying a batch may call any
        # function.
        del dropped

    def stop(self) -> None:
        """Ends the thread, waits until the function that it calls has returned, and drops the pipeline."""
        self.begin_stop()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread() and os.getpid() == self._owner:
            thread.join()
        self._pipeline = None


def summarize(counts: dict[str, float], library_waited: float, slowest: str, is_ahead: bool) -> str:
    """Returns the summary of a pipeline with map functions. ``library_waited`` says how long the map functions waited
    for batches of the library. ``slowest`` names the slowest of the library's own stages.
    """
    seconds = max(counts["seconds"], 1e-9)
    waited, mapping = counts["consumer_waited"], counts["python_mapping"]
    if counts["batches"] == 0 or counts["seconds"] < 1:  # too short to tell the slowest stage (as in summary.cpp)
        slowest = ""
    elif waited < 0.02 * seconds:  # such a short wait is the usual cost of handing over batches (as in summary.cpp)
        slowest = "the consumer is the slowest stage"
    elif mapping > library_waited:
        advice = "" if is_ahead else "; map_ahead would let a thread call them while the trainer works"
        slowest = f"the slowest stage is the functions of maps ({mapping:.2f} s in one thread){advice}"
    text = (
        f"input: {counts['batches']} batches, {counts['records']} samples, {counts['bytes'] / 1e6:.1f} MB in "
        f"{counts['seconds']:.2f} s ({counts['records'] / seconds:.0f} samples/s); the consumer waited {waited:.2f} s "
        f"({100 * waited / seconds:.0f} %)"
    )
    if slowest:
        text += f"; {slowest}"
    if counts["malformed"] > 0:
        text += f"; {counts['malformed']} malformed records were left out"
    if counts["cache_opened"] > 0:
        text += f"; {counts['cache_opened']} times a file came from the cache"
    if counts["cache_refused"] > 0:
        text += f"; {counts['cache_refused']} times the cache could not keep a file (warnings() says why)"
    return text


def _stop_all() -> None:
    """Ends all threads at the exit of the program. Otherwise Python would stop them at an arbitrary place, even within
    the library."""
    for each in list(_working):
        each.stop()


atexit.register(_stop_all)
