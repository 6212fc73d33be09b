# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import tempfile

import numpy as np
import rueda
from rueda import training

rueda.init()
folder = rueda.broadcast_object(tempfile.mkdtemp())
training.use_cores()  # prints "cores: 1 thread on each rank, because 2 ranks share the cores of this host"
manager = training.CheckpointManager(folder, every_steps=10)

summary = training.JobSummary()
weights = np.zeros(1000, np.float32)
batches = (np.full(32, step, np.float32) for step in range(20))  # stands for a data loader
for step, batch in enumerate(summary.data(batches)):
    weights += rueda.allreduce(np.full(1000, batch.mean(), np.float32), "gradient")
    summary.step(len(batch))
    manager.save_when_due(step + 1, {"weights": weights})

report = summary.finish(checkpoints=manager, json_file=f"{folder}/summary.json")
assert report.steps == 20 and report.samples == 640 * rueda.size()
assert rueda.rank() != 0 or report.checkpoint["step"] in (10, 20)
