# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Shows gradient accumulation and mixed precision. The program uses bfloat16, which CPUs support. bfloat16 needs no
loss scaling, so the GradScaler is optional.

    ruedarun -np 2 python accumulation_amp.py --accumulate 4

The gradients of several batches are added up before they are reduced. With a scaler, scaler.step() looks for infinities
in the reduced gradients. The reduced gradients are equal on all ranks, so either all ranks take a step or none does.
"""

import argparse

import rueda.torch as hvd
import torch
from torch.nn.functional import mse_loss


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accumulate", type=int, default=4, help="batches of a step")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--scale", action="store_true", help="with a GradScaler")
    given = parser.parse_args()

    hvd.init()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))
    # Rueda averages gradients over the ranks, but adds up the gradients of several batches. The program therefore
    # divides the loss by the number of batches.
    optimizer = hvd.DistributedOptimizer(
        torch.optim.AdamW(model.parameters(), lr=3e-3),
        named_parameters=model.named_parameters(),
        backward_passes_per_step=given.accumulate,
    )
    scaler = torch.amp.GradScaler("cpu") if given.scale else None
    generator = torch.Generator().manual_seed(1 + hvd.rank())
    for step in range(given.steps):
        optimizer.zero_grad()
        total = torch.zeros(())
        for _ in range(given.accumulate):
            inputs = torch.randn(32, 16, generator=generator)
            targets = inputs.square().mean(1, keepdim=True)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                outputs = model(inputs)
            loss = mse_loss(outputs.float(), targets) / given.accumulate
            (scaler.scale(loss) if scaler else loss).backward()
            total += loss.detach()

        # Gradients must be reduced and, with a scaler, unscaled before they are clipped.
        optimizer.synchronize()
        if scaler:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with optimizer.skip_synchronize():
            if scaler:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
        total = hvd.allreduce(total)
        if hvd.rank() == 0 and (step + 1) % 10 == 0:
            print(f"step {step + 1}: loss {total:.4f}", flush=True)


if __name__ == "__main__":
    main()
