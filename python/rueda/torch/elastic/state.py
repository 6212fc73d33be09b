# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The values that an elastic job saves and restores: model, optimizer, sampler and others. A saved set of values is a
commit.
"""

from __future__ import annotations

import copy
import math
import queue
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from rueda import _native
from rueda.errors import InvalidArgument
from rueda.torch import _basics
from rueda.torch.elastic import commits
from rueda.torch.elastic.exceptions import HostsUpdatedInterrupt
from rueda.torch.elastic.sampler import ElasticSampler
from rueda.torch.functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters

__all__ = [
    "ModelStateHandler",
    "ObjectState",
    "OptimizerStateHandler",
    "SamplerStateHandler",
    "State",
    "StateHandler",
    "TorchState",
    "get_handler_registry",
    "set_handler_registry",
]

#: Bits of the argument of on_hosts_updated().
_HOSTS_ADDED, _HOSTS_REMOVED = 1, 2


class State:
    """The base class of states. A subclass implements save(), restore() and sync().

    Args:
        bcast_object: a function that gives every rank the object that rank 0 passes.
        get_rank: a function that returns this process' rank.
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._host_messages: queue.Queue[tuple[float, int]] = queue.Queue()
        self._last_updated_timestamp: float = 0
        self._reset_callbacks: list[Callable[[], Any]] = []
        #: The number of commits of the job; restarts do not reset it.
        self._commits = 0

    def register_reset_callbacks(self, callbacks: list[Callable[[], Any]]) -> None:
        """Adds functions to call when the ranks have reconnected, for example to adapt the learning rate to the new
        number of ranks.
        """
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Prepares the state for a new attempt. run() calls this method when the ranks have reconnected."""
        self._host_messages = queue.Queue()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Tells rank 0 that hosts were added (1) or removed (2), and when. The next commit interrupts all ranks.
        Threads: any thread may call this function.
        """
        self._host_messages.put((timestamp, update_res))

    def commit(self) -> None:
        """Saves the current state, and checks whether hosts will change. Every rank must call it.

        Example::

            state.batch = batch
            state.commit()
        """
        self.save()
        self._commits += 1
        self._keep()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt on all ranks if rank 0 has been told that hosts will change. In an elastic job,
        ruedarun informs rank 0 about such changes.
        """
        if change := _native.take_slot_changes():
            # Only a change with a later time than the last change counts. If the clock was set back, the current time
            # may be earlier, so a slightly later time than that of the last change is used.
            self.on_hosts_updated(max(time.time(), math.nextafter(self._last_updated_timestamp, math.inf)), change)
        before = latest = self._last_updated_timestamp
        changes = 0
        while not self._host_messages.empty():
            timestamp, change = self._host_messages.get()
            if timestamp > latest:
                latest = timestamp
                changes |= change
        before, self._last_updated_timestamp, changes = self._bcast_object((before, latest, changes))
        if self._last_updated_timestamp > before:
            raise HostsUpdatedInterrupt(changes == _HOSTS_REMOVED)

    def save(self) -> None:
        """Saves the current values in memory."""
        raise NotImplementedError

    def restore(self) -> None:
        """Sets the values to those that the last save() stored."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives every rank the values of rank 0."""
        raise NotImplementedError

    def reset(self) -> None:
        """Does what a subclass needs for a new attempt. on_reset() calls this method before the callbacks. Subclasses
        may override it.
        """

    def _keep(self) -> None:
        """Stores the saved values for another process. commit() calls it. Subclasses may override it."""

    def _forget(self) -> None:
        """Removes the stored values. run() calls this method when the job has succeeded. Subclasses may override it."""


class ObjectState(State):
    """A state of Python objects. The objects are attributes of the state.

    Example::

        state = ObjectState(hvd.broadcast_object, hvd.rank, epoch=0, best=None)
        state.epoch += 1
        state.commit()
    """

    def __init__(self, bcast_object: Callable[[Any], Any], get_rank: Callable[[], int], **kwargs: Any) -> None:
        super().__init__(bcast_object, get_rank)
        self._saved_state: dict[str, Any] = kwargs
        self._folder = commits.folder()
        #: True if this process has the values of the training, from a stored commit or from rank 0.
        self._has_synced = False
        self._set_attrs()

    def save(self) -> None:
        self._saved_state = {name: copy.deepcopy(getattr(self, name)) for name in self._saved_state}

    def restore(self) -> None:
        self._set_attrs()

    def sync(self) -> None:
        self._take_commit()
        self._sync_values()
        self._has_synced = True

    def _sync_values(self) -> None:
        if self._saved_state:
            self._saved_state = self._bcast_object(self._saved_state)
            self._set_attrs()

    def _set_attrs(self) -> None:
        for name, value in self._saved_state.items():
            setattr(self, name, copy.deepcopy(value))

    # --- commits that outlive the process -----------------------------------------------------------------------------

    def _content(self) -> dict[str, Any]:
        return {"objects": self._saved_state}

    def _load(self, content: dict[str, Any]) -> None:
        if content["objects"].keys() != self._saved_state.keys():
            raise InvalidArgument(
                f"the commit in {self._folder} has {sorted(content['objects'])}, and this state {sorted(self._saved_state)}: it "
                "is of another program; remove it, or give RUEDA_ELASTIC_DIR another folder"
            )
        self._saved_state = content["objects"]

    def _keep(self) -> None:
        if self._folder is not None and self._rank() == 0:
            commits.write(self._folder, self._commits, self._content())

    def _forget(self) -> None:
        if self._folder is not None and self._rank() == 0:
            commits.remove(self._folder)

    def _take_commit(self) -> None:
        """On rank 0, restores the stored commit of an earlier process, unless this process already has the values of
        the training. The other ranks get the values from rank 0 later. If rank 0 dies before that, the new rank 0
        restores the commit again.

        All ranks take over the number of commits that rank 0 has counted. Their own numbers may differ: a new rank has
        counted no commits, and another rank may be one commit ahead.
        """
        if not self._has_synced and self._folder is not None and self._rank() == 0:
            found = commits.read(self._folder)
            if found is not None:
                self._commits, content = found
                self._load(content)
                self.restore()
                print(f"rueda: going on from commit {self._commits} in {self._folder}", file=sys.stderr, flush=True)
        self._commits = self._bcast_object(self._commits)


class TorchState(ObjectState):
    """The state of a training: model, optimizer, samplers (saved by their state_dict()), and other values.

    The arguments become attributes of the state. If ``RUEDA_ELASTIC_DIR`` is set, rank 0 also writes every commit to a
    file in this folder. A job that is started again continues from this commit.

    Example::

        state = hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=0, batch=0)
    """

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        kwargs.update(model=model, optimizer=optimizer)
        # `_handlers` must be set first, because setting any other attribute looks up the attribute's handler in
        # `_handlers`.
        self.__dict__["_handlers"] = {}
        handlers = {name: _handler_of(value) for name, value in kwargs.items()}
        self._handlers: dict[str, StateHandler] = {
            name: handler for name, handler in handlers.items() if handler is not None
        }
        for name in self._handlers:
            self.__dict__[name] = kwargs[name]
        objects = {name: value for name, value in kwargs.items() if name not in self._handlers}
        super().__init__(bcast_object=broadcast_object, get_rank=_basics.rank, **objects)

    def save(self) -> None:
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def _sync_values(self) -> None:
        for handler in self._handlers.values():
            handler.sync()
        super()._sync_values()

    def reset(self) -> None:
        for handler in self._handlers.values():
            if isinstance(handler, SamplerStateHandler):
                handler.value.reset()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._handlers:
            self._handlers[name].set_value(value)
        super().__setattr__(name, value)

    def _content(self) -> dict[str, Any]:
        # A handler's attribute `value` is the program's own object. It is not stored; all other attributes are.
        kept = {
            name: {key: value for key, value in vars(handler).items() if key != "value"}
            for name, handler in self._handlers.items()
        }
        return {**super()._content(), "handlers": kept}

    def _load(self, content: dict[str, Any]) -> None:
        if content["handlers"].keys() != self._handlers.keys():
            raise InvalidArgument(
                f"the commit in {self._folder} has {sorted(content['handlers'])}, and this state {sorted(self._handlers)}: it is "
                "of another program; remove it, or give RUEDA_ELASTIC_DIR another folder"
            )
        super()._load(content)
        for name, kept in content["handlers"].items():
            vars(self._handlers[name]).update(kept)


class StateHandler:
    """Saves and restores one attribute of a TorchState. To add a subclass, pass it to set_handler_registry().

    Args:
        value: the attribute.
    """

    def __init__(self, value: Any) -> None:
        self.value = value

    def save(self) -> None:
        """Saves the current state of the attribute."""
        raise NotImplementedError

    def restore(self) -> None:
        """Sets the attribute to the state that the last save() stored."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives every rank the state of rank 0."""
        raise NotImplementedError

    def set_value(self, value: Any) -> None:
        """Called when the program assigns another object to the attribute. Saves the state of this object at once."""
        self.value = value
        self.save()


class ModelStateHandler(StateHandler):
    """Saves and restores the state of a torch.nn.Module."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__(model)
        self.save()

    def save(self) -> None:
        self._saved_model_state = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(self._saved_model_state)

    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class OptimizerStateHandler(StateHandler):
    """Saves and restores the state of a torch.optim.Optimizer, which may be a DistributedOptimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        super().__init__(optimizer)
        self.save()

    def save(self) -> None:
        self._saved_optimizer_state = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(self._saved_optimizer_state)

    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class SamplerStateHandler(StateHandler):
    """Saves and restores the state of an ElasticSampler."""

    def __init__(self, sampler: ElasticSampler) -> None:
        super().__init__(sampler)
        self.save()

    def save(self) -> None:
        self._saved_sampler_state = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(self._saved_sampler_state)

    def sync(self) -> None:
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), 0))
        self.save()


_registry: list[tuple[type, Callable[[Any], StateHandler]]] = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> list[tuple[type, Callable[[Any], StateHandler]]]:
    """Returns a list of pairs: a class of values, and the class of its handlers. A value gets the handler of the first
    pair whose class fits the value (isinstance).
    """
    return _registry


def set_handler_registry(registry: list[tuple[type, Callable[[Any], StateHandler]]]) -> None:
    """Sets handlers for your own classes. Call it before you make a TorchState."""
    global _registry
    _registry = registry


def _handler_of(value: Any) -> StateHandler | None:
    for kind, handler in _registry:
        if isinstance(value, kind):
            return handler(value)
    return None
