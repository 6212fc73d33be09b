# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A training that continues after a failure. With these commands, the last rank kills itself in step 40. After the
first command, the other ranks continue in their processes. After the second command, ruedarun starts all ranks again:

ruedarun --no-mpi -np 3 --min-np 2 python elastic.py --fail-at 40
RUEDA_ELASTIC_DIR=commits ruedarun -np 2 --max-restarts 3 python elastic.py --fail-at 40
"""

import argparse
import os
import signal

import rueda.torch as hvd
import torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--fail-at", type=int, default=-1, metavar="STEP")
    given = parser.parse_args()

    hvd.init()
    torch.manual_seed(0)
    inputs = torch.randn(640, 8)
    dataset = torch.utils.data.TensorDataset(inputs, inputs.sum(1, keepdim=True))
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), named_parameters=model.named_parameters()
    )
    sampler = hvd.elastic.ElasticSampler(dataset)

    @hvd.elastic.run
    def train(state: hvd.elastic.TorchState) -> None:
        while state.epoch < given.epochs:
            loader = torch.utils.data.DataLoader(dataset, batch_size=8, sampler=sampler)
            for index, (batch, targets) in enumerate(loader):
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(model(batch), targets)
                loss.backward()
                if (
                    state.step == given.fail_at
                    and hvd.rank() == hvd.size() - 1
                    and os.environ.get("RUEDARUN_RESTART", "0") == "0"
                    and os.environ.get("RUEDARUN_GENERATION", "0") == "0"
                ):
                    os.kill(os.getpid(), signal.SIGKILL)
                optimizer.step()
                sampler.record_batch(index, len(batch))
                state.step += 1
                if state.step % 10 == 0:
                    state.commit()  # a failure loses only the steps after the last commit
            if hvd.rank() == 0:
                print(f"epoch {state.epoch + 1}: loss {loss:.5f} after {state.step} steps", flush=True)
            state.epoch += 1
            sampler.set_epoch(state.epoch)
            state.commit()

    train(hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0, step=0))


if __name__ == "__main__":
    main()
