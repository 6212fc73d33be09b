# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A producer for tests. It prints its address, and ends when its standard input ends.

    producer_process.py ADDRESS SECRET

The generator's arguments are the number of batches, the size of each batch, the seconds for each batch, and the batch
before which worker 1 kills itself (or None).
"""

import os
import signal
import sys
import time

import numpy as np
import rueda.data
from rueda.data._remote import messages

# The idle time, the interval and the number of probes of TCP keep-alive. With these values, a host that is cut off is
# noticed after 1 + 2 × 1 seconds.
messages.KEEP_ALIVE = (1, 1, 2)


def numbered(worker, total, size, seconds=0.0, dies_before=None):
    for number in range(worker.index, total, worker.count):
        if number < worker.index + worker.first_batch() * worker.count:
            continue
        time.sleep(seconds)
        if worker.index == 1 and number == dies_before:
            os.kill(os.getpid(), signal.SIGKILL)
        yield {"number": np.full(size, number), "from": np.array([worker.index, worker.epoch, os.getpid()])}


if __name__ == "__main__":
    with rueda.data.serve(numbered, sys.argv[1], secret=sys.argv[2], start_method="fork") as producer:
        print(producer.address, flush=True)
        # sys.stdin.read() would hold a lock, for which a forked worker would wait without end.
        while os.read(0, 1):
            pass
