# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""One rank of a job of test_faults.py. It trains in steps of many allreduces, of tiny ones in turn if the kind is small.
After SECONDS, the rank VICTIM is killed inside a step. Every other rank prints one line with the error that it got.

Usage: faulty_steps_rank.py adasum|compression|small VICTIM SECONDS [HOSTS]. HOSTS has a letter for each rank, which
names the rank's host.
"""

import os
import signal
import sys
import threading
import time

import numpy as np
import rueda

# a tensor travels in the announcement, in one chunk, or in many chunks, depending on its size
SIZES = (7, 5_000, 100_000, 400_000)
# between hosts, these tensors travel with the negotiation
SMALL_SIZES = (1, 7, 300, 512)


def tensors(sizes=SIZES):
    """Yields tensors of small integers, because sums of a few of them are exact in both 16-bit float types. Half of the
    tensors are in memory that rueda.empty() allocated."""
    for resident in (False, True):
        for size in sizes:
            tensor = rueda.empty(size, np.float32) if resident else np.empty(size, np.float32)
            tensor[...] = np.arange(size) % 17 - 8
            yield tensor


def begin(kind, name, tensor, out):
    out[...] = tensor
    if kind == "adasum":
        return rueda.allreduce_async_(out, name, rueda.Adasum)
    return rueda.allreduce_async_(out, name, rueda.Sum, compression=["fp16", "bf16"][len(tensor) % 2])


def steps_until_failure(kind):
    """Repeats allreduces and checks their results until one fails. For Adasum, all ranks have the same vector, which is
    also the result."""
    given = list(tensors())
    outs = list(tensors())
    factor = 1 if kind == "adasum" else rueda.size()
    while True:
        handles = [begin(kind, f"tensor {i}", *pair) for i, pair in enumerate(zip(given, outs, strict=True))]
        for handle, tensor in zip(handles, given, strict=True):
            np.testing.assert_array_equal(handle.result(), factor * tensor)


def small_steps_until_failure():
    """Repeats blocking allreduces of tiny tensors, one after the other, and checks their results until one fails."""
    given = list(tensors(SMALL_SIZES))
    while True:
        for i, tensor in enumerate(given):
            np.testing.assert_array_equal(rueda.allreduce(tensor, f"tensor {i}", rueda.Sum), rueda.size() * tensor)


def end_of(call, *arguments):
    try:
        call(*arguments)
    except rueda.Aborted as error:
        return str(error)


def main():
    kind, victim, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    if len(sys.argv) > 4:
        os.environ["RUEDA_HOSTNAME"] = "host-" + sys.argv[4][int(os.environ["OMPI_COMM_WORLD_RANK"])]
    rueda.init()
    rank = rueda.rank()

    def end():
        os.write(1, f"<killed {os.getpid()} {time.time():.6f}>\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)

    rueda.barrier()
    if rank == victim:
        threading.Timer(seconds, end).start()
    error = end_of(small_steps_until_failure) if kind == "small" else end_of(steps_until_failure, kind)
    failed = time.time()
    after = end_of(rueda.allreduce, np.ones(3), "after")
    os.write(1, f"<rank {rank} {os.getpid()} {failed:.6f} {error!r} {after!r}>\n".encode())


main()
