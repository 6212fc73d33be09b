# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares every operation with NumPy on every rank. All ranks run the same tests in the same order. Runs with 1, 2 and
4 ranks."""

import array
import functools
import unittest

import numpy as np
import rueda

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

INTEGERS = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
DTYPES = [*INTEGERS, "bool", "float16", "float32", "float64"]
REDUCTIONS = {rueda.Sum: np.sum, rueda.Min: np.min, rueda.Max: np.max, rueda.Product: np.prod}


def reductions_of(dtype: str) -> dict:
    return {op: function for op, function in REDUCTIONS.items() if dtype != "bool" or op != rueda.Sum}


def setUpModule():
    rueda.init()


def tearDownModule():
    rueda.shutdown()


def ranks() -> range:
    return range(rueda.size())


def values(rank: int, shape, dtype) -> np.ndarray:
    """Returns a rank's input: small integers, whose sums and products are exact in every type. For bool, both values
    occur."""
    count = int(np.prod(shape))
    return ((np.arange(count) + rank) % 3 + (dtype != "bool")).reshape(shape).astype(dtype)


class WhoIsWho(unittest.TestCase):
    def test_numbers(self):
        self.assertTrue(rueda.is_initialized())
        self.assertEqual(sorted(rueda.allgather_object(rueda.rank())), list(ranks()))
        self.assertEqual((rueda.local_rank(), rueda.local_size()), (rueda.rank(), rueda.size()))
        self.assertEqual((rueda.cross_rank(), rueda.cross_size()), (0, 1))
        self.assertTrue(rueda.is_homogeneous())


class Allreduce(unittest.TestCase):
    def test_every_reduction_of_every_dtype(self):
        for dtype in DTYPES:
            for op, expected in reductions_of(dtype).items():
                with self.subTest(dtype=dtype, op=op.name):
                    mine = values(rueda.rank(), (4, 5), dtype)
                    result = rueda.allreduce(mine, f"{dtype}.{op.name}", op)
                    right = expected([values(r, (4, 5), dtype) for r in ranks()], axis=0).astype(dtype)
                    self.assertEqual(result.dtype, mine.dtype)
                    np.testing.assert_array_equal(result, right)
                    np.testing.assert_array_equal(mine, values(rueda.rank(), (4, 5), dtype))

    def test_average_is_the_default(self):
        result = rueda.allreduce(np.full(3, float(rueda.rank())), "mean")
        np.testing.assert_array_equal(result, np.full(3, np.mean(ranks())))

    def test_averages_of_integers_divide_the_exact_sum_and_truncate_toward_zero(self):
        for dtype in INTEGERS:
            limits = np.iinfo(dtype)
            for name, of in {
                "top": lambda rank, limits=limits: limits.max - rank,
                "bottom": lambda rank, limits=limits: limits.min + rank,
                "small": lambda rank, limits=limits: (-1 if limits.min else 1) * (rank > 0),
            }.items():
                with self.subTest(dtype=dtype, of=name):
                    total = sum(of(rank) for rank in ranks())
                    right = total // rueda.size() if total >= 0 else -(-total // rueda.size())
                    result = rueda.allreduce(np.full(3, of(rueda.rank()), dtype), f"{dtype}.{name}")
                    self.assertEqual((result.dtype.name, result.tolist()), (dtype, [right] * 3))

    def test_factors_of_integers_truncate_and_end_at_the_limits(self):
        for dtype in INTEGERS:
            with self.subTest(dtype=dtype):
                half = rueda.allreduce(np.full(3, 7, dtype), f"{dtype}.half", rueda.Sum, prescale_factor=0.5)
                self.assertEqual(half.tolist(), [3 * rueda.size()] * 3)
                large = rueda.allreduce(np.full(3, 7, dtype), f"{dtype}.large", rueda.Max, postscale_factor=1e300)
                self.assertEqual(large.tolist(), [np.iinfo(dtype).max] * 3)

    def test_sums_averages_and_factors_of_bool_are_refused(self):
        mask = np.array([True, False])
        for arguments, word in (
            ({}, "tensor 'mask': there is no average of bool; use max"),
            ({"op": rueda.Sum}, "tensor 'mask': there is no sum of bool; use max"),
            ({"op": rueda.Max, "prescale_factor": 0.5}, "tensor 'mask': bool has no scale factors"),
        ):
            for call in (rueda.allreduce, rueda.reducescatter, lambda *a, **k: rueda.allreduce_async(*a, **k).result()):
                with self.subTest(word=word), self.assertRaisesRegex(rueda.Unsupported, word):
                    call(mask, "mask", **arguments)
        with self.assertRaisesRegex(
            rueda.Unsupported, "unnamed operation of this process set: there is no sum of bool"
        ):
            rueda.allreduce_(mask, None, rueda.Sum)
        with self.assertRaisesRegex(rueda.Unsupported, "'masks_2of2'.* there is no sum of bool"):
            rueda.grouped_allreduce([np.ones(2), mask], "masks", rueda.Sum)
        with self.assertRaisesRegex(rueda.Unsupported, "tensor 'slot of a mask': there is no average"):
            rueda.allreduce(mask, rueda.TensorSlot("slot of a mask"))
        self.assertEqual(rueda.allreduce(mask, "mask", rueda.Max).tolist(), [True, False])

    def test_bytes_of_bool_that_are_not_0_or_1(self):
        raw = np.array([0, 1, 2, 255 * (rueda.rank() == 0)], np.uint8)
        for op, right in ((rueda.Min, [0, 1, 1, int(rueda.size() == 1)]), (rueda.Max, [0, 1, 1, 1])):
            result = rueda.allreduce(raw.view(bool), f"raw.{op.name}", op)
            self.assertEqual(result.view(np.uint8).tolist(), right)

    def test_in_place(self):
        mine = values(rueda.rank(), (7,), "float32")
        self.assertIs(rueda.allreduce_(mine, "in place", rueda.Sum), mine)
        np.testing.assert_array_equal(mine, sum(values(r, (7,), "float32") for r in ranks()))

    def test_factors(self):
        result = rueda.allreduce(np.ones(3), "scaled", rueda.Sum, prescale_factor=0.5, postscale_factor=6)
        np.testing.assert_array_equal(result, np.full(3, 0.5 * rueda.size() * 6))

    def test_names_slots_and_neither(self):
        slot = rueda.TensorSlot("slot")
        for name in ("name", slot, None, slot):
            np.testing.assert_array_equal(rueda.allreduce(np.ones(2), name, rueda.Sum), np.full(2, rueda.size()))
        self.assertEqual((slot.name, str(slot)), ("slot", "slot"))

    def test_not_contiguous_is_copied(self):
        whole = values(rueda.rank(), (6, 4), "float64")
        result = rueda.allreduce(whole[::2, 1:3], "strided", rueda.Sum)
        np.testing.assert_array_equal(result, sum(values(r, (6, 4), "float64")[::2, 1:3] for r in ranks()))
        transposed = rueda.allreduce(whole.T, "transposed", rueda.Sum)
        np.testing.assert_array_equal(transposed, sum(values(r, (6, 4), "float64").T for r in ranks()))

    def test_scalars_and_nothing(self):
        self.assertEqual(rueda.allreduce(np.float32(2), "scalar", rueda.Sum), 2 * rueda.size())
        self.assertEqual(rueda.allreduce(np.array(3), "0-d", rueda.Sum).shape, ())
        self.assertEqual(rueda.allreduce(np.zeros((0, 3)), "nothing").shape, (0, 3))

    def test_scalars_of_a_group(self):
        """Rueda must use each array in place, even if its type has no buffer format."""
        for dtype in [np.float16, np.float64, np.int8, *([ml_dtypes.bfloat16] if ml_dtypes else [])]:
            numbers = [1.5, 2.5, 3.5] if np.dtype(dtype).kind != "i" else [1, 2, 3]
            results = rueda.grouped_allreduce([dtype(number) for number in numbers], np.dtype(dtype).name, rueda.Sum)
            self.assertEqual([float(result) for result in results], [number * rueda.size() for number in numbers])

    def test_buffers_without_numpy(self):
        numbers = array.array("d", [rueda.rank(), 1.0])
        self.assertIs(rueda.allreduce_(numbers, "array", rueda.Sum), numbers)
        self.assertEqual(list(numbers), [sum(ranks()), rueda.size()])
        for kind in "bBhHiIlLqQ":
            with self.subTest(kind=kind):
                numbers = array.array(kind, [rueda.rank(), 1])
                rueda.allreduce_(numbers, f"array of {kind}", rueda.Sum)
                self.assertEqual(list(numbers), [sum(ranks()), rueda.size()])
        truths = memoryview(bytearray([rueda.rank() == 0, 0])).cast("?")
        rueda.allreduce_(truths, "truths", rueda.Max)
        self.assertEqual(truths.tolist(), [True, False])
        raw = bytearray([rueda.rank() + 1])
        rueda.allreduce_(memoryview(raw), "bytes", rueda.Max)
        self.assertEqual(raw[0], rueda.size())
        np.testing.assert_array_equal(
            rueda.allreduce(bytes([1, 2]), "read", rueda.Sum), np.array([1, 2]) * rueda.size()
        )

    def test_views_of_memory(self):
        memory = np.full(6, rueda.rank(), np.float32)
        view = rueda.TensorView(memory.ctypes.data, (2, 3), rueda.DType.float32, owner=memory)
        self.assertEqual((view.shape, view.dtype, view.address), ((2, 3), 6, memory.ctypes.data))
        rueda.allreduce_(view, "view", rueda.Sum)
        np.testing.assert_array_equal(memory, np.full(6, sum(ranks())))

    def test_groups(self):
        group = [values(rueda.rank(), (3,), "float32"), values(rueda.rank(), (2, 2), "int64")]
        right = [sum(values(r, (3,), "float32") for r in ranks()), sum(values(r, (2, 2), "int64") for r in ranks())]
        for name in ("group", None):
            for results in (
                rueda.grouped_allreduce(group, name, rueda.Sum),
                rueda.grouped_allreduce_async(group, name, rueda.Sum).result(),
            ):
                for result, expected in zip(results, right, strict=True):
                    np.testing.assert_array_equal(result, expected)
        rueda.grouped_allreduce_async_(group, "in place", rueda.Sum).wait()
        rueda.grouped_allreduce_(group, None, rueda.Max)
        for tensor, expected in zip(group, right, strict=True):
            np.testing.assert_array_equal(tensor, expected)


class OtherGroups(unittest.TestCase):
    def test_grouped_allgather(self):
        def group(rank):
            return [values(rank, (rank % 2 + 1, 3), "float32"), values(rank, (rank, 2), "int64"), np.ones(1, np.int8)]

        right = [np.concatenate(members) for members in zip(*(group(r) for r in ranks()), strict=True)]
        for name in ("gathered", None):
            for results in (
                rueda.grouped_allgather(group(rueda.rank()), name),
                rueda.grouped_allgather_async(iter(group(rueda.rank())), name).result(),
            ):
                for result, expected in zip(results, right, strict=True):
                    np.testing.assert_array_equal(result, expected, strict=True)

    def test_grouped_reducescatter(self):
        def group(rank):
            return [values(rank, (5, 3), "float32"), values(rank, (rueda.size(), 2), "int64")]

        sums = [np.sum(members, axis=0) for members in zip(*(group(r) for r in ranks()), strict=True)]
        right = [np.array_split(total, rueda.size())[rueda.rank()] for total in sums]
        for results in (
            rueda.grouped_reducescatter(group(rueda.rank()), "scattered", rueda.Sum),
            rueda.grouped_reducescatter_async(group(rueda.rank()), op=rueda.Sum).result(),
        ):
            for result, expected in zip(results, right, strict=True):
                np.testing.assert_array_equal(result, expected)
        (scaled,) = rueda.grouped_reducescatter([np.ones(rueda.size())], "one", rueda.Sum, postscale_factor=3)
        np.testing.assert_array_equal(scaled, [3 * rueda.size()])


class WithARoot(unittest.TestCase):
    def test_gather(self):
        def rows(rank):
            return values(rank, (rank % 3, 2), "float32")

        right = np.concatenate([rows(r) for r in ranks()])
        mine = rows(rueda.rank())
        for root in ranks():
            is_root = rueda.rank() == root
            out = np.empty_like(right)
            for result in (
                rueda.gather(mine, root, "gather"),
                rueda.gather_async(mine, root_rank=root).result(),
                rueda.gather(mine, root, "gather", out=out),
            ):
                if is_root:
                    np.testing.assert_array_equal(result, right)
                else:
                    self.assertIsNone(result)
            self.assertEqual(result is out, is_root)

    def test_scatter(self):
        counts = [r % 3 + 1 for r in ranks()]
        whole = values(5, (sum(counts), 4), "int64")
        mine = np.split(whole, np.cumsum(counts)[:-1])[rueda.rank()]
        for root in ranks():
            given = whole if rueda.rank() == root else np.empty((0, 4), np.int64)
            splits = counts if rueda.rank() == root else None
            np.testing.assert_array_equal(rueda.scatter(given, splits, root, "scatter"), mine)
            np.testing.assert_array_equal(rueda.scatter_async(given, splits, root).result(), mine)
            out = np.empty_like(mine)
            self.assertIs(rueda.scatter(given, splits, root, "scatter", out=out), out)
            np.testing.assert_array_equal(out, mine)

    def test_scatter_of_even_parts(self):
        whole = np.arange(2.0 * rueda.size())
        np.testing.assert_array_equal(
            rueda.scatter(whole, name="even parts"), np.split(whole, rueda.size())[rueda.rank()]
        )

    def test_reduce(self):
        for root in ranks():
            for op, expected in REDUCTIONS.items():
                mine = values(rueda.rank(), (4, 5), "float64")
                right = expected([values(r, (4, 5), "float64") for r in ranks()], axis=0)
                out = np.zeros((4, 5))
                for result in (
                    rueda.reduce(mine, root, f"reduce.{op.name}", op),
                    rueda.reduce_async(mine, root, op=op).result(),
                    rueda.reduce(mine, root, f"reduce.{op.name}", op, out=out),
                    rueda.reduce(mine, root, f"reduce.{op.name}", op, out=mine),
                ):
                    if rueda.rank() == root:
                        np.testing.assert_array_equal(result, right)
                    else:
                        self.assertIsNone(result)
                if rueda.rank() != root:
                    np.testing.assert_array_equal(out, 0)
                    np.testing.assert_array_equal(mine, values(rueda.rank(), (4, 5), "float64"))
        average = rueda.reduce(np.full(3, float(rueda.rank())), 0, prescale_factor=2, postscale_factor=3)
        if rueda.rank() == 0:
            np.testing.assert_array_equal(average, np.full(3, 6 * np.mean(ranks())))

    def test_roots_that_are_none(self):
        for call in (rueda.gather, rueda.reduce, lambda tensor, root: rueda.scatter(tensor, None, root)):
            with self.assertRaisesRegex(rueda.InvalidArgument, "the root rank is 99; expected 0 to"):
                call(np.ones(3), 99)


class DlpackOnly:
    """An array with DLPack but without the buffer protocol, like PyTorch's tensors."""

    def __init__(self, memory: np.ndarray, with_versions: bool):
        self._memory = memory
        self._with_versions = with_versions

    def __dlpack__(self, **keywords):
        if keywords and not self._with_versions:
            raise TypeError("no keywords in this version")
        return self._memory.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self._memory.__dlpack_device__()


def gives_dlpack(dtype: str) -> bool:
    """Returns whether this version of NumPy supports the type in DLPack. Old versions do not support bool."""
    try:
        np.zeros(1, dtype).__dlpack__()
    except BufferError:
        return False
    return True


class OtherTensors(unittest.TestCase):
    def test_dlpack(self):
        for with_versions in (False, True):
            for dtype in filter(gives_dlpack, DTYPES):
                with self.subTest(dtype=dtype, versions=with_versions):
                    memory = values(rueda.rank(), (2, 3), dtype)
                    tensor = DlpackOnly(memory, with_versions)
                    right = np.prod([values(r, (2, 3), dtype) for r in ranks()], axis=0).astype(dtype)
                    np.testing.assert_array_equal(rueda.allreduce(tensor, "dlpack", rueda.Product), right)
                    self.assertIs(rueda.allreduce_(tensor, "dlpack", rueda.Product), tensor)
                    np.testing.assert_array_equal(memory, right)

    def test_dlpack_that_is_not_dense_or_not_ours(self):
        with self.assertRaisesRegex(ValueError, "one after the other"):
            rueda.allreduce_(DlpackOnly(np.zeros((4, 4))[:, 1], True))
        with self.assertRaisesRegex(TypeError, "DLPack dtype"):
            rueda.allreduce_(DlpackOnly(np.zeros(4, np.complex64), True))

    def test_dlpack_that_is_refused_by_who_has_it(self):
        class Refusing(DlpackOnly):
            def __dlpack__(self, **keywords):
                raise BufferError("it lies on another device")

        with self.assertRaisesRegex(rueda.InvalidArgument, "^it lies on another device$"):
            rueda.allreduce_(Refusing(np.zeros(4), True))

    @unittest.skipUnless(ml_dtypes, "ml_dtypes is not installed")
    def test_bfloat16(self):
        mine = np.full((2, 3), rueda.rank() + 1, ml_dtypes.bfloat16)
        total = sum(r + 1 for r in ranks())
        result = rueda.allreduce(mine, "bfloat16", rueda.Sum)
        self.assertEqual(result.dtype, mine.dtype)
        np.testing.assert_array_equal(result.astype(np.float32), np.full((2, 3), total, np.float32))
        rows = rueda.allgather(mine, "bfloat16 rows")
        np.testing.assert_array_equal(rows[:, 0].astype(np.float32), np.repeat([r + 1 for r in ranks()], 2))

    @unittest.skipUnless(ml_dtypes, "ml_dtypes is not installed")
    def test_float8(self):
        """The even ranks hold the first pattern of each pair of patterns, the odd ranks the second one. The expected
        results are computed in float32, and ml_dtypes then converts them once."""
        pairs = np.arange(65536)
        for dtype in map(np.dtype, (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)):
            patterns = [(pairs >> 8).astype(np.uint8).view(dtype), pairs.astype(np.uint8).view(dtype)]
            mine = patterns[rueda.rank() % 2]
            with np.errstate(all="ignore"):
                wide = [patterns[rank % 2].astype(np.float32) for rank in ranks()]
                total, product = functools.reduce(np.add, wide), functools.reduce(np.multiply, wide)
                expected = {
                    rueda.Sum: total,
                    rueda.Average: total * np.float32(1 / rueda.size()),
                    rueda.Min: functools.reduce(np.minimum, wide),
                    rueda.Max: functools.reduce(np.maximum, wide),
                    rueda.Product: product,
                }
                for op, value in expected.items():
                    result = rueda.allreduce(mine, f"{dtype}.{op}", op)
                    self.assertEqual(result.dtype, dtype)
                    right = value.astype(dtype)
                    np.testing.assert_array_equal(result.astype(np.float32), right.astype(np.float32))
                    if op in (rueda.Sum, rueda.Average, rueda.Product):
                        numbers = ~np.isnan(value.astype(dtype).astype(np.float32))
                        np.testing.assert_array_equal(result.view(np.uint8)[numbers], right.view(np.uint8)[numbers])
                scaled = rueda.allreduce(mine, f"{dtype} scaled", rueda.Sum, prescale_factor=0.3, postscale_factor=0.7)
                right = functools.reduce(np.add, [each * np.float32(0.3) for each in wide]) * np.float32(0.7)
                np.testing.assert_array_equal(scaled.astype(np.float32), right.astype(dtype).astype(np.float32))
            rows = rueda.allgather(mine, f"{dtype} rows").view(np.uint8)
            np.testing.assert_array_equal(rows, np.concatenate([patterns[r % 2] for r in ranks()]).view(np.uint8))
            with self.assertRaisesRegex(rueda.Unsupported, f"there is no adasum of {dtype}; use float16"):
                rueda.allreduce(mine, f"{dtype} adasum", rueda.Adasum)
            with self.assertRaisesRegex(
                rueda.Unsupported, f"there is no compression for an allreduce .sum. of {dtype}"
            ):
                rueda.allreduce(mine, f"{dtype} compressed", rueda.Sum, compression="fp16")


class OthersOperations(unittest.TestCase):
    def test_broadcast(self):
        for root in ranks():
            mine = values(rueda.rank(), (5,), "int32")
            right = values(root, (5,), "int32")
            np.testing.assert_array_equal(rueda.broadcast(mine, root, "new"), right)
            np.testing.assert_array_equal(rueda.broadcast_async(mine, root, "new").result(), right)
            self.assertIs(rueda.broadcast_(mine, root, "own"), mine)
            np.testing.assert_array_equal(mine, right)
            rueda.broadcast_async_(mine, root, "own").wait()

    def test_allgather(self):
        def rows(rank):
            return values(rank, (rank % 3, 2), "float32")

        right = np.concatenate([rows(r) for r in ranks()])
        result = rueda.allgather(rows(rueda.rank()), "rows")
        np.testing.assert_array_equal(result, right)
        result[:] = 0  # the caller owns the result and may write to it
        out = np.empty_like(right)
        self.assertIs(rueda.allgather(rows(rueda.rank()), "rows", out=out), out)
        np.testing.assert_array_equal(out, right)
        np.testing.assert_array_equal(rueda.allgather_async(rows(rueda.rank()), "rows").result(), right)

    def test_a_result_outlives_its_handle(self):
        result = rueda.allgather_async(np.full(100_000, rueda.rank()), "long").result()
        np.testing.assert_array_equal(result, np.repeat(ranks(), 100_000))

    def test_reducescatter(self):
        count = 2 * rueda.size() + 1
        whole = sum(values(r, (count, 3), "int64") for r in ranks())
        mine = np.array_split(whole, rueda.size())[rueda.rank()]
        tensor = values(rueda.rank(), (count, 3), "int64")
        np.testing.assert_array_equal(rueda.reducescatter(tensor, "rs", rueda.Sum), mine)
        np.testing.assert_array_equal(rueda.reducescatter_async(tensor, "rs", rueda.Sum).result(), mine)
        out = np.empty_like(mine)
        self.assertIs(rueda.reducescatter(tensor, "rs", rueda.Sum, out=out), out)
        np.testing.assert_array_equal(out, mine)

    def test_alltoall(self):
        def rows_for(source, target):
            return np.full((source + target + 1, 2), 10 * source + target, np.float64)

        me = rueda.rank()
        tensor = np.concatenate([rows_for(me, r) for r in ranks()])
        splits = [len(rows_for(me, r)) for r in ranks()]
        right = np.concatenate([rows_for(r, me) for r in ranks()])
        counts = [len(rows_for(r, me)) for r in ranks()]
        for given in (splits, np.array(splits), tuple(splits)):
            received, received_splits = rueda.alltoall(tensor, given, "a2a")
            np.testing.assert_array_equal(received, right)
            self.assertEqual(received_splits.tolist(), counts)
        out = np.empty_like(right)
        received, received_splits = rueda.alltoall_async(tensor, splits, "a2a", out=out).result()
        self.assertIs(received, out)
        np.testing.assert_array_equal(out, right)
        self.assertEqual(received_splits.tolist(), counts)

    def test_alltoall_of_even_parts(self):
        received, counts = rueda.alltoall(np.full(2 * rueda.size(), rueda.rank()), name="even")
        np.testing.assert_array_equal(received, np.repeat(ranks(), 2))
        self.assertEqual(counts.tolist(), [2] * rueda.size())

    def test_barriers(self):
        rueda.barrier()
        rueda.barrier("by name")
        self.assertIsNone(rueda.barrier_async().result())


class Objects(unittest.TestCase):
    def test_broadcast_object(self):
        for root in ranks():
            theirs = {"rank": root, "list": list(range(root))}
            mine = {"rank": rueda.rank(), "list": list(range(rueda.rank()))}
            self.assertEqual(rueda.broadcast_object(mine, root), theirs)
            self.assertEqual(rueda.broadcast_object(mine, root, "object"), theirs)

    def test_allgather_object(self):
        right = [("x" * r, None) for r in ranks()]
        self.assertEqual(rueda.allgather_object(("x" * rueda.rank(), None)), right)
        self.assertEqual(rueda.allgather_object(("x" * rueda.rank(), None), "objects"), right)

    def test_broadcast_parameters(self):
        me = rueda.rank()
        layers = [{"weight": values(me, (3, 3), "float32"), "bias": values(me, (3,), "float64")} for _ in range(2)]
        pairs = (("scale", np.full(1, me)), ("shift", np.full(2, me)))
        root = rueda.size() - 1
        rueda.broadcast_parameters(layers, root)
        rueda.broadcast_parameters(iter(pairs), root)
        for layer in layers:
            np.testing.assert_array_equal(layer["weight"], values(root, (3, 3), "float32"))
            np.testing.assert_array_equal(layer["bias"], values(root, (3,), "float64"))
        self.assertEqual([tensor.tolist() for _, tensor in pairs], [[root], [root, root]])


class ResidentMemory(unittest.TestCase):
    def test_arrays(self):
        for dtype in DTYPES:
            tensor = rueda.empty((300, 7), dtype)
            self.assertEqual((tensor.shape, tensor.dtype.name), ((300, 7), dtype))
            self.assertTrue(tensor.flags.c_contiguous and tensor.flags.writeable and not tensor.any())
            self.assertEqual(tensor.ctypes.data % 64, 0)
            tensor[:] = values(rueda.rank(), (300, 7), dtype)
            rueda.allreduce_(tensor, f"resident.{dtype}", rueda.Max)
            np.testing.assert_array_equal(tensor, np.max([values(r, (300, 7), dtype) for r in ranks()], axis=0))

    def test_a_part_keeps_the_whole_alive(self):
        part = rueda.empty(1 << 16, "int64")[100:200]
        part[:] = 5
        other = rueda.empty(1 << 16, "int64")
        other[:] = 7
        np.testing.assert_array_equal(part, np.full(100, 5))

    def test_odd_shapes(self):
        self.assertEqual(rueda.empty(3).shape, (3,))
        self.assertEqual(rueda.empty((0, 3)).shape, (0, 3))
        self.assertEqual(rueda.empty((), "float64").shape, ())
        with self.assertRaisesRegex(ValueError, "negative"):
            rueda.empty((-1, 3))
        with self.assertRaisesRegex(ValueError, "objects"):
            rueda.empty(3, object)


if __name__ == "__main__":
    unittest.main()
