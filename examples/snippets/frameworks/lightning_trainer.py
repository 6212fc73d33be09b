# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import os

import lightning
import rueda.torch.distributed  # noqa: F401  (makes the backend known)
import torch
import torch.distributed as dist
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(10, 1)

    def training_step(self, batch, _index):
        (samples,) = batch
        return (self.layer(samples) - samples.sum(1, keepdim=True)).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


torch.manual_seed(int(os.environ["RANK"]))
model = Regression()
batches = DataLoader(TensorDataset(torch.randn(64, 10)), batch_size=4)
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=int(os.environ["LOCAL_WORLD_SIZE"]),
    num_nodes=int(os.environ["WORLD_SIZE"]) // int(os.environ["LOCAL_WORLD_SIZE"]),
    strategy=DDPStrategy(process_group_backend="rueda"),
    max_epochs=1,
    logger=False,
    enable_checkpointing=False,
)
trainer.fit(model, batches)

assert dist.get_backend() == "rueda" and trainer.world_size == dist.get_world_size()
weights = [torch.empty_like(model.layer.weight) for _ in range(trainer.world_size)]
dist.all_gather(weights, model.layer.weight.detach())
assert all(torch.equal(weight, weights[0]) for weight in weights)  # the same on all ranks
