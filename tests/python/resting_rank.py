# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A job whose main thread stays in one place until a byte arrives on standard input. test_stacks.py reads the thread's
stack.

Usage: resting_rank.py sleep|read|hold_gil|own_handler|own_faulthandler|stall FILE
"""

import ctypes
import faulthandler
import os
import signal
import sys
import time

import numpy as np
import rueda

mode, file = sys.argv[1:]


def rest_in_sleep():
    while not os.path.exists(file):
        time.sleep(0.05)


def rest_in_read():
    assert os.read(0, 1) == b"x"


def rest_holding_the_gil():
    """Reads a byte while holding the GIL, because PyDLL does not release it. If a signal interrupted the call, it would
    return -1."""
    byte = ctypes.create_string_buffer(1)
    assert ctypes.PyDLL(None, use_errno=True).read(0, byte, 1) == 1, os.strerror(ctypes.get_errno())


def main():
    if mode == "own_handler":
        signal.signal(signal.SIGUSR2, lambda *_: print("the program's handler", file=sys.stderr, flush=True))
    rueda.init()
    if mode == "own_faulthandler":
        with open(file + ".traceback", "w") as own:
            faulthandler.register(signal.SIGUSR2, file=own, all_threads=False)
            print("ready", file=sys.stderr, flush=True)
            rest_in_sleep()
    elif mode == "stall":
        if rueda.rank() == 1:
            rest_in_sleep()
        rueda.allreduce(np.ones(1, np.float32), "loss")
    else:
        print("ready", file=sys.stderr, flush=True)
        {"sleep": rest_in_sleep, "read": rest_in_read, "hold_gil": rest_holding_the_gil, "own_handler": rest_in_sleep}[
            mode
        ]()
    rueda.shutdown()
    rueda.init()
    rueda.shutdown()


main()
