# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import pathlib
import tempfile

import rueda.data
import rueda.torch as hvd
import torch
from rueda import training

hvd.init()
folder = pathlib.Path(hvd.broadcast_object(tempfile.mkdtemp()))  # use fixed folders instead, as in the example above
if hvd.rank() == 0:
    (folder / "part-1.csv").write_text("y,x\n" + "".join(f"{2 * i},{i}\n" for i in range(100)))
hvd.barrier()
BATCH = 8  # all ranks together
columns = rueda.data.Csv([rueda.data.CsvColumn("y"), rueda.data.CsvColumn("x")])
pipeline = rueda.data.Pipeline(
    folder / "part-*.csv", columns, BATCH, rank=hvd.rank(), size=hvd.size(), shuffle=50, epochs=0, drop_remainder=True
)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())


def batches():
    while True:  # a loop over the pipeline is one epoch
        yield from pipeline


# The position in the files is a part of the state. A job that was killed continues in the middle of an epoch.
state = {"optimizer": optimizer, "input": pipeline}
backup = training.BackupAndRestore(30, folder / "run", model, state, every_steps=10)
# zip() must get `backup` first, so that a checkpoint is saved before the next batch is taken.
for _step, batch in zip(backup, batches()):
    optimizer.zero_grad()
    errors = model(torch.from_numpy(batch["x"])[:, None] / 100) - torch.from_numpy(batch["y"])[:, None]
    # The optimizer averages the gradients of the ranks, whose parts of the batch may differ in size.
    (errors.square().sum() * hvd.size() / BATCH).backward()
    optimizer.step()
