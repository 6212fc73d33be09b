# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The DeepFM model in PyTorch. It needs only PyTorch, so that benchmarks can train it with other libraries, too."""

import torch
from torch import nn

NUMBERS, CATEGORIES = 13, 26
FIELDS = NUMBERS + CATEGORIES


class DeepFM(nn.Module):
    """DeepFM (Guo et al. 2017). A row of the table has an id's weight in the linear part, and then the id's embedding."""

    def __init__(self, features: int, embedding: int, hidden: list[int]) -> None:
        super().__init__()
        self.table = nn.Embedding(features, 1 + embedding, sparse=True)
        nn.init.uniform_(self.table.weight, -0.03, 0.03)
        with torch.no_grad():
            self.table.weight[:, 0] = 0
        layers: list[nn.Module] = []
        inputs = FIELDS * embedding
        for outputs in hidden:
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
            inputs = outputs
        self.deep = nn.Sequential(*layers, nn.Linear(inputs, 1))

    def forward(self, ids: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        rows = self.table(ids) * values[:, :, None]
        linear, embeddings = rows[:, :, 0].sum(1), rows[:, :, 1:]
        # The sum of the products of all pairs of fields (Rendle 2010, lemma 3.1).
        pairs = 0.5 * (embeddings.sum(1).square() - embeddings.square().sum(1)).sum(1)
        return linear + pairs + self.deep(embeddings.flatten(1)).squeeze(1)
