# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda
import rueda.data

rueda.init()
rows = "".join(f"{number}\n" for number in range(20)).encode()
pipeline = rueda.data.Pipeline(
    rueda.data.memory("rows", rows),
    rueda.data.Csv([rueda.data.CsvColumn("x")], header=False),
    batch=7,
    rank=rueda.rank(),
    size=rueda.size(),
    remainder="pad",  # all batches of a rank have the same number of rows
)
means = []
for batch in pipeline:
    weights = batch["weight"]  # 1 for a sample, 0 for padding
    counted = int(weights.sum())
    mean = (weights * batch["x"]).sum() / max(counted, 1)
    weight = rueda.data.average_weight(counted)  # all ranks must call it in each step
    gradient = rueda.allreduce(np.array([weight * mean]), "gradient", op=rueda.Average)
    means.append(gradient[0])  # the mean over the samples of all ranks
np.testing.assert_allclose(means, [3, 10, 16.5])  # of 0 to 6, 7 to 13 and 14 to 19
