# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Input data: batches from files, and batches from generators in worker processes, also on other hosts. All of them work
with any number of ranks, and also in a program that does not call rueda.init().

Example::

    import rueda.data

    pipeline = rueda.data.Pipeline("train-*.libsvm", rueda.data.Libsvm(), batch=32, shuffle=10_000)
    for batch in pipeline:
        print(batch["label"].mean())

See docs/data.md.
"""

from __future__ import annotations

from rueda.data._batches import Ragged
from rueda.data._decode import Decode
from rueda.data._errors import DecodeFailed, MapFailed, WorkerDied, WorkerFailed
from rueda.data._formats import (
    ArrayColumn,
    Csv,
    CsvColumn,
    Examples,
    Feature,
    Libsvm,
    Lines,
    Safetensors,
    Source,
    Tfrecords,
    WholeFiles,
    fifo,
    files,
    memory,
    sagemaker_channel,
)
from rueda.data._pipeline import Pipeline
from rueda.data._remote.producer import Producer, serve
from rueda.data._remote.receiver import remote
from rueda.data._terms import Hash, LookUp, Vocabulary, hash_texts
from rueda.data._weights import average_weight
from rueda.data._worker import WorkerInfo
from rueda.data._workers import Workers, WorkersStatistics, workers
from rueda.data._writer import TfrecordWriter

__all__ = [
    "ArrayColumn",
    "Csv",
    "CsvColumn",
    "Decode",
    "DecodeFailed",
    "Examples",
    "Feature",
    "Hash",
    "Libsvm",
    "Lines",
    "LookUp",
    "MapFailed",
    "Pipeline",
    "Producer",
    "Ragged",
    "Safetensors",
    "Source",
    "TfrecordWriter",
    "Tfrecords",
    "Vocabulary",
    "WholeFiles",
    "WorkerDied",
    "WorkerFailed",
    "WorkerInfo",
    "Workers",
    "WorkersStatistics",
    "average_weight",
    "fifo",
    "files",
    "hash_texts",
    "memory",
    "remote",
    "sagemaker_channel",
    "serve",
    "workers",
]
