# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import tempfile

import rueda.torch.distributed  # noqa: F401  (makes the backend known)
import torch
import torch.distributed as dist
from transformers import Trainer, TrainingArguments


class Regression(torch.nn.Module):  # stands for a model of transformers
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(10, 1)

    def forward(self, samples, labels):
        return {"loss": (self.layer(samples).squeeze(1) - labels).square().mean()}


dist.init_process_group("rueda")  # make the group before TrainingArguments, which then uses it
torch.manual_seed(dist.get_rank())  # the ranks begin with different parameters
model = Regression()
data = [{"samples": sample, "labels": sample.sum()} for sample in torch.randn(64, 10)]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, use_cpu=True, max_steps=4, per_device_train_batch_size=4, save_strategy="no", report_to=[]
    )
    Trainer(model=model, args=arguments, train_dataset=data).train()

assert dist.get_backend() == "rueda" and arguments.world_size == dist.get_world_size()
weights = [torch.empty_like(model.layer.weight) for _ in range(dist.get_world_size())]
dist.all_gather(weights, model.layer.weight.detach())
assert all(torch.equal(weight, weights[0]) for weight in weights)  # the same on all ranks
dist.destroy_process_group()
