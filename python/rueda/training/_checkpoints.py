# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Saves checkpoints in the background, and restores them.

The files are those of ``rueda::training::CheckpointManager``: the C interface (``rueda/checkpoints.h``) writes, checks and
removes them. This module decides when to save, copies the tensors, and gives restored tensors to all ranks.
"""

from __future__ import annotations

import json
import logging
import math
import operator
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rueda import _collectives, _lifecycle, _native, _objects
from rueda.errors import Aborted, Internal, InvalidArgument, ResourceExhausted, RuedaError, Timeout
from rueda.training import _checkpoint_files, _checkpoint_parts, _trees
from rueda.training._checkpoint_files import STRUCTURE
from rueda.training._checkpoint_parts import TensorPart

T = TypeVar("T")

#: Once in this number of seconds, rank 0 looks for the parts of other ranks. Writing a part takes at least some
#: milliseconds.
_POLL_INTERVAL = 0.005
#: Once in this number of seconds, rank 0 asks whether the job has failed. Each such query holds the GIL for tens of
#: microseconds.
_FAILURE_INTERVAL = 0.1
_logger = logging.getLogger("rueda.training")


@dataclass(frozen=True)
class CheckpointInfo:
    """A complete checkpoint.

    ``path`` is the checkpoint's folder, ``step`` the number of completed steps, and ``size`` the number of ranks that
    saved the checkpoint. ``metric`` is None if the checkpoint has no metric. ``values`` are the texts of the program.
    ``state`` is the whole restored state, including the values for which restore() got no object. In a list of
    checkpoints, ``state`` is empty.

    Example::

        info: rueda.training.CheckpointInfo | None = manager.restore(model)
    """

    path: str
    step: int
    size: int
    metric: float | None
    values: dict[str, str]
    state: dict[str, Any] = field(default_factory=dict, repr=False)


def _info_of(folder: str, entry: Mapping[str, Any], state: dict[str, Any] | None = None) -> CheckpointInfo:
    values = {key: value for key, value in entry["values"].items() if key != STRUCTURE}
    path = os.path.join(folder, entry["name"])
    return CheckpointInfo(path, entry["step"], entry["size"], entry["metric"], values, state or {})


class CheckpointManager:
    """Keeps the checkpoints of a job in one folder, and writes them in the background.

    save() copies the tensors on rank 0 and returns; a thread writes the copy. No rank waits for the disk, and the other
    ranks do nothing. With save_parts(), each rank copies and writes the rows that it holds. If writing fails (for
    example because the disk is full), training continues. A warning says why, and the earlier checkpoints stay.
    restore() checks the checksums. If the newest checkpoint is damaged, a warning says so, and the previous checkpoint
    is used. C++ programs read and write the same folders (docs/checkpoints.md).

    A model is a dict of tensors, or an object with state_dict(), such as a torch.nn.Module. A state is a dict. Its
    values may be objects with state_dict() and load_state_dict() (optimizers, schedulers, RandomState), tensors,
    numbers and texts. They may also be nested dicts, lists and tuples of these. Tensors are PyTorch tensors or NumPy
    arrays. All ranks must construct the object, with the same options, after rueda.init(). An object belongs to one
    job. After another rueda.init(), for example in the next generation of an elastic job, its functions that save,
    restore or claim raise InvalidArgument. Threads: one thread at a time may use an object.

    Args:
        folder: the folder of all checkpoints. It is created if it does not exist. Only rank 0 needs it, but all ranks
            must share it for save_parts() and restore_parts().
        every_steps: save_when_due() saves each time this number of steps was completed; 0 means never.
        every_seconds: save_when_due() also saves if this time has passed since the last save; 0 means never.
        max_to_keep: the number of newest checkpoints that are kept.
        better: "lower" or "higher": which metric is better. The checkpoint with the best metric is kept in addition.
        when_busy: what save() does while the previous checkpoint is still being written. "skip" saves nothing and
            warns, so training never waits. "wait" waits.
        part_timeout: how many seconds rank 0 waits for the parts of the other ranks.
        warn: is called with one line if a checkpoint was not saved, or was damaged and left out. The manager's thread
            may call it, but never two threads at the same time. By default the logger "rueda.training" gets a warning.

    Raises:
        InvalidArgument: an option is out of its range, or the folder cannot be created. All ranks raise it.

    Example::

        manager = rueda.training.CheckpointManager("run", every_steps=100, max_to_keep=3)
        info = manager.restore(model, {"optimizer": optimizer})
        for step in range(info.step if info else 0, 1000):
            train(step)
            manager.save_when_due(step + 1, model, {"optimizer": optimizer})
        manager.wait()
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        every_steps: int = 0,
        every_seconds: float = 0.0,
        max_to_keep: int = 3,
        better: str = "lower",
        when_busy: str = "skip",
        part_timeout: float = 600.0,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        try:
            every_steps = operator.index(every_steps)
        except TypeError:
            raise InvalidArgument(
                f"checkpoints: every_steps is {every_steps!r}; it must be an integer of at least 0"
            ) from None
        for option, value, least in (
            ("every_steps", every_steps, 0),
            ("every_seconds", every_seconds, 0),
            ("max_to_keep", max_to_keep, 1),
            ("part_timeout", part_timeout, 0),
        ):
            if not value >= least:
                raise InvalidArgument(f"checkpoints: {option} is {value}; it must be at least {least}")
        if better not in ("lower", "higher"):
            raise InvalidArgument(f"checkpoints: better is '{better}'; it must be lower or higher")
        if when_busy not in ("skip", "wait"):
            raise InvalidArgument(f"checkpoints: when_busy is '{when_busy}'; it must be skip or wait")
        self._folder = os.path.abspath(os.fspath(folder))
        self._every_steps = every_steps
        self._every_seconds = every_seconds
        self._max_to_keep = max_to_keep
        self._better = better
        self._waits = when_busy == "wait"
        self._part_timeout = part_timeout
        self._given_warn = warn or _logger.warning
        self._warn_lock = threading.Lock()
        self._rank = _lifecycle.rank()
        self._job = _lifecycle.job_number()
        self._copies = _trees.Copies()
        self._writer: threading.Thread | None = None
        self._failure: RuedaError | None = None
        self._last_due = self._last_save = time.monotonic()
        self._claim: object | None = None
        self._on_root(lambda: _native.checkpoint_create_folder(self._path()))

    def _path(self, name: str = "") -> bytes:
        return os.fsencode(os.path.join(self._folder, name) if name else self._folder)

    def _check_job(self) -> None:
        """Checks that the job is still the one in which this object was made. In another job, this process may have
        another rank.
        """
        if _lifecycle.job_number() != self._job:
            raise InvalidArgument(
                f"checkpoints: the manager of {self._folder} was made before the last rueda.init(), for another job or "
                "another generation of an elastic job; make a new CheckpointManager after each rueda.init()"
            )

    def _on_root(self, body: Callable[[], Any]) -> Any:
        """Runs ``body`` on rank 0, and returns its result on all ranks. If ``body`` raises an error, all ranks raise
        this error.
        """
        result: Any = None
        failure: Exception | None = None
        if self._rank == 0:
            try:
                with _lifecycle.busy(f"reading checkpoints in {self._folder}"):
                    result = body()
            except Exception as error:  # catches every exception, because the other ranks must be told
                failure = error
        result, failure = _objects.broadcast_object((result, failure), 0, "rueda.training.checkpoints")
        if failure is not None:
            raise failure
        return result

    def _on_every_rank(self, body: Callable[[], T]) -> list[T]:
        """Runs ``body`` on every rank, and returns the results of all ranks. If some ranks raise errors, all ranks
        raise the error of the lowest of these ranks.
        """
        result: Any = None
        failure: Exception | None = None
        try:
            result = body()
        except Exception as error:  # catches every exception, because the other ranks must be told
            failure = error
        answers = _objects.allgather_object((result, failure), "rueda.training.checkpoints")
        for rank, (_, theirs) in enumerate(answers):
            if theirs is not None:
                raise failure if rank == self._rank and failure is not None else theirs
        return [answer for answer, _ in answers]

    def _claim_here(self) -> None:
        if self._claim is None:  # a claim of another manager in this process is not enough, because it may end earlier
            self._claim = _native.checkpoint_claim(self._path())

    def claim(self) -> None:
        """Claims the folder for this job, so that no other job saves into it at the same time. All ranks must call it.
        A program need not call it, because the first save also claims the folder. But if another job uses the folder,
        claim() finds this out before the training, and not only at the first save. The claim ends when the manager is
        deleted, or when the process of rank 0 ends. Restoring needs no claim.

        Raises:
            InvalidArgument: another job has claimed the folder. All ranks raise it. The text names its process and host.

        Example::

            manager.claim()
        """
        # If the check fails on one rank, all ranks raise an error here. So no rank waits for another in _on_root().
        self._on_every_rank(self._check_job)
        self._on_root(self._claim_here)

    def _warn(self, line: str) -> None:
        with self._warn_lock:
            self._given_warn(line)

    def is_due(self, step: int) -> bool:
        """Returns True if a checkpoint is due after ``step`` completed steps. The result for ``every_seconds`` depends
        on this rank's clock.
        """
        by_steps = self._every_steps > 0 and step > 0 and step % self._every_steps == 0
        return by_steps or (self._every_seconds > 0 and time.monotonic() - self._last_due >= self._every_seconds)

    def save_when_due(
        self,
        step: int,
        model: Any,
        state: Mapping[str, Any] | None = None,
        *,
        values: Mapping[str, str] | None = None,
        metric: float | None = None,
    ) -> bool:
        """Calls save() if a checkpoint is due after ``step`` completed steps. Rank 0's clock decides about
        ``every_seconds``. Returns whether this rank started a save.
        """
        return self.is_due(step) and self.save(step, model, state, values=values, metric=metric)

    def save(
        self,
        step: int,
        model: Any,
        state: Mapping[str, Any] | None = None,
        *,
        values: Mapping[str, str] | None = None,
        metric: float | None = None,
    ) -> bool:
        """Starts to save a checkpoint. Rank 0 copies the tensors, and a thread of rank 0 writes the copies. The other
        ranks return at once.

        Args:
            step: the number of completed steps.
            model: the model.
            state: the job's other state, which is the same on all ranks.
            values: texts of the program, with keys that do not begin with "rueda." or "python.".
            metric: a finite number, for the best checkpoint; None if there is none.

        Returns:
            True if this rank started a save. All failures of the file system are warnings.

        Raises:
            InvalidArgument: the step is negative, the metric is not finite, a key of ``values`` is reserved, or another
                job saves into the folder (see claim()).
            TypeError: the model or the state contains something that cannot be saved.
        """
        texts = self._checked_values(step, values or {}, metric)
        if self._rank != 0:
            return False
        self._claim_here()
        tensors = _trees.model_tensors(model)
        for name, tensor in tensors:
            _trees.check_dtype(name, tensor)
        state_tensors = self._divided(state, texts)
        if self._is_busy():
            self._warn_about_skipping(step)
            return False
        self._end_previous()
        copies = self._copies_of(step, {"model": tensors, "state": state_tensors})
        if copies is None:
            return False
        arguments = self._arguments(step, copies["model"], copies["state"], texts, metric)
        return self._start(step, lambda: _native.checkpoint_save(*arguments), lambda: None)

    def save_parts_when_due(
        self,
        step: int,
        parts: Mapping[str, TensorPart],
        state: Mapping[str, Any] | None = None,
        *,
        values: Mapping[str, str] | None = None,
        metric: float | None = None,
    ) -> bool:
        """Calls save_parts() if a checkpoint is due after ``step`` completed steps. All ranks must make the call. With
        ``every_seconds``, rank 0 broadcasts its decision in each call.
        """
        due = self.is_due(step)
        if self._every_seconds > 0:
            due = _objects.broadcast_object(due, 0, "rueda.training.checkpoints.due")
        return due and self.save_parts(step, parts, state, values=values, metric=metric)

    def save_parts(
        self,
        step: int,
        parts: Mapping[str, TensorPart],
        state: Mapping[str, Any] | None = None,
        *,
        values: Mapping[str, str] | None = None,
        metric: float | None = None,
    ) -> bool:
        """Starts to save a checkpoint to which each rank contributes its rows of the model's tensors. All ranks must
        make the call, and must share the folder.

        Each rank copies its parts, and a thread of the rank writes the copies. Rank 0 waits until the files of all
        ranks are there. If they contain all rows of each tensor, rank 0 also writes the state, and the checkpoint is
        complete. This call exchanges a few small messages among the ranks.

        If a rank cannot write its part, that rank and rank 0 warn, and the checkpoint is not completed. If rank 0 gives
        up the checkpoint while another rank still writes its part, the other rank warns, too. If parts overlap, the
        common rows must be equal, because restoring uses one of the copies.

        Args:
            step: the number of completed steps.
            parts: the parts of this rank, each with the tensor's name; {} if this rank has none. split_rows() makes
                parts of tensors that are equal on all ranks.
            state, values, metric: as for save(). Those of rank 0 are saved.

        Returns:
            True if a save was started. The result is the same on all ranks.

        Raises:
            InvalidArgument: as in save(); or a range of rows does not fit its tensor. If one rank finds such an error,
                all ranks raise it.
            TypeError: ``parts`` or the state contains something that cannot be saved. All ranks raise it.

        Example::

            rows = rueda.training.shard(1000)  # this rank's rows of a table with 1000 rows
            manager.save_parts(step, {"table": rueda.training.TensorPart(table, rows, 1000)})
        """
        texts: dict[str, str] = {}
        state_tensors: list[tuple[str, Any]] = []

        def prepare() -> bool:
            texts.update(self._checked_values(step, values or {}, metric))
            _checkpoint_parts.check(parts)
            if self._rank == 0:
                self._claim_here()
                state_tensors.extend(self._divided(state, texts))
            return self._is_busy()

        if any(self._on_every_rank(prepare)):
            if self._rank == 0:
                self._warn_about_skipping(step)
            return False
        self._end_previous()
        name = _objects.broadcast_object(
            self._begin(step) if self._rank == 0 else None, 0, "rueda.training.checkpoints.begin"
        )
        if name is None:
            return False
        self._start_part(name, step, parts, state_tensors, texts, metric)
        return True  # all ranks return True; a rank that could not write its part has warned

    def _begin(self, step: int) -> str | None:
        """Creates the folder of a checkpoint, and returns its name. Warns and returns None if this fails."""
        try:
            return _native.checkpoint_begin(self._path(), step)
        except RuedaError as error:
            self._take_failure(step, error)
            return None

    def _start_part(
        self,
        name: str,
        step: int,
        parts: Mapping[str, TensorPart],
        state: list[tuple[str, Any]],
        texts: dict[str, str],
        metric: float | None,
    ) -> None:
        """Copies the parts, and starts the thread that writes them."""
        path, size = self._path(name), _lifecycle.size()

        def give_up() -> None:
            _native.checkpoint_give_up_part(path, self._rank, size)

        def write() -> str | None:
            _native.checkpoint_write_part(path, step, views, self._rank, size)
            if self._rank != 0:
                return None
            self._wait_for_parts(path, size)
            return _native.checkpoint_complete(name, arguments)

        started = False
        try:
            tensors = [(each, part.tensor) for each, part in parts.items()]
            copies = self._copies_of(step, {"parts": tensors, "state": state})
            if copies is not None:
                views = _checkpoint_parts.views_of(parts, copies["parts"])
                arguments = self._arguments(step, [], copies["state"], texts, metric)
                started = self._start(step, write, give_up)
        finally:
            if not started:
                give_up()  # tells rank 0 not to wait for this rank's part

    def _wait_for_parts(self, path: bytes, size: int) -> None:
        """Polls until the files of all ranks are there. The other ranks may be on other hosts, so they cannot wake this
        thread. The wait ends early if a rank gives up its part, or if the job has failed, for example because a rank died.
        """
        next_look = time.monotonic()
        deadline = next_look + self._part_timeout
        rank = 0
        while (rank := _native.checkpoint_missing_part(path, rank, size)) != size:
            now = time.monotonic()
            if now >= next_look:
                if _lifecycle.has_failed(self._job):
                    raise Aborted(f"the job ends, and the part of rank {rank} is missing")
                next_look = now + _FAILURE_INTERVAL
            if now >= deadline:
                raise Timeout(
                    f"{os.fsdecode(path)}: rank {rank} of {size} did not write its part within {self._part_timeout:g} s; "
                    "check that all ranks share the folder, or raise part_timeout"
                )
            time.sleep(_POLL_INTERVAL)

    def _divided(self, state: Mapping[str, Any] | None, texts: dict[str, str]) -> list[tuple[str, Any]]:
        """Returns the tensors of the state, and puts the description of the rest into the texts."""
        tensors, structure = _trees.divide(dict(state or {}), "")
        for name, tensor in tensors:
            _trees.check_dtype(name, tensor)
        if state:
            texts[STRUCTURE] = _trees.to_text(structure)
        return tensors

    def _is_busy(self) -> bool:
        """Returns True if the previous checkpoint is still being written. If when_busy is "wait", first waits until it
        is written.
        """
        if self._waits:
            with _lifecycle.busy("waiting until the previous checkpoint is written"):
                self.wait()
        return self._writer is not None and self._writer.is_alive()

    def _end_previous(self) -> None:
        """Joins the thread of the previous save, which has nothing left to write. Without this, the old thread might
        overwrite `_failure` after the new save has set it, or might still use the memory of the copies.
        """
        self.wait()
        # The time of the last save is set even if this save fails at once. Otherwise, every later step would try again.
        self._last_due = self._last_save = time.monotonic()

    def _warn_about_skipping(self, step: int) -> None:
        self._last_due = time.monotonic()
        self._warn(
            f"The checkpoint of step {step} is skipped, because the one before it has been written for "
            f"{self._last_due - self._last_save:.1f} s and is not complete. Save less often, or set when_busy to wait"
        )

    def _copies_of(
        self, step: int, groups: dict[str, list[tuple[str, Any]]]
    ) -> dict[str, list[tuple[str, Any]]] | None:
        """Returns copies of the tensors of each group. Warns and returns None if the memory does not suffice."""
        try:
            return {group: self._copies.copy(group, tensors) for group, tensors in groups.items()}
        except MemoryError:
            self._take_failure(step, ResourceExhausted("the memory for a copy of the tensors is used up"))
            return None

    def _arguments(
        self,
        step: int,
        model: list[tuple[str, Any]],
        state: list[tuple[str, Any]],
        texts: dict[str, str],
        metric: float | None,
    ) -> tuple[Any, ...]:
        """Returns the arguments of the native function that writes the index."""
        views = (_trees.views_of(model), _trees.views_of(state))
        better = 0 if self._better == "lower" else 1
        size = _lifecycle.size()
        return (self._path(), step, *views, json.dumps(texts), metric, better, self._max_to_keep, size)

    def _start(self, step: int, write: Callable[[], str | None], give_up: Callable[[], None]) -> bool:
        try:
            writer = threading.Thread(target=self._write, args=(step, write, give_up), name="rueda-checkpoint")
            writer.start()
        except RuntimeError as error:
            self._take_failure(step, ResourceExhausted(f"starting a thread failed: {error}"))
            return False
        self._writer = writer
        return True

    def _checked_values(self, step: int, values: Mapping[str, str], metric: float | None) -> dict[str, str]:
        self._check_job()
        if step < 0:
            raise InvalidArgument(f"checkpoint: step is {step}; it must be 0 or more")
        if metric is not None and not math.isfinite(metric):
            raise InvalidArgument(
                f"checkpoint of step {step}: the metric is {metric}; it must be finite. Leave it out if there is no value"
            )
        for key, value in values.items():
            if key.startswith(("rueda.", "python.")):
                raise InvalidArgument(
                    f"checkpoint of step {step}: the values have '{key}'; keys that begin with 'rueda.' or 'python.' are "
                    "reserved: rename it"
                )
            if not isinstance(value, str):
                raise InvalidArgument(
                    f"checkpoint of step {step}: the value '{key}' is of the type {type(value).__name__}; expected a text"
                )
        return dict(values)

    def _write(self, step: int, write: Callable[[], str | None], give_up: Callable[[], None]) -> None:
        """Writes a checkpoint. Runs in a separate thread, and calls no operation of Rueda. ``give_up`` is called after a
        failure.
        """
        try:
            not_removed = write()
        except Exception as error:  # catches every exception, because the failure must be reported
            give_up()
            known = isinstance(error, RuedaError)
            self._take_failure(step, error if known else Internal(f"{type(error).__name__}: {error}"))  # type: ignore[arg-type]
            return
        self._failure = None
        if not_removed is not None:
            self._warn(f"Old checkpoints were not removed: {not_removed}")

    def _take_failure(self, step: int, error: RuedaError) -> None:
        self._failure = error
        try:
            complete = self.checkpoints()
            newest = (
                f"the newest complete checkpoint is the one of step {complete[0].step}"
                if complete
                else "there is no complete checkpoint yet"
            )
        except RuedaError:
            newest = "the earlier checkpoints cannot be read at the moment"
        going_on = "" if isinstance(error, Aborted) else ". Training continues"
        self._warn(f"The checkpoint of step {step} was not saved: {error}{going_on}; {newest}")

    def wait(self) -> None:
        """Waits until this rank's thread has written its checkpoint, or has failed. When this function returns on rank 0,
        the checkpoint is complete, or was given up.
        """
        if self._writer is not None:
            self._writer.join()
            self._writer = None

    def last_failure(self) -> RuedaError | None:
        """Waits as wait() does. Returns why the last save of this rank failed, or None if it succeeded."""
        self.wait()
        return self._failure

    def checkpoints(self) -> list[CheckpointInfo]:
        """Returns the complete checkpoints in the folder, newest first. The headers of all files were checked, but not
        the data. This function looks only at this rank's file system.
        """
        listing = json.loads(_native.checkpoint_list(self._path()))
        return [_info_of(self._folder, entry) for entry in listing["complete"]]

    def restore(
        self, model: Any, state: Mapping[str, Any] | None = None, *, which: str = "newest"
    ) -> CheckpointInfo | None:
        """Restores a checkpoint that a job with any number of ranks saved, in Python or C++. Rank 0 reads, and all ranks
        get the tensors. All ranks must make the call.

        Args:
            model: the model, as for save(). Its tensors are overwritten.
            state: the objects to restore, each with the key with which it was saved: objects with load_state_dict(),
                tensors and dicts. Numbers and texts need not be given here, because the result has the whole state.
            which: "newest", or "best", the one with the best metric.

        Returns:
            The checkpoint; None if the folder has no complete checkpoint. In this case nothing was changed.

        Raises:
            InvalidArgument: the checkpoint belongs to another model, or all checkpoints are damaged. All ranks raise it,
                and the contents of the model are then undefined.
        """
        self._on_every_rank(self._check_job)
        _check_which(which)
        _trees.check_targets(state or {})
        self.wait()
        targets = _trees.model_tensors(model)
        buffers = [(name, _trees.host_memory_of(tensor)) for name, tensor in targets]
        loaded: dict[str, Any] = {}

        def read_on_root() -> Any:
            opened = self._read_one(buffers, which)
            if opened is None:
                return None
            loaded.update(opened.state)
            return opened.entry

        entry = self._on_root(read_on_root)
        if entry is None:
            return None
        structure = _checkpoint_files.structure_of(entry)
        if self._rank != 0:
            loaded = _checkpoint_files.new_tensors(entry["state"], structure)
        _broadcast("model", buffers)
        _broadcast("state", loaded.items())
        _copy_back(targets, buffers)
        whole = _trees.put_together(structure, loaded.__getitem__)
        _trees.put_into_state(state or {}, whole)
        return _info_of(self._folder, entry, whole)

    def _read_one(self, model: list[tuple[str, Any]], which: str) -> _checkpoint_files.Opened | None:
        """Tries the checkpoints in order, until one is not damaged. Reads its model into the tensors of ``model``, and
        its state into new tensors. Runs on rank 0 only.
        """
        candidates = _checkpoint_files.Candidates(self._folder, self._warn)
        views = _trees.views_of(model)
        for name in candidates.find(which, self._better):
            try:
                opened = _checkpoint_files.open_checkpoint(self._path(name))
            except ResourceExhausted:
                raise  # memory or file descriptors are used up; the checkpoint may be undamaged
            except RuedaError as error:
                candidates.leave_out(str(error))
                continue
            # If the model does not fit, the error is raised in the program, and no older checkpoint is tried.
            _native.checkpoint_check_model(opened.checkpoint, views)
            try:
                _native.checkpoint_read(opened.checkpoint, views, _trees.views_of(opened.state.items()))
            except ResourceExhausted:
                raise
            except RuedaError as error:
                candidates.leave_out(str(error))
                continue
            return opened
        candidates.raise_if_all_are_damaged()
        return None

    def restore_parts(
        self, parts: Mapping[str, TensorPart], state: Mapping[str, Any] | None = None, *, which: str = "newest"
    ) -> CheckpointInfo | None:
        """Restores some rows of tensors. The checkpoint may come from save_parts() or save(), and from a job with any
        number of ranks. Each rank reads the rows that it needs, so all ranks must share the folder. All ranks must make
        the call. A rank that needs some rows of a stored part reads the whole part, because the checksum covers the
        part. This needs memory for the largest such part.

        The rows may be divided among the ranks in another way than when they were saved. It is not an error if the
        checkpoint has tensors that are not in ``parts``. To restore whole tensors on all ranks, use restore().

        Args:
            parts: the parts of this rank, each with the tensor's name. The tensors are overwritten.
            state, which: as for restore().

        Returns:
            The checkpoint; None if the folder has no complete checkpoint. In this case nothing was changed.

        Raises:
            InvalidArgument: a range of rows does not fit its tensor, the checkpoint belongs to another model, or all
                checkpoints are damaged. All ranks raise it, and the contents of the tensors are then undefined.

        Example::

            table = np.empty((len(rows), 8))
            manager.restore_parts({"table": rueda.training.TensorPart(table, rows, 1000)})
        """

        def check() -> None:
            self._check_job()
            _check_which(which)
            _trees.check_targets(state or {})
            _checkpoint_parts.check(parts)

        self._on_every_rank(check)
        self.wait()
        buffers = [(name, _trees.host_memory_of(part.tensor)) for name, part in parts.items()]
        candidates = _checkpoint_files.Candidates(self._folder, self._warn)
        for name in self._on_root(lambda: candidates.find(which, self._better)):
            opened = self._read_parts(candidates, name, _checkpoint_parts.views_of(parts, buffers))
            if opened is not None:
                break
        else:
            self._on_root(candidates.raise_if_all_are_damaged)
            return None
        _broadcast("state", opened.state.items())
        _copy_back([(name, part.tensor) for name, part in parts.items()], buffers)
        whole = _trees.put_together(opened.structure, opened.state.__getitem__)
        _trees.put_into_state(state or {}, whole)
        return _info_of(self._folder, opened.entry, whole)

    def _read_parts(
        self, candidates: _checkpoint_files.Candidates, name: str, views: list[tuple[str, Any, int, int]]
    ) -> _checkpoint_files.Opened | None:
        """Reads the parts of every rank. Rank 0 also reads the state. If any rank finds that the checkpoint is damaged,
        the checkpoint is left out, and all ranks return None.
        """
        found: list[_checkpoint_files.Opened] = []

        def is_readable(body: Callable[[], None]) -> bool:
            try:
                with _lifecycle.busy(f"reading the checkpoint {os.path.join(self._folder, name)}"):
                    self._on_every_rank(body)
            except InvalidArgument as error:
                if self._rank == 0:
                    candidates.leave_out(str(error))
                return False
            return True

        if not is_readable(lambda: found.append(_checkpoint_files.open_checkpoint(self._path(name)))):
            return None
        opened = found[0]
        self._on_every_rank(lambda: _native.checkpoint_check_parts(opened.checkpoint, views))
        state = _trees.views_of(opened.state.items()) if self._rank == 0 else []
        return opened if is_readable(lambda: _native.checkpoint_read_parts(opened.checkpoint, views, state)) else None


def _check_which(which: str) -> None:
    if which not in ("newest", "best"):
        raise InvalidArgument(f"checkpoints: which is '{which}'; it must be newest or best")


def _broadcast(prefix: str, tensors: Iterable[tuple[str, Any]]) -> None:
    """Gives all ranks the tensors of rank 0."""
    handles = [
        _collectives.broadcast_async_(_trees.view_of(tensor), 0, f"rueda.training.{prefix}.{name}")
        for name, tensor in tensors
    ]
    for handle in handles:
        handle.wait()


def _copy_back(targets: list[tuple[str, Any]], buffers: list[tuple[str, Any]]) -> None:
    """Copies the buffers into the tensors for which they were made."""
    for (_, target), (_, buffer) in zip(targets, buffers, strict=True):
        _trees.copy_into(target.detach() if _trees.is_torch(target) else target, buffer)


def share(model: Any, state: Mapping[str, Any]) -> None:
    """Gives all ranks the model and the state of rank 0. All ranks must make the call. If the state contains something
    that cannot be saved, all ranks raise TypeError.
    """
    targets = _trees.model_tensors(model)
    buffers = [(name, _trees.host_memory_of(tensor)) for name, tensor in targets]
    for (_, target), (_, buffer) in zip(targets, buffers):
        _trees.copy_into(buffer, target.detach() if _trees.is_torch(target) else target)
    is_root = _lifecycle.rank() == 0
    tensors: dict[str, Any] = {}
    structure: Any = None
    forms: list[Any] = []
    failure: Exception | None = None
    if is_root:
        try:
            divided, structure = _trees.divide(dict(state), "")
            for name, tensor in divided:
                _trees.check_dtype(name, tensor)
            tensors = dict(_trees.Copies().copy("state", divided))
            forms = [(name, _trees.dtype_of(tensor), list(tensor.shape)) for name, tensor in tensors.items()]
        except Exception as error:  # catches every exception, because the other ranks must be told
            failure = error
    structure, forms, failure = _objects.broadcast_object((structure, forms, failure), 0, "rueda.training.state")
    if failure is not None:
        raise failure
    if not is_root:
        tensors = _checkpoint_files.new_tensors(forms, structure)
    _broadcast("model", buffers)
    _broadcast("state", tensors.items())
    _copy_back(targets, buffers)
    if not is_root:
        _trees.put_into_state(state, _trees.put_together(structure, tensors.__getitem__))
