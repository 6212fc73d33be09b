# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The input pipeline: from files to batches of NumPy arrays. Threads of the library do the work."""

from __future__ import annotations

import json
import operator
import os
import typing
import weakref
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from rueda import _native
from rueda.data._batches import Batch, take_batch
from rueda.data._formats import Format, Path, Source, files
from rueda.data._maps import Map, MappedBatches, divide_maps
from rueda.errors import InvalidArgument


def _whole(name: str, number: Any) -> int:
    """Returns the number as an int, because the module json cannot write NumPy's integers."""
    try:
        return operator.index(number)
    except TypeError as error:
        raise InvalidArgument(f"Pipeline: {name} is {number!r}; expected a whole number") from error


class Pipeline:
    """Reads files, shuffles their samples, gives this rank its share, and hands out batches of NumPy arrays. Threads
    of the library read and parse ahead, without the GIL.

    A ``for`` loop over the pipeline takes one epoch. A batch is a dict. A column with a fixed number of values is a
    NumPy array of the shape (samples) or (samples, values). Any other column is a Ragged. The arrays are not copied:
    they lie in memory that belongs to the batch, and the program may change them. When the last array of the batch
    and the last view of an array have died, a later batch uses this memory. torch.from_numpy() makes tensors of the
    arrays without a copy.

    Threads: one thread at a time may use a pipeline. Arrays may die in any thread.

    Args:
        source: a pattern of files, a list of patterns, or the result of files(), fifo() or sagemaker_channel().
        format: Examples, Libsvm, Csv, Tfrecords, Lines, Safetensors or WholeFiles.
        batch: the number of samples in one step, over all ranks.
        rank, size: usually rueda.rank() and rueda.size(). This rank gets its part of each batch.
        shuffle: the number of samples that are permuted together. The order of the files is permuted, too. 0: samples
            and files keep their order.
        seed: determines the order of the samples. It must be the same on every rank.
        epochs: the number of epochs. 0: the epochs never end.
        drop_remainder: True: if the last batch of an epoch would not be full, it is left out.
        lanes: the files are divided into this number of sequences (docs/data.md).
        malformed_limit: this number of malformed records is left out. The next malformed record is an error.
        threads: the number of threads that parse. 0: as many as there are usable cores, at most 8.
        prefetch: the threads prepare at most this number of batches before the program takes them. 0: threads + 2.
        maps: functions that change each batch, in this order. A function gets the batch (a dict), and changes it or
            returns a new dict. Hash and LookUp are such functions; those at the beginning of the list run in the
            library's threads, without the GIL. The other functions are called for one batch after the other.
        memory: "ordinary", or "resident": the arrays lie in memory that all ranks of the host share, like those of
            rueda.empty(). An operation uses them without copying them first. Needs rueda.init().
        cache: where to keep the decompressed bytes of the files for later epochs: "memory" (of this process), or a
            folder, where they stay for later jobs, and which all ranks of a host can share. None: nowhere. FIFOs and
            the formats Safetensors and WholeFiles have no cache.
        map_ahead: 0: the ``for`` loop calls the functions. Otherwise, a thread calls them, and prepares at most this
            number of batches before the program takes them.

    Raises:
        InvalidArgument: an argument cannot be used, or a file cannot be read. The loop raises it for a malformed
            record, too.
        MapFailed: a function of ``maps`` raised an exception. The loop raises it at this batch, and again in each
            later call; load_state_dict() ends this. Stages that run in the library's threads raise InvalidArgument
            instead, for example if there is no column of that name.
        NotInitialized: the loop raises it if ``memory`` is "resident" and init() was not called.
        ResourceExhausted: the system refuses a thread or memory.

    Example::

        pipeline = rueda.data.Pipeline(
            "train-*.csv",
            rueda.data.Csv([rueda.data.CsvColumn("label"), rueda.data.CsvColumn("age")]),
            batch=32,
            rank=rueda.rank(),
            size=rueda.size(),
            shuffle=10_000,
            epochs=2,
        )
        for epoch in range(2):
            for batch in pipeline:
                train(batch["age"], batch["label"])
        print(pipeline.summary())
    """

    def __init__(
        self,
        source: Source | Path | Sequence[Path],
        format: Format,
        batch: int,
        *,
        rank: int = 0,
        size: int = 1,
        shuffle: int = 0,
        seed: int = 0,
        epochs: int = 1,
        drop_remainder: bool = False,
        lanes: int = 1,
        malformed_limit: int = 0,
        threads: int = 0,
        prefetch: int = 0,
        maps: Sequence[Map] = (),
        map_ahead: int = 0,
        memory: str = "ordinary",
        cache: Path | None = None,
    ) -> None:
        if isinstance(source, str | os.PathLike):
            source = files(source)
        elif not isinstance(source, Source):
            source = files(*source)
        if not isinstance(format, Format):
            names = ", ".join(each.__name__ for each in typing.get_args(Format))
            raise InvalidArgument(f"Pipeline: format is {format!r}; expected one of {names}")
        numbers = {
            "batch": batch,
            "rank": rank,
            "size": size,
            "shuffle": shuffle,
            "seed": seed,
            "epochs": epochs,
            "lanes": lanes,
            "malformed_limit": malformed_limit,
            "threads": threads,
            "prefetch": prefetch,
        }
        self._options: dict[str, Any] = {
            "sources": [source.description],
            "format": format._options(),
            "drop_remainder": drop_remainder,
            "memory": memory,
            "cache": "" if cache is None else os.fspath(cache),
            **{name: _whole(name, number) for name, number in numbers.items()},
        }
        self._map_ahead = _whole("map_ahead", map_ahead)
        if self._map_ahead < 0:
            raise InvalidArgument(f"Pipeline: map_ahead is {map_ahead}; it must be 0 or more")
        self._options["stages"], self._vocabularies, self._functions = divide_maps(maps, self._map_ahead > 0)
        self._owner = os.getpid()
        self._pipeline: object | None = None
        self._mapped: MappedBatches | None = None
        self._finalizer: weakref.finalize[[], Pipeline] | None = None
        self._open(self._options)

    def _open(self, options: dict[str, Any]) -> None:
        try:
            text = json.dumps(options)
        except TypeError as error:
            raise InvalidArgument(f"Pipeline: an argument has a wrong type: {error}") from error
        self._pipeline = _native.data_open(text, self._vocabularies)
        if self._functions:
            self._mapped = MappedBatches(self._pipeline, self._functions, self._map_ahead)
            # If the program drops the pipeline without close(), the thread must end. The thread refers only to the
            # MappedBatches, so it does not keep the pipeline alive. At exit, _maps.py ends the thread.
            self._finalizer = weakref.finalize(self, self._mapped.begin_stop)
            self._finalizer.atexit = False

    def _opened(self) -> object:
        if self._pipeline is None:
            raise InvalidArgument("the pipeline was closed; make a new one")
        if os.getpid() != self._owner:
            raise InvalidArgument(
                "the pipeline belongs to the process that made it, not to its child; make a new one there"
            )
        return self._pipeline

    def _describe(self) -> dict[str, Any]:
        pipeline = self._opened()
        if self._mapped is not None:
            return self._mapped.describe()
        description: dict[str, Any] = json.loads(_native.data_describe(pipeline))
        description["statistics"]["python_mapping"] = 0.0
        return description

    def __iter__(self) -> Iterator[Batch]:
        """Returns the batches of one epoch. If the last loop stopped in the middle of an epoch, returns the remaining
        batches of this epoch.
        """
        if self._describe()["finished"]:
            raise InvalidArgument(
                f"all {self._options['epochs']} epochs of the pipeline were taken; set epochs to the number of loops, or to 0"
            )
        # This iterator keeps no reference to a batch. A generator function would keep the last batch alive while it
        # waits for the next one.
        return iter(self._next, None)

    def _next(self) -> Batch | None:
        """Returns the next batch, or None at the end of the epoch."""
        pipeline = self._opened()
        return self._mapped.next() if self._mapped is not None else take_batch(pipeline)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position behind the last batch that was taken, for a checkpoint. The position is the same on
        all ranks that took the same number of batches. A job with any number of ranks can continue there.

        Example::

            state = pipeline.state_dict()
        """
        return {"position": self._describe()["position"]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues at the position of a state_dict(), and no longer at the current position. The source is opened anew.

        Raises:
            InvalidArgument: the state is not a dict with a position. In this case the pipeline stays as it is. In three
                other cases the pipeline is closed: an option that determines the order differs from that of the
                pipeline that made the state, the position cannot be used, or the source cannot be opened any more.

        Example::

            pipeline.load_state_dict(pipeline.state_dict())
        """
        self._opened()
        if not isinstance(state, Mapping) or not isinstance(state.get("position"), str):
            raise InvalidArgument(f"load_state_dict: {state!r} is not what state_dict() returns")
        self.close()  # a FIFO can be opened only once
        self._open({**self._options, "start": state["position"]})

    def statistics(self) -> dict[str, float]:
        """Returns counts and times. The names are those of ``rueda::data::Statistics``: batches, records, bytes,
        malformed, seconds, consumer_waited, reading, parsing, mapping, starved, lanes and threads. In addition,
        python_mapping is the time in the functions of ``maps`` that do not run in the library's threads.

        Example::

            print(pipeline.statistics()["consumer_waited"])
        """
        statistics: dict[str, float] = self._describe()["statistics"]
        return statistics

    def summary(self) -> str:
        """Returns one line of text: how long the trainer waited, and which stage is the slowest.

        Example::

            print(pipeline.summary())
        """
        summary: str = self._describe()["summary"]
        return summary

    def warnings(self) -> list[str]:
        """Returns one line for each choice of arguments that wastes time or memory.

        Example::

            for line in pipeline.warnings():
                print(line)
        """
        warnings: list[str] = self._describe()["warnings"]
        return warnings

    def close(self) -> None:
        """Stops the threads. Arrays that were taken stay valid. The end of a ``with`` block calls this function.

        Example::

            pipeline.close()
        """
        if self._finalizer is not None:
            self._finalizer.detach()  # otherwise it would keep the MappedBatches, and so the native pipeline, alive
            self._finalizer = None
        mapped, self._mapped = self._mapped, None
        self._pipeline = None
        if mapped is not None:
            mapped.stop()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
