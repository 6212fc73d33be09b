# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests errors that arise in the Python package: arguments that it cannot convert, memory on another device, objects
that cannot be pickled, dropped handles, and calls after the end of a job. tests/conformance/error_scenarios.cpp tests
what the runtime refuses, and all properties about which the calls of the ranks can disagree. Runs with two or more
ranks.
"""

import ctypes
import unittest
from collections.abc import Callable

import numpy as np
import rueda

Call = Callable[[str], object]


def setUpModule():
    rueda.init()


def tearDownModule():
    rueda.shutdown()


def error_of(call: Callable[..., object], /, *arguments, **keywords) -> tuple[str, int, str]:
    try:
        call(*arguments, **keywords)
    except rueda.RuedaError as error:
        return type(error).__name__, error.code, str(error)
    return "no error", 0, ""


class ErrorTest(unittest.TestCase):
    def works(self, name, process_set=rueda.global_process_set):
        total = rueda.allreduce(np.full(3, rueda.rank() + 0.5), name, rueda.Sum, process_set=process_set)
        np.testing.assert_array_equal(total, np.full(3, sum(rank + 0.5 for rank in process_set.ranks)))


class OfDevice:
    """A fake tensor whose DLPack description claims that its memory belongs to a device of the given kind."""

    def __init__(self, kind):
        self.kind = kind

    def __dlpack__(self):
        capsule = np.ones(3).__dlpack__()
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        # The fields are the pointer to the elements, and then the kind of device: 1 is the CPU, 2 is CUDA, 8 is Metal.
        device = ctypes.c_int32.from_address(pointer_of(capsule, b"dltensor") + ctypes.sizeof(ctypes.c_void_p))
        assert device.value == 1
        device.value = self.kind
        return capsule


class OnOneRank(ErrorTest):
    """The call with the wrong argument fails at once on its rank, before the other ranks learn of it. The other ranks
    wait until this rank makes the right call.
    """

    def refused(self, text, wrong: Call, right: Call):
        self.number = getattr(self, "number", 0) + 1
        name = f"refused.{self.number}"
        if rueda.rank() == rueda.size() - 1:
            with self.subTest(text=text), self.assertRaisesRegex((TypeError, rueda.InvalidArgument), text):
                wrong(name)
        right(name)
        self.works(name)

    def test_splits(self):
        size = rueda.size()
        rows = np.ones(2 * size, "float32")
        for splits, text in (
            ([2.0] * size, r"splits\[0\] is 2.0, <class 'float'>; expected a whole number of rows"),
            ([2] * (size - 1) + ["2"], rf"splits\[{size - 1}\] is '2', <class 'str'>; expected"),
            (np.full((size, 2), 1), r"splits\[0\] is array\(\[1, 1\]\), <class 'numpy.ndarray'>; expected"),
        ):
            self.refused(
                text,
                lambda name, splits=splits: rueda.alltoall(rows, splits, name),
                lambda name: rueda.alltoall(rows, None, name),
            )

    def test_rows_behind_the_splits_are_for_nobody(self):
        """If the tensor has more rows than the sum of the splits, these additional rows are not sent to any rank, as in
        Horovod. The same rule holds for a scatter.
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
        # The rows that are sent must not overlap the output's memory. Other rows may overlap it.
        memory = np.arange(4.0 * size)
        received, _ = rueda.alltoall(memory[: 2 * size], [1] * size, "beside", out=memory[size : 2 * size])
        self.assertEqual(received.tolist(), [float(rank)] * size)

    def test_memory_that_is_not_the_cpu_s(self):
        metal, cuda = OfDevice(8), OfDevice(2)
        for text, call in (
            (r"the tensor lies on a device \(DLPack device type 8\)", lambda name: rueda.allreduce_(metal, name)),
            (r"the tensor lies on a device \(DLPack device type 8\)", lambda name: rueda.allgather(metal, name)),
            ("another is on CUDA device 0", lambda name: rueda.grouped_allreduce_([np.ones(3), cuda], name)),
            ("allocates nothing", lambda name: rueda.allreduce(cuda, name)),
        ):
            self.refused(text, call, lambda name: rueda.allreduce(np.ones(3), name))

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
        # the operation whose handle was dropped was started before this barrier, so it has ended when the barrier ends
        rueda.barrier()
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


class Objects(ErrorTest):
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


class AfterTheEnd(ErrorTest):
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
