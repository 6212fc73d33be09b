# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""One rank of a job of test_faults.py. The first argument says how rank 1 ends the job. The other ranks print which
error they got."""

import ctypes
import os
import signal
import sys
import threading
import time

import numpy as np
import rueda


def fail(way: str) -> None:
    if way == "abort":
        rueda.abort("the loss is nan")
        try:
            rueda.allreduce(np.ones(3), "after it")
        except rueda.Aborted as error:
            heard(error)
        sys.exit(4)
    if way == "interrupt":
        main = threading.main_thread().ident

        def interrupt() -> None:
            time.sleep(0.2)
            signal.pthread_kill(main, signal.SIGINT)
            rueda.abort("interrupted")

        threading.Thread(target=interrupt).start()
        try:
            rueda.allreduce(np.ones(1000), "x")  # rank 2 never calls this operation
        except KeyboardInterrupt:
            os.write(1, b"<1: KeyboardInterrupt>\n")
            raise
    if way == "exit":
        ctypes.CDLL(None).exit(5)  # ends the process like main() of a C++ program, without Python's exit handlers
    raise ValueError("bad\nbatch")


def heard(error: rueda.Aborted) -> None:
    # Prints the text from "rank 1 has" on. The text before it depends on whether earlier operations were complete when
    # this rank noticed the end.
    os.write(1, f"<{rueda.rank()}: {str(error)[str(error).index('rank 1 has') :]}>\n".encode())


rueda.init()
try:
    rueda.barrier()
    if rueda.rank() == 1:
        fail(sys.argv[1])
    if rueda.rank() == 2:
        # the sleep stands for a computation, during which rank 2 does not check for failures
        time.sleep(float(sys.argv[2]))
    rueda.allreduce(np.ones(1000), "x")
except rueda.Aborted as error:
    heard(error)
    raise
