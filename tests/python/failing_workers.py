# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Starts multiprocessing's workers as ranks. The second argument says how rank 1 fails. The program prints what
the other ranks report, and how each worker ends."""

import multiprocessing
import os
import sys

import numpy as np
import rueda


def work(rank: int, way: str, name: str) -> None:
    os.environ.update(RUEDA_RANK=str(rank), RUEDA_SIZE="3", RUEDA_LOCAL_RANK=str(rank), RUEDA_LOCAL_SIZE="3")
    os.environ["RUEDA_RENDEZVOUS"] = name
    rueda.init()
    if rank == 1 and way != "orderly":
        rueda.allreduce(np.ones(2), "together")
        if way == "exit":
            sys.exit(5)
        raise ValueError("my data is missing")
    try:
        rueda.allreduce(np.ones(2), "together")
        if way == "orderly":
            sys.exit(0)
        rueda.allreduce(np.ones(2), "alone")
    except rueda.Aborted as error:
        # the operation "together" may fail on this rank, too, if it has completed only on rank 1
        tensor, reason = str(error).split(": ", 1)
        assert tensor in ("tensor 'together'", "tensor 'alone'"), tensor
        os.write(1, f"<{rank}: {reason}>\n".encode())


if __name__ == "__main__":
    start, way = sys.argv[1:]
    if way == "raise":  # in this mode, the program that starts the workers was itself a rank of an earlier job
        rueda.init()
        rueda.shutdown()
    context = multiprocessing.get_context(start)
    workers = [context.Process(target=work, args=(rank, way, f"@workers-{os.getpid()}")) for rank in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print([worker.exitcode for worker in workers])
