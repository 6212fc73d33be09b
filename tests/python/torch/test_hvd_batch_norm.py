# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares SyncBatchNorm with PyTorch's batch normalisation of all ranks' samples in one process."""

import pickle
import unittest

import rueda.torch as hvd
import torch


def setUpModule():
    hvd.init()
    torch.set_num_threads(1)


def tearDownModule():
    hvd.shutdown()


PLAIN = {0: torch.nn.BatchNorm1d, 1: torch.nn.BatchNorm1d, 2: torch.nn.BatchNorm2d, 3: torch.nn.BatchNorm3d}


def samples(rank: int, shape, dtype=torch.float64, count=None) -> torch.Tensor:
    """Returns a rank's samples. Their number and their mean differ between the ranks."""
    generator = torch.Generator().manual_seed(rank)
    count = rank + 2 if count is None else count
    return (torch.randn(count, 5, *shape, generator=generator, dtype=torch.float64) * (rank + 1) + 100 * rank).to(dtype)


def norm_of(kind, dtype=torch.float64, **options):
    torch.manual_seed(3)
    made = kind(5, **options).to(dtype)
    if made.affine:
        torch.nn.init.normal_(made.weight)
        torch.nn.init.normal_(made.bias)
    return made


class Normalised(unittest.TestCase):
    def compare(self, shape, dtype=torch.float64, tolerance=None, counts=None, **options):
        tolerances = {"rtol": tolerance, "atol": tolerance} if tolerance else {}
        counts = counts or [rank + 2 for rank in range(hvd.size())]
        ours = norm_of(hvd.SyncBatchNorm, dtype, **options)
        right = norm_of(PLAIN[len(shape)], dtype, **options)
        inputs = [samples(rank, shape, dtype, counts[rank]) for rank in range(hvd.size())]
        begin = sum(counts[: hvd.rank()])
        rows = slice(begin, begin + counts[hvd.rank()])
        for _ in range(2):
            mine = inputs[hvd.rank()].clone().requires_grad_()
            everyones = torch.cat(inputs).requires_grad_()
            output, expected = ours(mine), right(everyones)
            torch.testing.assert_close(output, expected[rows], **tolerances)
            # The loss is a sum over all ranks' samples. Each rank computes the part of this sum that belongs to its own
            # samples.
            weights = torch.randn(expected.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64).to(
                dtype
            )
            (output * weights[rows]).sum().backward()
            (expected * weights).sum().backward()
            torch.testing.assert_close(mine.grad, everyones.grad[rows], **tolerances)
        if ours.affine:
            for own, whole in ((ours.weight, right.weight), (ours.bias, right.bias)):
                torch.testing.assert_close(hvd.allreduce(own.grad, op=hvd.Sum), whole.grad, **tolerances)
        if ours.track_running_stats:
            self.assertEqual(ours.num_batches_tracked, right.num_batches_tracked)
            torch.testing.assert_close(ours.running_mean, right.running_mean, **tolerances)
            torch.testing.assert_close(ours.running_var, right.running_var, **tolerances)
            ours.eval()
            right.eval()
            torch.testing.assert_close(ours(inputs[0]), right(inputs[0]), **tolerances)

    def test_every_shape(self):
        for shape in ((), (4,), (4, 3), (2, 3, 2)):
            with self.subTest(shape=shape):
                self.compare(shape)

    def test_options(self):
        for options in (
            {"affine": False},
            {"track_running_stats": False},
            {"momentum": None},
            {"momentum": 0.5, "eps": 1e-2},
        ):
            with self.subTest(options=options):
                self.compare((4, 3), **options)

    def test_dtypes(self):
        self.compare((4, 3), torch.float32, 1e-3)

    def test_bfloat16(self):
        ours = hvd.SyncBatchNorm(5).to(torch.bfloat16)
        inputs = [samples(rank, (4,), torch.bfloat16) for rank in range(hvd.size())]
        output = ours(inputs[hvd.rank()].requires_grad_())
        output.sum().backward()
        self.assertEqual((output.dtype, inputs[hvd.rank()].grad.dtype), (torch.bfloat16, torch.bfloat16))
        everyones = torch.nn.functional.batch_norm(torch.cat(inputs).float(), None, None, training=True)
        begin = sum(rank + 2 for rank in range(hvd.rank()))
        torch.testing.assert_close(output.float(), everyones[begin : begin + hvd.rank() + 2], rtol=0.05, atol=0.05)

    def test_a_rank_without_samples(self):
        if hvd.size() == 1:
            self.skipTest("takes several ranks")
        self.compare((4,), counts=[0, *[3] * (hvd.size() - 1)])

    def test_two_layers_and_an_optimizer(self):
        def model_of(norm):
            torch.manual_seed(1)
            first, second = torch.nn.Linear(5, 5), torch.nn.Linear(5, 5)
            return torch.nn.Sequential(first, norm(5), torch.nn.Tanh(), second, norm(5)).double()

        ours, right = model_of(hvd.SyncBatchNorm), model_of(torch.nn.BatchNorm1d)
        ours.load_state_dict(right.state_dict())
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(ours.parameters(), lr=0.1), ours.named_parameters())
        plain = torch.optim.SGD(right.parameters(), lr=0.1)
        inputs = [samples(rank, (), count=4) for rank in range(hvd.size())]
        for _ in range(3):
            for model, by, of in ((ours, optimizer, inputs[hvd.rank()]), (right, plain, torch.cat(inputs))):
                by.zero_grad()
                (model(of) - 1).square().mean().backward()
                by.step()
        for name, parameter in ours.state_dict().items():
            torch.testing.assert_close(parameter, right.state_dict()[name], rtol=1e-6, atol=1e-8, msg=name)

    def test_a_rank_that_has_made_more_layers_than_the_others(self):
        if hvd.rank() == 0:
            hvd.SyncBatchNorm(5)
        self.compare((4,))
        used = norm_of(hvd.SyncBatchNorm)
        used(samples(hvd.rank(), ()))
        # Rank 0's model looks like one that was loaded from a file. The other ranks have new models.
        used = pickle.loads(pickle.dumps(used)) if hvd.rank() == 0 else norm_of(hvd.SyncBatchNorm)
        expected = norm_of(torch.nn.BatchNorm1d)
        everyones = torch.cat([samples(rank, ()) for rank in range(hvd.size())])
        begin = sum(rank + 2 for rank in range(hvd.rank()))
        torch.testing.assert_close(used(samples(hvd.rank(), ())), expected(everyones)[begin : begin + hvd.rank() + 2])

    def test_gradients_have_the_range_of_the_parameters(self):
        if hvd.size() == 1:
            self.skipTest("alone it is PyTorch's, which has no float16 on the CPU in every version")
        norm = hvd.SyncBatchNorm(2)
        output = norm(torch.randn(4096, 2, 8).half().requires_grad_())
        output.backward(torch.full_like(output, 8))
        self.assertEqual(norm.bias.grad.tolist(), [4096.0 * 8 * 8] * 2)  # more than float16 can hold

    def test_second_derivatives_are_refused_and_not_wrong(self):
        if hvd.size() == 1:
            self.skipTest("alone it is PyTorch's")
        inputs = samples(hvd.rank(), ()).requires_grad_()
        output = norm_of(hvd.SyncBatchNorm)(inputs)
        (gradient,) = torch.autograd.grad(output.square().sum(), inputs, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "once_differentiable"):
            gradient.sum().backward()

    def test_what_is_refused(self):
        norm = hvd.SyncBatchNorm(5)
        with self.assertRaisesRegex(ValueError, "at least 2D"):
            norm(torch.ones(5))
        with self.assertRaisesRegex(ValueError, "5 channels"):
            norm(torch.ones(2, 4))
        if hvd.size() > 1:
            with self.assertRaisesRegex(ValueError, "more than 1 value per channel"):
                norm(torch.ones(1 if hvd.rank() == 0 else 0, 5))


if __name__ == "__main__":
    unittest.main()
