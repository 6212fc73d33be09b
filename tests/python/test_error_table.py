# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Horovod's table of errors, row by row, and what else ranks can disagree about: class and code, the whole text, that every
rank of the set gets it, and that the same name works afterwards. On any layout of two ranks and more.

One row cannot occur: this version takes tensors in the CPU's memory only, so no rank can have one on another device than
the others; a tensor elsewhere is refused by its own rank, which is tested here."""

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
    os.environ["RUEDA_FUSION_THRESHOLD"] = "64K"  # tensors above it are wanted
    rueda.init()


def tearDownModule():
    rueda.shutdown()


def ranks_text(ranks) -> str:
    """As messages name them: "rank 3", "ranks 0, 1", "ranks 0-2, 4"."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(parts)


def values_text(values) -> str:
    """Of (rank, value), ascending: who has which one."""
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
    values: tuple[str, str]  # what the text says that some ranks, and the odd ones, have
    calls: tuple[Call, Call]


class Calls:
    """The operations of a process set, of which a row of the table wants two that differ in one thing."""

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
        # Of these all but the first dimension, and how many there are.
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
        """The error of this rank's call, and of all others of the set."""
        told = rueda.allgather_object(error_of(call, *arguments, **keywords), process_set=process_set)
        self.assertEqual(told, [expected] * process_set.size())


class BetweenRanks(ErrorTable):
    def setUp(self):
        self.sets = [rueda.global_process_set]
        if rueda.size() > 2:
            # Ranks in the set and in the job have other numbers: those of the job are told.
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
        """Its text has the number of the call, and of each rank all that it meant."""
        told = error_of(row.calls[rueda.rank() in odd_ranks], None)
        self.assertEqual(rueda.allgather_object(told, process_set=process_set), [told] * process_set.size())
        self.assertEqual(told[:2], ("Mismatch", 4))
        about = re.escape(row.about)
        self.assertRegex(told[2], rf"^the \d+(st|nd|rd|th) unnamed operation of .* disagree about {about}: rank")
        # Who has which value, of what differs.
        values = values_text((rank, row.values[rank in odd_ranks]) for rank in process_set.ranks)
        for one in values.split("; "):
            self.assertIn(f"{one.split(': ')[0]}: ", told[2])
        self.works(None, process_set)

    def test_each_row_by_the_last_rank_and_by_every_second_one(self):
        for process_set in self.sets:
            for number, row in enumerate(Calls(process_set).disagreements()):
                for odd_ranks in (process_set.ranks[-1:], process_set.ranks[1::2]):
                    with self.subTest(row=row.about, values=row.values, odd_ranks=odd_ranks):
                        name = f"row.{number}"  # the second time round one that is known
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
            rueda.join()  # which sees nothing of it
            everyones = rueda.allgather_object(told)
            self.assertEqual(everyones, [[] if rank in joined else expected for rank in range(rueda.size())])
            for kind in ("broadcast", "allgather", "alltoall", "reducescatter", "gather", "scatter", "reduce"):
                getattr(calls, kind)()(f"joined {kind}")
                self.works(f"joined {kind}")


class OfGpu:
    """A tensor that says, as DLPack has it, that it lies in a GPU's memory."""

    def __dlpack__(self):
        capsule = np.ones(3).__dlpack__()
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        # The pointer to the elements, then the kind of device: 1 is the CPU, 2 is CUDA.
        device = ctypes.c_int32.from_address(pointer_of(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p))
        assert device.value == 1
        device.value = 2
        return capsule


class OnOneRank(ErrorTable):
    """Refused at once by the rank that is wrong, before another one hears of it: the others wait until it comes rightly."""

    def refused(self, kind, text, wrong: Call, right: Call):
        self.number = getattr(self, "number", 0) + 1
        name = f"refused.{self.number}"
        if rueda.rank() == rueda.size() - 1:
            with self.subTest(text=text), self.assertRaisesRegex(kind, text):
                wrong(name)
        right(name)
        self.works(name)

    def test_scalars_where_rows_are_meant(self):
        calls = Calls(rueda.global_process_set)
        for kind in ("allgather", "gather", "reducescatter"):
            make = getattr(calls, kind)
            text = f"an? {kind} .* tensors along their first dimension, and the input is a scalar"
            self.refused(ValueError, text, make(()), make((4,)))
        scalar = np.array(1.0, "float32")
        text = "splits tensors along their first dimension, and the input is a scalar"
        self.refused(ValueError, text, lambda name: rueda.alltoall(scalar, None, name), calls.alltoall())
        self.refused(ValueError, text, lambda name: rueda.scatter(scalar, None, 0, name), calls.scatter())

    def test_splits(self):
        size = rueda.size()
        rows = np.ones(2 * size, "float32")
        right = Calls(rueda.global_process_set).alltoall()
        for splits, kind, text in (
            ([2] * (size + 1), ValueError, f"there are {size + 1} splits; expected {size}"),
            ([], ValueError, f"there are 0 splits; expected {size}"),
            ([3] * size, ValueError, f"the sum of the splits is {3 * size}; expected {2 * size}, the first dimension"),
            ([1] * size, ValueError, f"the sum of the splits is {size}; expected {2 * size}, the first dimension"),
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

    def test_outputs_that_others_splits_do_not_fill(self):
        """Only whose output it is can see it, when all have come; the others have their rows."""
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

    def test_reductions_that_are_not_there(self):
        """Horovod's reducescatter has average and sum only; here everything but Adasum."""
        calls = Calls(rueda.global_process_set)
        text = "tensor 'refused.1': there is no reducescatter by adasum"
        self.refused(rueda.HorovodInternalError, text, calls.reducescatter(op=rueda.Adasum), calls.reducescatter())
        self.refused(rueda.Unsupported, "bool", calls.allreduce(dtype=bool), calls.allreduce())
        self.refused(rueda.Unsupported, "int32", calls.allreduce(dtype="int32", op=rueda.Adasum), calls.allreduce())
        self.refused(
            rueda.Unsupported,
            "compression",
            calls.allreduce(dtype="int32", compression="fp16"),
            calls.allreduce(compression="fp16"),
        )
        rows = np.full(rueda.size(), rueda.rank() + 2.0)
        mine = np.arange(2.0, rueda.size() + 2)
        for op, right in ((rueda.Min, mine.min()), (rueda.Max, mine.max()), (rueda.Product, mine.prod())):
            self.assertEqual(rueda.reducescatter(rows, f"reducescatter {op.name}", op).tolist(), [right])

    def test_a_scaled_reducescatter_beyond_the_fusion_threshold_works(self):
        rows = np.full((2 * rueda.size(), 50_000), 0.5 + rueda.rank(), "float32")
        mine = rueda.reducescatter(rows, "scaled", rueda.Sum, prescale_factor=0.5)
        total = 0.5 * sum(0.5 + rank for rank in range(rueda.size()))
        np.testing.assert_array_equal(mine, np.full((2, 50_000), total, "float32"))

    def test_roots(self):
        calls = Calls(rueda.global_process_set)
        size = rueda.size()
        for kind in ("broadcast", "gather", "scatter", "reduce"):
            make = getattr(calls, kind)
            for root in (size, -1):
                text = f"the root rank is {root}; expected 0 to {size - 1}"
                self.refused(ValueError, text, make(root=root), make(root=0))

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
        rueda.barrier()  # later than the one that nobody waited for
        self.assertEqual(dropped[0], rueda.size())
        self.works("dropped")


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
