# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Trains for 50 steps and saves a checkpoint. When it is started again, with any number of ranks, it continues from the
checkpoint:

ruedarun -np 2 python 07_resume.py model.npz
"""

import os
import pathlib
import sys

import numpy as np
import rueda

path = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "model.npz")
rueda.init()
slope, step = np.zeros(1), 0
# Only rank 0 needs the file: it reads the file and sends the content to the other ranks.
if rueda.rank() == 0 and path.exists():
    with np.load(path) as saved:
        slope, step = saved["slope"], int(saved["step"])
rueda.broadcast_(slope, root_rank=0, name="slope")
first = rueda.broadcast_object(step, root_rank=0, name="step")
for _ in range(50):
    x = rueda.rank() + 1
    gradient = 2 * x * (slope * x - 3 * x)
    slope -= 0.01 * rueda.allreduce(gradient, "gradient")
if rueda.rank() == 0:
    with open(f"{path}.new", "wb") as file:
        np.savez(file, slope=slope, step=first + 50)
    os.replace(f"{path}.new", path)  # if the process is killed while it writes, the old file stays intact
print(f"rank {rueda.rank()}: steps {first} to {first + 50}, slope {slope[0]:.2f}", flush=True)
