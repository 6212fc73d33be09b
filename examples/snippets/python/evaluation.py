# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import tempfile

import numpy as np
import rueda
from rueda import training

rueda.init()
folder = rueda.broadcast_object(tempfile.mkdtemp())
numbers = np.random.default_rng(1)  # the same data on all ranks
inputs = numbers.normal(size=(1001, 4))
labels = inputs.sum(axis=1) + numbers.normal(size=1001) > 0


def model(batch: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-batch.sum(axis=1)))


# The ranks predict different inputs. All ranks get all outputs, in the order of the inputs.
scores = training.predict(lambda batch: model(inputs[batch.start : batch.stop]), len(inputs), batch_size=64)
assert scores is not None and np.allclose(scores, model(inputs))

# Each rank adds the samples of its share, and all ranks get the metrics over all samples.
accuracy, exact, binned = training.Mean(), training.Auc(), training.Auc(bins=1000)
mine = training.shard(len(inputs))
for begin in range(mine.start, mine.stop, 64):
    part = slice(begin, min(begin + 64, mine.stop))
    predicted = model(inputs[part])
    accuracy.add((predicted > 0.5) == labels[part])
    exact.add(predicted, labels[part])
    binned.add(predicted, labels[part])
auc = exact.compute()
assert accuracy.compute() == np.mean((scores > 0.5) == labels)
assert abs(binned.compute() - auc) <= binned.error_bound() < 0.001

# Rank 0 writes the metrics, and draws a picture at the end.
with training.MetricsWriter(folder, ["csv", "jsonl"], curves=True) as writer:
    for step in training.progress(range(10), "evaluating"):
        writer.write(step, {"auc": auc})
