# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Lets TensorBoard itself read the event files of MetricsWriter. The environment variable TENSORBOARD_PYTHON names a
Python with TensorBoard (benchmarks/compare/compare --install tensorboard)."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import rueda
from rueda import training

READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
folder = EventAccumulator(sys.argv[1])
folder.Reload()
tags = folder.Tags()["scalars"]
print(json.dumps({tag: [(event.step, event.value, event.wall_time) for event in folder.Scalars(tag)] for tag in tags}))
"""


class TensorBoard(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="rueda-tensorboard-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)

    def write(self, first_step: int, losses: list[float], **others: float) -> None:
        with training.MetricsWriter(self.folder, ["tensorboard"], first_step=first_step) as writer:
            for step, loss in enumerate(losses, start=first_step):
                writer.write(step, {"loss": loss, **others})

    def read(self) -> dict[str, list[tuple[int, float]]]:
        done = subprocess.run([os.environ["TENSORBOARD_PYTHON"], "-B", "-c", READER, self.folder],
                              capture_output=True, text=True, timeout=60)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        scalars = json.loads(done.stdout.splitlines()[-1])
        begin = self.folder.stat().st_ctime
        for events in scalars.values():
            self.assertTrue(all(abs(time - begin) < 120 for _, _, time in events), events)
        return {tag: [(step, value) for step, value, _ in events] for tag, events in scalars.items()}

    def test_the_scalars_are_there(self):
        self.write(0, [2.5, 1.5, 0.5], **{"valid/AUC": 0.75})
        self.assertEqual(
            self.read(), {"loss": [(0, 2.5), (1, 1.5), (2, 0.5)], "valid/AUC": [(0, 0.75), (1, 0.75), (2, 0.75)]}
        )

    def test_a_resumed_job_replaces_the_later_steps(self):
        self.write(0, [4.0, 3.0, 100.0, 100.0])
        self.write(2, [2.0, 1.0, 0.5])
        self.assertEqual(self.read(), {"loss": [(0, 4.0), (1, 3.0), (2, 2.0), (3, 1.0), (4, 0.5)]})


if __name__ == "__main__":
    rueda.init()
    unittest.main(verbosity=2)
