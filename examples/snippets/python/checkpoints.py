# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import tempfile

import numpy as np
import rueda
from rueda import training

rueda.init()
folder = rueda.broadcast_object(tempfile.mkdtemp())  # your program has a fixed folder, which a later job finds
mean, momentum = np.zeros(1), np.zeros(1)
manager = training.CheckpointManager(folder, every_steps=10, max_to_keep=2, when_busy="wait")
for step in range(1, 51):
    gradient = rueda.allreduce(mean - 3.0, "gradient")
    momentum *= 0.5
    momentum += gradient
    mean -= 0.1 * momentum
    manager.save_when_due(
        step, {"mean": mean}, {"momentum": momentum}, values={"rate": "0.1"}, metric=float(abs(mean[0] - 3))
    )

trained = mean.copy()
mean[:] = 0
best = manager.restore({"mean": mean}, {"momentum": momentum}, which="best")
assert best is not None and best.step == 50 and best.values == {"rate": "0.1"} and mean == trained
