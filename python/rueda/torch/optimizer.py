# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""DistributedOptimizer: an optimizer that reduces gradients over the ranks while the backward pass is still running."""

from __future__ import annotations

import copy
import functools
import inspect
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import torch

from rueda import _native
from rueda.errors import DuplicateName, HorovodInternalError, InvalidArgument
from rueda.torch import _basics, timeline
from rueda.torch.compression import Compression
from rueda.torch.functions import broadcast_object
from rueda.torch.gradient_storage import Kind, ResidentStorage, is_unshared, knows_who_refers
from rueda.torch.gradient_storage import check as check_storage
from rueda.torch.operations.allreduce import allreduce_async_, allreduce_into, grouped_allreduce_async_
from rueda.torch.operations.handles import synchronize
from rueda.torch.operations.sparse import UNCHECKED, sparse_allreduce_async
from rueda.torch.process_sets import ProcessSet, global_process_set
from rueda.types import Adasum, Average, ReduceOp

__all__ = ["DistributedOptimizer"]

Parameter: TypeAlias = torch.Tensor

_TOO_MANY_PASSES = (
    "Gradients were computed more than backward_passes_per_step times before call to step(). Increase "
    "backward_passes_per_step to accumulate gradients locally. The parameter is {name!r}."
)


Key: TypeAlias = tuple[int | None, str]


class _Claim:
    """A claim says that one optimizer uses one tensor name in one process set."""

    __slots__ = ("is_last", "key", "owner", "reduction")

    def __init__(self, key: Key, owner: weakref.ref[_Common]) -> None:
        self.key = key
        self.owner = owner
        #: True until another optimizer claims the same name.
        self.is_last = True
        #: The pending reduction with this name, or None. The optimizer that started the reduction sets this field to
        #: None after it has stored the result.
        self.reduction: _Reduction | None = None


# The last claim for each name in each process set. The claim says which optimizer uses the name. This may be any
# optimizer of this process, even a deleted one.
_claims: dict[Key, _Claim] = {}


def _forget_claims() -> None:
    """Removes all claims at the end of a job, because process sets of the next job have other numbers."""
    for claim in _claims.values():
        claim.is_last, claim.reduction = False, None
    _claims.clear()


_basics._at_end.append(_forget_claims)


class _Reduction:
    """A pending reduction: of one parameter's gradient, or of the gradients of a group."""

    __slots__ = ("claims", "gradients", "parameters", "wait")

    def __init__(
        self,
        claims: Sequence[_Claim],
        parameters: Sequence[Parameter],
        gradients: Sequence[torch.Tensor],
        wait: Callable[[], Any],
    ) -> None:
        #: The claim of each parameter.
        self.claims = claims
        self.parameters = parameters
        #: For each parameter, the tensor that was in ``.grad`` when the reduction was started.
        self.gradients = gradients
        #: Waits for the reduction, and returns the reduced tensor of each parameter, or raises the error.
        self.wait = wait

    def complete(self) -> None:
        """Waits until the reduction has ended, with or without an error. If it failed, a later call of wait() raises
        the error.
        """
        try:
            outputs = self.wait()
        except HorovodInternalError as failure:
            self.wait = functools.partial(_raise, failure)
        else:
            self.wait = lambda: outputs

    def forget(self) -> None:
        """Releases the names of the reduction, so that other reductions can use them."""
        for claim in self.claims:
            claim.reduction = None


def _raise(failure: Exception) -> Any:
    raise failure


class _Common(torch.optim.Optimizer):
    """The common base of both kinds of distributed optimizers. It comes before the user's optimizer class in the list
    of base classes.

    Threads: as PyTorch's optimizers require, only one thread at a time runs a backward pass or a step.
    """

    def _take_over(
        self,
        optimizer: torch.optim.Optimizer,
        named_parameters: Iterable[tuple[str, Parameter]] | None,
        compression: Any,
        backward_passes_per_step: int,
        process_set: ProcessSet,
    ) -> None:
        # Copies all attributes of the optimizer, including its state. Functions that other code has assigned to
        # attributes of the object are not copied. For example, a scheduler assigns its own function to step. This
        # function is bound to the wrapped optimizer. If it were copied, it would run instead of this class's step().
        own = {name: value for name, value in vars(optimizer).items() if not callable(getattr(_Common, name, None))}
        self.__dict__.update(own)
        self._wrapped = optimizer
        self._reference = weakref.ref(self)
        self._claimed: dict[Parameter, _Claim] = {}
        self._compression = compression
        self._process_set = process_set
        self.backward_passes_per_step = backward_passes_per_step
        self._parameter_names = _names_of(self.param_groups, named_parameters)
        #: How many backward passes are left until the gradient is reduced, for each parameter with a hook.
        self._allreduce_delay: dict[Parameter, int] = {}
        self._hooks: list[Any] = []
        #: The pending reduction of each parameter with a hook, or None if more backward passes must come first.
        self._handles: dict[Parameter, _Reduction | None] = {}
        self._warned: set[str] = set()
        _synchronize_before_unscaling()

    def _is_active(self) -> bool:
        """Returns True if gradients must be reduced, because there are other ranks."""
        # size() raises NotInitialized if the job has ended. In an elastic job, other ranks may join later even if this
        # rank is alone now.
        there_are_others = _basics.size() > 1 or os.environ.get("HOROVOD_ELASTIC") == "1" or _native.is_elastic()
        included = self._process_set.included()
        if included is None:
            raise InvalidArgument(f"{self._process_set!r} is not known to the job, or was removed from it")
        return included and there_are_others

    def _hook_parameters(self) -> None:
        """Adds hooks to all parameters that require a gradient and have no hook."""
        new = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.requires_grad and parameter not in self._allreduce_delay:
                    self._allreduce_delay[parameter] = self.backward_passes_per_step
                    self._hooks.append(_take_hook(parameter, self))
                    new.append(parameter)
        if new:
            self._take_up(new)

    def _accumulated(self, parameter: Parameter) -> None:
        raise NotImplementedError

    def _take_up(self, parameters: list[Parameter]) -> None:
        """If another optimizer has started to reduce gradients of these parameters, waits for these reductions and
        takes them over. The other optimizer was deleted, or its hooks are no longer called, so it will not complete
        them itself.
        """
        taken = {id(parameter) for parameter in parameters}
        for claim in [*_claims.values()]:
            reduction = claim.reduction
            if reduction is None:
                continue
            number = reduction.claims.index(claim)
            parameter = reduction.parameters[number]
            if id(parameter) not in taken:
                continue
            # The reduction writes into the gradient. Without this wait, the next step might set the gradient to zero
            # before the reduction writes.
            reduction.complete()
            claim.reduction = None
            earlier = claim.owner()
            if earlier is not None:
                earlier._handles.pop(parameter, None)
            if parameter.grad is reduction.gradients[number] and claim.key[0] == self._process_set.process_set_id:
                self._go_on_with(reduction, number)

    def _go_on_with(self, reduction: _Reduction, number: int) -> None:
        """Takes a gradient that another optimizer has already reduced. This is possible only if no backward pass has
        added to the gradient since then. `number` is the position of this gradient in the reduction.
        """

    # --- copies -------------------------------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Makes a copy with the parameter groups and the state. As in Horovod, the copy is not a distributed
        optimizer."""
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__setstate__(copy.deepcopy(self.__getstate__(), memo))
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            "a DistributedOptimizer cannot be pickled, nor copied by copy.copy(): its hooks are of this process. Save its state_dict(), "
            "and load that into a DistributedOptimizer which is made anew"
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if "_handles" in vars(self):
                users = getattr(super(), "__getattr__", None)
                return super().__getattribute__(name) if users is None else users(name)
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}: it is a deep copy of a DistributedOptimizer, which has its state "
                "and reduces nothing. Make a DistributedOptimizer of the copied parameters, and have it load the state_dict() of this one"
            )

    # --- names --------------------------------------------------------------------------------------------------------

    def _claim(self, parameter: Parameter) -> _Claim:
        """Returns this optimizer's claim of the parameter's name. Claims are needed because the parameters of two
        models may have the same names.

        All ranks decide in the same way whether to make a new claim. The decision depends only on the calls that the
        program made, and not on which operations have already completed.
        """
        claim = self._claimed.get(parameter)
        if claim is None or not claim.is_last or claim.reduction is not None:
            return self._claim_anew(parameter)
        # A process set that is removed and added again has a new number.
        return claim if claim.key[0] == self._process_set.process_set_id else self._claim_anew(parameter)

    def _claim_anew(self, parameter: Parameter) -> _Claim:
        key = (self._process_set.process_set_id, self._parameter_names[parameter])
        last = _claims.get(key)
        if last is not None:
            if last.reduction is not None:
                self._wait_for_namesake(last.owner(), last.reduction, parameter, key[1])
            last.is_last = False
        claim = self._claimed[parameter] = _claims[key] = _Claim(key, self._reference)
        return claim

    def _wait_for_namesake(self, owner: _Common | None, other: _Reduction, parameter: Parameter, name: str) -> None:
        if owner is self:
            raise DuplicateName(f"the gradient of {name!r} is being reduced: call step() or zero_grad() first")
        if owner is None:  # the other optimizer was deleted, so no other code waits for its reduction
            other.complete()
            other.forget()
            return
        if any(reduced is parameter for reduced in other.parameters):
            raise DuplicateName(
                f"a later DistributedOptimizer of the same parameters is reducing the gradient of {name!r}: step() that one, or "
                "call its zero_grad() first"
            )
        self._warn_of_namesake(name)
        other.complete()

    def _warn_of_namesake(self, name: str) -> None:
        if "names" not in self._warned:
            self._warned.add("names")
            warnings.warn(
                f"rueda: two DistributedOptimizers reduce gradients named {name!r} at the same time, one after the other: on every "
                "rank they have to come in the same order. Give them names that differ, such as "
                "[('second.' + name, p) for name, p in model.named_parameters()]",
                stacklevel=7,
            )

    def _begun(self, reduction: _Reduction) -> None:
        for claim, parameter in zip(reduction.claims, reduction.parameters, strict=True):
            claim.reduction = self._handles[parameter] = reduction

    def _pending(self) -> list[_Reduction]:
        """Returns the pending reductions, each once, in the order in which they were started."""
        return list(dict.fromkeys(reduction for reduction in self._handles.values() if reduction is not None))

    def _end_all(self) -> None:
        """Forgets all reductions of this optimizer. All of them must have ended."""
        for reduction in self._handles.values():
            if reduction is not None:
                reduction.forget()
        self._handles.clear()
        self._reset_delays()

    # --- what optimizers have -----------------------------------------------------------------------------------------

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Sets after how many backward passes gradients are reduced from now on."""
        if passes <= 0:
            raise InvalidArgument(f"backward_passes_per_step is {passes}; expected at least 1")
        self.backward_passes_per_step = passes
        for parameter in self._allreduce_delay:
            # If the parameter's reduction is pending, the number of passes is set later, when the reduction has ended.
            if self._handles.get(parameter) is None:
                self._allreduce_delay[parameter] = passes

    def _reset_delays(self) -> None:
        for parameter in self._allreduce_delay:
            self._allreduce_delay[parameter] = self.backward_passes_per_step

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group of parameters. Call it on every rank in the same way."""
        super().add_param_group(param_group)
        index = len(self.param_groups) - 1
        for number, parameter in enumerate(self.param_groups[index]["params"]):
            self._parameter_names.setdefault(parameter, _noname(index, number))
        if self._is_active():
            self._hook_parameters()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state, as in any optimizer. Before that, it waits for pending reductions and drops them, so that
        later reductions begin with the new state.
        """
        self._discard()
        super().load_state_dict(state_dict)
        # A scheduler that was made from the wrapped optimizer reads these attributes.
        self._wrapped.state, self._wrapped.param_groups = self.state, self.param_groups

    def _discard(self) -> None:
        """Waits for the pending reductions and drops them. The caller will change the gradients, or does not need them.
        Errors are ignored here: if a reduction has failed, the program gets an error from the next operation.
        """
        for reduction in self._pending():
            reduction.complete()
        self._end_all()

    def _stepped(self) -> None:
        """Tells a scheduler that a step was made, if the scheduler was made before the optimizer was wrapped."""
        wrapped: Any = self._wrapped
        if hasattr(wrapped, "_step_count"):
            wrapped._step_count += 1
        wrapped._opt_called = True


class _DistributedOptimizer(_Common):
    """Reduces the gradients, and then runs the step of the user's optimizer class with them."""

    def _begin(
        self,
        groups: int | Sequence[Sequence[Parameter]] | None,
        op: int,
        gradient_predivide_factor: float,
        sparse_as_dense: bool,
        gradient_storage: str,
    ) -> None:
        self.op = op
        # With compression, Rueda reduces the compressed copy of the gradient. Shared memory for the gradient itself
        # would then be useless.
        shared = gradient_storage != "private" and self._compression is Compression.none
        self._storage = ResidentStorage(expected=gradient_storage != "auto") if shared else None
        #: If _moves is true, gradients move to resident memory, which the ranks of a host share. If _moves_at_once is
        #: also true, a gradient moves in its first backward pass. Otherwise it moves just before the reduction.
        self._moves = shared and gradient_storage in ("copied", "view")
        self._moves_at_once = shared and gradient_storage == "view"
        #: True if zero_grad() moves gradients to memory that the ranks of a host share. It moves only gradients that it
        #: sets to zero and not to None.
        self._moves_zeros = shared and gradient_storage == "auto" and knows_who_refers()
        self._zero_grad_signature = inspect.signature(super().zero_grad)
        self._sparse_as_dense = sparse_as_dense
        # An average needs a division by the number of ranks. Two factors do this division: one is applied before the
        # sum, the other after the sum.
        self._factors = (1.0 / gradient_predivide_factor, gradient_predivide_factor) if op == Average else (1.0, 1.0)
        self._synchronized = False
        self._should_synchronize = True
        #: Parameters whose last gradient was sparse.
        self._sparse: set[Parameter] = set()
        self._group_of: dict[Parameter, tuple[Parameter, ...]] = {}
        if self._is_active():
            self._hook_parameters()
            if groups is not None:
                self._form_groups(groups)

    def _form_groups(self, groups: int | Sequence[Sequence[Parameter]]) -> None:
        names = self._parameter_names
        if isinstance(groups, int):
            order = [names[parameter] for parameter in self._allreduce_delay]
            if not _native.is_elastic():
                # All ranks use the order of the parameters on the set's first rank, because other ranks may have
                # another order. In an elastic job this is not possible: a new rank makes its optimizer while the other
                # ranks train, so it cannot ask them for their order.
                order = broadcast_object(order, (self._process_set.ranks or [0])[0], process_set=self._process_set)
            by_name = {names[parameter]: parameter for parameter in self._allreduce_delay}
            if sorted(order) != sorted(by_name):
                raise InvalidArgument("groups: the ranks' parameters have different names; give named_parameters alike")
            made = [[by_name[name] for name in part] for part in _split(order, groups)]
        else:
            made = [[parameter for parameter in group if parameter in self._allreduce_delay] for group in groups]
        for group in made:
            for parameter in group:
                self._group_of[parameter] = tuple(group)

    # --- starting reductions ------------------------------------------------------------------------------------------

    def _accumulated(self, parameter: Parameter) -> None:
        """Counts a backward pass that has added to the parameter's gradient. Starts the reduction after the last such
        pass. PyTorch's hook calls this method.
        """
        if self._allreduce_delay[parameter] <= 0:
            raise AssertionError(_TOO_MANY_PASSES.format(name=self._parameter_names[parameter]))
        self._synchronized = False
        self._allreduce_delay[parameter] -= 1
        self._handles[parameter] = None
        if self._moves_at_once:
            self._move(parameter)
        if self._allreduce_delay[parameter] > 0:
            return
        group = self._group_of.get(parameter)
        if group is None:
            self._start_alone(parameter)
        elif all(self._allreduce_delay[member] == 0 or not member.requires_grad for member in group):
            self._start([member for member in group if self._allreduce_delay[member] == 0])

    def _move(self, parameter: Parameter) -> None:
        """Moves the gradient to memory that the ranks of a host share. Does nothing if the gradient already lies in
        such memory, or if the gradient itself requires a gradient.
        """
        gradient = parameter.grad
        if self._storage is None or gradient is None or not _is_of_memory(gradient) or gradient.requires_grad:
            return
        if self._storage.holds(parameter, gradient):
            return
        place = self._storage.tensor_for(parameter, self._allreduce_delay)
        if place is not None and gradient.shape == place.shape and gradient.dtype == place.dtype:
            with torch.no_grad():
                place.copy_(gradient)
            parameter.grad = place

    def _start_alone(self, parameter: Parameter) -> None:
        """Starts the reduction of one gradient. For most gradients, this function replaces _start(), which is slower.
        It must be fast, because it runs for each gradient in every step, and the backward pass waits for it.
        """
        gradient = parameter.grad
        if self._moves or self._compression is not Compression.none or not _is_plain(gradient):
            self._start([parameter])
            return
        claim = self._claim(parameter)
        name = claim.key[1]
        try:
            handle = allreduce_into(
                gradient, gradient, name, self.op, self._factors[0], self._factors[1], self._process_set
            )
        except InvalidArgument as error:
            raise _of_gradients(error, name) from None
        self._handles[parameter] = claim.reduction = _Reduction(
            (claim,), (parameter,), (gradient,), lambda: (_result_of(handle, name),)
        )

    def _start(self, parameters: Sequence[Parameter]) -> None:
        claims = [self._claim(parameter) for parameter in parameters]
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            if self._moves:
                self._move(parameter)
        if any(_is_sparse(parameter.grad) for parameter in parameters):
            for claim, parameter in zip(claims, parameters, strict=True):
                self._start_one(claim, parameter)
        elif len(parameters) == 1:
            self._start_one(claims[0], parameters[0])
        else:
            self._start_group(claims, parameters)

    def _start_one(self, claim: _Claim, parameter: Parameter) -> None:
        name = claim.key[1]
        gradient = parameter.grad
        assert gradient is not None
        if _is_sparse(gradient):
            self._sparse.add(parameter)
            if not self._sparse_as_dense:
                self._start_sparse(claim, parameter, gradient)
                return
        compressed, context = self._compression.compress(_dense(gradient))
        try:
            handle = allreduce_async_(
                compressed,
                name=name,
                op=self.op,
                prescale_factor=self._factors[0],
                postscale_factor=self._factors[1],
                process_set=self._process_set,
            )
        except InvalidArgument as error:
            raise _of_gradients(error, name) from None
        decompress = self._compression.decompress
        self._begun(
            _Reduction([claim], [parameter], [gradient], lambda: [decompress(_result_of(handle, name), context)])
        )

    def _start_sparse(self, claim: _Claim, parameter: Parameter, gradient: torch.Tensor) -> None:
        # As in Horovod, only dense gradients are compressed.
        try:
            result = sparse_allreduce_async(gradient.coalesce(), claim.key[1], self.op, self._process_set)
        except InvalidArgument as error:
            raise _of_gradients(error, claim.key[1]) from None
        self._begun(_Reduction([claim], [parameter], [gradient], lambda: [result()]))

    def _start_group(self, claims: Sequence[_Claim], parameters: Sequence[Parameter]) -> None:
        gradients = [parameter.grad for parameter in parameters]
        assert all(gradient is not None for gradient in gradients)
        pairs = [self._compression.compress(_dense(gradient)) for gradient in gradients]
        name = claims[0].key[1]
        try:
            handle = grouped_allreduce_async_(
                [tensor for tensor, _ in pairs],
                name=name,
                op=self.op,
                prescale_factor=self._factors[0],
                postscale_factor=self._factors[1],
                process_set=self._process_set,
            )
        except InvalidArgument as error:
            raise _of_gradients(error, *(claim.key[1] for claim in claims)) from None
        decompress = self._compression.decompress

        def outputs() -> list[torch.Tensor]:
            results = _result_of(handle, name)
            return [decompress(output, context) for output, (_, context) in zip(results, pairs, strict=True)]

        self._begun(_Reduction(claims, parameters, gradients, outputs))  # type: ignore[arg-type]

    def _go_on_with(self, reduction: _Reduction, number: int) -> None:
        """Takes a gradient that another optimizer has already reduced, so that the gradient is not reduced a second
        time.
        """
        parameter, gradient, ended = reduction.parameters[number], reduction.gradients[number], reduction.wait
        self._handles[parameter] = _Reduction((), (parameter,), (gradient,), lambda: (ended()[number],))

    # --- waiting for reductions ---------------------------------------------------------------------------------------

    def synchronize(self) -> None:
        """Waits until all gradients are reduced. Afterwards the gradients are the same on all ranks. step() calls this
        function, unless the program uses skip_synchronize().

        If a parameter has no gradient on this rank, this rank contributes zeros. The parameter then gets the gradient
        of the other ranks.

        Raises:
            HorovodInternalError: the error of the first reduction that failed; it names the parameter. The function
                waits for all reductions before it raises the error.
        """
        if not self._is_active():
            self._synchronized = True
            return
        self._hook_parameters()  # parameters that were frozen before may require a gradient now
        if not self._synchronized:
            self._start_the_rest()
        with timeline.scope("wait for gradients"):
            failures = [failure for failure in map(self._finish, self._pending()) if failure is not None]
        self._end_all()
        self._synchronized = True
        if failures:
            raise failures[0]

    def _finish(self, reduction: _Reduction) -> Exception | None:
        """Waits for the reduction, and stores its result."""
        try:
            outputs = reduction.wait()
        except HorovodInternalError as failure:
            return failure
        for parameter, gradient, output in zip(reduction.parameters, reduction.gradients, outputs, strict=True):
            # Another optimizer may have taken over some of these gradients.
            if (output is not gradient or parameter.grad is not gradient) and self._handles.get(parameter) is reduction:
                self._put(parameter, gradient, output)
        return None

    def _start_the_rest(self) -> None:
        """Starts the reductions of parameters that got no gradient, or that had fewer backward passes than expected."""
        # Frozen parameters are skipped. If they got zeros as gradients, momentum and weight decay would change them.
        # Without Rueda, frozen parameters do not change.
        waiting = [
            parameter
            for parameter in self._allreduce_delay
            if self._handles.get(parameter) is None and (parameter.requires_grad or parameter.grad is not None)
        ]
        unused = [self._parameter_names[parameter] for parameter in waiting if parameter.grad is None]
        if unused:
            self._warn_of_unused(unused)
        awaited, started = set(waiting), set[Parameter]()
        for parameter in waiting:
            if parameter in started:
                continue
            if parameter.grad is None and parameter in self._sparse and not self._sparse_as_dense:
                parameter.grad = _nothing(parameter)
            group = [other for other in self._group_of.get(parameter, (parameter,)) if other in awaited]
            started.update(group)
            self._start(group)

    def _warn_of_unused(self, unused: list[str]) -> None:
        if self._warned.issuperset(unused):
            return
        self._warned.update(unused)
        shown = ", ".join(repr(name) for name in unused[:10]) + (", …" if len(unused) > 10 else "")
        warnings.warn(
            f"rueda: on rank {_basics.rank()} no gradient was computed for {len(unused)} parameter(s) before step(): {shown}. "
            "They were reduced as zeros, so that no rank waits for another",
            stacklevel=5,
        )

    def _put(self, parameter: Parameter, gradient: torch.Tensor, output: torch.Tensor) -> None:
        """Stores the reduced gradient in ``.grad``."""
        if parameter.grad is not gradient:
            self._warn_of_replaced(parameter)
            if parameter.grad is None:
                return
            parameter.grad = gradient
        if output is gradient:
            return
        with torch.no_grad():
            if _is_sparse(gradient):
                gradient.zero_().add_(output if _is_sparse(output) else output.to_sparse(gradient.sparse_dim()))
            else:
                # The result goes into the gradient's own memory, because the gradient may be a part of a larger tensor.
                gradient.copy_(output)

    def _warn_of_replaced(self, parameter: Parameter) -> None:
        name = self._parameter_names[parameter]
        key = f"replaced {name}"
        if key not in self._warned:
            self._warned.add(key)
            warnings.warn(
                f"rueda: the gradient of {name!r} was replaced after its reduction had begun, and the replacement is lost; "
                "call optimizer.synchronize() before changing gradients, and step() within optimizer.skip_synchronize()",
                stacklevel=4,
            )

    def _discard(self) -> None:
        super()._discard()
        self._synchronized = self._by_scaler = False

    # --- what users call ----------------------------------------------------------------------------------------------

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Within this scope, step() does not call synchronize(). Use this scope if the program changes gradients, for
        example clips them, after it has called synchronize() itself.

        Example::

            optimizer.synchronize()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            with optimizer.skip_synchronize():
                optimizer.step()
        """
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Callable[[], Any] | None = None, **keywords: Any) -> Any:
        """Reduces the gradients, and then runs the optimizer's own step.

        Args:
            closure: a function that computes the loss and its gradients. The gradients are reduced after each call of
                this function.
        """
        if closure is not None and self._should_synchronize:
            return self._step_of_closure(closure, keywords)
        if self._should_synchronize:
            if not self._synchronized:
                self.synchronize()
            elif self._synchronized_by_hand():
                warnings.warn(
                    "optimizer.step() called without optimizer.skip_synchronize() context after optimizer.synchronize(). "
                    "This can cause training slowdown. You may want to consider using optimizer.skip_synchronize() context "
                    "if you use optimizer.synchronize() in your code.",
                    stacklevel=2,
                )
        self._synchronized = False
        self._by_scaler = False
        self._stepped()
        with timeline.scope("optimizer step"):
            return super().step(closure, **keywords) if closure is not None else super().step(**keywords)

    # True if the last call of synchronize() was made by a GradScaler, and not by the program.
    _by_scaler = False

    def _synchronized_by_hand(self) -> bool:
        return not self._by_scaler and self._is_active()

    def _step_of_closure(self, closure: Callable[[], Any], keywords: dict[str, Any]) -> Any:
        if self._pending():
            self.synchronize()

        def reduced() -> Any:
            self._synchronized = False
            with torch.enable_grad():
                loss = closure()
            self.synchronize()
            return loss

        try:
            return super().step(reduced, **keywords)
        finally:
            self._synchronized = False
            self._stepped()

    def _before_unscaling(self) -> None:
        """Reduces the gradients before a GradScaler reads them. The scaler looks at the gradients to decide whether to
        make a step. All ranks must make the same decision.
        """
        if self._should_synchronize and not self._synchronized:
            self.synchronize()
            self._by_scaler = True

    def zero_grad(self, *arguments: Any, **keywords: Any) -> None:
        """Sets the gradients to zero or None, as in any optimizer. Before that, it waits for gradients that are being
        reduced.
        """
        self._discard()
        if self._moves_zeros and self._keeps_gradients(arguments, keywords):
            self._move_zeros()
        super().zero_grad(*arguments, **keywords)

    def _keeps_gradients(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        """Returns True if zero_grad() with these arguments sets gradients to zeros and not to None. Without arguments,
        this depends on the version of PyTorch.
        """
        try:
            bound = self._zero_grad_signature.bind(*arguments, **keywords)
        # Wrong arguments are ignored here, because the optimizer's own zero_grad() will raise the error.
        except TypeError:
            return False
        bound.apply_defaults()
        return not bound.arguments.get("set_to_none", True)

    def _move_zeros(self) -> None:
        """Called before gradients are set to zero. Replaces these gradients by zeros in memory that the ranks of a host
        share. Autograd then adds to these zeros. A gradient is not replaced if something else refers to it.
        """
        for parameter in self._allreduce_delay:
            if self._may_move(parameter) and is_unshared(parameter):
                self._move(parameter)

    def _may_move(self, parameter: Parameter) -> bool:
        """Returns True if the gradient is not in memory that the ranks of a host share, but could be moved there."""
        gradient = parameter.grad
        if self._storage is None or gradient is None or not _is_of_memory(gradient):
            return False
        return not self._storage.holds(parameter, gradient) and _is_plain(gradient)


class _DistributedAdasumOptimizer(_Common):
    """Runs the step of the user's optimizer class with this rank's own gradients. The resulting changes of all ranks
    are combined by Adasum.
    """

    def _begin(self) -> None:
        if self._is_active():
            self._hook_parameters()

    def _accumulated(self, parameter: Parameter) -> None:
        if self._allreduce_delay[parameter] <= 0:
            raise AssertionError(_TOO_MANY_PASSES.format(name=self._parameter_names[parameter]))
        self._allreduce_delay[parameter] -= 1
        self._handles[parameter] = None
        if self._allreduce_delay[parameter] == 0:
            self._start(parameter)

    def _start(self, parameter: Parameter) -> None:
        """Runs a step for this parameter alone, and starts to combine its change with the changes on other ranks. The
        parameter itself stays the same until step().
        """
        claim = self._claim(parameter)
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        everything = [group["params"] for group in self.param_groups]
        with torch.no_grad():
            before = parameter.detach().clone()
            try:
                for group in self.param_groups:
                    group["params"] = [parameter] if any(parameter is other for other in group["params"]) else []
                super().step()
            finally:
                for group, parameters in zip(self.param_groups, everything, strict=True):
                    group["params"] = parameters
            change = _dense(parameter.detach() - before)
            parameter.copy_(before)
        compressed, context = self._compression.compress(change)
        name = claim.key[1]
        try:
            handle = allreduce_async_(compressed, name=name, op=Adasum)
        except InvalidArgument as error:
            raise _of_gradients(error, name) from None
        decompress = self._compression.decompress
        self._begun(_Reduction([claim], [parameter], [change], lambda: [decompress(_result_of(handle, name), context)]))

    def synchronize(self) -> None:
        """Does nothing, because step() combines the changes."""

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Raises an error, because gradients are not reduced with Adasum.

        Raises:
            AssertionError: always.
        """
        raise AssertionError("Skipping synchronization is not supported when using Adasum optimizer.")
        yield

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Waits until the changes of all ranks are combined, and applies them to the parameters."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self._is_active():
            self._stepped()
            return super().step() if closure is None else (super().step(), loss)[1]
        self._hook_parameters()
        for parameter in self._allreduce_delay:
            if self._handles.get(parameter) is None and (parameter.requires_grad or parameter.grad is not None):
                self._start(parameter)
        failures: list[Exception] = []
        for reduction in self._pending():
            try:
                (change,) = reduction.wait()
            except HorovodInternalError as failure:
                failures.append(failure)
                continue
            with torch.no_grad():
                reduction.parameters[0].add_(change)
        self._end_all()
        if failures:
            raise failures[0]
        self._stepped()
        return loss

    def _before_unscaling(self) -> None:
        raise HorovodInternalError(
            "GradScaler cannot be used with op=Adasum: the optimizer's step is made in the backward pass, of gradients that "
            "are still scaled; use bfloat16, which needs no scaling, or op=Average"
        )

    def zero_grad(self, *arguments: Any, **keywords: Any) -> None:
        """Like the optimizer's own zero_grad(). Raises AssertionError while changes are being combined, because these
        changes would be lost.
        """
        if self._pending():
            raise AssertionError(
                "optimizer.zero_grad() was called after loss.backward() but before optimizer.step(). This is prohibited as it "
                "can cause a race condition."
            )
        super().zero_grad(*arguments, **keywords)


# PyTorch wraps the step() of an optimizer class once, so that step() runs the user's hooks. It has already wrapped the
# step() of the user's class, which the step() methods of these two classes call. If PyTorch wrapped these methods, too,
# the hooks would run twice. PyTorch does not wrap a method that has the attribute `hooked`.
for _kind in (_DistributedOptimizer, _DistributedAdasumOptimizer):
    _kind.step.hooked = True  # type: ignore[union-attr]


def _of_gradients(error: InvalidArgument, *names: str) -> InvalidArgument:
    return InvalidArgument(f"the gradient of {', '.join(map(repr, names))}: {error}")


def _result_of(handle: int, name: str) -> Any:
    """Returns the result of a reduction. If the result is None, because the job has ended, raises an error."""
    result = synchronize(handle)
    if result is None:
        raise HorovodInternalError(f"the reduction of {name!r} was under way when hvd.shutdown() was called")
    return result


# --- parts ------------------------------------------------------------------------------------------------------------


def _is_sparse(tensor: torch.Tensor | None) -> bool:
    return tensor is not None and tensor.layout != torch.strided


def _is_plain(tensor: torch.Tensor | None) -> TypeGuard[torch.Tensor]:
    """Returns True if the tensor's memory can be reduced without a copy."""
    return tensor is not None and tensor.layout is torch.strided and tensor.is_contiguous() and not tensor.is_neg()


def _is_of_memory(tensor: torch.Tensor) -> bool:
    """Returns True if the tensor is dense, in the CPU's memory, and not an object of a subclass of torch.Tensor."""
    return type(tensor) is torch.Tensor and tensor.layout is torch.strided and tensor.is_cpu


def _nothing(parameter: Parameter) -> torch.Tensor:
    """Returns a sparse gradient without rows, for an embedding that has no gradient."""
    indices = torch.empty((1, 0), dtype=torch.int64, device=parameter.device)
    values = parameter.new_empty((0, *parameter.shape[1:]))
    return torch.sparse_coo_tensor(indices, values, parameter.shape, **UNCHECKED)


def _dense(gradient: torch.Tensor | None) -> torch.Tensor:
    """Returns contiguous memory with the gradient's values: the gradient itself if it is contiguous and dense."""
    assert gradient is not None
    if _is_sparse(gradient):
        return gradient.to_dense()
    return gradient if gradient.is_contiguous() and not gradient.is_neg() else gradient.contiguous().resolve_neg()


# For each parameter with a hook: a weak reference to the parameter, and PyTorch's handle of the hook. The key is the
# parameter's id. The parameter itself cannot be the key of a weak dictionary, because == compares its elements. The
# handle is not stored in an attribute of the parameter, because the attribute would be saved with the model.
_hooked: dict[int, tuple[weakref.ref[Parameter], Any]] = {}


def _take_hook(parameter: Parameter, optimizer: _Common) -> Any:
    """Makes a hook for the parameter. The hook tells the optimizer that a backward pass has written the parameter's
    ``.grad``. It does nothing when the optimizer no longer exists. The hook is removed when the returned object is
    deleted.

    If two optimizers have the same parameters, only the later optimizer has hooks; otherwise every gradient would be
    reduced twice. If the program still calls step() of the earlier optimizer, this step() reduces the gradients.
    """
    known = _hooked.get(id(parameter))
    if known is not None and known[0]() is parameter:
        known[1].remove()
    owner = weakref.ref(optimizer)

    def accumulated(of: Parameter) -> None:
        told = owner()
        if told is not None:
            told._accumulated(of)

    node = None
    if hasattr(parameter, "register_post_accumulate_grad_hook"):
        hook = parameter.register_post_accumulate_grad_hook(accumulated)
    else:
        with torch.enable_grad():
            node = parameter.expand_as(parameter).grad_fn.next_functions[0][
                0
            ]  # the hook lives as long as other code refers to this object
        of = weakref.ref(parameter)
        hook = node.register_hook(lambda *_gradients: accumulated(of()))
    number = id(parameter)
    _hooked[number] = (weakref.ref(parameter, lambda _gone: _hooked.pop(number, None)), hook)
    return node, hook


def _split(names: list[str], parts: int) -> list[list[str]]:
    """Splits a list of names into parts. The order of the names does not change, and the lengths of the parts differ by
    at most one.
    """
    count, more = divmod(len(names), parts)
    ends = [index * count + min(index, more) for index in range(parts + 1)]
    return [names[begin:end] for begin, end in zip(ends, ends[1:], strict=False) if end > begin]


def _noname(group: int, index: int) -> str:
    return f"allreduce.noname.{group}.{index}"


def _names_of(
    groups: list[dict[str, Any]], named_parameters: Iterable[tuple[str, Parameter]] | None
) -> dict[Parameter, str]:
    if named_parameters is None:
        return {
            parameter: _noname(number, index)
            for number, group in enumerate(groups)
            for index, parameter in enumerate(group["params"])
        }
    pairs = list(named_parameters)
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise InvalidArgument(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced by model.named_parameters()."
        )
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidArgument(
            f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(twice)}"
        )
    named = {parameter: name for name, parameter in pairs}
    unnamed = sum(parameter not in named for group in groups for parameter in group["params"])
    if unnamed:
        raise InvalidArgument(
            f"named_parameters was specified, but {unnamed} model parameter(s) were not named; give it the names of all "
            "parameters of the optimizer, or none"
        )
    return named


def _check_groups(groups: Any) -> int | list[list[Parameter]] | None:
    if groups is None:
        return None
    if isinstance(groups, int):
        if groups <= 0:
            raise InvalidArgument(f"groups is {groups}; expected a positive number, or a list of lists of parameters")
        return groups
    if not isinstance(groups, list | tuple) or not all(isinstance(group, list | tuple) for group in groups):
        raise InvalidArgument(f"groups is {groups!r}; expected a positive number, or a list of lists of parameters")
    listed: set[Parameter] = set()
    for group in groups:
        for entry in group:
            if not isinstance(entry, torch.Tensor):
                raise InvalidArgument(f"groups must consist of torch.Tensor; it has {type(entry).__name__} {entry!r}")
            if entry in listed:
                raise InvalidArgument(f"a parameter of shape {tuple(entry.shape)} appears more than once in groups")
            listed.add(entry)
    return [list(group) for group in groups]


@functools.cache
def _synchronize_before_unscaling() -> None:
    """Makes PyTorch's GradScaler reduce the gradients before it reads them, so that all ranks decide in the same way
    whether to make a step.
    """
    scalers = [getattr(torch.cuda.amp, "GradScaler", None), getattr(getattr(torch, "amp", None), "GradScaler", None)]
    for scaler in scalers:
        original = vars(scaler).get("_unscale_grads_") if scaler is not None else None
        if original is None:
            continue

        def unscale(self, optimizer, *arguments, _original=original, **keywords):  # type: ignore[no-untyped-def]
            if isinstance(optimizer, _DistributedOptimizer | _DistributedAdasumOptimizer):
                optimizer._before_unscaling()
            return _original(self, optimizer, *arguments, **keywords)

        scaler._unscale_grads_ = functools.wraps(original)(unscale)  # type: ignore[union-attr]


def DistributedOptimizer(  # noqa: N802  (Horovod's name)
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, Parameter]] | None = None,
    compression: Any = Compression.none,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: int | Sequence[Sequence[Parameter]] | None = None,
    sparse_as_dense: bool = False,
    process_set: ProcessSet = global_process_set,
    *,
    gradient_storage: Kind = "auto",
) -> torch.optim.Optimizer:
    """Makes an optimizer of the same class that reduces its gradients over the ranks. Each gradient is reduced as soon
    as it is computed.

    The result is an instance of the optimizer's class, and takes over its parameter groups and its state.

    Args:
        optimizer: an optimizer of torch.optim, or one with the same interface. Every rank must have constructed it in
            the same way.
        named_parameters: the names of all parameters of the optimizer, for example ``model.named_parameters()``.
            Messages contain these names, and the ranks' gradients are matched by them. If it is None, the parameters
            are numbered.
        compression: a Compressor that compresses the gradients for the reduction.
        backward_passes_per_step: after how many backward passes each gradient is reduced. The results of these passes
            are added up in the gradient.
        op: Average, Sum, Min, Max or Product of the gradients. Or Adasum, which combines the changes that each rank's
            own step would make.
        gradient_predivide_factor: for Average only. Gradients are divided by this factor before the sum. After the sum,
            they are divided by (number of ranks / this factor).
        num_groups: deprecated; use ``groups``.
        groups: with a number, gradients are reduced in this number of groups. With a list of lists of parameters, the
            lists are the groups, and a parameter in no group is reduced separately. With None, each gradient is reduced
            separately.
        sparse_as_dense: whether sparse gradients are converted to dense gradients before they are reduced.
        process_set: the ranks that train together. Other ranks reduce nothing.
        gradient_storage: the memory of the gradients while they are reduced. Horovod does not have this argument. It
            has no effect with compression or for sparse gradients.

            - "private": the gradients stay where PyTorch has put them.
            - "auto": as "private", with one exception. Gradients that this optimizer's ``zero_grad(set_to_none=False)``
              sets to zero move to memory that the ranks of a host share, if nothing else refers to them. PyTorch before
              2.3 cannot tell whether something refers to a gradient, so with these versions the gradients do not move.
            - "copied": just before the reduction, the gradients are copied to shared memory. ``.grad`` stays in shared
              memory until it becomes None.
            - "view": the gradients move to shared memory in the first backward pass. If there are several passes before
              a step, later passes add to the gradients in this memory.

    Raises:
        ValueError: an argument is invalid.
        NotImplementedError: Adasum in a process set.

    Example::

        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        loss.backward()
        optimizer.step()
    """
    if isinstance(optimizer, _DistributedOptimizer | _DistributedAdasumOptimizer):
        raise InvalidArgument("the optimizer is a DistributedOptimizer already; give the one that it was made of")
    if op not in list(ReduceOp):
        raise InvalidArgument(f"op is {op!r}; expected Average, Sum, Adasum, Min, Max or Product")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise InvalidArgument("gradient_predivide_factor not supported with op != Average")
    if not gradient_predivide_factor > 0:
        raise InvalidArgument(f"gradient_predivide_factor is {gradient_predivide_factor}; expected a positive number")
    if backward_passes_per_step <= 0:
        raise InvalidArgument(f"backward_passes_per_step is {backward_passes_per_step}; expected at least 1")
    if num_groups != 0:
        warnings.warn(
            "Parameter `num_groups` has been replaced by `groups` and will be removed in v0.23.0.",
            DeprecationWarning,
            stacklevel=2,
        )
        groups = num_groups if groups is None else groups
    check_storage(gradient_storage)
    checked = _check_groups(groups)
    # In an elastic job, other ranks may join later even if this rank is alone now.
    by_adasum = op == Adasum and (_basics.size() > 1 or _native.is_elastic())
    if by_adasum and process_set.process_set_id != 0:
        raise NotImplementedError("Adasum does not support non-global process sets yet.")
    base = _DistributedAdasumOptimizer if by_adasum else _DistributedOptimizer
    kind = type(optimizer)
    made: Any = type(kind.__name__, (base, kind), {"__module__": base.__module__, "__doc__": kind.__doc__})
    # The constructor of this class is not called. It may need arguments that are unknown here, and it would make an
    # empty state.
    distributed = made.__new__(made)
    distributed._take_over(optimizer, named_parameters, compression, backward_passes_per_step, process_set)
    if by_adasum:
        distributed._begin()
    else:
        distributed._begin(checked, op, gradient_predivide_factor, sparse_as_dense, gradient_storage)
    return distributed  # type: ignore[no-any-return]
