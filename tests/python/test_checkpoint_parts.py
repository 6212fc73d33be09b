# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests of checkpoints to which each rank contributes its rows."""

import math
import os
import pathlib
import re
import shutil
import tempfile
import threading
import time
import unittest
from unittest import mock

import numpy as np
import rueda
from rueda import _lifecycle, training
from rueda.training import TensorPart, _checkpoints

ROWS = 10
#: The whole tensors, which no rank writes alone.
WHOLE = {
    "table": np.arange(ROWS * 3, dtype=np.float32).reshape(ROWS, 3),
    "bias": np.arange(3.0),
    "count": np.array(7),
    "empty": np.zeros((0, 2), np.int64),
}


def setUpModule():
    rueda.init()


def plus(step):
    """Returns the whole tensors, with `step` added to every element."""
    return {name: np.asarray(array + step) for name, array in WHOLE.items()}


class LikeDTensor(np.ndarray):
    """Has the method by which a DTensor of PyTorch is recognised."""

    def to_local(self):
        return self


def cleared():
    return {name: np.full_like(array, -1) for name, array in WHOLE.items()}


class Parts(unittest.TestCase):
    def setUp(self):
        name = tempfile.mkdtemp(prefix="rueda-parts-") if rueda.rank() == 0 else None
        self.folder = pathlib.Path(rueda.broadcast_object(name)) / "run"
        self.lines = []

    def tearDown(self):
        rueda.barrier()
        if rueda.rank() == 0:
            shutil.rmtree(self.folder.parent)

    def manager(self, **options):
        return training.CheckpointManager(self.folder, warn=self.lines.append, **options)

    def save(self, manager, step, **options):
        """Saves the whole tensors, with `step` added to every element."""
        parts = training.split_rows(plus(step))
        started = manager.save_parts(step, parts, {"moment": np.full(2, step)}, **options)
        manager.wait()
        rueda.barrier()
        return started

    def assert_whole(self, arrays, step):
        for name, array in WHOLE.items():
            np.testing.assert_array_equal(arrays[name], array + step, name)

    def restored(self, manager, **options):
        """Restores the tensors twice: as whole tensors and in parts. Returns the step."""
        arrays, rows = cleared(), cleared()
        info = manager.restore(arrays, **options)
        in_parts = manager.restore_parts(training.split_rows(rows), **options)
        if info is None:
            self.assertIsNone(in_parts)
            return None
        self.assertEqual((info.step, info.path), (in_parts.step, in_parts.path))
        self.assert_whole(arrays, info.step)
        for name, part in training.split_rows(rows).items():
            expected = np.atleast_1d(WHOLE[name] + info.step)[part.rows.start : part.rows.stop]
            np.testing.assert_array_equal(np.atleast_1d(part.tensor), expected)
        for found in (info, in_parts):
            self.assertEqual(found.state["moment"].tolist(), [info.step] * 2)
        return info.step

    def change(self, body):
        if rueda.rank() == 0:
            body()
        rueda.barrier()


class Saving(Parts):
    def test_the_files_have_each_row_once(self):
        manager = self.manager()
        self.assertTrue(self.save(manager, 5, values={"epoch": "2"}, metric=0.5))
        self.assertIsNone(manager.last_failure())
        self.assertEqual(self.restored(manager), 5)
        (info,) = manager.checkpoints()
        self.assertEqual((info.size, info.metric, info.values), (rueda.size(), 0.5, {"epoch": "2"}))
        names = {f"part-{rank}-of-{rueda.size()}.safetensors" for rank in range(rueda.size())}
        folder = pathlib.Path(info.path)
        self.assertEqual({path.name for path in folder.iterdir()}, {*names, "state.safetensors"})
        sizes = [(folder / name).stat().st_size for name in names]
        self.assertLess(sum(sizes), sum(array.nbytes for array in WHOLE.values()) + 1000 * len(sizes))
        self.assertEqual(self.lines, [])

    def test_split_rows_gives_each_row_to_one_rank(self):
        for size in (1, 2, 3, 12):
            found = {name: [] for name in WHOLE}
            for rank in range(size):
                for name, part in training.split_rows(WHOLE, rank, size).items():
                    self.assertIsInstance(part, TensorPart)
                    self.assertEqual(part.whole_rows, len(WHOLE[name]) if WHOLE[name].shape else 1)
                    self.assertTrue(np.shares_memory(part.tensor, WHOLE[name]) or part.tensor.size == 0)
                    found[name].extend(part.rows)
            self.assertEqual(found, {"table": list(range(10)), "bias": [0, 1, 2], "count": [0], "empty": []})

    def test_rows_of_any_size_and_ranks_without_rows(self):
        manager = self.manager()
        if rueda.rank() == 0:
            rows = range(1 if rueda.size() > 1 else ROWS)
        else:
            rows = range(1, ROWS) if rueda.rank() == rueda.size() - 1 else range(3, 3)
        parts = {"table": TensorPart(WHOLE["table"][rows.start : rows.stop], rows, ROWS)}
        self.assertTrue(manager.save_parts(1, parts))
        self.assertIsNone(manager.last_failure())
        rueda.barrier()
        middle = np.zeros((4, 3), np.float32)
        self.assertEqual(manager.restore_parts({"table": TensorPart(middle, range(3, 7), ROWS)}).step, 1)
        np.testing.assert_array_equal(middle, WHOLE["table"][3:7])
        self.assertEqual(manager.restore_parts({}).step, 1)

    def test_the_copy_is_written_while_training_goes_on(self):
        manager = self.manager()
        may_write = threading.Event()
        write = _checkpoints._native.checkpoint_write_part

        def slow(*arguments):
            may_write.wait(60)
            return write(*arguments)

        with mock.patch.object(_checkpoints._native, "checkpoint_write_part", slow):
            arrays = plus(1)
            self.assertTrue(manager.save_parts(1, training.split_rows(arrays), {"moment": np.full(2, 1)}))
            arrays["table"][:] = 99
            self.assertFalse(manager.save_parts(2, training.split_rows(arrays)))  # skipped on all ranks
            rueda.barrier()  # all ranks reach this line although nothing is written yet
            may_write.set()
            manager.wait()
        rueda.barrier()
        self.assertEqual(self.restored(manager), 1)
        self.assertEqual(len(self.lines), 1 if rueda.rank() == 0 else 0)
        for line in self.lines:
            self.assertRegex(line, r"^The checkpoint of step 2 is skipped, because the one before it .*wait$")

    def test_old_checkpoints_go_and_the_best_one_stays(self):
        manager = self.manager(max_to_keep=1, when_busy="wait")
        for step, metric in ((1, 0.1), (2, 0.9), (3, 0.2)):
            self.save(manager, step, metric=metric)
        self.assertEqual([info.step for info in manager.checkpoints()], [3, 1])
        self.assertEqual(self.restored(manager, which="best"), 1)

    def test_when_a_checkpoint_is_due(self):
        manager = self.manager(every_steps=2)
        self.assertEqual([manager.save_parts_when_due(step, {}) for step in (1, 2)], [False, True])
        manager.wait()
        rueda.barrier()
        with mock.patch.object(_checkpoints.time, "monotonic", return_value=100.0) as clock:
            manager = self.manager(every_seconds=60)
            clock.return_value = 160.0 if rueda.rank() == 0 else 100.0  # rank 0's clock decides
            self.assertTrue(manager.save_parts_when_due(3, {}))
            clock.return_value = 160.0 if rueda.rank() == 0 else 1000.0
            self.assertFalse(manager.save_parts_when_due(4, {}))
            manager.wait()

    def test_whole_checkpoints_are_restored_in_parts(self):
        manager = self.manager()
        manager.save(4, plus(4), {"moment": np.full(2, 4)})
        manager.wait()
        self.assertEqual(self.restored(manager), 4)

    def test_nothing_to_restore(self):
        self.assertIsNone(self.restored(self.manager()))


class OtherNumbersOfRanks(unittest.TestCase):
    """Each test runs jobs of different numbers of ranks, which consist of some of the launched processes."""

    def as_job(self, ranks, body):
        rueda.shutdown()
        if self.rank < ranks:
            rueda.init(range(ranks))
            body()
            rueda.shutdown()
        rueda.init()

    def test_any_number_of_ranks_restores(self):
        self.rank, size = rueda.rank(), rueda.size()
        folder = pathlib.Path(
            rueda.broadcast_object(tempfile.mkdtemp(prefix="rueda-parts-") if self.rank == 0 else None)
        )
        try:
            for writers in {1, 2} if size < 4 else {2, 3}:
                self.as_job(min(writers, size), lambda: self.write(folder))
                for readers in {1, 2, size}:
                    self.as_job(min(readers, size), lambda: self.read(folder))
        finally:
            rueda.barrier()
            if self.rank == 0:
                shutil.rmtree(folder)

    def write(self, folder):
        manager = training.CheckpointManager(folder)
        parts = training.split_rows(plus(rueda.size()))
        self.assertTrue(manager.save_parts(rueda.size(), parts, {"moment": np.full(2, rueda.size())}))
        self.assertIsNone(manager.last_failure())

    def read(self, folder):
        manager, whole, rows = training.CheckpointManager(folder), cleared(), cleared()
        moment = np.zeros(2, np.int64)
        info = manager.restore(whole)
        self.assertEqual(manager.restore_parts(training.split_rows(rows), {"moment": moment}).size, info.size)
        self.assertEqual((info.step, moment.tolist()), (info.size, [info.size] * 2))
        for name, array in WHOLE.items():
            np.testing.assert_array_equal(whole[name], array + info.size)
            expected = np.full_like(np.atleast_1d(array), -1)  # the rows of other ranks are not read
            own = training.shard(len(expected))
            expected[own.start : own.stop] = np.atleast_1d(array + info.size)[own.start : own.stop]
            np.testing.assert_array_equal(np.atleast_1d(rows[name]), expected)


class AnotherJob(Parts):
    def test_a_save_goes_on_when_the_ranks_join_another_job(self):
        if rueda.size() == 1:
            return
        manager = self.manager()
        may_write, asked = threading.Event(), threading.Event()
        write, has_failed = _checkpoints._native.checkpoint_write_part, _lifecycle.has_failed

        def slow(*arguments):
            may_write.wait(60)
            return write(*arguments)

        def ask(job):
            answer = has_failed(job)
            if _lifecycle.job_number() != job:
                asked.set()
            return answer

        with (
            mock.patch.object(_checkpoints._native, "checkpoint_write_part", slow if rueda.rank() > 0 else write),
            mock.patch.object(_lifecycle, "has_failed", ask),
        ):
            self.assertTrue(manager.save_parts(1, training.split_rows(plus(1)), {"moment": np.full(2, 1)}))
            rueda.shutdown()
            rueda.init()
            if rueda.rank() == 0:
                self.assertTrue(asked.wait(60))
            rueda.barrier()
            may_write.set()
            self.assertIsNone(manager.last_failure())
        rueda.barrier()
        self.assertEqual(self.restored(self.manager()), 1)
        self.assertEqual(self.lines, [])

    def test_a_manager_belongs_to_one_job(self):
        manager = self.manager()
        self.save(manager, 1)
        rueda.shutdown()
        rueda.init()
        for attempt in (
            manager.claim,
            lambda: manager.save(2, {}),
            lambda: manager.save_parts(2, {}),
            lambda: manager.restore({}),
            lambda: manager.restore_parts({}),
        ):
            with self.assertRaisesRegex(rueda.InvalidArgument, "make a new CheckpointManager after each rueda.init"):
                attempt()
        self.assertEqual(self.restored(self.manager()), 1)


class Mistakes(Parts):
    def test_an_error_on_one_rank_is_an_error_on_all(self):
        manager = self.manager()
        last = rueda.size() - 1
        table = WHOLE["table"]
        for part, error, text in (
            (
                TensorPart(table, range(ROWS - 1), ROWS),
                rueda.InvalidArgument,
                "'table' has 10 rows on this rank, and they are",
            ),
            (
                TensorPart(table, range(1, ROWS + 1), ROWS),
                rueda.InvalidArgument,
                r"range\(1, 11\) of 10; the range must",
            ),
            (TensorPart(table, range(-1, ROWS - 1), ROWS), rueda.InvalidArgument, r"range\(-1, 9\)"),
            (TensorPart(table[:5], range(0, ROWS, 2), ROWS), rueda.InvalidArgument, r"range\(0, 10, 2\)"),
            (TensorPart(table, (0, ROWS), ROWS), TypeError, r"\(0, 10\) of 10; expected a range"),
            (TensorPart([1.0], range(1), 1), TypeError, "'table' in the model is of the type list"),
            (TensorPart(table.astype(np.complex64), range(ROWS), ROWS), TypeError, "dtype complex64"),
            (table, TypeError, "the part 'table' is of the type ndarray; expected a TensorPart"),
        ):
            parts = {"table": part} if rueda.rank() == last else training.split_rows(WHOLE)
            with self.assertRaisesRegex(error, text):
                manager.save_parts(1, parts)
            with self.assertRaisesRegex(error, text):
                manager.restore_parts(parts)
        for options, text in (
            ({"step": -1}, "step is -1"),
            ({"metric": math.inf}, "the metric is inf"),
            ({"values": {"rueda.x": ""}}, "'rueda.x'"),
        ):
            with self.assertRaisesRegex(rueda.InvalidArgument, text):
                manager.save_parts(**{"step": 1, "parts": {}, **(options if rueda.rank() == last else {})})
        with self.assertRaisesRegex(
            TypeError, "'table' is a DTensor, and this rank has only a part of it; pass a Tens"
        ):
            manager.save_parts(1, {"table": TensorPart(table.view(LikeDTensor), range(ROWS), ROWS)})
        for attempt in (training.split_rows, manager.restore, lambda state: manager.save_parts(1, {}, state)):
            with self.assertRaisesRegex(TypeError, "'table' is a DTensor"):
                attempt({"table": table.view(LikeDTensor)})
        with self.assertRaisesRegex(TypeError, "'a.b' is of the type object"):
            manager.save_parts(1, {}, {"a": {"b": object()}})
        with self.assertRaisesRegex(rueda.InvalidArgument, "part_timeout is -1"):
            self.manager(part_timeout=-1)
        self.assertEqual((manager.checkpoints(), self.lines), ([], []))

    def refused(self, parts, text):
        """Saves parts that do not fit together. Rank 0's thread notices this, and the training continues."""
        manager = self.manager()
        self.save(manager, 1)
        self.assertTrue(manager.save_parts(2, parts))
        manager.wait()
        rueda.barrier()
        if rueda.rank() == 0:
            self.assertEqual(len(self.lines), 1)
            self.assertRegex(self.lines[0], f"^The checkpoint of step 2 was not saved: .*{text}.* of step 1$")
            self.assertIsInstance(manager.last_failure(), rueda.InvalidArgument)
        self.assertEqual(self.restored(manager), 1)
        self.save(manager, 3)
        self.assertEqual(self.restored(manager), 3)
        self.assertEqual(len(list(self.folder.glob("save-*"))), 2)  # nothing is left of step 2

    def test_rows_that_no_rank_has(self):
        rows = training.shard(ROWS - 1)
        part = TensorPart(WHOLE["table"][rows.start : rows.stop], rows, ROWS)
        self.refused({"table": part}, "tensor 'table' has 10 rows, but no part has row 9: give every row to a rank")

    def test_different_shapes_or_numbers_of_rows(self):
        if rueda.size() > 1:
            columns = 3 if rueda.rank() == 0 else 4
            rows = training.shard(ROWS)
            part = TensorPart(np.zeros((len(rows), columns)), rows, ROWS)
            self.refused(
                {"table": part}, r"part-1-of-.*'table' has the rows .* \[\d, 4\], which does not fit the other parts"
            )

    def test_overlapping_rows(self):
        manager = self.manager()
        arrays = plus(1)
        parts = {
            name: TensorPart(array, range(len(array)), len(array)) for name, array in arrays.items() if array.shape
        }
        manager.save_parts(1, {**parts, "count": TensorPart(arrays["count"], range(1), 1)}, {"moment": np.full(2, 1)})
        self.assertIsNone(manager.last_failure())
        rueda.barrier()
        self.assertEqual(self.restored(manager), 1)

    def test_another_model(self):
        manager = self.manager()
        self.save(manager, 1)
        last = rueda.size() - 1
        for part, text in (
            ({"bias": TensorPart(np.zeros(3), range(3), 4)}, r"'bias' is float64 \[3\] in it and float64 \[4\]"),
            ({"other": TensorPart(np.zeros(3), range(3), 3)}, r"'other' \(float64 \[3\]\) is not in it"),
        ):
            with self.assertRaisesRegex(rueda.InvalidArgument, text):
                manager.restore_parts(part if rueda.rank() == last else {})
        with self.assertRaisesRegex(rueda.InvalidArgument, "the state 'other' is not in it; it has 'moment'"):
            manager.restore_parts({}, {"other": np.zeros(1)})
        with self.assertRaisesRegex(rueda.InvalidArgument, "which is 'last'"):
            manager.restore_parts({}, which="last")


class NativeFunctions(unittest.TestCase):
    """The C interface checks the arguments itself, because programs in other languages use it, too."""

    def test_mistakes_are_refused(self):
        native, two = _checkpoints._native, np.zeros(2)
        path, biggest = b"/nowhere/save-000001-step-1", (1 << 63) - 1
        snapshot = (b"/nowhere", 1, [("w", two)], [], "{}", None, 0, 1, 1)
        for function, arguments, text in (
            (native.checkpoint_begin, (b"", 1), "the folder is empty"),
            (native.checkpoint_begin, (b"/nowhere", -1), "step is -1"),
            (
                native.checkpoint_write_part,
                (path, 1, [("w", two, 9, 10)], 0, 1),
                "'w' has 2 rows .* begin at row 9 of 10",
            ),
            (native.checkpoint_write_part, (path, 1, [("w", two, -1, 10)], 0, 1), "begin at row -1 of 10"),
            (native.checkpoint_write_part, (path, 1, [("w", two, biggest, biggest)], 0, 1), "they must lie inside"),
            (native.checkpoint_write_part, (path, 1, [("w", two, 0, -1)], 0, 1), "begin at row 0 of -1"),
            (native.checkpoint_write_part, (path, 1, [], 2, 2), "rank is 2 of 2"),
            (native.checkpoint_write_part, (path, -1, [], 0, 1), "step is -1"),
            (native.checkpoint_write_part, (b"/nowhere/else", 1, [], 0, 1), "is not the path of a checkpoint"),
            (native.checkpoint_missing_part, (path, -1, 2), "rank is -1 of 2"),
            (native.checkpoint_give_up_part, (b"/nowhere/else", 0, 1), "is not the path of a checkpoint"),
            (native.checkpoint_complete, ("save-000001-step-1", snapshot), "the model has 1 tensors"),
            (native.checkpoint_complete, ("../x", (*snapshot[:2], [], *snapshot[3:])), "the name is '../x'"),
        ):
            with self.assertRaisesRegex(rueda.InvalidArgument, text):
                function(*arguments)


class Damage(Parts):
    def test_damaged_parts(self):
        def flip_a_bit(path):
            data = bytearray(path.read_bytes())
            data[-1] ^= 1
            path.write_bytes(data)

        def shorten(path):
            path.write_bytes(path.read_bytes()[:-1])

        part = f"part-{rueda.size() - 1}-of-{rueda.size()}.safetensors"
        for damage in (flip_a_bit, shorten, pathlib.Path.unlink):
            manager = self.manager()
            self.save(manager, 1)
            self.save(manager, 2)
            path = pathlib.Path(manager.checkpoints()[0].path, part)
            rueda.barrier()
            self.change(lambda damage=damage, path=path: damage(path))
            self.lines.clear()
            self.assertEqual(self.restored(manager), 1)
            self.assertEqual(len(self.lines), 2 if rueda.rank() == 0 else 0)
            for line in self.lines:
                self.assertRegex(line, rf"{part}.*is left out, and the one before it is used$")
            self.change(lambda path=path: shutil.rmtree(path.parent))

    def test_if_all_are_damaged_all_ranks_say_so(self):
        manager = self.manager()
        self.save(manager, 1)
        self.change((self.folder / "save-000001-step-1" / f"part-0-of-{rueda.size()}.safetensors").unlink)
        for attempt in (manager.restore, manager.restore_parts):
            with self.assertRaisesRegex(rueda.InvalidArgument, "no checkpoint in .* can be read; remove the folder"):
                attempt({})

    def test_a_rank_that_cannot_write_its_part(self):
        for error in (rueda.InvalidArgument("write failed: No space left on device"), ZeroDivisionError("surprise")):
            fault = mock.patch.object(
                _checkpoints._native, "checkpoint_write_part", side_effect=self.fail_after_the_others(error)
            )
            self.fail_on_the_last_rank(fault, str(error))

    def test_a_rank_without_memory_or_threads(self):
        fail = self.fail_after_the_others(MemoryError())
        copies = mock.patch.object(_checkpoints._trees.Copies, "copy", side_effect=fail)
        self.fail_on_the_last_rank(copies, "the memory for a copy of the tensors is used up")
        fail = self.fail_after_the_others(RuntimeError("can't start new thread"))
        thread = mock.patch.object(threading.Thread, "start", side_effect=fail)
        self.fail_on_the_last_rank(thread, "starting a thread failed")

    def fail_after_the_others(self, error):
        """Returns a function that waits until the other ranks have written their parts, and then fails. If the function
        failed earlier, the other ranks would print warnings, too."""

        def fail(*_):
            while len(list(self.folder.glob("save-*/part-?-of-?.safetensors"))) < rueda.size() - 1:
                time.sleep(0.005)
            raise error

        return fail

    def fail_on_the_last_rank(self, fault, text):
        last = rueda.size() - 1
        manager = self.manager()
        self.lines.clear()
        if rueda.rank() == last:
            with fault:
                self.assertTrue(manager.save_parts(9, training.split_rows(WHOLE)))
                manager.wait()
        else:
            self.assertTrue(manager.save_parts(9, training.split_rows(WHOLE)))
            manager.wait()
        rueda.barrier()
        if rueda.rank() == last:
            self.assertRegex(self.lines[0], f"^The checkpoint of step 9 was not saved: .*{re.escape(text)}")
        elif rueda.rank() == 0:
            self.assertIn(f"rank {last} could not write its part; the output of rank {last} gives", self.lines[0])
        self.assertEqual(len(self.lines), 1 if rueda.rank() in (0, last) else 0)
        self.assertEqual(list(self.folder.glob("save-*")), [])
        rueda.barrier()

    def test_if_rank_0_gives_up_the_other_ranks_say_so(self):
        if rueda.size() == 1:
            return
        write = _checkpoints._native.checkpoint_write_part

        def late(path, *arguments):
            while os.path.exists(path):  # until rank 0 has given up
                time.sleep(0.005)
            return write(path, *arguments)

        fault = rueda.ResourceExhausted("write failed: No space left on device") if rueda.rank() == 0 else late
        manager = self.manager()
        with mock.patch.object(_checkpoints._native, "checkpoint_write_part", side_effect=fault):
            self.assertTrue(manager.save_parts(9, training.split_rows(WHOLE)))
            manager.wait()
        text = (
            "No space left on device"
            if rueda.rank() == 0
            else "/save-000001-step-9 is missing. Either rank 0 has given"
        )
        self.assertEqual(len(self.lines), 1)
        self.assertRegex(self.lines[0], f"^The checkpoint of step 9 was not saved: .*{text}.*Training continues; there")

    def test_a_part_that_does_not_come(self):
        if rueda.size() == 1:
            return
        manager = self.manager(part_timeout=0.05)
        last = rueda.size() - 1
        if rueda.rank() == last:
            with mock.patch.object(_checkpoints._native, "checkpoint_write_part"):
                manager.save_parts(1, {})
                manager.wait()
        else:
            manager.save_parts(1, {})
            manager.wait()
        rueda.barrier()
        if rueda.rank() == 0:
            self.assertIsInstance(manager.last_failure(), rueda.Timeout)
            self.assertRegex(
                self.lines[0], f"rank {last} of {last + 1} did not write its part within 0.05 s; check that"
            )

    def test_a_folder_that_cannot_be_made(self):
        manager = self.manager()
        self.change(lambda: (self.folder.rmdir(), self.folder.write_text("a file")))
        with mock.patch.object(manager, "_claim_here"):
            self.assertFalse(manager.save_parts(1, {}))
        self.assertEqual(len(self.lines), 1 if rueda.rank() == 0 else 0)


if __name__ == "__main__":
    unittest.main()
