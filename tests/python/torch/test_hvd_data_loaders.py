# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests forked and spawned DataLoader workers while the ranks train, and the error of a worker that calls Rueda."""

import unittest

import rueda.torch as hvd
import torch

SAMPLES = 24


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.tensor([float(index), float(index**2)])


class Asking(torch.utils.data.Dataset):
    """A dataset that calls Rueda in a worker, which is not allowed."""

    CALLS = {
        "rank": lambda: hvd.rank(),
        "init": lambda: hvd.init(),
        "allreduce": lambda: hvd.allreduce(torch.ones(1)),
    }

    def __init__(self, call):
        self.call = call

    def __len__(self):
        return 1

    def __getitem__(self, index):
        self.CALLS[self.call]()
        return index


def setUpModule():
    hvd.init()
    torch.set_num_threads(1)


def tearDownModule():
    hvd.shutdown()


class Workers(unittest.TestCase):
    def test_a_training(self):
        for way in ("fork", "spawn"):
            with self.subTest(way):
                torch.manual_seed(1)
                model = torch.nn.Linear(2, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
                optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
                sampler = torch.utils.data.DistributedSampler(Squares(), hvd.size(), hvd.rank(), shuffle=False)
                loader = torch.utils.data.DataLoader(
                    Squares(), 3, sampler=sampler, num_workers=2, multiprocessing_context=way, persistent_workers=True
                )
                seen = []
                for _epoch in range(2):
                    for batch in loader:
                        optimizer.zero_grad()
                        model(batch).square().mean().backward()
                        optimizer.step()
                        seen.append(batch[:, 0])
                everyones = hvd.allgather(torch.cat(seen))
                self.assertEqual(sorted(everyones.tolist()), sorted(2 * [float(i) for i in range(SAMPLES)]))
                weights = hvd.allgather(model.weight.detach())
                self.assertTrue((weights == weights[0]).all())

    def test_what_workers_are_told(self):
        for way, call, text in (
            ("fork", "rank", "forked"),
            ("fork", "allreduce", "forked"),
            ("fork", "init", "worker of a DataLoader"),
            ("spawn", "rank", "not initialised"),
            ("spawn", "init", "worker of a DataLoader"),
        ):
            with self.subTest(way=way, call=call):
                loader = torch.utils.data.DataLoader(Asking(call), num_workers=1, multiprocessing_context=way)
                with self.assertRaisesRegex(Exception, text):
                    list(loader)
        self.assertEqual(hvd.allreduce(torch.ones(1), op=hvd.Sum).item(), hvd.size())


if __name__ == "__main__":
    unittest.main()
