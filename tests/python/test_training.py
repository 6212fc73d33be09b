# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Tests of rueda.training with several ranks."""

import ast
import inspect
import math
import re
import unittest

import numpy as np
import rueda
from rueda import training


def setUpModule():
    rueda.init()


def mean_by_batches(sampler, epoch):
    """Computes the mean of an epoch's samples as a trainer averages gradients: by an allreduce for each batch. Returns
    the mean, and the list of the samples that this rank saw."""
    total, count, seen = 0.0, 0, []
    for share in sampler.epoch(epoch):
        mine = share.indices[: share.counted]
        seen += mine
        mean = share.weight * np.mean(mine) if mine else 0.0
        average = rueda.allreduce(np.array([mean]), "mean")
        total += average[0] * share.batch_size
        count += share.batch_size
    return total / count, seen


class Interface(unittest.TestCase):
    def test_everything_has_an_example(self):
        for name in training.__all__:
            document = inspect.getdoc(getattr(training, name)) or ""
            with self.subTest(name=name):
                blocks = re.findall(r"Example::\n\n((?:    .*\n?|\n)+)", document)
                self.assertGreater(len(blocks), 0)
                for block in blocks:
                    ast.parse("def example():\n" + block)


class Batches(unittest.TestCase):
    def test_uneven_shares_have_the_right_weights(self):
        for remainder in ("keep", "pad"):
            with self.subTest(remainder):
                sampler = training.Sampler(103, 10, seed=5, remainder=remainder, allow_empty_shares=True)
                mean, seen = mean_by_batches(sampler, epoch=2)
                self.assertAlmostEqual(mean, 51.0, places=9)
                everyones = rueda.allgather(np.array(seen), "seen")
                self.assertEqual(sorted(everyones), list(range(103)))

    def test_dropping_leaves_out_the_last_samples(self):
        sampler = training.Sampler(103, 10, seed=5, remainder="drop")
        _, seen = mean_by_batches(sampler, epoch=0)
        self.assertEqual(len(rueda.allgather(np.array(seen), "seen")), 100)

    def test_padding_keeps_all_batches_equally_large(self):
        sampler = training.Sampler(103, 5 * rueda.size(), remainder="pad")
        for share in sampler.epoch(0):
            self.assertEqual(len(share.indices), 5)

    def test_no_rank_gets_an_empty_batch_unnoticed(self):
        if rueda.size() > 1:
            with self.assertRaisesRegex(rueda.InvalidArgument, "would get no sample; choose remainder='pad'"):
                training.Sampler(8 * rueda.size() + 1, 8)
        self.assertEqual(training.Sampler(8 * rueda.size() + 1, 8, allow_empty_shares=True).share(0).batch_size, 8)

    def test_the_number_of_ranks_is_the_default(self):
        self.assertEqual(training.plan_batch(per_worker=3).total, 3 * rueda.size())
        self.assertEqual(training.LearningRate(0.5, "linear").scaled, 0.5 * rueda.size())
        lengths = rueda.allgather(np.array([len(training.shard(11))]), "lengths")
        self.assertEqual(lengths.sum(), 11)


class Clipping(unittest.TestCase):
    def test_by_the_norm_of_all_arrays(self):
        gradients = [np.array([3.0, 0.0], np.float32), np.array([[4.0]], np.float64)]
        self.assertEqual(training.clip_gradients(gradients, 2.5), 5.0)
        self.assertEqual(gradients[0].tolist(), [1.5, 0.0])
        self.assertEqual(gradients[1].tolist(), [[2.0]])
        self.assertEqual(training.clip_gradients(gradients, 2.5), 2.5)  # nothing to clip
        self.assertEqual(gradients[0].tolist(), [1.5, 0.0])

    def test_across_ranks_that_have_other_parameters(self):
        mine = np.full(3, rueda.rank() + 1.0)
        norm = training.clip_gradients([mine], 1.0, sharded=True)
        expected = math.sqrt(3 * sum((rank + 1) ** 2 for rank in range(rueda.size())))
        self.assertEqual(norm, expected)
        np.testing.assert_allclose(mine, (rueda.rank() + 1) / expected)

    def test_what_is_not_finite_is_refused_and_unchanged(self):
        gradients = [np.array([1.0, math.inf])]
        with self.assertRaisesRegex(rueda.InvalidArgument, "their norm is inf"):
            training.clip_gradients(gradients, 1.0)
        self.assertEqual(gradients[0].tolist(), [1.0, math.inf])

    def test_squares_of_small_and_large_numbers_do_not_overflow(self):
        self.assertAlmostEqual(training.gradient_norm([np.full(4, 1e30, np.float32)]) / 2e30, 1, places=6)


if __name__ == "__main__":
    unittest.main()
