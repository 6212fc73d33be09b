# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda.torch as hvd
import torch

hvd.init()
device = torch.device("cpu")
if torch.cuda.is_available():
    torch.cuda.set_device(hvd.local_device())
    device = torch.device("cuda", torch.cuda.current_device())
model = torch.nn.Linear(10, 1).to(device)
assert next(model.parameters()).device == device
