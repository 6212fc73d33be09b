# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda
import rueda.data


def batches_of(worker, rank, size):
    """Makes batches in a worker process: every rank's worker has its own part of 24 batches."""
    for number in range(rank * worker.count + worker.index, 24, size * worker.count):
        image = worker.empty((16, 3, 32, 32))  # memory that the trainer also sees, so no copy is needed
        image[...] = number
        yield {"image": image, "label": np.full(16, number)}


if __name__ == "__main__":  # a worker process imports this script, and must not run this part
    rueda.init()
    labels = 0
    with rueda.data.workers(batches_of, count=2, args=(rueda.rank(), rueda.size()), epochs=2) as batches:
        for _epoch in range(2):
            for batch in batches:  # torch.from_numpy(batch["image"]) is a tensor of the same memory
                assert (batch["image"][:, 0, 0, 0] == batch["label"]).all()
                labels += int(batch["label"].sum())
        print(batches.summary())
    total = rueda.allreduce(np.array([labels]), "labels", op=rueda.Sum)
    assert total[0] == 2 * 16 * sum(range(24))
