# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import pathlib
import tempfile

import numpy as np
import rueda
import rueda.data

rueda.init()
with tempfile.TemporaryDirectory() as folder:  # each rank writes the same files for itself
    for part in range(2):
        rows = "".join(f"{part},{number}.5,{number % 3}\n" for number in range(50))
        (pathlib.Path(folder) / f"train-{part}.csv").write_text("label,x,colour\n" + rows)

    pipeline = rueda.data.Pipeline(
        f"{folder}/train-*.csv",
        rueda.data.Csv(
            [
                rueda.data.CsvColumn("label"),
                rueda.data.CsvColumn("x", missing=0),
                rueda.data.CsvColumn("colour", "int64"),
            ]
        ),
        batch=16,  # samples in one step, over all ranks
        rank=rueda.rank(),
        size=rueda.size(),
        shuffle=100,
        seed=1,
        epochs=2,
    )
    sums = np.zeros(2)  # of samples and labels
    for _epoch in range(2):
        for batch in pipeline:  # torch.from_numpy(batch["x"]) is a tensor of the same memory
            sums += len(batch["label"]), batch["label"].sum()
        state = pipeline.state_dict()  # for the checkpoint of rank 0
    print(pipeline.summary())

total = rueda.allreduce(sums, "sums", op=rueda.Sum)
assert total.tolist() == [200, 100]
assert state == pipeline.state_dict()
