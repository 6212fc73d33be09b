# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Helpers for training programs: learning rates and batches for many workers, checkpoints, and evaluation. Each helper
works alone.

Example::

    import rueda
    from rueda import training

    rueda.init()
    rate = training.LearningRate(0.001, "capped:1.5@4")  # 0.0015 with four or more ranks
    batch = training.plan_batch(256)
    sampler = training.Sampler(len(data), batch.total, remainder="pad")
    for step in range(1000):
        share = sampler.at_step(step)
        train(data[share.indices], rate.at(step), share.weight)

The module rueda.torch.training has the helpers that are specific to PyTorch. See docs/training-in-python.md.
"""

from __future__ import annotations

from rueda.training._backup import BackupAndRestore, RandomState, seed_step
from rueda.training._batch import Batch, plan_batch
from rueda.training._checkpoint_parts import TensorPart, split_rows
from rueda.training._checkpoints import CheckpointInfo, CheckpointManager
from rueda.training._cores import Cores, use_cores
from rueda.training._curves import draw_curves
from rueda.training._evaluation import Auc, Mean
from rueda.training._gradients import clip_factor, clip_gradients, gradient_norm
from rueda.training._job_summary import JobReport, JobSummary, RankReport
from rueda.training._learning_rate import (
    CosineDecay,
    LearningRate,
    Plateau,
    Scaling,
    StepDecay,
    momentum_correction,
)
from rueda.training._metric_files import MetricsWriter, progress
from rueda.training._prediction import predict
from rueda.training._rank_work import on_all_ranks, on_rank_zero
from rueda.training._sampler import Sampler, Share, shard

__all__ = [
    "Auc",
    "BackupAndRestore",
    "Batch",
    "CheckpointInfo",
    "CheckpointManager",
    "Cores",
    "CosineDecay",
    "JobReport",
    "JobSummary",
    "LearningRate",
    "Mean",
    "MetricsWriter",
    "Plateau",
    "RandomState",
    "RankReport",
    "Sampler",
    "Scaling",
    "Share",
    "StepDecay",
    "TensorPart",
    "clip_factor",
    "clip_gradients",
    "draw_curves",
    "gradient_norm",
    "momentum_correction",
    "on_all_ranks",
    "on_rank_zero",
    "plan_batch",
    "predict",
    "progress",
    "seed_step",
    "shard",
    "split_rows",
    "use_cores",
]
