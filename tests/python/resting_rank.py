# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A job whose main thread stays in one place until the test lets it continue: with a byte on standard input, or by
creating FILE. test_stacks.py reads the thread's stack.

Usage: resting_rank.py sleep|read|hold_gil|own_handler|own_faulthandler|stall|executing FILE
"""

import ctypes
import faulthandler
import mmap
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
    """Reads a byte while this thread holds the GIL: functions of a PyDLL do not release it. If a signal interrupted
    read(), read() would return -1."""
    byte = ctypes.create_string_buffer(1)
    assert ctypes.PyDLL(None, use_errno=True).read(0, byte, 1) == 1, os.strerror(ctypes.get_errno())


def reduce_with_a_rest():
    """Rank 1 stops in the middle of the operation, when it reads a page that it has no permission to read."""
    libc = ctypes.CDLL(None)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    gradient = np.frombuffer(mmap.mmap(-1, 4 << 20), np.float32)
    gradient[:] = 1
    page, page_bytes = gradient.ctypes.data + (5 << 19), 1 << 16

    @ctypes.CFUNCTYPE(None, ctypes.c_int)
    def let_it_read(_signal):
        rest_in_sleep()
        libc.mprotect(page, page_bytes, mmap.PROT_READ | mmap.PROT_WRITE)

    if rueda.rank() == 1:
        libc.signal(signal.SIGSEGV, let_it_read)
        libc.mprotect(page, page_bytes, 0)
    assert (rueda.allreduce(gradient, "gradient") == 1).all()


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
    elif mode == "executing":
        reduce_with_a_rest()
    else:
        print("ready", file=sys.stderr, flush=True)
        {"sleep": rest_in_sleep, "read": rest_in_read, "hold_gil": rest_holding_the_gil, "own_handler": rest_in_sleep}[
            mode
        ]()
    rueda.shutdown()
    rueda.init()
    rueda.shutdown()


main()
