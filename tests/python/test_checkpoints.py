# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests of CheckpointManager and BackupAndRestore with NumPy arrays, with one rank and with several."""

import math
import pathlib
import random
import resource
import shutil
import tempfile
import threading
import unittest
from unittest import mock

import numpy as np
import rueda
from rueda import training
from rueda.training import _checkpoints


def setUpModule():
    rueda.init()


class Checkpoints(unittest.TestCase):
    def setUp(self):
        name = tempfile.mkdtemp(prefix="rueda-checkpoints-") if rueda.rank() == 0 else None
        self.folder = pathlib.Path(rueda.broadcast_object(name)) / "run"
        self.lines = []
        self.lock = threading.Lock()

    def tearDown(self):
        rueda.barrier()
        if rueda.rank() == 0:
            shutil.rmtree(self.folder.parent)

    def manager(self, **options):
        return training.CheckpointManager(self.folder, warn=self.lines.append, **options)

    def on_rank_0(self, body):
        """Runs body on rank 0 while the other ranks wait."""
        if rueda.rank() == 0:
            body()
        rueda.barrier()

    def save(self, manager, step, **options):
        manager.save(step, {"w": np.full(4, float(step))}, {"moment": np.full(2, step)}, **options)
        manager.wait()

    def steps(self, manager):
        return [info.step for info in manager.checkpoints()]

    def restored(self, manager, **options):
        model = {"w": np.full(4, -1.0)}
        info = manager.restore(model, **options)
        if info is not None:
            self.assertEqual(model["w"].tolist(), [float(info.step)] * 4)
            self.assertEqual(info.state["moment"].tolist(), [info.step] * 2)
        return info and info.step

    def flip_bit(self, name, place):
        def body():
            path = self.folder / name
            data = bytearray(path.read_bytes())
            data[place] ^= 1
            path.write_bytes(data)

        self.on_rank_0(body)


class Saving(Checkpoints):
    def test_every_rank_gets_what_rank_0_saved(self):
        manager = self.manager()
        model = {"w": np.arange(3.0) + 10 * rueda.rank(), "empty": np.zeros((0, 2)), "flag": np.array(True)}
        state = {
            "nested": {0: [1, 2.5, (None, "text")], "b": {"array": np.array([rueda.rank()])}},
            "special": [math.inf, math.nan, -0.0, 10**30],
        }
        started = manager.save(5, model, state, values={"epoch": "2"}, metric=0.5)
        self.assertEqual(started, rueda.rank() == 0)
        self.assertIsNone(manager.last_failure())
        model["w"][:] = -1
        model["flag"][...] = False
        target: dict = {}
        info = manager.restore(model, {"nested": target})
        self.assertEqual(model["w"].tolist(), [0, 1, 2])
        self.assertTrue(model["flag"])
        self.assertEqual((info.step, info.size, info.metric, info.values), (5, rueda.size(), 0.5, {"epoch": "2"}))
        self.assertEqual(info.path, str(self.folder / "save-000001-step-5"))
        self.assertEqual(target[0], [1, 2.5, (None, "text")])
        self.assertEqual(target["b"]["array"].tolist(), [0])
        self.assertEqual(repr(info.state["special"]), repr([math.inf, math.nan, -0.0, 10**30]))
        self.assertEqual(self.lines, [])

    def test_names_that_would_be_equal(self):
        manager = self.manager()
        manager.save(1, {}, {"a.b": np.array([1]), "a": {"b": np.array([2]), 0: np.array([3]), "0": np.array([4])}})
        self.assertIsNone(manager.last_failure())
        state = manager.restore({}).state
        self.assertEqual([state["a.b"], state["a"]["b"], state["a"][0], state["a"]["0"]], [1, 2, 3, 4])

    def test_nothing_to_restore(self):
        self.assertIsNone(self.restored(self.manager()))

    def test_nobody_waits_for_the_disk(self):
        manager = self.manager()
        may_write = threading.Event()
        write = _checkpoints._native.checkpoint_save

        def slow(*arguments):
            may_write.wait(60)
            return write(*arguments)

        with mock.patch.object(_checkpoints._native, "checkpoint_save", slow):
            model = {"w": np.full(4, 1.0)}
            manager.save(1, model, {"moment": np.full(2, 1)})
            model["w"][:] = 9  # the next step changes the model before the thread has written the copy
            self.assertFalse(manager.save(2, model))  # skipped
            rueda.barrier()  # all ranks reach this line although nothing is written yet
            may_write.set()
            manager.wait()
        self.assertEqual(self.restored(manager), 1)
        if rueda.rank() == 0:
            self.assertEqual(len(self.lines), 1)
            self.assertRegex(self.lines[0], r"^The checkpoint of step 2 is skipped, because the one before it .*wait$")

    def test_when_busy_wait_skips_nothing(self):
        manager = self.manager(when_busy="wait", max_to_keep=20)
        for step in range(1, 11):
            manager.save(step, {"w": np.full(4, float(step))}, {"moment": np.full(2, step)})
        manager.wait()
        rueda.barrier()
        self.assertEqual(self.steps(manager), list(range(10, 0, -1)))
        self.assertEqual(self.lines, [])

    def test_old_checkpoints_go_and_the_best_one_stays(self):
        manager = self.manager(max_to_keep=2, better="higher")
        for step, metric in ((1, 0.1), (2, 0.9), (3, 0.2), (4, 0.3), (5, 0.4)):
            self.save(manager, step, metric=metric)
        rueda.barrier()
        self.assertEqual(self.steps(manager), [5, 4, 2])
        self.assertEqual(self.restored(manager, which="best"), 2)
        self.assertEqual(self.restored(manager), 5)

    def test_the_best_needs_a_metric(self):
        manager = self.manager()
        self.save(manager, 1)
        with self.assertRaisesRegex(rueda.InvalidArgument, "none has a metric, so none is the best"):
            self.restored(manager, which="best")

    def test_every_n_steps(self):
        manager = self.manager(every_steps=3, when_busy="wait")
        started = [manager.save_when_due(step, {"w": np.zeros(1)}) for step in range(8)]
        self.assertEqual(started, [rueda.rank() == 0 and step in (3, 6) for step in range(8)])
        manager.wait()

    def test_every_n_steps_needs_an_integer(self):
        for value in (2.5, "3", None):
            with self.assertRaisesRegex(rueda.InvalidArgument, f"every_steps is {value!r}; it must be an integer"):
                self.manager(every_steps=value)
        manager = self.manager(every_steps=np.int32(3))
        self.assertEqual(manager.save_when_due(2, {"w": np.zeros(1)}), False)
        manager.wait()

    def test_every_second(self):
        with mock.patch.object(_checkpoints.time, "monotonic") as clock:
            clock.return_value = 100.0
            manager = self.manager(every_seconds=60)
            self.assertFalse(manager.is_due(1))
            clock.return_value = 160.0
            self.assertTrue(manager.is_due(1))
            self.save(manager, 1)
            self.assertEqual(manager.is_due(2), rueda.rank() != 0)  # rank 0 alone decides

    def test_mistakes_are_refused(self):
        for options, text in (
            ({"max_to_keep": 0}, "max_to_keep is 0; it must be at least 1"),
            ({"every_seconds": math.nan}, "every_seconds is nan"),
            ({"better": "best"}, "better is 'best'; it must be lower or higher"),
            ({"when_busy": "no"}, "when_busy is 'no'"),
        ):
            with self.assertRaisesRegex(rueda.InvalidArgument, text):
                self.manager(**options)
        manager = self.manager()
        for arguments, text in (
            ({"step": -1}, "step is -1"),
            ({"step": 1, "metric": math.nan}, "the metric is nan; it must be finite"),
            ({"step": 1, "values": {"rueda.x": ""}}, "'rueda.x'; keys that begin with"),
            ({"step": 1, "values": {"x": 1}}, "'x' is of the type int; expected a text"),
        ):
            with self.assertRaisesRegex(rueda.InvalidArgument, text):
                manager.save(model={}, **arguments)
        if rueda.rank() == 0:
            with self.assertRaisesRegex(TypeError, "'w' in the model is of the type list; expected a PyTorch tensor"):
                manager.save(1, {"w": [1]})
            with self.assertRaisesRegex(TypeError, "'a.b' is of the type object; expected a tensor"):
                manager.save(1, {}, {"a": {"b": object()}})
            with self.assertRaisesRegex(TypeError, "'c' has the dtype complex64; Rueda takes uint8, "):
                manager.save(1, {"c": np.zeros(1, np.complex64)})
        with self.assertRaisesRegex(rueda.InvalidArgument, "'epoch' is of the type int, which cannot take"):
            manager.restore({}, {"epoch": 1})

    def test_a_folder_that_cannot_be_made_is_an_error_on_all_ranks(self):
        self.on_rank_0(lambda: self.folder.write_text("a file"))
        with self.assertRaisesRegex(rueda.InvalidArgument, "mkdir failed: .*exists|mkdir failed"):
            self.manager()


class Damage(Checkpoints):
    def test_a_flipped_bit_in_the_data(self):
        manager = self.manager()
        self.save(manager, 1)
        self.save(manager, 2)
        self.flip_bit("save-000002-step-2/model.safetensors", -1)
        self.assertEqual(self.restored(manager), 1)
        if rueda.rank() == 0:
            self.assertEqual(len(self.lines), 1)
            self.assertRegex(self.lines[0], "model.safetensors.*checksum.*is left out, and the one before it is used$")

    def test_a_truncated_file(self):
        manager = self.manager()
        self.save(manager, 1)
        self.save(manager, 2)
        path = self.folder / "save-000002-step-2/model.safetensors"
        self.on_rank_0(lambda: path.write_bytes(path.read_bytes()[:-3]))
        self.assertEqual(self.restored(manager), 1)

    def test_a_half_written_checkpoint_is_ignored_and_removed_later(self):
        manager = self.manager()
        self.save(manager, 1)
        self.save(manager, 2)
        self.on_rank_0(lambda: (self.folder / "save-000002-step-2/state.safetensors").unlink())
        self.assertEqual(self.restored(manager), 1)
        self.assertEqual(self.lines, [])
        self.save(manager, 3)
        rueda.barrier()
        self.assertFalse((self.folder / "save-000002-step-2").exists())

    def test_a_damaged_description_of_the_state(self):
        manager = self.manager(max_to_keep=10)
        self.save(manager, 1)
        for text in ("{", '{"dict":[["moment",{"tensor":"other","kind":"numpy"}]]}', '{"dict":1}', "[" * 100_000):
            with mock.patch.object(_checkpoints._trees, "to_text", return_value=text):
                self.save(manager, 2)
        self.assertEqual(self.restored(manager), 1)
        self.assertEqual(len(self.lines), 4 if rueda.rank() == 0 else 0)
        for line in self.lines:
            self.assertIn("the description of its state is damaged", line)

    def test_if_all_are_damaged_all_ranks_say_so(self):
        manager = self.manager()
        self.save(manager, 1)
        self.flip_bit("save-000001-step-1/state.safetensors", -1)
        with self.assertRaisesRegex(rueda.InvalidArgument, "no checkpoint in .* can be read; remove the folder"):
            self.restored(manager)

    def test_another_model_is_an_error_on_all_ranks(self):
        manager = self.manager()
        self.save(manager, 1)
        for model, text in (
            (
                {"w": np.zeros(5)},
                r"belongs to another model: 'w' is float64 \[4\] in it and float64 \[5\] in the model",
            ),
            ({"w": np.zeros(4), "v": np.zeros(1)}, r"'v' \(float64 \[1\]\) is not in it"),
            ({}, r"'w' \(float64 \[4\]\) is not in the model"),
        ):
            with self.assertRaisesRegex(rueda.InvalidArgument, text):
                manager.restore(model)
        with self.assertRaisesRegex(rueda.InvalidArgument, "the state 'other' is not in it; it has 'moment'"):
            manager.restore({"w": np.zeros(4)}, {"other": np.zeros(1)})
        with self.assertRaisesRegex(rueda.InvalidArgument, r"'moment' is int64 \[2\] in it and float64 \[3\]"):
            manager.restore({"w": np.zeros(4)}, {"moment": np.zeros(3)})

    def test_a_disk_that_takes_no_more_does_not_stop_training_and_is_loud(self):
        manager = self.manager()
        self.save(manager, 1)
        if rueda.rank() == 0:
            soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # no file may have more than 100 bytes
        try:
            self.save(manager, 2)
        finally:
            if rueda.rank() == 0:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        rueda.barrier()
        if rueda.rank() == 0:
            self.assertIsInstance(manager.last_failure(), rueda.RuedaError)
            self.assertEqual(len(self.lines), 1)
            self.assertRegex(
                self.lines[0],
                "^The checkpoint of step 2 was not saved: .*Training continues; the newest complete checkpoint is the one "
                "of step 1$",
            )
        self.assertEqual(self.steps(manager), [1])
        rueda.barrier()  # all ranks have looked
        self.save(manager, 3)
        self.assertIsNone(manager.last_failure())
        self.assertEqual(self.restored(manager), 3)

    def test_an_unexpected_error_in_the_thread_is_loud_too(self):
        manager = self.manager()
        with mock.patch.object(_checkpoints._native, "checkpoint_save", side_effect=ZeroDivisionError("surprise")):
            self.save(manager, 1)
        if rueda.rank() == 0:
            self.assertRegex(
                self.lines[0], "step 1 was not saved: ZeroDivisionError: surprise. Training continues; there is"
            )
            self.assertIsInstance(manager.last_failure(), rueda.Internal)

    def test_warnings_go_to_the_log_by_default(self):
        manager = training.CheckpointManager(self.folder)
        self.save(manager, 1)
        self.save(manager, 2)
        self.flip_bit("save-000002-step-2/model.safetensors", -1)
        if rueda.rank() == 0:
            with self.assertLogs("rueda.training", "WARNING"):
                self.assertEqual(self.restored(manager), 1)
        else:
            self.restored(manager)


class Resume(Checkpoints):
    def run_until(self, last, weight):
        """Trains until step `last`, as if the job were killed there. Returns the loss of each step."""
        moment, dictionary = np.zeros(3), {"seen": 0}
        losses = {}
        backup = training.BackupAndRestore(
            20,
            self.folder,
            {"weight": weight},
            {"moment": moment, "counters": dictionary},
            seed=3,
            every_steps=4,
            when_busy="wait",
            values=lambda: {"losses": str(len(losses))},
        )
        for step in backup:
            gradient = weight - np.random.random(3) + random.random()
            rueda.allreduce_(gradient, "gradient")
            moment *= 0.9
            moment += gradient
            weight -= 0.1 * moment
            dictionary["seen"] += 1
            losses[step] = float(np.square(weight).sum())
            if step == last:
                break
        backup.manager.wait()
        rueda.barrier()
        return backup, losses, dictionary

    def test_a_resumed_run_has_the_same_bits(self):
        _, whole, _ = self.run_until(None, np.full(3, 5.0 + rueda.rank()))
        self.assertEqual(list(whole), list(range(20)))
        rueda.barrier()
        self.on_rank_0(lambda: shutil.rmtree(self.folder))
        first, before, _ = self.run_until(9, np.full(3, 5.0 + rueda.rank()))
        self.assertIsNone(first.restored)
        second, after, counters = self.run_until(None, np.full(3, -1.0))
        self.assertEqual(second.first_step, 8)
        self.assertEqual(second.restored.values, {"losses": "8"})
        self.assertEqual(list(after), list(range(8, 20)))
        self.assertEqual(before | after, whole)
        self.assertEqual(counters, {"seen": 20})
        third, nothing, _ = self.run_until(None, np.full(3, -1.0))
        self.assertEqual((third.first_step, nothing), (20, {}))

    def test_ranks_draw_different_numbers_and_a_step_draws_the_same_again(self):
        training.seed_step(7, 3)
        drawn = (random.random(), np.random.random())
        random.random()
        training.seed_step(7, 3)
        self.assertEqual((random.random(), np.random.random()), drawn)
        self.assertEqual(len(set(rueda.allgather_object(drawn))), rueda.size())

    def test_the_state_of_the_generators_is_restored(self):
        manager = self.manager()
        model = {"w": np.zeros(1)}
        random.seed(rueda.rank())
        np.random.seed(rueda.rank())
        manager.save(1, model, {"random": training.RandomState()})
        manager.wait()
        drawn = rueda.broadcast_object((random.random(), np.random.standard_normal(3).tolist()))
        manager.restore(model, {"random": training.RandomState()})
        self.assertEqual((random.random(), np.random.standard_normal(3).tolist()), drawn)

    def test_a_state_that_cannot_be_saved_is_an_error_on_all_ranks(self):
        with self.assertRaisesRegex(TypeError, "'counters.x' is of the type object; expected a tensor"):
            training.BackupAndRestore(1, self.folder, {}, {"counters": {"x": object()}})
        with self.assertRaisesRegex(TypeError, "'phase' has the dtype complex64"):
            training.BackupAndRestore(1, self.folder, {}, {"phase": np.zeros(1, np.complex64)})

    def test_negative_steps(self):
        with self.assertRaisesRegex(rueda.InvalidArgument, "steps is -1"):
            training.BackupAndRestore(-1, self.folder, {})


if __name__ == "__main__":
    unittest.main()
