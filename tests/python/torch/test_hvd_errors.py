# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests the errors of Horovod's interface: which exception is raised, when, and on which ranks. The job must be usable
after an error."""

import os
import unittest

import rueda
import rueda.torch as hvd
import torch
from rueda.torch import mpi_ops


def setUpModule():
    # Before init(), an operation raises HorovodInternalError, which callers of Horovod catch. A query such as rank()
    # raises a plain ValueError.
    for call in (hvd.rank, hvd.size, hvd.local_rank, hvd.cross_size, hvd.mpi_threads_supported):
        try:
            call()
        except hvd.HorovodInternalError:
            raise AssertionError(f"{call.__name__} raised HorovodInternalError") from None
        except ValueError:
            continue
        raise AssertionError(f"{call.__name__} works before init()")
    for call in OPERATIONS.values():
        try:
            call(torch.ones(2))
        except hvd.HorovodInternalError as error:
            assert isinstance(error, ValueError)
            continue
        raise AssertionError("an operation works before init()")
    hvd.init()


OPERATIONS = {
    "allreduce": hvd.allreduce,
    "allreduce_": hvd.allreduce_,
    "grouped_allreduce": lambda tensor: hvd.grouped_allreduce([tensor]),
    "allgather": hvd.allgather,
    "grouped_allgather": lambda tensor: hvd.grouped_allgather([tensor]),
    "broadcast": lambda tensor: hvd.broadcast(tensor, 0),
    "broadcast_": lambda tensor: hvd.broadcast_(tensor, 0),
    "alltoall": hvd.alltoall,
    "reducescatter": hvd.reducescatter,
    "grouped_reducescatter": lambda tensor: hvd.grouped_reducescatter([tensor]),
}


def tearDownModule():
    hvd.shutdown()
    for call in OPERATIONS.values():
        try:
            call(torch.ones(2))
        except hvd.HorovodInternalError:
            continue
        raise AssertionError("an operation works after shutdown()")


class Refused(unittest.TestCase):
    """If a rank can find by itself that a call is wrong, the call must raise its error at once, without waiting for
    other ranks."""

    def tearDown(self):
        self.assertEqual(hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), hvd.size())

    def test_dtype(self):
        for call in OPERATIONS.values():
            with self.assertRaisesRegex(ValueError, "Tensor type torch.ComplexFloatTensor is not supported"):
                call(torch.ones(4, dtype=torch.complex64))

    def test_not_contiguous(self):
        for name, call in OPERATIONS.items():
            with self.subTest(name), self.assertRaisesRegex(ValueError, "Tensor is required to be contiguous"):
                call(torch.ones(4, 4).t()[:, :2])

    def test_negated_views(self):
        for negated in (torch._neg_view(torch.ones(4)), torch.ones(4, dtype=torch.complex64).conj().imag):
            if not negated.is_neg():
                # This version of PyTorch makes a copy, which is allowed. Only a negated view is an error.
                continue
            with self.assertRaisesRegex(ValueError, r"resolve_neg\(\)"):
                hvd.allreduce(negated)
            self.assertEqual(hvd.allreduce(negated.resolve_neg()).tolist(), negated.tolist())

    def test_sparse_and_meta(self):
        sparse = torch.sparse_coo_tensor(torch.tensor([[0]]), torch.ones(1), (4,))
        with self.assertRaisesRegex(ValueError, "layout"):
            hvd.allreduce_(sparse)
        with self.assertRaisesRegex(ValueError, "device 'meta'"):
            hvd.allreduce_(torch.empty(4, device="meta"))

    def test_a_name_that_is_pending(self):
        if hvd.rank() == 0:
            handle = hvd.allreduce_async(torch.ones(2), name="twice")
            with self.assertRaisesRegex(ValueError, "allreduce.twice"):
                hvd.allreduce_async(torch.ones(2), name="twice")
            hvd.barrier()
        else:
            hvd.barrier()
            handle = hvd.allreduce_async(torch.ones(2), name="twice")
        hvd.synchronize(handle)

    def test_splits(self):
        rows = torch.ones(2 * hvd.size())
        for splits in (
            torch.tensor([2.0] * hvd.size()),
            torch.tensor([2] * hvd.size()),  # int64 is the wrong type
            torch.ones((hvd.size(), 1), dtype=torch.int32),
            [2] * (hvd.size() + 1),
            [3] * hvd.size(),
            [-1, *[2] * (hvd.size() - 1)],
        ):
            with self.subTest(splits=splits), self.assertRaises(ValueError):
                hvd.alltoall(rows, splits)
        with self.assertRaises(ValueError):
            hvd.alltoall(torch.ones(2 * hvd.size() + 1))

    def test_root(self):
        for root in (-1, hvd.size()):
            with self.assertRaises(ValueError):
                hvd.broadcast(torch.ones(1), root)

    def test_no_dimensions(self):
        for call in (hvd.allgather, hvd.alltoall, hvd.reducescatter, OPERATIONS["grouped_allgather"]):
            with self.assertRaisesRegex(hvd.HorovodInternalError, "the input is a scalar"):
                call(torch.tensor(1.0))
            with self.assertRaisesRegex(hvd.HorovodInternalError, "the input is a scalar"):
                call(torch.tensor(1.0, requires_grad=True))

    def test_sets(self):
        unknown = hvd.ProcessSet([0])
        self.assertIsNone(unknown.size())
        self.assertIsNone(unknown.rank())
        self.assertIsNone(unknown.included())
        for call in (hvd.allreduce, hvd.allgather, hvd.reducescatter, hvd.alltoall):
            with self.assertRaisesRegex(ValueError, "not known to the job"):
                call(torch.ones(hvd.size()), process_set=unknown)
        with self.assertRaises(ValueError):
            hvd.ProcessSet(["a"])
        self.assertFalse(hvd.remove_process_set(unknown))
        self.assertFalse(hvd.remove_process_set(hvd.global_process_set))

    def test_parameters(self):
        for params in (5, torch.ones(2), "text", {"a": 1}, [1, 2]):
            with self.assertRaises(ValueError):
                hvd.broadcast_parameters(params, 0)


@unittest.skipIf(int(os.environ.get("RUEDA_SIZE", "2")) < 2, "takes several ranks")
class Disagreements(unittest.TestCase):
    """All ranks must raise the same error at the end of the operation."""

    def setUp(self):
        self.first = hvd.rank() == 0

    def tearDown(self):
        self.assertEqual(hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), hvd.size())

    def fails(self, call, *texts):
        with self.assertRaises(hvd.HorovodInternalError) as raised:
            call()
        self.assertIsInstance(raised.exception, RuntimeError)
        for text in texts:
            self.assertIn(text, str(raised.exception))

    def test_shape(self):
        self.fails(lambda: hvd.allreduce(torch.ones(3 + hvd.rank()), name="layer1.weight"), "layer1.weight")
        self.fails(lambda: hvd.allgather(torch.ones(2, 3 + hvd.rank()), name="rows"), "rows")
        self.fails(
            lambda: hvd.grouped_allreduce([torch.ones(1), torch.ones(3 + hvd.rank())], name="group"), "group_2of2"
        )

    def test_asynchronous(self):
        handle = hvd.allreduce_async_(torch.ones(3 + hvd.rank()), name="later")
        self.fails(lambda: hvd.synchronize(handle), "later")
        self.assertIsNone(hvd.synchronize(handle))

    def test_names_of_parameters(self):
        with self.assertRaises(rueda.Mismatch) as raised:
            hvd.broadcast_parameters({"a": torch.ones(1), f"rank {hvd.rank()}": torch.ones(1)}, 0)
        self.assertIn("rank 1", str(raised.exception))

    def test_parameters_that_one_rank_cannot_use(self):
        if self.first:
            with self.assertRaisesRegex(ValueError, "invalid params"):
                hvd.broadcast_parameters(5, 0)
        else:
            self.fails(lambda: hvd.broadcast_parameters({"a": torch.ones(1)}, 0), "rank 0 cannot take part")
        self.fails(lambda: hvd.broadcast_parameters({"a": torch.ones(1)}, hvd.rank() % 2), "root is rank 1 on rank 1")

        def broken():
            yield "a", torch.ones(1)
            if self.first:
                raise KeyError("in the middle")

        with self.assertRaisesRegex(KeyError if self.first else hvd.HorovodInternalError, "in the middle"):
            hvd.broadcast_parameters(broken(), 0)

    def test_objects_that_cannot_be_pickled(self):
        class Unpicklable:
            def __reduce__(self):
                raise KeyError("cannot")

        for call in (lambda obj: hvd.broadcast_object(obj, 0, name="object"), hvd.allgather_object):
            if self.first:
                with self.assertRaisesRegex(KeyError, "cannot"):
                    call(Unpicklable())
            else:
                self.fails(lambda call=call: call(1), "rank 0 could not pickle")


class Interface(unittest.TestCase):
    def test_op_constants(self):
        self.assertEqual((hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product), tuple(range(6)))

    def test_modules(self):
        self.assertTrue(mpi_ops.is_homogeneous())
        self.assertIsInstance(mpi_ops._handle_map, dict)
        for name in ("Allreduce", "GroupedAllreduce", "Allgather", "GroupedAllgather", "Broadcast", "Alltoall",
                     "Reducescatter", "GroupedReducescatter"):  # fmt: skip
            self.assertTrue(issubclass(getattr(mpi_ops, f"Horovod{name}"), torch.autograd.Function))

    def test_what_there_is(self):
        self.assertIs(hvd.gloo_built(), False)
        self.assertEqual(hvd.nccl_built() >= 21800, hvd.cuda_built())
        if any(name in os.environ for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE")):
            self.assertTrue(hvd.mpi_enabled() and hvd.mpi_built() and hvd.mpi_threads_supported())
        else:  # under ruedarun --no-mpi
            self.assertFalse(hvd.mpi_enabled())
            with self.assertRaises(ValueError):
                hvd.mpi_threads_supported()


class Children(unittest.TestCase):
    def test_a_forked_child_is_told(self):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                hvd.allreduce(torch.ones(1))
            except hvd.HorovodInternalError as error:
                status = 0 if "forked" in str(error) else 2
            finally:
                os._exit(status)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)


if __name__ == "__main__":
    unittest.main()
