# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda.torch as hvd
import torch

torch.manual_seed(0)
data = torch.randn(64, 8)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
hvd.init()  # called after the preparations, because the other ranks of the job wait for a new rank from here on
optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
sampler = hvd.elastic.ElasticSampler(data)


@hvd.elastic.run
def train(state):
    while state.epoch < 2:
        for index, batch in enumerate(torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler)):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
            sampler.record_batch(index, len(batch))
            state.commit()  # a failure loses only the work since the last commit
        state.epoch += 1
        sampler.set_epoch(state.epoch)


state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0)
train(state)
assert state.epoch == 2
