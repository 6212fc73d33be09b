# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda.torch.distributed  # noqa: F401
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

dist.init_process_group("rueda")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(10, 1))
with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
    model(torch.randn(32, 10)).sum().backward()
    dist.all_reduce(torch.ones(3))

print(profiler.key_averages().table(sort_by="cpu_time_total", row_limit=10))
assert "rueda:all_reduce" in {row.key for row in profiler.key_averages()}
dist.destroy_process_group()
