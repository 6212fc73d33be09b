# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import tempfile

import rueda.torch
import torch
import torch.distributed as dist
from rueda import training
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

dist.init_process_group("rueda")
folder = rueda.broadcast_object(tempfile.mkdtemp())  # your program has a fixed folder, which all ranks share
model = fully_shard(torch.nn.Sequential(torch.nn.Linear(10, 5), torch.nn.Linear(5, 1)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def train(step):
    batch = torch.randn(32, 10, generator=torch.Generator().manual_seed(step))
    optimizer.zero_grad()
    loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def divided():
    """Returns this rank's rows of the parameters and moments, and the optimizer's other state as FSDP2 names it."""
    others = get_optimizer_state_dict(model, optimizer, options=StateDictOptions(flatten_optimizer_state_dict=True))
    parts = {}
    for name, value in {**model.state_dict(), **others}.items():
        if isinstance(value, DTensor):
            local, whole = value.to_local(), len(value)
            first = min(dist.get_rank() * -(-whole // dist.get_world_size()), whole)  # FSDP2 divides as torch.chunk
            parts[name] = training.TensorPart(local, range(first, first + len(local)), whole)
    return parts, others


manager = training.CheckpointManager(folder)
for step in range(5):
    train(step)
parts, others = divided()
manager.save_parts(5, parts, {name: value for name, value in others.items() if name not in parts})
manager.wait()
rueda.barrier()  # rank 0 completes the checkpoint, and the other ranks wait for rank 0
losses = [train(step) for step in range(5, 10)]

# A later job, with any number of ranks, restores the checkpoint like this.
parts, others = divided()
info = manager.restore_parts(parts)
assert info is not None
set_optimizer_state_dict(
    model, optimizer, others | info.state, options=StateDictOptions(flatten_optimizer_state_dict=True)
)
assert [train(step) for step in range(info.step, 10)] == losses
dist.destroy_process_group()
