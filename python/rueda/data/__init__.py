# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Input data: batches from generators in worker processes.

Example::

    import numpy as np
    import rueda.data

    def batches_of(worker):
        for number in range(worker.index, 10, worker.count):
            yield {"x": np.full((4, 8), number, "float32")}

    if __name__ == "__main__":
        with rueda.data.workers(batches_of, count=2) as batches:
            for batch in batches:
                print(batch["x"].mean())

See docs/data.md.
"""

from __future__ import annotations

from rueda.data._errors import WorkerDied, WorkerFailed
from rueda.data._worker import WorkerInfo
from rueda.data._workers import Workers, WorkersStatistics, workers

__all__ = ["WorkerDied", "WorkerFailed", "WorkerInfo", "Workers", "WorkersStatistics", "workers"]
