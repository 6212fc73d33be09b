# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The operations of torch.distributed on a process set. The methods have the names that c10d calls.

These rules hold for all operations. Tensors are in the memory of the CPU or of a CUDA device. Collectives of the
members are matched by their order; messages are matched by sender, receiver and tag. Each operation returns a
RuedaWork. If the call is blocking (``asyncOp`` of its options is False), the operation has completed when the call
returns. The caller gives roots and peers as ranks of the group. This module passes them to the C interface as ranks of
the job. The C interface orders the members' parts by ascending rank. If the group has another order, this module
reorders the parts before and after the operation.

``RuedaBackend`` and ``RuedaProcessGroup`` inherit these methods. In their list of base classes, this class must come
before PyTorch's class. Otherwise PyTorch's methods of the same names would be used, and these call the backend of a
group.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
from torch._C import _distributed_c10d as c10d

from rueda import _native
from rueda._native import Handle, TensorView, start_to_wait
from rueda.errors import HorovodInternalError, RuedaError, Timeout
from rueda.torch._profiling import profilers
from rueda.torch._tensors import is_float8
from rueda.torch.distributed import _callbacks, _futures, _ranges
from rueda.torch.distributed._device_operation import DeviceOperation
from rueda.torch.distributed._groups import Membership
from rueda.torch.distributed._pending_operation import Operation, seconds_of
from rueda.torch.distributed._tensors import (
    Tensor,
    check,
    flat_view,
    movable,
    name_of,
    only,
    reduction,
    view,
    view_as,
)
from rueda.torch.distributed._work import ENDED, ReceiveWork, RuedaWork
from rueda.types import DType, ReduceOp

#: The tags of monitored_barrier begin here and count down. The tags repeat only after 2^20 calls, so a late message is
#: not mistaken for a message of a later call.
_MONITOR_TAG = -(2**31) + 2**20
_BOUND_TAG = 2**31


class Operations:
    """The operations of a group.

    Threads: any thread may call the methods. If several threads use one group, their calls must have the same order on
    all members.
    """

    def _use(self, membership: Membership, rank: int, timeout: timedelta) -> None:
        """Stores the values that the operations of the group need. Call it once, before the first operation of the
        group.
        """
        self._membership = membership
        self._set = membership.process_set
        self._ranks = membership.ranks
        self._group_rank_of = {job_rank: group_rank for group_rank, job_rank in enumerate(membership.ranks)}
        self._rank = rank
        self._size = len(membership.ranks)
        ascending = sorted(membership.ranks)
        # The group's ranks in the order of the process set. None if both orders are the same.
        self._set_order = None if ascending == membership.ranks else [self._group_rank_of[one] for one in ascending]
        self._timeout = seconds_of(timeout)
        self._callbacks = _callbacks.Callbacks(membership.order)

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the timeout of operations that are started from now on."""
        self._timeout = seconds_of(timeout)

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        """Makes this rank leave the group. destroy_process_group() calls this method. Does not wait for other ranks."""
        membership = getattr(self, "_membership", None)  # the attribute is missing if the group could not be made
        if membership is not None:
            membership.leave()

    abort = shutdown

    def _started(self, start: Callable[[str | None, int], Handle[Any]], options: Any = None) -> Handle[Any]:
        """Starts an operation: calls `start` with a name and a process set. Operations are matched by the order of the
        calls. Operations that callbacks of futures start are counted separately, and matched by their own order. If
        `options` are those of a blocking call, the operation has usually ended when this method returns.
        """
        self._membership.order.check()
        callbacks = _callbacks.running()
        if callbacks is not None:
            return callbacks.start(self._membership.name, lambda name: start(name, self._set), self._timeout)
        if _futures.is_completing():
            raise RuntimeError(
                "a collective was started by what hangs on a future that C++ code made (torch.futures.collect_all, for one): such "
                "callbacks run in another order on each rank, and collectives match by their order. Wait for the future, and "
                "start it after that, or hang it on the future of a Work"
            )
        if not _is_blocking(options):
            return start(None, self._set)
        try:
            return start_to_wait(start, (None, self._set), {})
        except (RuedaError, TypeError, ValueError, BufferError, RuntimeError):  # the start was refused
            raise
        except BaseException as error:  # a signal handler raised it; the operation may be pending
            self._membership.order.give_up(object(), f"a blocking call: {type(error).__name__}")
            raise

    # The methods up to _in_set_order() are steps that every operation needs.

    def _work(
        self,
        what: str,
        handles: Handle[Any] | list[Handle[Any]],
        outputs: list[Tensor],
        options: Any,
        finish: Callable[[], object] | None = None,
    ) -> RuedaWork:
        is_blocking = _is_blocking(options)
        if is_blocking and finish is None and isinstance(handles, Handle) and handles.poll():
            handles.wait()
            return ENDED
        timeout = seconds_of(options.timeout) if options is not None else None
        started = handles if isinstance(handles, list) else [handles]
        limit = timeout if timeout is not None else self._timeout
        operation = self._operation(what, started, outputs, limit, finish)
        if is_blocking:
            operation.wait(None)
            return ENDED
        if profilers._is_profiler_enabled:
            _ranges.note_pending(operation)
        return self._for_caller(operation, RuedaWork)

    def _operation(
        self,
        what: str,
        handles: list[Handle[Any]],
        outputs: list[Tensor],
        timeout: float | None,
        finish: Callable[[], object] | None,
    ) -> Operation:
        make = Operation if not handles or handles[0]._device < 0 else DeviceOperation
        return make(what, self._membership.order, handles, outputs, timeout, finish)

    def _for_caller(self, operation: Operation, make: Callable[[Operation, Any], RuedaWork]) -> Any:
        """Returns the Work object for the caller, which the function `make` creates. The arguments of `make` are the
        operation and the thread for callbacks of futures. This class passes None as the thread.
        """
        return make(operation, None)

    def _peer(self, rank: int, what: str) -> int:
        """Returns the job's rank for a rank of the group. `what` says what the rank is: a root or a peer."""
        if not 0 <= rank < self._size:
            raise ValueError(f"{what}: there is no rank {rank} in the group; expected 0 to {self._size - 1}")
        return self._ranks[rank]

    def _in_set_order(self, parts: Sequence[Tensor]) -> Sequence[Tensor]:
        """Sorts a list with one part for each rank of the group into the order of the process set."""
        return parts if self._set_order is None else [parts[rank] for rank in self._set_order]

    # The operations from here on reduce tensors in place.

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> RuedaWork:
        """Element i of the tensor becomes the reduction of the elements i of all members' tensors."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("all_reduce", tensors, self.allreduce, tensors, opts)
        opts = c10d.AllreduceOptions() if opts is None else opts
        tensor = only(tensors, "all_reduce")
        if getattr(tensor, "is_sparse", False):
            return self._allreduce_sparse(tensor, opts)
        handle, finish = self._reduce_in_place(check(tensor, "all_reduce"), opts.reduceOp, "all_reduce", opts)
        return self._work("all_reduce", handle, [tensor], opts, finish)

    def _reduce_in_place(
        self, tensor: Tensor, operator: Any, what: str, options: Any = None
    ) -> tuple[Handle[Any], Callable[[], object] | None]:
        if tensor.is_complex() and name_of(operator) in ("SUM", "AVG"):
            tensor = torch.view_as_real(tensor)
        how = reduction(operator, tensor.dtype, what)
        dense = tensor if tensor.is_contiguous() else tensor.contiguous()
        if how.function is not None:
            return self._reduce_by_hand(tensor, dense, how.function)
        shown, number, factor = view(dense), how.number, how.factor
        handle = self._started(
            lambda name, order: _native.allreduce_async(shown, shown, name, number, factor, 1.0, None, order, 0),
            options,
        )
        return handle, None if dense is tensor else functools.partial(tensor.copy_, dense)

    def _reduce_by_hand(self, tensor: Tensor, dense: Tensor, function: Any) -> tuple[Handle[Any], Callable[[], object]]:
        """Gathers all tensors and reduces them on this rank. This method is for reduce operators that Rueda does not
        have."""
        everyones = dense.new_empty((self._size, dense.numel()))
        handle = self._gather_into(everyones.view(-1), dense)

        def finish() -> None:
            tensor.copy_(functools.reduce(function, everyones.unbind()).view(tensor.shape))

        return handle, finish

    def _allreduce_sparse(self, tensor: Tensor, opts: Any) -> RuedaWork:
        how = reduction(opts.reduceOp, tensor.dtype, "all_reduce of sparse tensors")
        if how.number not in (ReduceOp.Sum, ReduceOp.Average) or how.factor != 1.0 or tensor.device.type != "cpu":
            raise ValueError("all_reduce of sparse tensors: SUM or AVG of tensors in the CPU's memory")
        if is_float8(tensor):
            raise TypeError(
                f"all_reduce of sparse tensors: PyTorch cannot add tensors of {tensor.dtype}; use torch.bfloat16"
            )
        mine = tensor.coalesce()
        indices = mine.indices().t().contiguous()
        values = mine.values().contiguous()

        handles = [
            self._started(
                lambda name, order, one=one: _native.allgather_async(view(one), None, name, _tensor_over, order)  # type: ignore[misc]
            )
            for one in (indices, values)
        ]

        def finish() -> None:
            all_indices, all_values = (handle.result() for handle in handles)
            total = _sparse(all_indices.t(), all_values, tensor.shape).coalesce()
            tensor.copy_(total / self._size if how.number == ReduceOp.Average else total)

        return self._work("all_reduce", handles, [tensor], opts, finish)

    allreduce_sparse = allreduce

    def allreduce_coalesced(self, tensors: list[Tensor], opts: Any = None) -> RuedaWork:
        """An allreduce of each of the tensors."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("all_reduce", tensors, self.allreduce_coalesced, tensors, opts)
        opts = c10d.AllreduceCoalescedOptions() if opts is None else opts
        started = [
            self._reduce_in_place(check(tensor, "all_reduce"), opts.reduceOp, "all_reduce") for tensor in tensors
        ]
        return self._work(
            "all_reduce (coalesced)",
            [handle for handle, _ in started],
            list(tensors),
            opts,
            _all(f for _, f in started),
        )

    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> RuedaWork:
        """Copies the root's tensor to the tensors of all members."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("broadcast", tensors, self.broadcast, tensors, opts)
        opts = c10d.BroadcastOptions() if opts is None else opts
        tensor = check(only(tensors, "broadcast"), "broadcast")
        dense = tensor if tensor.is_contiguous() else tensor.contiguous()
        shown = view(movable(dense))
        root = self._peer(opts.rootRank, "broadcast")
        handle = self._started(lambda name, order: _native.broadcast_async(shown, shown, root, name, None, order), opts)
        finish = None if dense is tensor else functools.partial(tensor.copy_, dense)
        return self._work("broadcast", handle, [tensor], opts, finish)

    def reduce(self, tensors: list[Tensor], opts: Any = None) -> RuedaWork:
        """Replaces the root's tensor by the reduction of all members' tensors. The other tensors stay unchanged."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("reduce", tensors, self.reduce, tensors, opts)
        opts = c10d.ReduceOptions() if opts is None else opts
        tensor = check(only(tensors, "reduce"), "reduce")
        plain = tensor
        if plain.dtype.is_complex and name_of(opts.reduceOp) in ("SUM", "AVG"):
            plain = torch.view_as_real(plain)
        how = reduction(opts.reduceOp, plain.dtype, "reduce")
        dense = plain if plain.is_contiguous() else plain.contiguous()
        is_root = self._rank == opts.rootRank
        root = self._peer(opts.rootRank, "reduce")
        finish: Callable[[], object] | None = None
        if how.function is not None:
            handle, finish = self._reduce_by_hand(plain, dense, how.function)
            finish = finish if is_root else None
        else:
            shown = view(dense)
            output = shown if is_root else None
            number, factor = how.number, how.factor
            handle = self._started(
                lambda name, order: _native.reduce_async(shown, output, root, name, number, factor, 1.0, None, order),
                opts,
            )
            if is_root and dense is not plain:
                finish = functools.partial(plain.copy_, dense)
        return self._work("reduce", handle, [tensor], opts, finish)

    # The operations from here on give all members the tensors of all members.

    def _gather_into(self, output: Tensor, tensor: Tensor, options: Any = None) -> Handle[Any]:
        """Gathers the members' tensors. `output` must be contiguous memory for the elements of all members."""
        mine, everyones = flat_view(movable(tensor)), flat_view(movable(output))
        return self._started(lambda name, order: _native.allgather_async(mine, everyones, name, None, order), options)

    def allgather(self, output_tensors: list[list[Tensor]], input_tensors: list[Tensor], opts: Any = None) -> RuedaWork:
        """Gives every member the tensors of all members, which may have different sizes."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("all_gather", input_tensors, self.allgather, output_tensors, input_tensors, opts)
        opts = c10d.AllgatherOptions() if opts is None else opts
        outputs = self._outputs(only(output_tensors, "all_gather"), "all_gather")
        handle, finish = self._allgather_into_list(outputs, only(input_tensors, "all_gather"), opts)
        return self._work("all_gather", handle, outputs, opts, finish)

    def _outputs(self, outputs: Sequence[Tensor], what: str) -> list[Tensor]:
        if len(outputs) != self._size:
            raise ValueError(
                f"{what}: {len(outputs)} tensors; expected one for each of the {self._size} ranks of the group"
            )
        return [check(output, what) for output in outputs]

    def _check_own(self, outputs: list[Tensor], mine: Tensor, what: str) -> None:
        """Checks that the output for this rank has the size of this rank's input. Each rank must check this itself:
        sizes may differ between ranks, and Rueda compares only the sum of all sizes.
        """
        own = outputs[self._rank]
        if own.numel() != mine.numel():
            raise ValueError(
                f"{what}: output {self._rank}, this rank's, has {own.numel()} elements; the input {mine.numel()}"
            )

    def _allgather_into_list(
        self, outputs: list[Tensor], tensor: Tensor, options: Any = None
    ) -> tuple[Handle[Any], Callable[[], object] | None]:
        mine = check(tensor, "all_gather").contiguous()
        self._check_own(outputs, mine, "all_gather")
        together, finish = _together(self._in_set_order(outputs), mine)
        return self._gather_into(together, mine, options), finish

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> RuedaWork:
        """Gives every member the tensors of all members in one tensor, one after the other."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("all_gather_into_tensor", input, self.all_gather_single, output, input, opts)
        opts = c10d.AllgatherOptions() if opts is None else opts
        handle, finish = self._allgather_single(output, input, opts)
        return self._work("all_gather_into_tensor", handle, [output], opts, finish)

    def _allgather_single(
        self, output: Tensor, input: Tensor, options: Any = None
    ) -> tuple[Handle[Any], Callable[[], object] | None]:
        what = "all_gather_into_tensor"
        check(output, what)
        mine = check(input, what).contiguous()
        if output.numel() != mine.numel() * self._size or output.dtype != mine.dtype:
            raise ValueError(
                f"{what}: an output of {output.numel()} elements of {output.dtype} for {self._size} ranks with "
                f"{mine.numel()} of {mine.dtype} each"
            )
        dense = output if output.is_contiguous() else torch.empty_like(output, memory_format=torch.contiguous_format)
        if self._set_order is not None:
            together, finish = _together(self._in_set_order(dense.view(self._size, mine.numel()).unbind()), mine)
            return self._gather_into(together, mine), _all((finish, _copied_to(output, dense)))
        if _overlap(dense, mine):
            mine = mine.clone()  # PyTorch allows an input that lies inside the output
        return self._gather_into(dense, mine, options), _copied_to(output, dense)

    def allgather_coalesced(
        self, output_lists: list[list[Tensor]], input_list: list[Tensor], opts: Any = None
    ) -> RuedaWork:
        """An allgather of each of the inputs. output_lists[r][i] becomes input i of rank r."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call(
                "all_gather_coalesced", input_list, self.allgather_coalesced, output_lists, input_list, opts
            )
        opts = c10d.AllgatherOptions() if opts is None else opts
        started = [
            self._allgather_into_list(
                self._outputs([outputs[index] for outputs in output_lists], "all_gather_coalesced"), tensor
            )
            for index, tensor in enumerate(input_list)
        ]
        outputs = [output for outputs in output_lists for output in outputs]
        return self._work(
            "all_gather_coalesced", [handle for handle, _ in started], outputs, opts, _all(f for _, f in started)
        )

    def all_gather_single_coalesced(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> RuedaWork:
        """An all_gather_single() of each pair of output and input."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call(
                "all_gather_into_tensor", inputs, self.all_gather_single_coalesced, outputs, inputs, opts
            )
        opts = c10d.AllgatherOptions() if opts is None else opts
        started = [self._allgather_single(output, one) for output, one in zip(outputs, inputs, strict=True)]
        return self._work(
            "all_gather_into_tensor (coalesced)",
            [handle for handle, _ in started],
            list(outputs),
            opts,
            _all(f for _, f in started),
        )

    # The operations from here on reduce tensors and give each member one part of the result.

    def reduce_scatter(
        self, output_tensors: list[Tensor], input_tensors: list[list[Tensor]], opts: Any = None
    ) -> RuedaWork:
        """Gives member r the reduction of all members' r-th tensors. These may have different sizes."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call(
                "reduce_scatter", input_tensors, self.reduce_scatter, output_tensors, input_tensors, opts
            )
        opts = c10d.ReduceScatterOptions() if opts is None else opts
        output = check(only(output_tensors, "reduce_scatter"), "reduce_scatter")
        inputs = self._outputs(only(input_tensors, "reduce_scatter"), "reduce_scatter")
        largest = max(one.numel() for one in inputs)
        together = inputs[0].new_zeros((self._size, largest))
        for row, one in zip(together, self._in_set_order(inputs), strict=True):
            row[: one.numel()].copy_(one.reshape(-1))
        mine = inputs[0].new_empty((1, largest))
        handle, reduced = self._reducescatter(mine, together, opts.reduceOp, "reduce_scatter")

        def finish() -> None:
            if reduced is not None:
                reduced()
            output.copy_(mine.view(-1)[: output.numel()].view(output.shape))

        return self._work("reduce_scatter", handle, [output], opts, finish)

    def _reducescatter(
        self, output: Tensor, input: Tensor, operator: Any, what: str, options: Any = None
    ) -> tuple[Handle[Any], Callable[[], object] | None]:
        """A reduce-scatter of contiguous tensors. The input may have one row for each member, in the order of the
        process set. Otherwise its first extent must be divisible by the number of members.
        """
        if input.dtype.is_complex and name_of(operator) in ("SUM", "AVG"):
            output, input = torch.view_as_real(output), torch.view_as_real(input)
        how = reduction(operator, input.dtype, what)
        each = input.numel() // self._size
        if how.function is not None:
            everyones = input.new_empty((self._size, self._size, each))
            handle = self._gather_into(everyones.view(-1), input)
            place = self._rank if self._set_order is None else self._set_order.index(self._rank)

            def finish() -> None:
                output.copy_(functools.reduce(how.function, everyones[:, place].unbind()).view(output.shape))

            return handle, finish
        rows, row = view_as(input, (self._size, each)), view_as(output, (1, each))
        number, factor = how.number, how.factor
        handle = self._started(
            lambda name, order: _native.reducescatter_async(rows, row, name, number, factor, 1.0, None, order),
            options,
        )
        return handle, None

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> RuedaWork:
        """Divides the reduction of all members' tensors into equal parts, and gives member r the r-th part."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("reduce_scatter_tensor", input, self.reduce_scatter_single, output, input, opts)
        opts = c10d.ReduceScatterOptions() if opts is None else opts
        handle, finish = self._reduce_scatter_single(output, input, opts.reduceOp, opts)
        return self._work("reduce_scatter_tensor", handle, [output], opts, finish)

    def _reduce_scatter_single(
        self, output: Tensor, input: Tensor, operator: Any, options: Any = None
    ) -> tuple[Handle[Any], Callable[[], object] | None]:
        what = "reduce_scatter_tensor"
        check(output, what)
        mine = check(input, what).contiguous()
        if output.numel() * self._size != mine.numel() or output.dtype != mine.dtype:
            raise ValueError(
                f"{what}: an input of {mine.numel()} elements of {mine.dtype} for {self._size} ranks with outputs of "
                f"{output.numel()} of {output.dtype} each"
            )
        if self._set_order is not None:
            mine = mine.view(self._size, output.numel())[self._set_order]
        # PyTorch allows an output that is a part of the input. Rueda does not, so such an output gets its own memory.
        is_apart = output.is_contiguous() and not _overlap(output, mine)
        dense = output if is_apart else torch.empty_like(output, memory_format=torch.contiguous_format)
        handle, finish = self._reducescatter(dense, mine, operator, what, options)
        return handle, _all((finish, _copied_to(output, dense)))

    def reduce_scatter_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> RuedaWork:
        """A reduce_scatter_single() of each pair of output and input."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call(
                "reduce_scatter_tensor", inputs, self.reduce_scatter_single_coalesced, outputs, inputs, opts
            )
        opts = c10d.ReduceScatterOptions() if opts is None else opts
        started = [
            self._reduce_scatter_single(output, one, opts.reduceOp) for output, one in zip(outputs, inputs, strict=True)
        ]
        return self._work(
            "reduce_scatter_tensor (coalesced)",
            [handle for handle, _ in started],
            list(outputs),
            opts,
            _all(f for _, f in started),
        )

    # In the operations from here on, only one member, the root, has the input or gets the result.

    def gather(self, output_tensors: list[list[Tensor]], input_tensors: list[Tensor], opts: Any = None) -> RuedaWork:
        """Gives the root the tensors of all members, which may have different sizes."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("gather", input_tensors, self.gather, output_tensors, input_tensors, opts)
        opts = c10d.GatherOptions() if opts is None else opts
        mine = check(only(input_tensors, "gather"), "gather").contiguous()
        root = self._peer(opts.rootRank, "gather")
        shown = flat_view(movable(mine))
        if self._rank != opts.rootRank:
            handle = self._started(
                lambda name, order: _native.gather_async(shown, None, root, name, _nothing, order), opts
            )
            return self._work("gather", handle, [], opts)
        outputs = self._outputs(only(output_tensors, "gather"), "gather")
        self._check_own(outputs, mine, "gather")
        together, finish = _together(self._in_set_order(outputs), mine)
        everyones = flat_view(movable(together))
        handle = self._started(
            lambda name, order: _native.gather_async(shown, everyones, root, name, _nothing, order), opts
        )
        return self._work("gather", handle, outputs, opts, finish)

    def gather_single(self, output: Tensor | None, input: Tensor, opts: Any = None) -> RuedaWork:
        """Gives the root the tensors of all members in one tensor, one after the other."""
        opts = c10d.GatherOptions() if opts is None else opts
        parts: list[list[Tensor]] = []
        if self._rank == opts.rootRank and output is not None:
            if output.numel() != input.numel() * self._size:
                raise ValueError(
                    f"gather: an output of {output.numel()} elements for {self._size} ranks with {input.numel()} each"
                )
            parts = [list(_rows_of(output, self._size))]
        return self.gather(parts, [input], opts)

    gather_into_tensor = gather_single

    def scatter(self, output_tensors: list[Tensor], input_tensors: list[list[Tensor]], opts: Any = None) -> RuedaWork:
        """Gives each member one of the root's tensors, which may have different sizes."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("scatter", input_tensors, self.scatter, output_tensors, input_tensors, opts)
        opts = c10d.ScatterOptions() if opts is None else opts
        output = check(only(output_tensors, "scatter"), "scatter")
        dense = output if output.is_contiguous() else torch.empty_like(output, memory_format=torch.contiguous_format)
        shown = flat_view(movable(dense))
        root = self._peer(opts.rootRank, "scatter")
        splits: list[int] | None = None
        together = TensorView(0, (0,), shown.dtype, None, True, shown.device, shown.stream)
        if self._rank == opts.rootRank:
            inputs = [
                movable(one.contiguous()).reshape(-1)
                for one in self._in_set_order(self._outputs(only(input_tensors, "scatter"), "scatter"))
            ]
            splits = [one.numel() for one in inputs]
            together = flat_view(torch.cat(inputs))
        handle = self._started(
            lambda name, order: _native.scatter_async(together, shown, splits, root, name, None, order), opts
        )
        finish = _copied_to(output, dense)
        return self._work("scatter", handle, [output], opts, finish)

    # In the operations from here on, each member sends to each member.

    def alltoall(self, output_tensors: list[Tensor], input_tensors: list[Tensor], opts: Any = None) -> RuedaWork:
        """Gives member r the r-th tensors of all members, which may have different sizes."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("all_to_all", input_tensors, self.alltoall, output_tensors, input_tensors, opts)
        opts = c10d.AllToAllOptions() if opts is None else opts
        outputs = self._outputs(output_tensors, "all_to_all")
        inputs = self._outputs(input_tensors, "all_to_all")
        handle, finish = self._alltoall_of_parts(outputs, inputs, "all_to_all", opts)
        return self._work("all_to_all", handle, outputs, opts, finish)

    def _alltoall_of_parts(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], what: str, options: Any
    ) -> tuple[Handle[Any], Callable[[], object]]:
        outputs, inputs = self._in_set_order(outputs), self._in_set_order(inputs)
        mine = torch.cat([one.reshape(-1) for one in inputs])
        together, copied_out = _together(outputs, mine)
        sent, received = ([one.numel() for one in tensors] for tensors in (inputs, outputs))
        return self._alltoall(together, mine, sent, received, what, copied_out, options)

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: Sequence[int] | None = None,
        input_split_sizes: Sequence[int] | None = None,
        opts: Any = None,
    ) -> RuedaWork:
        """Gives member r the r-th part of each member's tensor. The parts are rows. Without sizes, all parts have the
        same number of rows.
        """
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call(
                "all_to_all_single",
                input,
                self.all_to_all_single,
                output,
                input,
                output_split_sizes,
                input_split_sizes,
                opts,
            )
        opts = c10d.AllToAllOptions() if opts is None else opts
        what = "all_to_all_single"
        check(output, what)
        mine = check(input, what).contiguous()
        sent = _sizes(mine, input_split_sizes, self._size, what)
        received = _sizes(output, output_split_sizes, self._size, what)
        dense = output if output.is_contiguous() else torch.empty_like(output, memory_format=torch.contiguous_format)
        copied_out = _copied_to(output, dense)
        if self._set_order is not None:
            parts = dense.view(-1).split(received), mine.view(-1).split(sent)
            handle, put = self._alltoall_of_parts(*parts, what, opts)
            return self._work(what, handle, [output], opts, _all((put, copied_out)))
        if _overlap(dense, mine):
            mine = mine.clone()
        handle, finish = self._alltoall(dense, mine, sent, received, what, copied_out, opts)
        return self._work(what, handle, [output], opts, finish)

    def _alltoall(
        self,
        output: Tensor,
        input: Tensor,
        sent: list[int],
        expected: list[int],
        what: str,
        then: Callable[[], object] | None,
        options: Any,
    ) -> tuple[Handle[Any], Callable[[], object]]:
        """An alltoall of contiguous tensors. The splits say how many elements go to each rank, and how many come from
        each rank.
        """
        plain = movable(input)
        factor = 1 if plain is input else input.element_size()
        rows, came_to, splits = flat_view(plain), flat_view(movable(output)), [one * factor for one in sent]
        handle = self._started(
            lambda name, order: _native.alltoall_async(rows, came_to, splits, name, _splits, order), options
        )

        def finish() -> None:
            # If the tensors are on a GPU, _torch_result() does not wait for the GPU. The numbers of elements are known
            # as soon as the work is in a stream of the GPU.
            came = [one // factor for one in handle._torch_result(None)]
            if came != expected:
                raise ValueError(
                    f"{what}: {came} elements came from the ranks of the group; the output has room for {expected}"
                )
            if then is not None:
                then()

        return handle, finish

    # The operations from here on send messages from one member to another.

    def send(self, tensors: list[Tensor], dst: int, tag: int = 0) -> RuedaWork:
        """Sends a tensor to one member, which must receive it with the same tag."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("send", tensors, self.send, tensors, dst, tag)
        tensor = check(only(tensors, "send"), "send").contiguous()
        self._membership.order.check()
        handle = _native.send_async(flat_view(movable(tensor)), self._peer(dst, "send"), _tag(tag), self._set)
        return self._work(f"send to rank {dst}, tag {tag},", handle, [tensor], None)

    def recv(self, tensors: list[Tensor], src: int, tag: int = 0) -> RuedaWork:
        """Receives a tensor from one member."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("recv", tensors, self.recv, tensors, src, tag)
        return self._receive(tensors, self._peer(src, "recv"), tag, f"recv from rank {src}, tag {tag},")

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> RuedaWork:
        """Receives a tensor from any member that sends one with this tag."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("recv", tensors, self.recv_anysource, tensors, tag)
        return self._receive(tensors, None, tag, f"recv from any rank, tag {tag},")

    def _receive(self, tensors: list[Tensor], peer: int | None, tag: int, what: str) -> RuedaWork:
        tensor = check(only(tensors, "recv"), "recv")
        dense = tensor if tensor.is_contiguous() else torch.empty_like(tensor, memory_format=torch.contiguous_format)
        self._membership.order.check()
        handle = _native.receive_async(flat_view(movable(dense)), peer, _tag(tag), self._set)
        operation = self._operation(what, [handle], [tensor], self._timeout, _copied_to(tensor, dense))
        if profilers._is_profiler_enabled:
            _ranges.note_pending(operation)
        return self._for_caller(
            operation, lambda operation, callbacks: ReceiveWork(operation, self._group_rank_of, callbacks)
        )

    # In the operations from here on, the members only wait for each other.

    def barrier(self, opts: Any = None) -> RuedaWork:
        """Completes when every member has called barrier()."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("barrier", (), self.barrier, opts)
        opts = c10d.BarrierOptions() if opts is None else opts
        token = bytearray(1)
        handle = self._started(
            lambda name, order: _native.allreduce_async(token, token, name, ReduceOp.Max, 1.0, 1.0, None, order, 0),
            opts,
        )
        return self._work("barrier", handle, [], opts)

    def monitored_barrier(self, opts: Any = None, wait_all_ranks: bool = False) -> None:
        """A barrier whose error names the members that have not called the barrier. Rank 0 of the group raises the
        error, and informs the other members.

        Args:
            opts: BarrierOptions, or the timeout itself.
            wait_all_ranks: if True, the error names all missing members, otherwise only the first.

        Raises:
            RuntimeError: a member has not called monitored_barrier() in time. A late member that calls it after rank 0
                has left the group gets ``rueda.Aborted``.

        The calls of monitored_barrier() have their own order. The function may therefore also be called when other
        operations are refused after a Timeout. A timeout of monitored_barrier() itself does not make the group refuse
        operations.
        """
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("monitored_barrier", (), self.monitored_barrier, opts, wait_all_ranks)
        given = opts if isinstance(opts, timedelta) or opts is None else opts.timeout
        limit = (seconds_of(given) if given is not None else None) or self._timeout or 1800.0
        tag = _MONITOR_TAG - next(self._membership.monitored) % 2**20
        if self._rank == 0:
            self._monitor(tag, limit, wait_all_ranks)
        else:
            self._report_to_monitor(tag, limit)

    def _monitor(self, tag: int, limit: float, wait_all_ranks: bool) -> None:
        end = time.monotonic() + limit
        arrivals = {
            peer: _native.receive_async(bytearray(1), self._ranks[peer], tag, self._set)
            for peer in range(1, self._size)
        }
        missing = bytearray(self._size)
        for peer, arrival in arrivals.items():
            try:
                arrival.wait(max(end - time.monotonic(), 0.0))
            except Timeout:
                missing[peer] = 1
                if not wait_all_ranks:
                    break
        for peer in arrivals:  # a late member receives this message when it calls monitored_barrier()
            _native.send_async(bytes(missing), self._ranks[peer], tag, self._set)
        if any(missing):
            raise RuntimeError(_who_is_missing(missing, limit))

    def _report_to_monitor(self, tag: int, limit: float) -> None:
        first = self._ranks[0]
        missing = bytearray(self._size)
        try:
            said = _native.send_async(b"\1", first, tag, self._set)
            answer = _native.receive_async(missing, first, tag, self._set)
            # This wait is twice as long as the timeout, because rank 0 may itself wait for the whole timeout before it
            # names the missing members.
            answer.wait(2 * limit)
            said.wait(limit)
        except Timeout:
            raise RuntimeError(
                f"monitored_barrier: rank {self._rank} has come, and rank 0 has not answered within {2 * limit:g} s"
            ) from None
        except HorovodInternalError as error:
            raise type(error)(
                f"monitored_barrier: rank {self._rank} of the group has come, and rank 0 cannot answer any more; it waits for {limit:g} s, "
                f"and may have given up before ({error})"
            ) from error
        if any(missing):
            raise RuntimeError(_who_is_missing(missing, limit))


def _who_is_missing(missing: bytearray, limit: float) -> str:
    ranks = [str(rank) for rank, flag in enumerate(missing) if flag]
    return (
        f"monitored_barrier: rank{'s' if len(ranks) > 1 else ''} {', '.join(ranks)} of the group {'have' if len(ranks) > 1 else 'has'} not come "
        f"within {limit:g} s"
    )


def _is_blocking(options: Any) -> bool:
    """Returns True if the options of a call say that the call waits for its operation. Older versions of PyTorch have no
    such option.
    """
    return options is not None and not getattr(options, "asyncOp", True)


def _nothing(*_: Any) -> None:
    """Makes no result. This function is passed to operations that already have an output."""


def _splits(_memory: Any, _shape: Any, _dtype: Any, splits: Any) -> Any:
    """Makes the result of an alltoall: the number of elements from each member."""
    return splits


def _tag(tag: int) -> int:
    if not 0 <= tag < _BOUND_TAG:
        raise ValueError(f"the tag is {tag}; expected 0 to {_BOUND_TAG - 1}")
    return tag


def _sparse(indices: Tensor, values: Tensor, shape: Any) -> Tensor:
    """Makes a sparse tensor from parts that are known to be valid. Tells PyTorch not to check them. Without
    the argument ``check_invariants``, PyTorch prints a warning that the indices are not checked.
    """
    try:
        return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False)
    except TypeError:  # before PyTorch 2.0
        return torch.sparse_coo_tensor(indices, values, shape)


def _overlap(a: Tensor, b: Tensor) -> bool:
    first, second = a.data_ptr(), b.data_ptr()
    return (
        first < second + b.numel() * b.element_size()
        and second < first + a.numel() * a.element_size()
        and a.numel() > 0
        and b.numel() > 0
    )


def _all(steps: Any) -> Callable[[], object] | None:
    """Returns a function that calls the given functions one after the other. Functions that are None are skipped.
    Returns None if all are None.
    """
    there = [step for step in steps if step is not None]
    if not there:
        return None

    def finish() -> None:
        for step in there:
            step()

    return finish


def _copied_to(output: Tensor, dense: Tensor) -> Callable[[], object] | None:
    """Returns a function that copies `dense` to `output` when the operation has ended. Returns None if both are the
    same tensor.
    """
    return None if dense is output else functools.partial(output.copy_, dense)


def _rows_of(output: Tensor, size: int) -> tuple[Tensor, ...]:
    return output.view(size, -1).unbind() if output.is_contiguous() else output.chunk(size)


def _together(outputs: Sequence[Tensor], like: Tensor) -> tuple[Tensor, Callable[[], object] | None]:
    """Returns contiguous memory for all outputs. If the outputs already lie one after the other, this is their own
    memory. Otherwise it is temporary memory, and the returned function copies it to the outputs.
    """
    for output in outputs:
        if output.dtype != like.dtype:
            raise ValueError(f"the outputs have {output.dtype}; expected {like.dtype}, as the input")
    end = outputs[0].data_ptr()
    for output in outputs:
        if not output.is_contiguous() or output.data_ptr() != end or output.numel() == 0:
            break
        end += output.numel() * output.element_size()
    else:
        if _share_storage(outputs) and not _overlap_bytes(outputs[0].data_ptr(), end, like):
            first = outputs[0]
            total = sum(output.numel() for output in outputs)
            return first.detach().as_strided((total,), (1,)), None
    together = like.new_empty(sum(output.numel() for output in outputs))

    def finish() -> None:
        for part, output in zip(together.split([one.numel() for one in outputs]), outputs, strict=True):
            output.copy_(part.view(output.shape))

    return together, finish


def _share_storage(tensors: Sequence[Tensor]) -> bool:
    """Returns True if the storages of both tensors begin at the same address. The function makes no storage objects,
    because making them is slow in PyTorch 1.13.
    """
    begin = _begin_of_storage(tensors[0])
    return all(_begin_of_storage(tensor) == begin for tensor in tensors)


def _begin_of_storage(tensor: Tensor) -> int:
    return tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()


def _overlap_bytes(begin: int, end: int, tensor: Tensor) -> bool:
    return tensor.data_ptr() < end and begin < tensor.data_ptr() + tensor.numel() * tensor.element_size()


def _sizes(tensor: Tensor, rows: Sequence[int] | None, size: int, what: str) -> list[int]:
    """Returns the number of the tensor's elements that go to each rank, or that come from each rank."""
    extent = tensor.shape[0] if tensor.dim() > 0 else 0
    if not rows:
        if extent % size != 0:
            raise ValueError(f"{what}: {extent} rows cannot be divided among {size} ranks; give the split sizes")
        rows = [extent // size] * size
    if len(rows) != size or sum(rows) != extent:
        raise ValueError(f"{what}: the split sizes are {list(rows)}; expected {size} that sum to {extent}")
    width = tensor.numel() // extent if extent else 0
    return [row * width for row in rows]


def _tensor_over(memory: Any, shape: tuple[int, ...], number: int, _splits: Any = None) -> Tensor:
    """Returns Rueda's memory as a tensor. The tensor keeps the memory alive."""
    dtype = getattr(torch, DType(number).name)
    if 0 in shape:
        return torch.empty(shape, dtype=dtype, device="cpu")
    return torch.frombuffer(memory, dtype=dtype).view(shape)
