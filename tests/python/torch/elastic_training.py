# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Trains, and writes rank 0's weights to OUT. In the first attempt or generation, rank RANK kills itself in step STEP.

Usage: elastic_training.py OUT [STEP RANK]

A negative STEP means: before the training begins.
"""

import os
import signal
import sys

import rueda.torch as hvd
import torch

out, *failing = sys.argv[1:]
fail_step, fail_rank = map(int, failing) if failing else (-1, -1)

hvd.init()
if fail_step < 0 and hvd.rank() == fail_rank and os.environ.get("RUEDARUN_GENERATION", "0") == "0":
    os.kill(os.getpid(), signal.SIGKILL)
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
data = torch.randn(48, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
sampler = hvd.elastic.ElasticSampler(data, seed=5)
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0, seen=0)


@hvd.elastic.run
def train(state):
    generation = os.environ.get("RUEDARUN_GENERATION", "0")
    place = f"rank {hvd.rank()} in generation {generation} (RANK={os.environ.get('RANK')})"
    print(f"process {os.getpid()} is {place}", flush=True)
    is_first = generation == "0" and os.environ.get("RUEDARUN_RESTART", "0") == "0"
    while state.epoch < 2:
        loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler)
        for index, batch in enumerate(loader):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            if state.seen == fail_step and hvd.rank() == fail_rank and is_first:
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.step()
            sampler.record_batch(index, 4)
            state.seen += 1
            if state.seen % 2 == 0:
                state.commit()
        state.epoch += 1
        sampler.set_epoch(state.epoch)
        state.commit()


train(state)
if hvd.rank() == 0:
    torch.save([parameter.data for parameter in model.parameters()] + [state.seen], out)
hvd.shutdown()
