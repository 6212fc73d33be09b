# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The operations of torch.distributed on a process set, under the names by which c10d calls them.

For all operations: tensors lie in the CPU's memory. Collectives match between the members by their order; messages match by sender,
receiver and tag. Each operation returns a RuedaWork. If the call is a blocking one (``asyncOp`` of its options is False), the
operation has completed. Roots and peers are ranks of the group here, and ranks of the job in the C interface. The C interface takes
and gives the members' parts in ascending order of ranks. If the group has another order, parts are reordered before and after.

``RuedaBackend`` and ``RuedaProcessGroup`` inherit these methods. This class must come before PyTorch's class, whose methods of
the same names call the backend of a group.
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
from rueda._native import Handle, TensorView
from rueda.errors import HorovodInternalError, Timeout
from rueda.torch._profiling import profilers
from rueda.torch.distributed import _callbacks, _futures, _ranges
from rueda.torch.distributed._groups import Membership
from rueda.torch.distributed._pending_operation import Operation, seconds_of
from rueda.torch.distributed._tensors import Tensor, check, flat_view, movable, name_of, only, reduction, view
from rueda.torch.distributed._work import ENDED, ReceiveWork, RuedaWork
from rueda.types import DType, ReduceOp

#: The tags of monitored_barrier count down from here, through 2^20 numbers. So a late message does not match a later call.
_MONITOR_TAG = -(2**31) + 2**20
_BOUND_TAG = 2**31


class Operations:
    """Threads: any. The calls of several threads on one group must come in the same order on all its members."""

    def _use(self, membership: Membership, rank: int, timeout: timedelta) -> None:
        """Called at the beginning of every operation."""
        self._membership = membership
        self._set = membership.process_set
        self._ranks = membership.ranks
        self._group_rank_of = {job_rank: group_rank for group_rank, job_rank in enumerate(membership.ranks)}
        self._rank = rank
        self._size = len(membership.ranks)
        ascending = sorted(membership.ranks)
        # The group's ranks in the order of the set. None: both orders are the same.
        self._set_order = None if ascending == membership.ranks else [self._group_rank_of[one] for one in ascending]
        self._timeout = seconds_of(timeout)
        self._callbacks = _callbacks.Callbacks(membership.order)

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets the timeout of operations that begin from now on."""
        self._timeout = seconds_of(timeout)

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        """For destroy_process_group: this rank leaves the group. It waits for no rank."""
        membership = getattr(self, "_membership", None)  # None if the group could not be made
        if membership is not None:
            membership.leave()

    abort = shutdown

    def _started(self, start: Callable[[str | None, int], Handle[Any]]) -> Handle[Any]:
        """Starts an operation: calls `start` with a name and a process set. Operations match by the order of the calls; in a callback of a
        future, by the callbacks' own order.
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
        return start(None, self._set)

    # Steps that every operation needs.

    def _work(
        self,
        what: str,
        handles: Handle[Any] | list[Handle[Any]],
        outputs: list[Tensor],
        options: Any,
        finish: Callable[[], object] | None = None,
    ) -> RuedaWork:
        timeout = seconds_of(options.timeout) if options is not None else None
        operation = Operation(
            what,
            self._membership.order,
            handles if isinstance(handles, list) else [handles],
            outputs,
            timeout if timeout is not None else self._timeout,
            finish,
        )
        if options is not None and not getattr(options, "asyncOp", True):
            operation.wait(None)
            return ENDED
        if profilers._is_profiler_enabled:
            _ranges.note_pending(operation)
        return self._for_caller(operation, RuedaWork)

    def _for_caller(self, operation: Operation, make: Callable[[Operation, Any], RuedaWork]) -> Any:
        """The Work for the caller. A subclass passes `make` the thread for callbacks of futures, instead of None."""
        return make(operation, None)

    def _peer(self, rank: int, what: str) -> int:
        """The rank in the job of a root or peer, which is given as a rank of the group."""
        if not 0 <= rank < self._size:
            raise ValueError(f"{what}: there is no rank {rank} in the group; expected 0 to {self._size - 1}")
        return self._ranks[rank]

    def _in_set_order(self, parts: Sequence[Tensor]) -> Sequence[Tensor]:
        """Sorts parts for each rank of the group, or from each, into the order of the set."""
        return parts if self._set_order is None else [parts[rank] for rank in self._set_order]

    # One tensor becomes the result.

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> RuedaWork:
        """Element i of the tensor becomes the reduction of element i of every member's."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("all_reduce", tensors, self.allreduce, tensors, opts)
        opts = c10d.AllreduceOptions() if opts is None else opts
        tensor = only(tensors, "all_reduce")
        if getattr(tensor, "is_sparse", False):
            return self._allreduce_sparse(tensor, opts)
        handle, finish = self._reduce_in_place(check(tensor, "all_reduce"), opts.reduceOp, "all_reduce")
        return self._work("all_reduce", handle, [tensor], opts, finish)

    def _reduce_in_place(
        self, tensor: Tensor, operator: Any, what: str
    ) -> tuple[Handle[Any], Callable[[], object] | None]:
        if tensor.is_complex() and name_of(operator) in ("SUM", "AVG"):
            tensor = torch.view_as_real(tensor)
        how = reduction(operator, tensor.dtype, what)
        dense = tensor if tensor.is_contiguous() else tensor.contiguous()
        if how.function is not None:
            return self._reduce_by_hand(tensor, dense, how.function)
        shown, number, factor = view(dense), how.number, how.factor
        handle = self._started(
            lambda name, order: _native.allreduce_async(shown, shown, name, number, factor, 1.0, None, order, 0)
        )
        return handle, None if dense is tensor else functools.partial(tensor.copy_, dense)

    def _reduce_by_hand(self, tensor: Tensor, dense: Tensor, function: Any) -> tuple[Handle[Any], Callable[[], object]]:
        """Gathers all tensors and reduces them here, for operators that Rueda does not have."""
        everyones = dense.new_empty((self._size, dense.numel()))
        handle = self._gather_into(everyones.view(-1), dense)

        def finish() -> None:
            tensor.copy_(functools.reduce(function, everyones.unbind()).view(tensor.shape))

        return handle, finish

    def _allreduce_sparse(self, tensor: Tensor, opts: Any) -> RuedaWork:
        how = reduction(opts.reduceOp, tensor.dtype, "all_reduce of sparse tensors")
        if how.number not in (ReduceOp.Sum, ReduceOp.Average) or how.factor != 1.0 or tensor.device.type != "cpu":
            raise ValueError("all_reduce of sparse tensors: SUM or AVG of tensors in the CPU's memory")
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
        """An allreduce of each tensor."""
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
        """Copies the root's tensor to every member's."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("broadcast", tensors, self.broadcast, tensors, opts)
        opts = c10d.BroadcastOptions() if opts is None else opts
        tensor = check(only(tensors, "broadcast"), "broadcast")
        dense = tensor if tensor.is_contiguous() else tensor.contiguous()
        shown = view(movable(dense))
        root = self._peer(opts.rootRank, "broadcast")
        handle = self._started(lambda name, order: _native.broadcast_async(shown, shown, root, name, None, order))
        finish = None if dense is tensor else functools.partial(tensor.copy_, dense)
        return self._work("broadcast", handle, [tensor], opts, finish)

    def reduce(self, tensors: list[Tensor], opts: Any = None) -> RuedaWork:
        """Replaces the root's tensor by the reduction; other tensors are unchanged."""
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
                lambda name, order: _native.reduce_async(shown, output, root, name, number, factor, 1.0, None, order)
            )
            if is_root and dense is not plain:
                finish = functools.partial(plain.copy_, dense)
        return self._work("reduce", handle, [tensor], opts, finish)

    # Each member's tensor, for all.

    def _gather_into(self, output: Tensor, tensor: Tensor) -> Handle[Any]:
        """`output`: contiguous memory for all members' elements together."""
        mine, everyones = flat_view(movable(tensor)), flat_view(movable(output))
        return self._started(lambda name, order: _native.allgather_async(mine, everyones, name, None, order))

    def allgather(self, output_tensors: list[list[Tensor]], input_tensors: list[Tensor], opts: Any = None) -> RuedaWork:
        """Gives every member a tensor of each member; these may have different sizes."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("all_gather", input_tensors, self.allgather, output_tensors, input_tensors, opts)
        opts = c10d.AllgatherOptions() if opts is None else opts
        outputs = self._outputs(only(output_tensors, "all_gather"), "all_gather")
        handle, finish = self._allgather_into_list(outputs, only(input_tensors, "all_gather"))
        return self._work("all_gather", handle, outputs, opts, finish)

    def _outputs(self, outputs: Sequence[Tensor], what: str) -> list[Tensor]:
        if len(outputs) != self._size:
            raise ValueError(
                f"{what}: {len(outputs)} tensors; expected one for each of the {self._size} ranks of the group"
            )
        return [check(output, what) for output in outputs]

    def _check_own(self, outputs: list[Tensor], mine: Tensor, what: str) -> None:
        """Sizes may differ between ranks, and only their sum is compared, so each rank checks its own size."""
        own = outputs[self._rank]
        if own.numel() != mine.numel():
            raise ValueError(
                f"{what}: output {self._rank}, this rank's, has {own.numel()} elements; the input {mine.numel()}"
            )

    def _allgather_into_list(
        self, outputs: list[Tensor], tensor: Tensor
    ) -> tuple[Handle[Any], Callable[[], object] | None]:
        mine = check(tensor, "all_gather").contiguous()
        self._check_own(outputs, mine, "all_gather")
        together, finish = _together(self._in_set_order(outputs), mine)
        return self._gather_into(together, mine), finish

    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> RuedaWork:
        """The members' tensors one after the other."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("all_gather_into_tensor", input, self.all_gather_single, output, input, opts)
        opts = c10d.AllgatherOptions() if opts is None else opts
        handle, finish = self._allgather_single(output, input)
        return self._work("all_gather_into_tensor", handle, [output], opts, finish)

    def _allgather_single(self, output: Tensor, input: Tensor) -> tuple[Handle[Any], Callable[[], object] | None]:
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
            mine = mine.clone()  # PyTorch allows this rank's part of the output as input
        handle = self._gather_into(dense, mine)
        return handle, _copied_to(output, dense)

    def allgather_coalesced(
        self, output_lists: list[list[Tensor]], input_list: list[Tensor], opts: Any = None
    ) -> RuedaWork:
        """allgather of each input; output_lists[r][i] is that of input i on rank r."""
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
        """all_gather_single of each."""
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

    # A reduction that is divided: each member gets a part of it.

    def reduce_scatter(
        self, output_tensors: list[Tensor], input_tensors: list[list[Tensor]], opts: Any = None
    ) -> RuedaWork:
        """Member r gets the reduction of every member's r-th tensor; these may have different sizes."""
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
        self, output: Tensor, input: Tensor, operator: Any, what: str
    ) -> tuple[Handle[Any], Callable[[], object] | None]:
        """For contiguous tensors. The input has as many rows as there are members, in the set's order, or its first extent is divisible by their number."""
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
        rows = TensorView(input.data_ptr(), (self._size, each), _number(input), input)
        row = TensorView(output.data_ptr(), (1, each), _number(output), output)
        number, factor = how.number, how.factor
        handle = self._started(
            lambda name, order: _native.reducescatter_async(rows, row, name, number, factor, 1.0, None, order)
        )
        return handle, None

    def reduce_scatter_single(self, output: Tensor, input: Tensor, opts: Any = None) -> RuedaWork:
        """Member r gets the r-th of equal parts of the reduction."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("reduce_scatter_tensor", input, self.reduce_scatter_single, output, input, opts)
        opts = c10d.ReduceScatterOptions() if opts is None else opts
        handle, finish = self._reduce_scatter_single(output, input, opts.reduceOp)
        return self._work("reduce_scatter_tensor", handle, [output], opts, finish)

    def _reduce_scatter_single(
        self, output: Tensor, input: Tensor, operator: Any
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
        is_apart = output.is_contiguous() and not _overlap(output, mine)  # PyTorch allows a part of the input
        dense = output if is_apart else torch.empty_like(output, memory_format=torch.contiguous_format)
        handle, finish = self._reducescatter(dense, mine, operator, what)
        return handle, _all((finish, _copied_to(output, dense)))

    def reduce_scatter_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> RuedaWork:
        """reduce_scatter_single of each."""
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

    # Operations whose result or input only one member has.

    def gather(self, output_tensors: list[list[Tensor]], input_tensors: list[Tensor], opts: Any = None) -> RuedaWork:
        """The root gets a tensor of every member; they may have different sizes."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("gather", input_tensors, self.gather, output_tensors, input_tensors, opts)
        opts = c10d.GatherOptions() if opts is None else opts
        mine = check(only(input_tensors, "gather"), "gather").contiguous()
        root = self._peer(opts.rootRank, "gather")
        shown = flat_view(movable(mine))
        if self._rank != opts.rootRank:
            handle = self._started(lambda name, order: _native.gather_async(shown, None, root, name, _nothing, order))
            return self._work("gather", handle, [], opts)
        outputs = self._outputs(only(output_tensors, "gather"), "gather")
        self._check_own(outputs, mine, "gather")
        together, finish = _together(self._in_set_order(outputs), mine)
        everyones = flat_view(movable(together))
        handle = self._started(lambda name, order: _native.gather_async(shown, everyones, root, name, _nothing, order))
        return self._work("gather", handle, outputs, opts, finish)

    def gather_single(self, output: Tensor | None, input: Tensor, opts: Any = None) -> RuedaWork:
        """The root gets the members' tensors one after the other."""
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
        """Each member gets one of the root's tensors; they may have different sizes."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("scatter", input_tensors, self.scatter, output_tensors, input_tensors, opts)
        opts = c10d.ScatterOptions() if opts is None else opts
        output = check(only(output_tensors, "scatter"), "scatter")
        dense = output if output.is_contiguous() else torch.empty_like(output, memory_format=torch.contiguous_format)
        shown = flat_view(movable(dense))
        root = self._peer(opts.rootRank, "scatter")
        splits: list[int] | None = None
        together = TensorView(0, (0,), shown.dtype)
        if self._rank == opts.rootRank:
            inputs = [
                movable(one.contiguous()).reshape(-1)
                for one in self._in_set_order(self._outputs(only(input_tensors, "scatter"), "scatter"))
            ]
            splits = [one.numel() for one in inputs]
            together = flat_view(torch.cat(inputs))
        handle = self._started(
            lambda name, order: _native.scatter_async(together, shown, splits, root, name, None, order)
        )
        finish = _copied_to(output, dense)
        return self._work("scatter", handle, [output], opts, finish)

    # From each to each.

    def alltoall(self, output_tensors: list[Tensor], input_tensors: list[Tensor], opts: Any = None) -> RuedaWork:
        """Member r gets every member's r-th tensor; they may have different sizes."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("all_to_all", input_tensors, self.alltoall, output_tensors, input_tensors, opts)
        opts = c10d.AllToAllOptions() if opts is None else opts
        outputs = self._outputs(output_tensors, "all_to_all")
        inputs = self._outputs(input_tensors, "all_to_all")
        handle, finish = self._alltoall_of_parts(outputs, inputs, "all_to_all")
        return self._work("all_to_all", handle, outputs, opts, finish)

    def _alltoall_of_parts(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], what: str
    ) -> tuple[Handle[Any], Callable[[], object]]:
        outputs, inputs = self._in_set_order(outputs), self._in_set_order(inputs)
        mine = torch.cat([one.reshape(-1) for one in inputs])
        together, copied_out = _together(outputs, mine)
        sent, received = ([one.numel() for one in tensors] for tensors in (inputs, outputs))
        return self._alltoall(together, mine, sent, received, what, copied_out)

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_split_sizes: Sequence[int] | None = None,
        input_split_sizes: Sequence[int] | None = None,
        opts: Any = None,
    ) -> RuedaWork:
        """Member r gets every member's r-th part; the parts are rows, equally many where no sizes are given."""
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
            handle, put = self._alltoall_of_parts(*parts, what)
            return self._work(what, handle, [output], opts, _all((put, copied_out)))
        if _overlap(dense, mine):
            mine = mine.clone()
        handle, finish = self._alltoall(dense, mine, sent, received, what, copied_out)
        return self._work(what, handle, [output], opts, finish)

    def _alltoall(
        self,
        output: Tensor,
        input: Tensor,
        sent: list[int],
        expected: list[int],
        what: str,
        then: Callable[[], object] | None,
    ) -> tuple[Handle[Any], Callable[[], object]]:
        """For contiguous tensors. The splits count elements for each rank and from each rank."""
        plain = movable(input)
        factor = 1 if plain is input else input.element_size()
        rows, came_to, splits = flat_view(plain), flat_view(movable(output)), [one * factor for one in sent]
        handle = self._started(lambda name, order: _native.alltoall_async(rows, came_to, splits, name, _splits, order))

        def finish() -> None:
            came = [one // factor for one in handle.result()]
            if came != expected:
                raise ValueError(
                    f"{what}: {came} elements came from the ranks of the group; the output has room for {expected}"
                )
            if then is not None:
                then()

        return handle, finish

    # From one to another.

    def send(self, tensors: list[Tensor], dst: int, tag: int = 0) -> RuedaWork:
        """Sends to one member, which receives it with the same tag."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("send", tensors, self.send, tensors, dst, tag)
        tensor = check(only(tensors, "send"), "send").contiguous()
        self._membership.order.check()
        handle = _native.send_async(flat_view(movable(tensor)), self._peer(dst, "send"), _tag(tag), self._set)
        return self._work(f"send to rank {dst}, tag {tag},", handle, [tensor], None)

    def recv(self, tensors: list[Tensor], src: int, tag: int = 0) -> RuedaWork:
        """Receives from one member."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("recv", tensors, self.recv, tensors, src, tag)
        return self._receive(tensors, self._peer(src, "recv"), tag, f"recv from rank {src}, tag {tag},")

    def recv_anysource(self, tensors: list[Tensor], tag: int = 0) -> RuedaWork:
        """Receives from any member that sends with the tag."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("recv", tensors, self.recv_anysource, tensors, tag)
        return self._receive(tensors, None, tag, f"recv from any rank, tag {tag},")

    def _receive(self, tensors: list[Tensor], peer: int | None, tag: int, what: str) -> RuedaWork:
        tensor = check(only(tensors, "recv"), "recv")
        dense = tensor if tensor.is_contiguous() else torch.empty_like(tensor, memory_format=torch.contiguous_format)
        self._membership.order.check()
        handle = _native.receive_async(flat_view(movable(dense)), peer, _tag(tag), self._set)
        finish = None if dense is tensor else functools.partial(tensor.copy_, dense)
        operation = Operation(what, self._membership.order, [handle], [tensor], self._timeout, finish)
        if profilers._is_profiler_enabled:
            _ranges.note_pending(operation)
        return self._for_caller(
            operation, lambda operation, callbacks: ReceiveWork(operation, self._group_rank_of, callbacks)
        )

    # The rendezvous of a group.

    def barrier(self, opts: Any = None) -> RuedaWork:
        """Completes when every member has called it."""
        if profilers._is_profiler_enabled and _ranges.begins():
            return _ranges.call("barrier", (), self.barrier, opts)
        opts = c10d.BarrierOptions() if opts is None else opts
        token = bytearray(1)
        handle = self._started(
            lambda name, order: _native.allreduce_async(token, token, name, int(ReduceOp.Max), 1.0, 1.0, None, order, 0)
        )
        return self._work("barrier", handle, [], opts)

    def monitored_barrier(self, opts: Any = None, wait_all_ranks: bool = False) -> None:
        """A barrier that names the members that have not come. The first rank raises the error, and tells the members that have come.

        Args:
            opts: BarrierOptions, or the timeout itself.
            wait_all_ranks: whether to name all missing members, and not only the first.

        Raises:
            RuntimeError: a member has not come in time. On a member that comes too late for that (``rueda.Aborted``), the first rank has
                left.

        Its calls have their own order. So it may be called when other operations are refused after a Timeout, and it never causes that.
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
        for peer in arrivals:  # a late rank finds the answer
            _native.send_async(bytes(missing), self._ranks[peer], tag, self._set)
        if any(missing):
            raise RuntimeError(_who_is_missing(missing, limit))

    def _report_to_monitor(self, tag: int, limit: float) -> None:
        first = self._ranks[0]
        missing = bytearray(self._size)
        said = _native.send_async(b"\1", first, tag, self._set)
        answer = _native.receive_async(missing, first, tag, self._set)
        try:
            # The first rank may itself wait for the whole timeout before it names the missing ranks.
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


def _number(tensor: Tensor) -> int:
    return view(tensor).dtype


def _nothing(*_: Any) -> None:
    """For operations that could allocate a result; here they have an output."""


def _splits(_memory: Any, _shape: Any, _dtype: Any, splits: Any) -> Any:
    """For alltoall: the number of elements from each member."""
    return splits


def _tag(tag: int) -> int:
    if not 0 <= tag < _BOUND_TAG:
        raise ValueError(f"the tag is {tag}; expected 0 to {_BOUND_TAG - 1}")
    return tag


def _sparse(indices: Tensor, values: Tensor, shape: Any) -> Tensor:
    """Makes a sparse tensor without PyTorch's warning that indices are not checked: they come from PyTorch's own tensors."""
    try:
        return torch.sparse_coo_tensor(indices, values, shape, check_invariants=False)
    except TypeError:  # before 2.0
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
    """A function that calls the given functions one after the other, without those that are None. None if all are."""
    there = [step for step in steps if step is not None]
    if not there:
        return None

    def finish() -> None:
        for step in there:
            step()

    return finish


def _copied_to(output: Tensor, dense: Tensor) -> Callable[[], object] | None:
    """The copy that remains to be done when the operation has ended. None if both are the same tensor."""
    return None if dense is output else functools.partial(output.copy_, dense)


def _rows_of(output: Tensor, size: int) -> tuple[Tensor, ...]:
    return output.view(size, -1).unbind() if output.is_contiguous() else output.chunk(size)


def _together(outputs: Sequence[Tensor], like: Tensor) -> tuple[Tensor, Callable[[], object] | None]:
    """Memory for all outputs one after the other: their own memory if they lie so, else a temporary that is copied out."""
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
    """Whether their storages begin at the same address. It makes no storage objects, which takes PyTorch 1.13 long."""
    begin = _begin_of_storage(tensors[0])
    return all(_begin_of_storage(tensor) == begin for tensor in tensors)


def _begin_of_storage(tensor: Tensor) -> int:
    return tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()


def _overlap_bytes(begin: int, end: int, tensor: Tensor) -> bool:
    return tensor.data_ptr() < end and begin < tensor.data_ptr() + tensor.numel() * tensor.element_size()


def _sizes(tensor: Tensor, rows: Sequence[int] | None, size: int, what: str) -> list[int]:
    """The number of elements of the tensor for each rank, or from each rank."""
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
    """Rueda's memory as a tensor, which keeps the memory alive."""
    dtype = getattr(torch, DType(number).name)
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(memory, dtype=dtype).view(shape)
