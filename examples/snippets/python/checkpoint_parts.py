# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import tempfile

import numpy as np
import rueda
from rueda import training

rueda.init()
folder = rueda.broadcast_object(tempfile.mkdtemp())  # your program has a fixed folder, which all ranks share
ROWS = 1000
rows = training.shard(ROWS)  # this rank holds only these rows of the table
table = np.full((len(rows), 8), 1.5, np.float32)
bias = np.full(8, 0.5)  # the bias is equal on all ranks
mine = {"table": training.TensorPart(table, rows, ROWS)}

manager = training.CheckpointManager(folder)
manager.save_parts(1, mine | training.split_rows({"bias": bias}), {"rate": 0.1})
manager.wait()
rueda.barrier()  # rank 0 completes the checkpoint, and the other ranks wait for rank 0

table[:], bias[:] = 0, 0
info = manager.restore_parts(mine | {"bias": training.TensorPart(bias, range(8), 8)})  # all rows of the bias
assert info is not None and info.step == 1 and info.state == {"rate": 0.1}
assert (table == 1.5).all() and (bias == 0.5).all()
