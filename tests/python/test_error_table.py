# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests each row of Horovod's table of errors, and everything else in which the calls of the ranks can disagree. Each
test checks the class, the code and the whole text of the error. It also checks that every rank of the set gets the
error, and that the same name works afterwards. Runs on any layout of two or more ranks.

One row of the table cannot occur. This version accepts only tensors in the CPU's memory, so the ranks cannot disagree
about the device. If a rank passes a tensor on another device, the call on this rank raises an error; this is tested
here.
"""

import collections
import ctypes
import os
import re
import unittest
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import rueda

Call = Callable[[str | None], object]


def setUpModule():
    os.environ["RUEDA_FUSION_THRESHOLD"] = "64K"  # so that some tensors are larger than this
    rueda.init()


def tearDownModule():
    rueda.shutdown()


def ranks_text(ranks) -> str:
    """Returns the ranks in the form of error messages: "rank 3", "ranks 0, 1", "ranks 0-2, 4"."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(parts)


def values_text(values) -> str:
    """Takes pairs (rank, value), and returns a text that says which ranks have which value, in ascending order."""
    ranks_of = collections.defaultdict(list)
    for rank, value in values:
        ranks_of[value].append(rank)
    return "; ".join(f"{ranks_text(ranks)}: {value}" for value, ranks in ranks_of.items())


def error_of(call: Callable[..., object], /, *arguments, **keywords) -> tuple[str, int, str]:
    try:
        call(*arguments, **keywords)
    except rueda.RuedaError as error:
        return type(error).__name__, error.code, str(error)
    return "no error", 0, ""


@dataclass(frozen=True)
class Disagreement:
    about: str
    values: tuple[str, str]  # the parts of the text about the ranks that agree, and about the ranks that differ
    calls: tuple[Call, Call]


class Calls:
    """The operations of a process set. Each row of the table uses two operations that differ in one property."""

    def __init__(self, process_set):
        self.set = {"process_set": process_set}
        self.first, self.second = process_set.ranks[:2]
        self.size = process_set.size()

    def allreduce(self, shape=(4,), dtype="float32", op=rueda.Sum, **options) -> Call:
        return lambda name: rueda.allreduce(np.ones(shape, dtype), name, op, **options, **self.set)

    def reducescatter(self, shape=(4,), dtype="float32", op=rueda.Sum, **options) -> Call:
        return lambda name: rueda.reducescatter(np.ones(shape, dtype), name, op, **options, **self.set)

    def reduce(self, shape=(4,), dtype="float32", op=rueda.Sum, root=None, **options) -> Call:
        root = self.first if root is None else root
        return lambda name: rueda.reduce(np.ones(shape, dtype), root, name, op, **options, **self.set)

    def broadcast(self, shape=(4,), dtype="float32", root=None) -> Call:
        root = self.first if root is None else root
        return lambda name: rueda.broadcast(np.ones(shape, dtype), root, name, **self.set)

    def allgather(self, shape=(4,), dtype="float32") -> Call:
        return lambda name: rueda.allgather(np.ones(shape, dtype), name, **self.set)

    def alltoall(self, row=(), dtype="float32", rows=2) -> Call:
        return lambda name: rueda.alltoall(np.ones((rows * self.size, *row), dtype), None, name, **self.set)

    def gather(self, shape=(4,), dtype="float32", root=None) -> Call:
        root = self.first if root is None else root
        return lambda name: rueda.gather(np.ones(shape, dtype), root, name, **self.set)

    def scatter(self, row=(), dtype="float32", root=None) -> Call:
        root = self.first if root is None else root
        return lambda name: rueda.scatter(np.ones((self.size, *row), dtype), None, root, name, **self.set)

    def disagreements(self) -> list[Disagreement]:
        return [*self._dtypes(), *self._operations(), *self._shapes(), *self._reductions(), *self._roots()]

    def _dtypes(self):
        pairs = (("float32", "float64"), ("int8", "uint8"), ("float16", "int64"))
        makers = (self.allgather, self.broadcast, self.alltoall, self.reducescatter, self.gather, self.scatter)
        for make in (self.allreduce, *makers, self.reduce):
            for pair in pairs:
                yield Disagreement("the dtype", pair, tuple(make(dtype=dtype) for dtype in pair))
        adasums = tuple(self.allreduce(dtype=dtype, op=rueda.Adasum) for dtype in ("float16", "float32"))
        yield Disagreement("the dtype", ("float16", "float32"), adasums)

    def _operations(self):
        for pair in (
            ("allreduce", "broadcast"),
            ("allgather", "alltoall"),
            ("reducescatter", "allreduce"),
            ("broadcast", "allgather"),
            ("gather", "allgather"),
            ("scatter", "alltoall"),
            ("allreduce", "reduce"),
        ):
            yield Disagreement("the operation", pair, tuple(getattr(self, kind)() for kind in pair))

    def _shapes(self):
        for make in (self.allreduce, self.broadcast, self.reducescatter, self.reduce):
            for pair in (((4,), (5,)), ((6, 2), (4, 3)), ((4,), (4, 1)), ((0,), (3,)), ((70_000,), (70_001,))):
                yield Disagreement("the shape", tuple(str(list(s)) for s in pair), tuple(make(s) for s in pair))
        adasums = tuple(self.allreduce(shape, op=rueda.Adasum) for shape in ((3, 4), (12,)))
        yield Disagreement("the shape", ("[3, 4]", "[12]"), adasums)
        # Cases in which a dimension after the first one, or the number of dimensions, differs.
        for make in (self.allgather, self.gather):
            yield Disagreement("the shape", ("[any, 3]", "[any, 2]"), (make((4, 3)), make((4, 2))))
            yield Disagreement("the shape", ("[any]", "[any, 1]"), (make((4,)), make((4, 1))))
        for make in (self.alltoall, self.scatter):
            yield Disagreement("the shape", ("[any, 3]", "[any, 2]"), (make((3,)), make((2,))))
            yield Disagreement("the shape", ("[any]", "[any, 1]"), (make(), make((1,))))

    def _reductions(self):
        for make in (self.allreduce, self.reducescatter, self.reduce):
            for ops in ((rueda.Sum, rueda.Max), (rueda.Average, rueda.Sum), (rueda.Min, rueda.Product)):
                names = tuple(op.name.lower() for op in ops)
                yield Disagreement("the reduce operation", names, tuple(make(op=op) for op in ops))
            for factor in ("prescale", "postscale"):
                calls = make(), make(**{f"{factor}_factor": 0.5})
                yield Disagreement(f"the {factor} factor", ("1", "0.5"), calls)
        calls = self.allreduce(op=rueda.Adasum), self.allreduce(op=rueda.Average)
        yield Disagreement("the reduce operation", ("adasum", "average"), calls)
        for pair in (("none", "bf16"), ("fp16", "none"), ("bf16", "fp16")):
            calls = tuple(self.allreduce(compression=way) for way in pair)
            yield Disagreement("the compression", pair, calls)

    def _roots(self):
        for make in (self.broadcast, self.gather, self.scatter, self.reduce):
            roots = self.first, self.second
            yield Disagreement("the root rank", tuple(map(str, roots)), tuple(make(root=root) for root in roots))


class ErrorTable(unittest.TestCase):
    def works(self, name, process_set=rueda.global_process_set):
        total = rueda.allreduce(np.full(3, rueda.rank() + 0.5), name, rueda.Sum, process_set=process_set)
        np.testing.assert_array_equal(total, np.full(3, sum(rank + 0.5 for rank in process_set.ranks)))

    def told_to_all(self, call, expected, process_set, /, *arguments, **keywords):
        """Returns the error of this rank's call. All other ranks of the set must get the same error."""
        told = rueda.allgather_object(error_of(call, *arguments, **keywords), process_set=process_set)
        self.assertEqual(told, [expected] * process_set.size())


class BetweenRanks(ErrorTable):
    def setUp(self):
        self.sets = [rueda.global_process_set]
        if rueda.size() > 2:
            # A rank has one number in the set and another number in the job. The error texts contain the numbers in the
            # job.
            some = rueda.add_process_set(range(1, rueda.size()))
            self.addCleanup(rueda.remove_process_set, some)
            self.sets += [some] if some.included() else []

    def check(self, row, odd_ranks, process_set, name):
        values = values_text((rank, row.values[rank in odd_ranks]) for rank in process_set.ranks)
        call = row.calls[rueda.rank() in odd_ranks]
        text = f"tensor '{name}': the ranks disagree about {row.about}: {values}"
        self.told_to_all(call, ("Mismatch", 4, text), process_set, name)
        self.works(name, process_set)

    def check_unnamed(self, row, odd_ranks, process_set):
        """The text contains the number of the call and, for each rank, the operation that the rank called."""
        told = error_of(row.calls[rueda.rank() in odd_ranks], None)
        self.assertEqual(rueda.allgather_object(told, process_set=process_set), [told] * process_set.size())
        self.assertEqual(told[:2], ("Mismatch", 4))
        about = re.escape(row.about)
        self.assertRegex(told[2], rf"^the \d+(st|nd|rd|th) unnamed operation of .* disagree about {about}: rank")
        # The text says which ranks have which value of the differing field.
        values = values_text((rank, row.values[rank in odd_ranks]) for rank in process_set.ranks)
        for one in values.split("; "):
            self.assertIn(f"{one.split(': ')[0]}: ", told[2])
        self.works(None, process_set)

    def test_each_row_by_the_last_rank_and_by_every_second_one(self):
        for process_set in self.sets:
            for number, row in enumerate(Calls(process_set).disagreements()):
                for odd_ranks in (process_set.ranks[-1:], process_set.ranks[1::2]):
                    with self.subTest(row=row.about, values=row.values, odd_ranks=odd_ranks):
                        name = f"row.{number}"  # in the second round the name is already known
                        self.check(row, odd_ranks, process_set, name)
                        self.check_unnamed(row, odd_ranks, process_set)

    def test_every_rank_another_value(self):
        for process_set in self.sets:
            place = process_set.ranks.index(rueda.rank())
            values = values_text((rank, f"[{i + 1}]") for i, rank in enumerate(process_set.ranks))
            text = f"tensor 'all': the ranks disagree about the shape: {values}"
            for _ in range(3):
                self.told_to_all(Calls(process_set).allreduce((place + 1,)), ("Mismatch", 4, text), process_set, "all")
                self.works("all", process_set)

    def test_first_dimensions_and_splits_may_differ(self):
        for process_set in self.sets:
            place, size = process_set.ranks.index(rueda.rank()), process_set.size()
            calls = Calls(process_set)
            for _ in range(2):
                self.assertEqual(len(calls.allgather((place + 2, 3))("rows")), sum(range(2, size + 2)))
                received, counts = calls.alltoall(rows=place)("splits")
                self.assertEqual((len(received), counts.tolist()), (sum(range(size)), list(range(size))))

    def test_numbers_of_members_of_a_group(self):
        for process_set in self.sets:
            keywords = {"process_set": process_set}
            last = process_set.ranks[-1]
            for grouped in (rueda.grouped_allreduce, rueda.grouped_allgather, rueda.grouped_reducescatter):
                for usual, odd in ((1, 2), (3, 2), (1, 40)):
                    mine = [np.ones(2)] * (odd if rueda.rank() == last else usual)
                    values = values_text((rank, odd if rank == last else usual) for rank in process_set.ranks)
                    text = f"group 'group': the ranks disagree about the number of its members: {values}"
                    self.told_to_all(grouped, ("Mismatch", 4, text), process_set, mine, "group", **keywords)
                    self.assertEqual(len(grouped([np.ones(2)] * 2, "group", **keywords)), 2)

    def test_a_member_of_a_group(self):
        for process_set in self.sets:
            keywords = {"process_set": process_set}
            last = process_set.ranks[-1]
            odd = rueda.rank() == last
            for about, members, values in (
                ("the shape", [np.ones(2), np.ones(3 + odd), np.ones(1)], ("[3]", "[4]")),
                ("the dtype", [np.ones(2), np.ones(3, ["f4", "i4"][odd]), np.ones(1)], ("float32", "int32")),
            ):
                whose = values_text((rank, values[rank == last]) for rank in process_set.ranks)
                text = f"tensor 'unlike_2of3': the ranks disagree about {about}: {whose}"
                error = "Mismatch", 4, text
                self.told_to_all(rueda.grouped_allreduce, error, process_set, members, "unlike", **keywords)
                result = rueda.grouped_allreduce([np.ones(2)] * 3, "unlike", **keywords)
                np.testing.assert_array_equal(result, np.ones((3, 2)))

    def test_a_group_and_something_else_of_its_name(self):
        """If the groups have different sizes, no rank waits for members that other ranks do not have. The operations of
        the members that exist also end.
        """
        for process_set in self.sets:
            keywords = {"process_set": process_set}
            last = rueda.rank() == process_set.ranks[-1]
            calls = Calls(process_set)

            def group(count, kind="allreduce", keywords=keywords):
                return lambda name: getattr(rueda, f"grouped_{kind}")([np.ones(2)] * count, name, **keywords)

            for usual, odd, values in (
                (group(3), calls.allreduce(), ("group", "allreduce")),
                (calls.allgather((3,)), group(1, "allgather"), ("allgather", "group")),
                (lambda name, keywords=keywords: rueda.barrier(name, **keywords), group(40), ("barrier", "group")),
                (group(2), calls.broadcast(), ("group", "broadcast")),
            ):
                whose = values_text((rank, values[rank == process_set.ranks[-1]]) for rank in process_set.ranks)
                error = "Mismatch", 4, f"tensor 'one': the ranks disagree about the operation: {whose}"
                for _ in range(2):
                    self.told_to_all(odd if last else usual, error, process_set, "one")
                    self.works("one", process_set)
                    self.assertEqual(len(group(2)("one")), 2)
                    self.assertEqual(len(group(3, "allgather")("one")), 3)
            # With more than two ranks, some ranks start a group of one size, some ranks start a group of another size,
            # and some ranks start a single operation.
            place = process_set.ranks.index(rueda.rank()) % 3
            told = error_of((group(2), group(3), calls.allreduce())[place], "one")
            self.assertEqual(rueda.allgather_object(told, **keywords), [told] * process_set.size())
            self.assertEqual(told[:2], ("Mismatch", 4))
            self.works("one", process_set)
            # Groups of different kinds have different members.
            told = error_of(group(2, "reducescatter") if last else group(2), "one")
            self.assertEqual(rueda.allgather_object(told, **keywords), [told] * process_set.size())
            self.assertIn("tensor 'one_1of2': the ranks disagree about the operation", told[2])
            told = error_of(group(4, "allgather") if last else group(2), "one")
            self.assertEqual(rueda.allgather_object(told, **keywords), [told] * process_set.size())
            self.assertIn("group 'one': the ranks disagree about the number of its members", told[2])
            sparse = error_of(
                (lambda name, keywords=keywords: rueda.sparse_allreduce([1], [1.0], (3,), name, **keywords))
                if last
                else group(3),
                "one",
            )
            self.assertEqual(sparse[:2], ("Mismatch", 4))
            self.works("one", process_set)

    def test_names_that_end_as_groups_once_did(self):
        for process_set in self.sets:
            handle = rueda.grouped_allreduce_async([np.ones(2)] * 2, "model", process_set=process_set)
            self.works("model_members", process_set)
            self.assertEqual(len(handle.result()), 2)

    def test_while_somebody_has_joined(self):
        last = rueda.size() - 1
        calls = Calls(rueda.global_process_set)
        for joined in {(last,), tuple(range(1, rueda.size(), 2))}:
            told, expected = [], []
            whose = f"{ranks_text(joined)} {'is' if len(joined) == 1 else 'are'}"
            for kind in ("broadcast", "allgather", "alltoall", "reducescatter", "gather", "scatter", "reduce"):
                text = (
                    f"tensor 'joined {kind}': this {kind} needs every rank, and {whose} in join(): do it before a rank "
                    "joins, or after all have; among joined ranks an allreduce and a barrier go on"
                )
                expected.append(("InvalidArgument", 1, text))
                if rueda.rank() not in joined:
                    told.append(error_of(getattr(calls, kind)(), f"joined {kind}"))
            if rueda.rank() not in joined:
                self.assertEqual(rueda.allreduce(np.ones(1), "goes on", rueda.Sum)[0], rueda.size() - len(joined))
            rueda.join()  # join() itself does not get the error
            everyones = rueda.allgather_object(told)
            self.assertEqual(everyones, [[] if rank in joined else expected for rank in range(rueda.size())])
            for kind in ("broadcast", "allgather", "alltoall", "reducescatter", "gather", "scatter", "reduce"):
                getattr(calls, kind)()(f"joined {kind}")
                self.works(f"joined {kind}")


@dataclass(frozen=True)
class Impossible:
    """Operations whose metadata shows that no rank can do them. Also the error that all ranks get if one rank called
    the operation correctly.
    """

    kind: str
    text: str
    wrong: Call
    right: Call
    about: str
    # The parts of the text about the ranks whose call is right, and about the ranks whose call is wrong.
    values: tuple[str, str]


NO_REDUCTION = "use max for or (true where any rank has true), min for and (true where every rank has), or an integer dtype to count"


class ImpossibleCalls(Calls):
    """These operations are announced like all others. Only after the announcements is it known whether all ranks called
    the same operation.
    """

    def rows(self) -> list[Impossible]:
        return [*self._scalars(), *self._reductions(), *self._compressions(), *self._roots()]

    def grouped(self, kind, tensors, **options) -> Call:
        return lambda name: getattr(rueda, f"grouped_{kind}")(tensors, name, **options, **self.set)

    def _scalars(self):
        scalar = np.array(1.0, "float32")
        for kind, does, wrong in (
            ("allgather", "an allgather joins", self.allgather(())),
            ("gather", "a gather joins", self.gather(())),
            ("reducescatter", "a reducescatter splits", self.reducescatter(())),
            ("alltoall", "an alltoall splits", lambda name: rueda.alltoall(scalar, None, name, **self.set)),
            ("scatter", "a scatter splits", lambda name: rueda.scatter(scalar, None, self.first, name, **self.set)),
        ):
            text = f"{does} tensors along their first dimension, and the input is a scalar (0 dimensions); give it the shape [1]"
            whole = "[4]" if kind == "reducescatter" else "[any]"
            yield Impossible("InvalidArgument", text, wrong, getattr(self, kind)(), "the shape", (whole, "[]"))

    def _reductions(self):
        for make in (self.allreduce, self.reducescatter, self.reduce):
            for op in (rueda.Sum, rueda.Average):
                text = f"there is no {op.name.lower()} of bool; {NO_REDUCTION}"
                calls = make(dtype=bool, op=op), make(op=op)
                yield Impossible("Unsupported", text, *calls, "the dtype", ("float32", "bool"))
            text = (
                "bool has no scale factors, and this max has the prescale factor 0.5 and the postscale factor 1; leave both at "
                "1, or use another dtype"
            )
            calls = make(dtype=bool, op=rueda.Max, prescale_factor=0.5), make(dtype=bool, op=rueda.Max)
            yield Impossible("Unsupported", text, *calls, "the prescale factor", ("1", "0.5"))
        for dtype in ("int32", "bool"):
            text = f"there is no adasum of {dtype}; use float16, bfloat16, float32 or float64, or sum or average"
            calls = self.allreduce(dtype=dtype, op=rueda.Adasum), self.allreduce(dtype=dtype, op=rueda.Max)
            yield Impossible("Unsupported", text, *calls, "the reduce operation", ("max", "adasum"))
        for kind in ("reducescatter", "reduce"):
            text = (
                f"there is no {kind} by adasum, which needs tensors whole; use an allreduce, or average, sum, min, max or "
                "product"
            )
            make = getattr(self, kind)
            calls = make(op=rueda.Adasum), make()
            yield Impossible("Unsupported", text, *calls, "the reduce operation", ("sum", "adasum"))

    def _compressions(self):
        for dtype, op in (("int32", rueda.Sum), ("float16", rueda.Sum), ("float32", rueda.Adasum)):
            text = (
                f"there is no compression for an allreduce ({op.name.lower()}) of {dtype}, only for float32 and float64 and "
                "other reductions than adasum; leave it out, or set RUEDA_COMPRESSION, which leaves such tensors as they are"
            )
            calls = self.allreduce(dtype=dtype, op=op, compression="bf16"), self.allreduce(dtype=dtype, op=op)
            yield Impossible("Unsupported", text, *calls, "the compression", ("none", "bf16"))

    def _roots(self):
        world = self.set["process_set"] is rueda.global_process_set
        ranks = self.set["process_set"].ranks
        for kind in ("broadcast", "gather", "scatter", "reduce"):
            make = getattr(self, kind)
            for root in (rueda.size(), -1) if world else (0, -1):
                if world:
                    text = f"the root rank is {root}; expected 0 to {ranks[-1]}"
                else:
                    number = self.set["process_set"].process_set_id
                    listed = ", ".join(map(str, ranks))
                    text = f"the root rank is {root}, which is not in process set {number}; expected one of {listed}"
                values = str(self.first), str(root)
                yield Impossible("InvalidArgument", text, make(root=root), make(), "the root rank", values)


class WhatNoRankCanDo(ErrorTable):
    """All ranks get the error, no matter whether the calls of one rank or of all ranks are wrong."""

    CODES = {"InvalidArgument": 1, "Unsupported": 8}  # noqa: RUF012

    def setUp(self):
        self.sets = [rueda.global_process_set]
        if rueda.size() > 2:
            some = rueda.add_process_set(range(1, rueda.size()))
            self.addCleanup(rueda.remove_process_set, some)
            self.sets += [some] if some.included() else []

    def test_each_by_all_ranks_and_by_one(self):
        for process_set in self.sets:
            last = process_set.ranks[-1]
            for number, row in enumerate(ImpossibleCalls(process_set).rows()):
                name = f"impossible.{number}"
                refusal = row.kind, self.CODES[row.kind], f"tensor '{name}': {row.text}"
                values = values_text((rank, row.values[rank == last]) for rank in process_set.ranks)
                mismatch = "Mismatch", 4, f"tensor '{name}': the ranks disagree about {row.about}: {values}"
                one_is_wrong = row.wrong if rueda.rank() == last else row.right
                # Uses a new name, a name that was refused before, and a known name that has a slot.
                for call, told in ((row.wrong, refusal), (one_is_wrong, mismatch), (row.wrong, refusal)):
                    with self.subTest(text=row.text, told=told[0], process_set=process_set.ranks):
                        self.told_to_all(call, told, process_set, name)
                        self.told_to_all(call, told, process_set, name)
                        self.works(name, process_set)
                        row.right(name)

    def test_each_without_a_name(self):
        for process_set in self.sets:
            last = process_set.ranks[-1]
            for row in ImpossibleCalls(process_set).rows():
                with self.subTest(text=row.text, process_set=process_set.ranks):
                    told = error_of(row.wrong, None)
                    self.assertEqual(rueda.allgather_object(told, process_set=process_set), [told] * process_set.size())
                    self.assertEqual(told[:2], (row.kind, self.CODES[row.kind]))
                    self.assertRegex(told[2], r"^the \d+(st|nd|rd|th) unnamed operation of this process set: ")
                    self.assertTrue(told[2].endswith(f": {row.text}"), told)
                    told = error_of(row.wrong if rueda.rank() == last else row.right, None)
                    self.assertEqual(rueda.allgather_object(told, process_set=process_set), [told] * process_set.size())
                    self.assertEqual(told[:2], ("Mismatch", 4))
                    self.assertIn(f"disagree about {row.about}: ", told[2])
                    self.works(None, process_set)

    def test_members_of_groups(self):
        for process_set in self.sets:
            calls = ImpossibleCalls(process_set)
            last = rueda.rank() == process_set.ranks[-1]
            usual = np.ones(4)
            for kind, member, options, text in (
                ("allreduce", np.ones(4, bool), {}, f"there is no average of bool; {NO_REDUCTION}"),
                (
                    "allgather",
                    np.array(1.0),
                    {},
                    "an allgather joins tensors along their first dimension, and the input is",
                ),
                (
                    "reducescatter",
                    usual,
                    {"op": rueda.Adasum},
                    "there is no reducescatter by adasum, which needs tensors",
                ),
            ):
                first = 1 if options else 2  # the reduction is the same for every member of the group
                with self.subTest(kind=kind):
                    told = error_of(calls.grouped(kind, [usual, member, usual], **options), "group")
                    self.assertEqual(rueda.allgather_object(told, process_set=process_set), [told] * process_set.size())
                    self.assertTrue(told[2].startswith(f"tensor 'group_{first}of3': {text}"), told)
                    if not options:
                        told = error_of(calls.grouped(kind, [usual, member if last else usual, usual]), "group")
                        self.assertEqual(told[:2], ("Mismatch", 4))
                        self.assertIn("tensor 'group_2of3': the ranks disagree about", told[2])
                    self.assertEqual(len(calls.grouped(kind, [usual] * 3)("group")), 3)

    def test_the_async_forms_say_it_at_the_end(self):
        """Tensors without dimensions cause an error, as in Horovod."""
        rows = np.array(1.0)
        for start in (
            lambda: rueda.allgather_async(rows, "later"),
            lambda: rueda.allreduce_async(np.ones(2, bool), "later", rueda.Sum),
            lambda: rueda.broadcast_async(np.ones(2), rueda.size(), "later"),
            lambda: rueda.reducescatter_async(np.ones(4), "later", rueda.Adasum),
            lambda: rueda.grouped_allreduce_async([np.ones(2, bool)], "later", rueda.Sum),
        ):
            handle = start()
            self.assertNotEqual(error_of(handle.wait)[0], "no error")
            self.works("later")

    def test_while_somebody_has_joined(self):
        last = rueda.size() - 1
        if rueda.rank() != last:
            for name in ("bool", None):
                told = error_of(rueda.allreduce, np.ones(3, bool), name, rueda.Sum)
                self.assertEqual(told[0], "Unsupported")
                # No rank can do this operation. The other ranks find this out without the rank that has joined.
                self.assertEqual(error_of(rueda.allgather, np.array(1.0), name)[0], "InvalidArgument")
        rueda.join()
        self.works("bool")


class OfGpu:
    """A fake tensor. Its DLPack description claims that it is in a GPU's memory."""

    def __dlpack__(self):
        capsule = np.ones(3).__dlpack__()
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        # The fields are the pointer to the elements, and then the kind of device: 1 is the CPU, 2 is CUDA.
        device = ctypes.c_int32.from_address(pointer_of(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p))
        assert device.value == 1
        device.value = 2
        return capsule


class OnOneRank(ErrorTable):
    """The call with the wrong argument fails at once on its rank, before the other ranks learn of it. The other ranks
    wait until this rank makes the right call.
    """

    def refused(self, kind, text, wrong: Call, right: Call):
        self.number = getattr(self, "number", 0) + 1
        name = f"refused.{self.number}"
        if rueda.rank() == rueda.size() - 1:
            with self.subTest(text=text), self.assertRaisesRegex(kind, text):
                wrong(name)
        right(name)
        self.works(name)

    def test_splits(self):
        size = rueda.size()
        rows = np.ones(2 * size, "float32")
        right = Calls(rueda.global_process_set).alltoall()
        for splits, kind, text in (
            ([2] * (size + 1), ValueError, f"there are {size + 1} splits; expected {size}"),
            ([], ValueError, f"there are 0 splits; expected {size}"),
            (
                [3] * size,
                ValueError,
                f"the sum of the splits is {3 * size}; expected at most {2 * size}, the first dimension",
            ),
            ([-1, 2 * size + 1] + [0] * (size - 2), ValueError, r"splits\[0\] is -1"),
            ([1 << 62] * size, ValueError, "splits"),
            ([2.0] * size, TypeError, r"splits\[0\] is 2.0, <class 'float'>; expected a whole number of rows"),
            ([2] * (size - 1) + ["2"], TypeError, rf"splits\[{size - 1}\] is '2', <class 'str'>; expected"),
            (np.full((size, 2), 1), TypeError, r"splits\[0\] is array\(\[1, 1\]\), <class 'numpy.ndarray'>; expected"),
        ):
            self.refused(kind, text, lambda name, splits=splits: rueda.alltoall(rows, splits, name), right)
        odd = np.ones(2 * size - 1, "float32")
        text = (
            f"the first dimension of the input is {2 * size - 1}, which {size} ranks cannot share evenly: give splits"
        )
        self.refused(ValueError, text, lambda name: rueda.alltoall(odd, None, name), right)

    def test_rows_behind_the_splits_are_for_nobody(self):
        """Rows after the sum of the splits are not sent to any rank, as in Horovod. The same rule holds for a
        scatter.
        """
        size, rank = rueda.size(), rueda.rank()
        mine = np.arange(3 * size + rank, dtype="float64") + 1000 * rank
        for splits in ([1] * size, [2] + [0] * (size - 1), [0] * size):
            received, counts = rueda.alltoall(mine, splits, "behind")
            begin = sum(splits[:rank])
            right = [1000 * other + row for other in range(size) for row in range(begin, begin + splits[rank])]
            self.assertEqual((received.tolist(), counts.tolist()), (right, [splits[rank]] * size))
            rows = rueda.scatter(mine, splits if rank == 0 else None, 0, "behind a scatter's")
            self.assertEqual(rows.tolist(), list(range(begin, begin + splits[rank])))
        # Only the rows that are sent must not overlap the output's memory.
        memory = np.arange(4.0 * size)
        received, _ = rueda.alltoall(memory[: 2 * size], [1] * size, "beside", out=memory[size : 2 * size])
        self.assertEqual(received.tolist(), [float(rank)] * size)

    def test_outputs_that_others_splits_do_not_fill(self):
        """Only the rank that owns the output can detect the error, after all ranks have announced the operation. The
        other ranks get their rows.
        """
        last = rueda.size() - 1
        mine = np.ones((rueda.size(), 2))
        for rows in (rueda.size() + 1, rueda.size() - 1, 0):
            if rueda.rank() == last:
                told = error_of(rueda.alltoall, mine, None, "filled", out=np.ones((rows, 2)))
                self.assertEqual(told[:2], ("InvalidArgument", 1))
                text = f"tensor 'filled': the output's first dimension is {rows}; expected {rueda.size()}, the number"
                self.assertIn(text, told[2])
            else:
                self.assertEqual(len(rueda.alltoall(mine, None, "filled")[0]), rueda.size())
            self.works("filled")

    def test_reductions_that_horovod_s_reducescatter_has_not(self):
        rows = np.full(rueda.size(), rueda.rank() + 2.0)
        mine = np.arange(2.0, rueda.size() + 2)
        for op, right in ((rueda.Min, mine.min()), (rueda.Max, mine.max()), (rueda.Product, mine.prod())):
            self.assertEqual(rueda.reducescatter(rows, f"reducescatter {op.name}", op).tolist(), [right])

    def test_a_scaled_reducescatter_beyond_the_fusion_threshold_works(self):
        rows = np.full((2 * rueda.size(), 50_000), 0.5 + rueda.rank(), "float32")
        mine = rueda.reducescatter(rows, "scaled", rueda.Sum, prescale_factor=0.5)
        total = 0.5 * sum(0.5 + rank for rank in range(rueda.size()))
        np.testing.assert_array_equal(mine, np.full((2, 50_000), total, "float32"))

    def test_process_sets(self):
        last = rueda.size() - 1
        right = Calls(rueda.global_process_set).allreduce()

        def reduced_in(process_set) -> Call:
            return lambda name: rueda.allreduce(np.ones(1), name, process_set=process_set)

        gone = rueda.add_process_set([last])
        rueda.remove_process_set(gone)
        others = rueda.add_process_set([0])
        for process_set, text in (
            (rueda.ProcessSet([0]), "is not known to the job"),
            (gone, f"there is no process set {gone.process_set_id}: it was removed"),
            (others, rf"rank {last} is not a member of process set {others.process_set_id} \(rank 0\)"),
        ):
            self.refused(ValueError, text, reduced_in(process_set), right)
        rueda.remove_process_set(others)

    def test_memory_that_is_not_the_cpu_s(self):
        right = Calls(rueda.global_process_set).allreduce()
        for call in (
            lambda name: rueda.allreduce_(OfGpu(), name),
            lambda name: rueda.allgather(OfGpu(), name),
            lambda name: rueda.grouped_allreduce_([np.ones(3), OfGpu()], name),
        ):
            self.refused(TypeError, r"the tensor lies on a device \(DLPack device type 2\)", call, right)

    def test_a_name_that_is_pending(self):
        tensor = np.ones(1)
        dropped = np.ones(1)
        if rueda.rank() == 0:
            handle = rueda.allreduce_async_(tensor, "pending", rueda.Sum)
            rueda.allreduce_async_(dropped, "dropped", rueda.Sum)
            for name in ("pending", "dropped"):
                text = f"tensor '{name}': an operation with this name is still pending on this rank"
                with self.assertRaisesRegex(ValueError, text) as caught:
                    rueda.allreduce(np.ones(1), name, rueda.Sum)
                self.assertEqual((type(caught.exception), caught.exception.code), (rueda.DuplicateName, 2))
            rueda.barrier("the others come")
            handle.wait()
        else:
            rueda.barrier("the others come")
            rueda.allreduce_(tensor, "pending", rueda.Sum)
            rueda.allreduce_(dropped, "dropped", rueda.Sum)
        self.assertEqual(tensor[0], rueda.size())
        self.works("pending")
        rueda.barrier()  # this operation starts later than the operation for which no rank waited
        self.assertEqual(dropped[0], rueda.size())
        self.works("dropped")


class Unpicklable:
    def __init__(self, failure=None):
        self.failure = failure

    def __reduce__(self):
        raise KeyError("no way") if self.failure is None else self.failure


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("there is nothing to say")


class Objects(ErrorTable):
    """If one rank cannot pickle its object, the other ranks also get an error."""

    def check(self, gather, odd, process_set, expected):
        for name in ("object", None):
            mine = Unpicklable() if rueda.rank() == odd else [rueda.rank()] * 1000
            try:
                told = "no error", gather(mine, name)
            except (rueda.InvalidArgument, KeyError) as error:
                told = type(error).__name__, str(error)
            self.assertEqual(told, ("KeyError", "'no way'") if rueda.rank() == odd else expected)
            self.works(name, process_set)

    def test_an_object_that_cannot_be_pickled(self):
        last = rueda.size() - 1
        sets = [rueda.global_process_set]
        if rueda.size() > 2:
            some = rueda.add_process_set(range(1, rueda.size()))
            self.addCleanup(rueda.remove_process_set, some)
            sets += [some] if some.included() else []
        for process_set in sets:
            keywords = {"process_set": process_set}
            why = f"rank {last} could not pickle its object: KeyError: 'no way'"

            def gathered(obj, name, keywords=keywords):
                return rueda.allgather_object(obj, name, **keywords)

            def sent(root, keywords=keywords):
                return lambda obj, name: rueda.broadcast_object(obj, root, name, **keywords)

            self.check(gathered, last, process_set, ("InvalidArgument", f"allgather_object: {why}"))
            self.check(sent(last), last, process_set, ("InvalidArgument", f"broadcast_object: {why}"))
            # Only the root's value is checked. The other ranks may pass any value.
            first = process_set.ranks[0]
            mine = Unpicklable() if rueda.rank() == last else {"rank": rueda.rank()}
            self.assertEqual(rueda.broadcast_object(mine, first, "object", **keywords)["rank"], first)
            self.assertEqual(gathered({rueda.rank()}, "object"), [{rank} for rank in process_set.ranks])

    def test_a_reason_that_is_no_text(self):
        # Uses a name that cannot be encoded in UTF-8, and an object that raises an error when it is converted to a
        # string.
        for failure, told in ((ValueError("\udc80"), r"ValueError: \udc80"), (Unspeakable(), "Unspeakable")):
            if rueda.rank() == 0:
                with self.assertRaises(type(failure)):
                    rueda.allgather_object(Unpicklable(failure), "object")
            else:
                with self.assertRaises(rueda.InvalidArgument) as caught:
                    rueda.allgather_object(1, "object")
                why = f"allgather_object: rank 0 could not pickle its object: {told}"
                self.assertEqual(str(caught.exception), why)
            self.works("object")

    def test_lengths_that_are_not_those_of_what_comes(self):
        for lie in (5, -(2**63), 2**62):
            if rueda.rank() == 0:
                rueda.allgather(np.array([lie], np.int64), "object.lengths")
                rueda.allgather(np.zeros(3, np.uint8), "object")
            else:
                with self.assertRaisesRegex(rueda.Internal, "the ranks announced .* bytes, and .* came"):
                    rueda.allgather_object("anything", "object")
            self.works("object")


class AfterTheEnd(ErrorTable):
    def test_another_rank_has_shut_down(self):
        last = rueda.size() - 1
        if rueda.rank() == last:
            rueda.barrier("started")
            rueda.shutdown()
        else:
            pending = rueda.allreduce_async(np.ones(3), "pending")
            rueda.barrier("started")
            for name, call in (("pending", pending.wait), ("late", lambda: rueda.allreduce(np.ones(3), "late"))):
                told = error_of(call)
                self.assertEqual(told[:2], ("Aborted", 5))
                self.assertIn(f"tensor '{name}': rank {last} has shut down", told[2])
            self.assertTrue(issubclass(rueda.Aborted, rueda.HorovodInternalError))
            rueda.shutdown()
        self.after_shutdown()

    def after_shutdown(self):
        one = np.ones(1)
        for call in (
            lambda: rueda.allreduce(one, "late"),
            lambda: rueda.allreduce_async_(one, "late"),
            lambda: rueda.grouped_allreduce([one], "late"),
            lambda: rueda.allgather(one, "late"),
            lambda: rueda.send(one, 0),
            rueda.barrier,
            rueda.join,
        ):
            told = error_of(call)
            self.assertEqual(told[:2], ("NotInitialized", 3))
            self.assertIn("rueda.init()", told[2])
        rueda.init()
        self.works("late")


if __name__ == "__main__":
    unittest.main()
