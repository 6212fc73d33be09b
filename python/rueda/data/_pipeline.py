# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The input pipeline: from files to batches of NumPy arrays. Threads of the library do the work."""

from __future__ import annotations

import dataclasses
import json
import operator
import os
import typing
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from rueda import _native
from rueda.data._batches import Batch, take_batch
from rueda.data._formats import Format, Path, Source, files
from rueda.data._maps import Map, MappedBatches, divide_maps
from rueda.data._workers import pinned_device
from rueda.errors import InvalidArgument


def _whole(name: str, number: Any) -> int:
    """Returns the number as an int, because the module json cannot write NumPy's integers."""
    try:
        return operator.index(number)
    except TypeError as error:
        raise InvalidArgument(f"Pipeline: {name} is {number!r}; expected a whole number") from error


def _sources_of(source: Source | Path | Sequence[Source | Path]) -> list[Source]:
    """Returns the sources that the program has named. Each source with content (memory()) gets an index, counted from
    0."""
    listed = [source] if isinstance(source, Source | str | os.PathLike) else source
    if not isinstance(listed, Iterable):
        raise InvalidArgument(f"Pipeline: source is {source!r}; expected a path, a Source, or a list of these")
    listed = list(listed)
    patterns = [each for each in listed if not isinstance(each, Source)]
    if len(patterns) == len(listed):
        # All patterns form one source, so that a file that matches two patterns is read only once.
        return [files(*patterns)]
    sources, contents = [], 0
    for each in listed:
        made = each if isinstance(each, Source) else files(each)
        if made.content is not None:
            made = dataclasses.replace(made, description={**made.description, "index": contents})
            contents += 1
        sources.append(made)
    return sources


def _start(what: str, state: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(state, Mapping) or not isinstance(state.get("position"), str):
        raise InvalidArgument(f"{what}: the state {state!r} is not what state_dict() returns")
    return {"start": state["position"]}


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
        source: a pattern of files; or the result of files(), fifo(), sagemaker_channel() or memory(); or a list of such
            patterns and sources, for example several FIFOs.
        format: Examples, Libsvm, Csv, Tfrecords, Lines, Safetensors or WholeFiles.
        batch: the number of samples in one step, over all ranks.
        rank, size: usually rueda.rank() and rueda.size(). This rank gets its part of each batch.
        shuffle: the number of samples that are permuted together. The order of the files is permuted, too. 0: samples
            and files keep their order.
        seed: determines the order of the samples. It must be the same on every rank.
        epochs: the number of epochs. 0: the epochs never end. An epoch in which this rank gets no batch causes a
            warning, but no error, because other ranks may have batches in this epoch. If ``epochs`` is 0 and no source
            is a FIFO, 100 such epochs in a row within 10 s raise InvalidArgument, because a loop that waits for a batch
            would never end.
        remainder: what happens to the last samples of an epoch if they do not fill a batch. "keep": they form a smaller
            batch. "drop": they are left out. "pad": this rank's part of the batch is filled up with rows of zeros and
            empty texts, so all batches have the same number of rows. Rows in place of malformed records are padding,
            too.
        weights: with ``remainder="pad"``, each batch has a column of float32 with this name. Its value is 1 for a
            sample, and 0 for padding.
        drop_remainder: True: the same as ``remainder="drop"``.
        lanes: the files are divided into this number of sequences (docs/data.md).
        malformed_limit: in each epoch, this rank leaves out this number of malformed records. The next malformed record
            is an error. The count begins at 0 in each epoch, and when a pipeline begins in the middle of an epoch.
            Options that do not fit the files, such as the name of a tensor that a file does not have, are an error
            even if the limit is not reached.
        threads: the number of threads that parse. 0: as many as there are usable cores, at most 8. After init(), the
            ranks of a host divide the cores: 0 then stands for rueda.threads_per_rank(), at most 8.
        prefetch: the threads prepare at most this number of batches before the program takes them. 0: threads + 2.
        maps: functions that change each batch, in this order. A function gets the batch (a dict), and changes it or
            returns a new dict. Hash and LookUp are such functions; those at the beginning of the list run in the
            library's threads, without the GIL. The other functions are called for one batch after the other.
        memory: "ordinary", "resident" or "pinned". With "resident", the arrays lie in memory that all ranks of the host
            share, as arrays of rueda.empty() do. Operations use these arrays without copying them first. Needs
            rueda.init(). With "pinned", the memory is registered with NVIDIA's driver, so that a GPU can copy from it
            while this process goes on (``tensor.to("cuda", non_blocking=True)``). When the arrays of a batch have died,
            Rueda uses the memory again only after the GPU has done the work that is then in its default stream. If
            another stream copies, let the default stream wait for that stream while the arrays live.
        device: with ``memory="pinned"``, the number of the GPU that takes the copies. The default is
            rueda.local_device() if rueda.init() was called, and otherwise 0. Rueda cannot check this number: if it is
            wrong, the pipeline may write into the memory while a GPU still copies from it.
        cache: where to keep the decompressed bytes of the files for later epochs. "memory": in this process. The name
            of a folder: in this folder, for later jobs, too; all ranks of a host can share the folder. None: nowhere.
            FIFOs and the formats Safetensors and WholeFiles have no cache. Bytes in memory (memory()) are not kept.
        state: what state_dict() returned. The pipeline begins there, and not at its first sample. A pipeline that reads
            FIFOs needs this argument to continue, because load_state_dict() would open the FIFOs a second time. None:
            the pipeline begins at its first sample.
        map_ahead: 0: the ``for`` loop calls the functions. Otherwise, a thread calls them, and prepares at most this
            number of batches before the program takes them.

    Raises:
        InvalidArgument: an argument cannot be used, or a file cannot be read. The loop raises it for a malformed
            record, too.
        MapFailed: a function of ``maps`` raised an exception. The loop raises MapFailed at this batch, and in each
            later call until load_state_dict() is called. Stages that run in the library's threads raise InvalidArgument
            instead, for example if there is no column of that name.
        NotInitialized: the loop raises it if ``memory`` is "resident" and init() was not called.
        ResourceExhausted: the system refuses a thread or memory, or the driver cannot pin memory.
        Unsupported: ``memory`` is "pinned", and there is no GPU, no driver or no plugin for it.

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
        source: Source | Path | Sequence[Source | Path],
        format: Format,
        batch: int,
        *,
        rank: int = 0,
        size: int = 1,
        shuffle: int = 0,
        seed: int = 0,
        epochs: int = 1,
        remainder: str = "keep",
        weights: str = "weight",
        drop_remainder: bool = False,
        lanes: int = 1,
        malformed_limit: int = 0,
        threads: int = 0,
        prefetch: int = 0,
        maps: Sequence[Map] = (),
        map_ahead: int = 0,
        memory: str = "ordinary",
        device: int | None = None,
        cache: Path | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        sources = _sources_of(source)
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
            "sources": [each.description for each in sources],
            "format": format._options(),
            "remainder": remainder,
            "weights": weights,
            "drop_remainder": drop_remainder,
            "memory": memory,
            "device": _whole("device", pinned_device(memory, device) or 0),
            "cache": "" if cache is None else os.fspath(cache),
            **{name: _whole(name, number) for name, number in numbers.items()},
        }
        self._contents = [each.content for each in sources if each.content is not None]
        self._map_ahead = _whole("map_ahead", map_ahead)
        if self._map_ahead < 0:
            raise InvalidArgument(f"Pipeline: map_ahead is {map_ahead}; it must be 0 or more")
        self._options["stages"], self._vocabularies, self._functions = divide_maps(
            maps, self._map_ahead > 0, weights if remainder == "pad" else None
        )
        self._owner = os.getpid()
        self._pipeline: object | None = None
        self._mapped: MappedBatches | None = None
        self._finalizer: weakref.finalize[[], Pipeline] | None = None
        self._open({**self._options, **({} if state is None else _start("Pipeline", state))})

    def _open(self, options: dict[str, Any]) -> None:
        try:
            text = json.dumps(options)
        except TypeError as error:
            raise InvalidArgument(f"Pipeline: an argument has a wrong type: {error}") from error
        self._pipeline = _native.data_open(text, self._vocabularies, self._contents)
        if self._functions:
            weights = self._options["weights"] if self._options["remainder"] == "pad" else None
            self._mapped = MappedBatches(self._pipeline, self._functions, self._map_ahead, weights)
            # If the program drops the pipeline without close(), this finalizer ends the thread of map_ahead. The thread
            # refers only to the MappedBatches, and so does not keep the pipeline alive. At exit, _maps.py ends the
            # thread.
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
        # An iterator of iter() keeps no reference to a batch. A generator function would keep the last batch alive
        # while it waits for the next one.
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
        """Continues at the position that state_dict() returned. The source is opened anew.

        Raises:
            InvalidArgument: the state is not a dict with a position. In this case the pipeline stays as it is. In three
                other cases the pipeline is closed: an option that determines the order differs from that of the
                pipeline that made the state, the position cannot be used, or the source cannot be opened any more.

        Example::

            pipeline.load_state_dict(pipeline.state_dict())
        """
        self._opened()
        start = _start("load_state_dict", state)
        self.close()  # a FIFO can be opened only once
        self._open({**self._options, **start})

    def statistics(self) -> dict[str, float]:
        """Returns counts and times. The names are those of ``rueda::data::Statistics``: batches, records, bytes,
        malformed, seconds, consumer_waited, reading, parsing, mapping, starved, lanes, threads, cache_opened and
        cache_refused. In addition, python_mapping is the time in the functions of ``maps`` that do not run in the
        library's threads.

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
        """Returns one line for each choice of arguments that wastes time or memory, and one line for the first event of
        each of these kinds: a batch without samples of this rank, an epoch without a batch, a copy that the cache could
        not keep, and a damaged copy. (The two lines about the cache appear at the end of an epoch.)

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
            # If the finalizer stayed registered, it would keep the MappedBatches alive, and with them the native
            # pipeline.
            self._finalizer.detach()
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
