# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Trains a small transformer on text, letter by letter. FSDP2 on the backend "rueda" shards the parameters and the
optimizer state.

torchrun --nproc-per-node 2 language_model.py --text book.txt      (or: ruedarun -np 2 python language_model.py)

Without --text, the program generates sentences and trains on them. Needs PyTorch 2.6 or newer.
"""

import argparse
import pathlib
import random

import rueda.torch.distributed  # noqa: F401  (registers the backend; PyTorch 2.15 finds an installed one by itself)
import torch
import torch.distributed as dist
from torch import nn

try:
    from torch.distributed.fsdp import fully_shard
# PyTorch before 2.6 has no FSDP2. All exceptions are caught, because in PyTorch 1.13 the import raises another
# exception than ImportError.
except Exception as error:
    raise SystemExit(f"PyTorch {torch.__version__} has no FSDP2; 2.6 or newer has") from error

CONTEXT = 64


def sentences(count: int) -> str:
    """Generates sentences whose verbs agree with their subjects. A model can learn this rule."""
    chosen = random.Random(0)
    words = []
    for _ in range(count):
        plural = chosen.random() < 0.5
        adjective = chosen.choice(["small", "red", "quiet", "old", "quick"])
        noun = chosen.choice(["dancer", "ring", "caller", "drum", "bell"])
        verb = chosen.choice(["turn", "wait", "sing", "step", "listen"])
        number = "many" if plural else "one"
        words.append(f"{number} {adjective} {noun}{'s' if plural else ''} {verb}{'' if plural else 's'}. ")
    return "".join(words)


class Block(nn.Module):
    """A block of the transformer: attention to earlier positions, and a feed-forward layer for each position."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.each = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        hidden = nn.Transformer.generate_square_subsequent_mask(places.shape[1])
        seen = self.first(places)
        places = places + self.attention(seen, seen, seen, attn_mask=hidden, is_causal=True, need_weights=False)[0]
        return places + self.each(self.second(places))


class Model(nn.Module):
    def __init__(self, letters: int, width: int, depth: int) -> None:
        super().__init__()
        self.letters = nn.Embedding(letters, width)
        self.places = nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.out = nn.Linear(width, letters)

    def forward(self, letters: torch.Tensor) -> torch.Tensor:
        places = self.letters(letters) + self.places(torch.arange(letters.shape[1]))
        for block in self.blocks:
            places = block(places)
        return self.out(places)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, help="a file to learn from")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch-size", type=int, default=32, help="of all processes together")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--lr", type=float, default=3e-3)
    given = parser.parse_args()

    dist.init_process_group("rueda")
    rank, size = dist.get_rank(), dist.get_world_size()
    text = given.text.read_text() if given.text else sentences(2000)
    if len(text) < CONTEXT + 2:
        raise SystemExit(f"--text: {len(text)} letters; expected {CONTEXT + 2} or more")
    alphabet = sorted(set(text))
    letters = torch.tensor([alphabet.index(letter) for letter in text])

    torch.manual_seed(0)  # all ranks make the same model, and each rank keeps only its shard
    model = Model(len(alphabet), given.width, given.depth)
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=given.lr)

    places = torch.Generator().manual_seed(rank)
    for step in range(given.steps):
        begins = torch.randint(0, len(letters) - CONTEXT - 1, (max(given.batch_size // size, 1),), generator=places)
        rows = torch.stack([letters[begin : begin + CONTEXT + 1] for begin in begins.tolist()])
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        if (step + 1) % max(given.steps // 10, 1) == 0:
            shown = loss.detach().clone()
            dist.all_reduce(shown)
            if rank == 0:
                print(f"step {step + 1}: loss {shown / size:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
