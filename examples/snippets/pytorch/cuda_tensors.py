# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda.torch as hvd
import torch

hvd.init()
device = torch.device("cpu")
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_device())
    device = torch.device("cuda", torch.cuda.current_device())

handle = hvd.allreduce_async_(torch.ones(1000, device=device), name="gradient", op=hvd.Sum)
# … other work: the program does not wait for the GPU …
gradient = hvd.synchronize(handle)  # work that is put into the current stream after this call gets the sum
assert (gradient == hvd.size()).all()
