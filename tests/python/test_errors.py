# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests that each error is an exception of its own class and names the cause, and that the next operation works. Runs
with two ranks."""

import copy
import itertools
import pickle
import subprocess
import sys
import unittest

import numpy as np
import rueda


def setUpModule():
    rueda.init()


def tearDownModule():
    rueda.shutdown()


def works() -> bool:
    return rueda.allreduce(np.ones(1), "it works", rueda.Sum)[0] == rueda.size()


class Handles(unittest.TestCase):
    """A program must not be able to create a handle that belongs to no operation. It could wait forever for such a
    handle."""

    def test_cannot_be_made_or_copied(self):
        handle = rueda.allreduce_async(np.ones(3), "handle", rueda.Sum)
        for make in (
            lambda: rueda.Handle(),
            lambda: rueda.Handle.__new__(rueda.Handle),
            lambda: copy.copy(handle),
            lambda: pickle.dumps(handle) and pickle.loads(pickle.dumps(handle)),
        ):
            with self.assertRaisesRegex(TypeError, "a rueda.Handle cannot be made or copied|cannot pickle"):
                make()
        self.assertEqual(list(handle.result()), [rueda.size()] * 3)


class WholeNumbers(unittest.TestCase):
    """The C interface has 32 bits for these numbers. A larger number must be an error: a truncated number could be
    valid."""

    def test_more_than_32_bits(self):
        ones = np.ones(2 * rueda.size())
        known = rueda.ProcessSet._of(2**32)
        for call, name in (
            (lambda: rueda.broadcast(ones, 2**32, "long"), "root_rank is 4294967296"),
            (lambda: rueda.broadcast(ones, -(2**32), "long"), "root_rank is -4294967296"),
            (lambda: rueda.broadcast(ones, 2**70, "long"), f"root_rank is {2**70}"),
            (lambda: rueda.broadcast(ones, np.int64(2**31), "long"), "root_rank is 2147483648"),
            (lambda: rueda.gather(ones, 2**32, "long"), "root_rank is 4294967296"),
            (lambda: rueda.scatter(ones, None, 2**32, "long"), "root_rank is 4294967296"),
            (lambda: rueda.reduce(ones, 2**32, "long"), "root_rank is 4294967296"),
            (lambda: rueda.allreduce(ones, "long", 2**32 + 1), "op is 4294967297"),
            (lambda: rueda.reducescatter(ones, "long", 2**32 + 1), "op is 4294967297"),
            (lambda: rueda.grouped_allreduce([ones], "long", 2**32 + 1), "op is 4294967297"),
            (lambda: rueda.allreduce(ones, "long", process_set=known), "the number of the process set is 4294967296"),
            (lambda: known.ranks, "the number of the process set is 4294967296"),
            (lambda: rueda.remove_process_set(known), "the number of the process set is 4294967296"),
            (lambda: rueda.TensorSlot("long", known), "the number of the process set is 4294967296"),
            (lambda: rueda.add_process_set([2**32]), "a rank of the list is 4294967296"),
            (lambda: rueda.init([2**32]), "a rank of the list is 4294967296"),
            (lambda: rueda.send(ones, 2**32), "peer is 4294967296"),
            (lambda: rueda.receive(ones, 2**32 - 1), "peer is 4294967295"),
            (lambda: rueda.receive(ones, 0, 2**31), "tag is 2147483648"),
        ):
            with self.subTest(name=name):
                with self.assertRaises(rueda.InvalidArgument) as caught:
                    call()
                self.assertEqual(
                    str(caught.exception),
                    f"{name}; expected a number of 32 bits, from -2147483648 to 2147483647",
                )
        self.assertTrue(works())

    def test_others(self):
        with self.assertRaisesRegex(rueda.InvalidArgument, "the peer is rank -1; expected a rank of the job, or None"):
            rueda.receive(np.ones(1), -1)
        with self.assertRaisesRegex(TypeError, "float"):
            rueda.broadcast(np.ones(1), 1.0, "no whole number")
        mine = np.full(2, float(rueda.rank()))
        np.testing.assert_array_equal(rueda.broadcast(mine, np.int64(1), "one of NumPy"), np.ones(2))


class WrongKinds(unittest.TestCase):
    """The error must name the argument and the value."""

    def test_each(self):
        one = np.ones(rueda.size())
        known = rueda.ProcessSet._of("world")
        for call, text in (
            (lambda: rueda.allreduce(one, "kind", "sum"), "op is 'sum', <class 'str'>; expected a whole number"),
            (lambda: rueda.reducescatter(one, "kind", None), "op is None, <class 'NoneType'>; expected a whole number"),
            (lambda: rueda.reduce(one, 0, "kind", 1.0), "op is 1.0, <class 'float'>; expected a whole number"),
            (
                lambda: rueda.grouped_allreduce([one], "kind", "sum"),
                "op is 'sum', <class 'str'>; expected a whole number",
            ),
            (
                lambda: rueda.allreduce(one, "kind", prescale_factor="half"),
                "prescale_factor is 'half', <class 'str'>; expected a number",
            ),
            (
                lambda: rueda.reducescatter(one, "kind", postscale_factor=None),
                "postscale_factor is None, <class 'NoneType'>; expected a number",
            ),
            (lambda: rueda.broadcast(one, "0", "kind"), "root_rank is '0', <class 'str'>; expected a whole number"),
            (lambda: rueda.gather(one, 0.0, "kind"), "root_rank is 0.0, <class 'float'>; expected a whole number"),
            (
                lambda: rueda.allgather(one, "kind", process_set=known),
                "the number of the process set is 'world', <class 'str'>; expected a whole number",
            ),
        ):
            with self.subTest(text=text):
                with self.assertRaises(TypeError) as caught:
                    call()
                self.assertEqual(str(caught.exception), text)
        self.assertTrue(works())


class Classes(unittest.TestCase):
    def test_bases_and_codes(self):
        for number, kind in enumerate(
            [
                rueda.InvalidArgument,
                rueda.DuplicateName,
                rueda.NotInitialized,
                rueda.Mismatch,
                rueda.Aborted,
                rueda.Timeout,
                rueda.ResourceExhausted,
                rueda.Unsupported,
                rueda.Internal,
            ],
            start=1,
        ):
            with self.subTest(kind=kind.__name__):
                self.assertEqual(kind.code, number)
                self.assertTrue(issubclass(kind, rueda.RuedaError))
                self.assertEqual(issubclass(kind, ValueError), number <= 3)
                self.assertEqual(issubclass(kind, RuntimeError), number > 3)
                self.assertEqual(issubclass(kind, rueda.HorovodInternalError), number > 3)
                self.assertEqual(str(pickle.loads(pickle.dumps(kind("a text")))), "a text")
        self.assertTrue(issubclass(rueda.Timeout, TimeoutError))

    def test_before_init(self):
        code = (
            "import rueda\n"
            "for call in (rueda.rank, rueda.barrier, lambda: rueda.empty(3), rueda.is_homogeneous):\n"
            "    try: call()\n"
            "    except rueda.NotInitialized as error: assert 'rueda.init()' in str(error), error\n"
            "    else: raise SystemExit('no error')\n"
            "rueda.shutdown()\n"
            "assert not rueda.is_initialized()\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


class BetweenRanks(unittest.TestCase):
    def test_shapes(self):
        with self.assertRaises(rueda.Mismatch) as caught:
            rueda.allreduce(np.ones(3 + rueda.rank()), "shapes")
        for word in ("shapes", "3", "4"):
            self.assertIn(word, str(caught.exception))
        self.assertRegex(str(caught.exception), "rank.* 0.*1")
        self.assertTrue(works())

    def test_dtypes(self):
        with self.assertRaisesRegex(rueda.Mismatch, "float32.*float64|float64.*float32"):
            rueda.allreduce_(np.ones(3, ["float32", "float64"][rueda.rank()]), "dtypes")
        self.assertTrue(works())

    def test_rooted_operations(self):
        me = rueda.rank()
        for call in (rueda.gather, rueda.reduce, lambda tensor, root, name: rueda.scatter(tensor, None, root, name)):
            with self.assertRaisesRegex(
                rueda.Mismatch, "tensor 'rooted': the ranks disagree about the root rank: rank 0: 0; rank 1: 1"
            ):
                call(np.ones(2), me, "rooted")
        with self.assertRaisesRegex(rueda.Mismatch, "about the operation: rank 0: gather; rank 1: allgather"):
            rueda.gather(np.ones(2), 0, "rooted") if me == 0 else rueda.allgather(np.ones(2), "rooted")
        self.assertTrue(works())

    def test_numbers_of_members(self):
        for grouped in (rueda.grouped_allreduce, rueda.grouped_allgather, rueda.grouped_reducescatter):
            with self.assertRaisesRegex(
                rueda.Mismatch,
                "group 'group': the ranks disagree about the number of its members: rank 0: 1; rank 1: 2",
            ):
                grouped([np.ones(2)] * (rueda.rank() + 1), "group")
            self.assertEqual(len(grouped([np.ones(2)] * 2, "group")), 2)

    def test_roots(self):
        handle = rueda.broadcast_async(np.ones(3), rueda.rank(), "roots")
        for _ in range(2):
            with self.assertRaisesRegex(rueda.Mismatch, "root"):
                handle.wait()
        with self.assertRaises(rueda.Mismatch):
            handle.result()
        self.assertTrue(handle.poll())
        self.assertTrue(works())

    def test_parameters(self):
        names = {"weight": np.ones(2), ["bias", "offset"][rueda.rank()]: np.ones(2)}
        with self.assertRaisesRegex(rueda.Mismatch, r"rank 1 lacks .*bias.* has .*offset"):
            rueda.broadcast_parameters(names)
        with self.assertRaisesRegex(rueda.Mismatch, "weight"):
            rueda.broadcast_parameters({"weight": np.ones(2 + rueda.rank()), "bias": np.ones(2)})
        self.assertTrue(works())


class OnOneRank(unittest.TestCase):
    """The call must fail before any other rank knows about it."""

    def test_dtypes(self):
        for tensor, word in (
            (np.zeros(2, complex), "complex128"),
            (np.zeros(2, "U3"), "str96"),
            (np.zeros(2, ">f4"), "byte order"),
            (np.zeros(2, object), "object"),
            (np.zeros(2, "datetime64[s]"), "datetime64"),
            (memoryview(bytearray(4)).cast("c"), "'c'"),
        ):
            with self.subTest(word=word), self.assertRaisesRegex(TypeError, word):
                rueda.allreduce_(tensor)

    def test_what_is_no_tensor(self):
        for thing in (3.0, "text", [1.0], None):
            with self.subTest(thing=thing), self.assertRaisesRegex(TypeError, f"{type(thing).__name__} is no tensor"):
                rueda.allreduce_(thing)

    def test_outputs_that_cannot_be_written(self):
        frozen = np.ones(3)
        frozen.flags.writeable = False
        with self.assertRaisesRegex(rueda.InvalidArgument, "read-only"):
            rueda.allreduce_(frozen)
        with self.assertRaisesRegex(rueda.InvalidArgument, "read-only"):
            rueda.broadcast_(b"abc")
        with self.assertRaisesRegex(rueda.InvalidArgument, "not C-contiguous"):
            rueda.allreduce_(np.ones((4, 4)).T[1:])
        view = rueda.TensorView(frozen.ctypes.data, (3,), rueda.DType.float64, frozen, writable=False)
        with self.assertRaisesRegex(ValueError, "read-only"):
            rueda.allreduce_(view)

    def test_arguments(self):
        one = np.ones(1)
        for call, kind, text in (
            (lambda: rueda.allreduce(one, 5), TypeError, "name is 5"),
            (lambda: rueda.allreduce(one, "a\0b"), ValueError, "zero byte"),
            (lambda: rueda.allreduce(one, "x" * 600), rueda.InvalidArgument, "511"),
            (lambda: rueda.allreduce(one, op=9), rueda.InvalidArgument, "9"),
            (lambda: rueda.allreduce(np.ones(1, np.int32), op=rueda.Adasum), rueda.Unsupported, "no adasum of int32"),
            (lambda: rueda.reducescatter(one, op=rueda.Adasum), rueda.Unsupported, "no reducescatter by adasum"),
            (lambda: rueda.broadcast(one, 7), rueda.InvalidArgument, "7"),
            (lambda: rueda.grouped_allreduce([]), rueda.InvalidArgument, "0 tensors"),
            (lambda: rueda.allgather(np.array(1.0)), rueda.InvalidArgument, "dimension"),
            (lambda: rueda.alltoall(one, [1]), rueda.InvalidArgument, "splits"),
            (lambda: rueda.alltoall(one, [0.5, 0.5]), TypeError, "float"),
            (lambda: rueda.allreduce_async(one, "t").wait(-1), ValueError, "timeout is -1"),
            (lambda: rueda.allreduce_async(one, "u").wait(second=1), TypeError, "timeout"),
            (lambda: rueda.TensorView(0, (1,), 99), ValueError, "dtype 99"),
            (lambda: rueda.TensorView(0, (1,) * 20, 0), ValueError, "20 dimensions"),
            (lambda: rueda.TensorView(0, (-1,), 0), ValueError, "-1"),
            (lambda: rueda.TensorSlot(""), rueda.InvalidArgument, "name"),
        ):
            with self.subTest(text=text), self.assertRaisesRegex(kind, text):
                call()
        rueda.barrier()

    def test_parameters_that_one_rank_cannot_take(self):
        """All ranks must get the error. Rueda must not write to any tensor, either before the error or after it."""

        def raising(pairs):
            yield from pairs
            raise LookupError("of the test")

        fixed = np.ones(3)
        fixed.flags.writeable = False
        strided = np.ones((4, 4))[:, 1]
        for mine, root, kind, text in (
            ({"b": fixed}, 0, rueda.InvalidArgument, r"'parameters\.b': the array of shape \(3,\) is read-only"),
            ({"b": strided}, 0, rueda.InvalidArgument, r"'parameters\.b': the array .* is not C-contiguous"),
            ({"b": b"bytes"}, 0, rueda.InvalidArgument, r"'parameters\.b': the buffer is read-only"),
            ({"b": "text"}, 0, TypeError, r"'parameters\.b': str is no tensor"),
            ({"b": np.ones(3, complex)}, 0, TypeError, r"'parameters\.b': the array's dtype is complex128"),
            ({"b" * 600: np.ones(3)}, 0, rueda.InvalidArgument, "longer than 511 bytes"),
            ({"b": np.ones(3)}, 9, rueda.InvalidArgument, r"the root rank is 9; expected one of \[0, 1\]"),
            ([("b", np.ones(3)), ("b", np.ones(3))], 0, rueda.InvalidArgument, r"'parameters\.b' twice"),
            (raising([]), 0, LookupError, "of the test"),
        ):
            with self.subTest(text=text):
                first = np.full(200_000, float(rueda.rank()))
                if rueda.rank() == 1:
                    given = itertools.chain([("a", first)], mine.items() if isinstance(mine, dict) else mine)
                    with self.assertRaisesRegex(kind, text):
                        rueda.broadcast_parameters(given, root)
                else:
                    with self.assertRaisesRegex(
                        rueda.InvalidArgument,
                        f"rank 1 cannot take part, and nothing was sent: {kind.__name__}: .*{text}",
                    ):
                        rueda.broadcast_parameters([("a", first), ("b", np.ones(3))], 0)
                self.assertTrue(works())
                np.testing.assert_array_equal(first, np.full(200_000, float(rueda.rank())))

    def test_parameters_that_change_meanwhile(self):
        """Rueda can find this error only when it starts the operation. After the error, Rueda must not use the other
        tensors any more."""

        class OnceATensor:
            def __init__(self, array):
                self.array, self.looks = array, 0

            def __dlpack__(self, **_):
                self.looks += 1
                if self.looks > 1:
                    raise LookupError("of the test")
                return self.array.__dlpack__()

        first, second, third = (np.full(size, rueda.rank() + 3.0) for size in (200_000, 3, 200_000))
        if rueda.rank() == 1:
            with self.assertRaisesRegex(LookupError, "of the test"):
                rueda.broadcast_parameters([first, OnceATensor(second), third])
            rueda.broadcast_(second, 0, "parameters.1")  # rank 0 waits for this operation
        else:
            rueda.broadcast_parameters([first, second, third])
        for tensor in (first, second, third):
            np.testing.assert_array_equal(tensor, np.full(tensor.size, 3.0))
        self.assertTrue(works())

    def test_a_barrier_is_no_allreduce(self):
        byte = np.ones(1, np.uint8)
        slot = rueda.TensorSlot("in a slot")
        for name in (None, "", "named", slot):
            with (
                self.subTest(name=name),
                self.assertRaisesRegex(rueda.Mismatch, "the ranks disagree about the operation"),
            ):
                if rueda.rank() == 0:
                    rueda.barrier(name)
                else:
                    rueda.allreduce(byte, name, rueda.Max)
            if rueda.rank() == 0:  # the barrier cannot end before all ranks have started it
                handle = rueda.barrier_async(name)
                self.assertEqual(handle.name, name)
                self.assertFalse(handle.poll())
                rueda.send(byte, 1)
                self.assertIsNone(handle.result())
            else:
                rueda.receive(byte, 0)
                rueda.barrier(name)
            rueda.barrier(name)
        for name, kind, text in ((5, TypeError, "name is 5"), ("n" * 600, rueda.InvalidArgument, "longer than 511")):
            with self.assertRaisesRegex(kind, text):
                rueda.barrier(name)
        if rueda.rank() == 0:
            handle = rueda.barrier_async("twice")
            with self.assertRaisesRegex(rueda.DuplicateName, "twice"):
                rueda.barrier("twice")
            rueda.send(byte, 1)
            handle.wait()
        else:
            rueda.receive(byte, 0)
            rueda.barrier("twice")
        self.assertTrue(works())

    def test_timeout(self):
        tensor = np.ones(1)
        if rueda.rank() == 0:
            handle = rueda.allreduce_async_(tensor, "late", rueda.Sum)
            late = r"rank 1 has not announced it, rank 0 has; rank 1 on \S+ \(pid \d+\): .*waits itself in tensor 'late comes'"
            with self.assertRaisesRegex(rueda.Timeout, f"'late' has not completed after 0.25 s: {late}.*; it goes on$"):
                handle.wait(0.25)
            with self.assertRaises(TimeoutError):
                handle.result(timeout=0)
            self.assertFalse(handle.poll())
            self.assertIn("pending", repr(handle))
            self.assertRegex(handle._waits_for(), "^rank 1 has not announced it, rank 0 has")
            rueda.barrier("late comes")
            self.assertIs(handle.result(timeout=60), tensor)
            self.assertEqual(handle._waits_for(), "")
        else:
            rueda.barrier("late comes")
            rueda.allreduce_(tensor, "late", rueda.Sum)
        self.assertEqual(tensor[0], rueda.size())

    def test_timeouts_name_what_is_awaited(self):
        """Tests operations without a name, groups, messages and joins. The last part starts more unnamed operations
        than may be pending."""
        tensors = [np.ones(2) for _ in range(70)]
        message = np.ones(1)
        if rueda.rank() == 0:
            unnamed = [rueda.allreduce_async_(tensor) for tensor in tensors]
            group = rueda.grouped_allreduce_async_([np.ones(1), np.ones(2)], "pair")
            receive = rueda.receive_async(message, 1, tag=5)
            expected = [
                (unnamed[0], "^rank 1 has not announced it, rank 0 has; rank 1 "),
                (
                    unnamed[69],
                    r"^this rank has not announced it yet, because the \d+(st|nd|rd|th) unnamed operation .*waits for rank 1",
                ),
                (
                    group,
                    r"group 'pair': rank 1 has not announced it, rank 0 has|^rank 1 has not announced it, rank 0 has",
                ),
                (receive, r"^rank 1 has not sent it; rank 1 on \S+ \(pid \d+\)"),
            ]
            for handle, text in expected:
                with self.subTest(text=text):
                    self.assertRegex(handle._waits_for(), text)
            rueda.barrier("others come")
            for handle in (*unnamed, group):
                handle.result(timeout=60)
            receive.result(timeout=60)
        else:
            rueda.barrier("others come")
            for handle in [rueda.allreduce_async_(tensor) for tensor in tensors]:
                handle.wait()
            rueda.grouped_allreduce_([np.ones(1), np.ones(2)], "pair")
            rueda.send(message, 0, tag=5)
        self.assertTrue(works())

    def test_memory_beyond_the_limit(self):
        with self.assertRaises(rueda.ResourceExhausted):
            rueda.empty(1 << 50, "uint8")


if __name__ == "__main__":
    unittest.main()
