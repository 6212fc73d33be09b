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
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rueda import _collectives, _lifecycle, _native, _objects
from rueda.errors import Internal, InvalidArgument, ResourceExhausted, RuedaError
from rueda.training import _trees

#: The key under which a checkpoint stores the description of its state, as one of its values.
_STRUCTURE = "python.structure"
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
    values = {key: value for key, value in entry["values"].items() if key != _STRUCTURE}
    path = os.path.join(folder, entry["name"])
    return CheckpointInfo(path, entry["step"], entry["size"], entry["metric"], values, state or {})


class CheckpointManager:
    """Keeps the checkpoints of a job in one folder, and writes them in the background.

    save() copies the tensors on rank 0 and returns; a thread writes the copy. No rank waits for the disk, and the other
    ranks do nothing. If writing fails, for example because the disk is full, training continues, one line says why, and
    the earlier checkpoints stay. restore() checks the checksums. If the newest checkpoint is damaged, one line says so,
    and the one before it is used. C++ programs read and write the same folders (docs/checkpoints.md).

    A model is a dict of tensors, or an object with state_dict(), such as a torch.nn.Module. A state is a dict, whose
    values are objects with state_dict() and load_state_dict() (optimizers, schedulers, RandomState), tensors, numbers,
    texts, and nested dicts, lists and tuples of these. Tensors are PyTorch tensors or NumPy arrays. All ranks must
    construct the object, with the same options, after rueda.init(). Threads: one thread at a time may use an object.

    Args:
        folder: the folder of all checkpoints. It is created if it does not exist. Only rank 0 needs it.
        every_steps: save_when_due() saves each time this number of steps was completed; 0 means never.
        every_seconds: save_when_due() also saves if this time has passed since the last save; 0 means never.
        max_to_keep: the number of newest checkpoints that are kept.
        better: "lower" or "higher": which metric is better. The checkpoint with the best metric is kept in addition.
        when_busy: what save() does while the previous checkpoint is still being written. "skip" saves nothing and
            warns, so training never waits. "wait" waits.
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
        warn: Callable[[str], None] | None = None,
    ) -> None:
        for option, value, least in (
            ("every_steps", every_steps, 0),
            ("every_seconds", every_seconds, 0),
            ("max_to_keep", max_to_keep, 1),
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
        self._given_warn = warn or _logger.warning
        self._warn_lock = threading.Lock()
        self._rank = _lifecycle.rank()
        self._copies = _trees.Copies()
        self._writer: threading.Thread | None = None
        self._failure: RuedaError | None = None
        self._last_due = self._last_save = time.monotonic()
        self._claim: object | None = None
        self._on_root(lambda: _native.checkpoint_create_folder(self._path()))

    def _path(self, name: str = "") -> bytes:
        return os.fsencode(os.path.join(self._folder, name) if name else self._folder)

    def _on_root(self, body: Callable[[], Any]) -> Any:
        """Runs ``body`` on rank 0, and returns its result on all ranks. If it raises an error, all ranks raise it."""
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

    def _claim_here(self) -> None:
        if (
            self._claim is None
        ):  # also if another manager of this process holds the claim, which may end before this one
            self._claim = _native.checkpoint_claim(self._path())

    def claim(self) -> None:
        """Claims the folder for this job, so that no other job saves into it at the same time. All ranks must call it.
        A program need not call it, because the first save claims the folder; but then a mistake is noticed only at the
        first save. The claim ends with the manager, and with the process of rank 0. Restoring needs no claim.

        Raises:
            InvalidArgument: another job has claimed the folder. All ranks raise it. The text names its process and host.

        Example::

            manager.claim()
        """
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
        """Starts to save a checkpoint. Rank 0 copies the tensors, and its thread writes them; the other ranks return at
        once.

        Args:
            step: the number of completed steps.
            model: the model.
            state: the job's other state, which is the same on all ranks.
            values: texts of the program, with keys that do not begin with "rueda." or "python.".
            metric: a finite number, for the best checkpoint; None if there is none.

        Returns:
            Whether this rank started a save. All failures of the file system are warnings.

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
        state_tensors, structure = _trees.divide(dict(state or {}), "")
        for name, tensor in (*tensors, *state_tensors):
            _trees.check_dtype(name, tensor)
        if state:
            texts[_STRUCTURE] = _trees.to_text(structure)
        if self._writer is not None and self._writer.is_alive() and not self._waits:
            self._last_due = time.monotonic()
            self._warn(
                f"The checkpoint of step {step} is skipped, because the one before it has been written for "
                f"{self._last_due - self._last_save:.1f} s and is not complete. Save less often, or set when_busy to wait"
            )
            return False
        self.wait()
        self._last_due = self._last_save = time.monotonic()
        better = 0 if self._better == "lower" else 1
        size = _lifecycle.size()
        try:
            model_copies = self._copies.copy("model", tensors)
            state_copies = self._copies.copy("state", state_tensors)
        except MemoryError:
            self._take_failure(step, ResourceExhausted("the memory for a copy of the tensors is used up"))
            return False
        views = (_trees.views_of(model_copies), _trees.views_of(state_copies))
        arguments = (*views, json.dumps(texts), metric, better, self._max_to_keep, size)
        try:
            writer = threading.Thread(target=self._write, args=(step, arguments), name="rueda-checkpoint")
            writer.start()
        except RuntimeError as error:
            self._take_failure(step, ResourceExhausted(f"starting a thread failed: {error}"))
            return False
        self._writer = writer
        return True

    def _checked_values(self, step: int, values: Mapping[str, str], metric: float | None) -> dict[str, str]:
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

    def _write(self, step: int, arguments: tuple[Any, ...]) -> None:
        """Writes a checkpoint. Runs in a separate thread, and calls no operation of Rueda."""
        try:
            not_removed = _native.checkpoint_save(self._path(), step, *arguments)
        except Exception as error:  # catches every exception, because the failure must be reported
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
        self._warn(f"The checkpoint of step {step} was not saved: {error}. Training continues; {newest}")

    def wait(self) -> None:
        """Waits until the checkpoint that is being written is complete, or has failed. Only rank 0 waits."""
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
            The checkpoint; None if the folder has no complete checkpoint. Then nothing was changed.

        Raises:
            InvalidArgument: the checkpoint belongs to another model, or all checkpoints are damaged. All ranks raise it,
                and the contents of the model are then undefined.
        """
        if which not in ("newest", "best"):
            raise InvalidArgument(f"checkpoints: which is '{which}'; it must be newest or best")
        _trees.check_targets(state or {})
        self.wait()
        targets = _trees.model_tensors(model)
        buffers = [(name, _trees.host_memory_of(tensor)) for name, tensor in targets]
        loaded: dict[str, Any] = {}

        def read_on_root() -> Any:
            entry, tensors = self._read_one(buffers, which)
            loaded.update(tensors)
            return entry

        entry = self._on_root(read_on_root)
        if entry is None:
            return None
        structure = _structure_of(entry)
        if self._rank != 0:
            loaded = _new_tensors(entry["state"], structure)
        _give_to_all(targets, buffers, loaded)
        whole = _trees.put_together(structure, loaded.__getitem__)
        _trees.put_into_state(state or {}, whole)
        return _info_of(self._folder, entry, whole)

    def _read_one(self, model: list[tuple[str, Any]], which: str) -> tuple[Any, dict[str, Any]]:
        """Reads the first checkpoint that is not damaged into the model. Returns its description, and the tensors of its
        state. Runs on rank 0 only.
        """
        listing = json.loads(_native.checkpoint_list(self._path()))
        damaged = []

        def leave_out(reason: str) -> None:
            damaged.append(reason)
            self._warn(f"{reason}. This checkpoint is left out, and the one before it is used")

        for reason in listing["damaged"]:
            leave_out(reason)
        candidates = listing["complete"]
        if which == "best":
            candidates = self._by_metric(candidates)
        for candidate in candidates:
            try:
                checkpoint = _native.checkpoint_open(self._path(candidate["name"]))
            except ResourceExhausted:
                raise  # says nothing about the checkpoint
            except RuedaError as error:
                leave_out(str(error))
                continue
            entry = json.loads(_native.checkpoint_describe(checkpoint))
            # An error of this call is raised in the program.
            _native.checkpoint_check_model(checkpoint, _trees.views_of(model))
            try:
                structure = _structure_of(entry)
                state = _new_tensors(entry["state"], structure)
                # This call raises an error if the description does not fit the tensors.
                _trees.put_together(structure, state.__getitem__)
            except (KeyError, RecursionError, TypeError, ValueError) as error:
                path = os.path.join(self._folder, candidate["name"])
                leave_out(
                    f"checkpoint {path}: the description of its state is damaged: {type(error).__name__}: {error}"
                )
                continue
            try:
                _native.checkpoint_read(checkpoint, _trees.views_of(model), _trees.views_of(state.items()))
            except ResourceExhausted:
                raise
            except RuedaError as error:
                leave_out(str(error))
                continue
            return entry, state
        if damaged:
            raise InvalidArgument(
                f"no checkpoint in {self._folder} can be read; remove the folder to train from the beginning: "
                f"{'; '.join(damaged)}"
            )
        return None, {}

    def _by_metric(self, candidates: list[Any]) -> list[Any]:
        measured = [each for each in candidates if each["metric"] is not None]
        if candidates and not measured:
            raise InvalidArgument(
                f"checkpoints in {self._folder}: none has a metric, so none is the best; give a metric when you save, or "
                "restore the newest"
            )
        return sorted(measured, key=lambda each: each["metric"], reverse=self._better == "higher")


def _structure_of(entry: Mapping[str, Any]) -> Any:
    """Returns the description of a checkpoint's state. A C++ program writes none; its state is a dict of arrays."""
    text = entry["values"].get(_STRUCTURE)
    if text is None:
        return {"dict": [[name, {"tensor": name, "kind": "numpy"}] for name, _, _ in entry["state"]]}
    return _trees.from_text(text)


def _new_tensors(forms: list[tuple[str, int, list[int]]], structure: Any) -> dict[str, Any]:
    """Makes the tensors of a state, with undefined contents. ``forms`` has their names, dtypes and shapes."""
    kinds = _trees.kinds_in(structure)
    return {name: _trees.new_tensor(kinds.get(name, "numpy"), dtype, shape) for name, dtype, shape in forms}


def _give_to_all(model: list[tuple[str, Any]], buffers: list[tuple[str, Any]], state: Mapping[str, Any]) -> None:
    """Broadcasts rank 0's buffers and state, and copies the buffers into the model."""
    handles = [
        _collectives.broadcast_async_(_trees.view_of(tensor), 0, f"rueda.training.{prefix}.{name}")
        for prefix, tensors in (("model", buffers), ("state", state.items()))
        for name, tensor in tensors
    ]
    for handle in handles:
        handle.wait()
    for (_, target), (_, buffer) in zip(model, buffers):
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
        tensors = _new_tensors(forms, structure)
    _give_to_all(targets, buffers, tensors)
    if not is_root:
        _trees.put_into_state(state, _trees.put_together(structure, tensors.__getitem__))
