# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Functions that change the batches of a pipeline, called in the order of the batches."""

from __future__ import annotations

import collections
import json
import os
import threading
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
    """A batch, or None at the end of an epoch, and the pipeline's description after this batch."""

    batch: Batch | None
    description: str


class MappedBatches:
    """The batches of a pipeline after the map functions. The functions run in the caller's thread, or in a thread of
    this object that works ahead.

    Threads: one thread, the consumer, calls next() and reads ``description``. Only the object's own thread uses the
    pipeline, if there is such a thread. Any thread may call stop().

    Attributes:
        description: the description of the pipeline after the last batch that next() returned.
    """

    def __init__(self, pipeline: object, functions: list[tuple[int, Map]], ahead: int) -> None:
        self._pipeline = pipeline
        self._functions = functions
        self._ahead = ahead
        self.description = _native.data_describe(pipeline)
        self._failure: BaseException | None = None
        self._owner = os.getpid()
        # The condition guards the members below. next() waits for a batch, which _work() appends; _work() waits for
        # room, which next() makes. stop() wakes both.
        self._changed = threading.Condition()
        self._ready: collections.deque[_Mapped | BaseException] = collections.deque()
        self._stopped = False
        self._thread: threading.Thread | None = None
        if ahead > 0:
            # The thread is a daemon, so that it does not keep the program alive. weakref.finalize() stops it at exit.
            self._thread = threading.Thread(target=self._work, name="rueda-maps", daemon=True)
            self._thread.start()

    def next(self) -> Batch | None:
        """Returns the next batch, or None at the end of an epoch. After a failure, raises the same error each time."""
        if self._failure is not None:
            raise self._failure
        try:
            mapped = self._produce() if self._thread is None else self._take()
        except Exception as error:
            self._failure = error
            raise
        self.description = mapped.description
        return mapped.batch

    def _take(self) -> _Mapped:
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._stopped)
            if not self._ready:
                raise InvalidArgument("the pipeline was closed; make a new one")
            taken = self._ready.popleft()
            self._changed.notify_all()
        if isinstance(taken, BaseException):
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
        return _Mapped(batch, description)

    def _call(self, number: int, function: Map, batch: Batch, description: str) -> Batch:
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
        return batch if result is None else result

    def stop(self) -> None:
        """Ends the thread, and waits until the function that it calls has returned."""
        with self._changed:
            self._stopped = True
            self._ready.clear()
            self._changed.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread() and os.getpid() == self._owner:
            thread.join()
