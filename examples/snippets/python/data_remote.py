# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import secrets

import numpy as np
import rueda
import rueda.data


def batches_of(worker, rank, size):
    """Makes batches in a worker process of a producer: every rank's worker has its own part of 24 batches."""
    for number in range(rank * worker.count + worker.index, 24, size * worker.count):
        image = worker.empty((16, 3, 32, 32))
        image[...] = number
        yield {"image": image, "label": np.full(16, number)}


if __name__ == "__main__":  # the processes that make and receive batches import this script
    rueda.init()
    secret = rueda.broadcast_object(secrets.token_hex(16), 0)
    # Here every rank is a producer, too. A producer can also be a program of its own that only calls serve().
    address = "127.0.0.1:0" if rueda.cross_size() == 1 else "0.0.0.0:0"
    with rueda.data.serve(batches_of, address, secret=secret) as producer:
        producers = rueda.allgather_object(producer.address)
        labels = 0
        with rueda.data.remote(producers, secret=secret, args=(rueda.rank(), rueda.size())) as batches:
            for batch in batches:  # torch.from_numpy(batch["image"]) is a tensor of the same memory
                assert (batch["image"][:, 0, 0, 0] == batch["label"]).all()
                labels += int(batch["label"].sum())
            print(batches.summary())
        total = rueda.allreduce(np.array([labels]), "labels", op=rueda.Sum)  # also waits for all ranks
        assert total[0] == 16 * sum(range(24))
