# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""One rank of a job of test_faults.py. The first argument says how rank 0 leaves. Rank 1 calls shutdown() only after
rank 0 was interrupted."""

import os
import pathlib
import signal
import sys
import threading
import time

import numpy as np
import rueda

way, folder = sys.argv[1], pathlib.Path(sys.argv[2])


def say(text: str) -> None:
    os.write(1, f"<{rank}: {text}>\n".encode())


def interrupt_once_in_shutdown() -> None:
    """Sends SIGINT to this process, as Ctrl-C does, while the main thread is in shutdown(). To find the right time, a
    second thread starts operations until one is refused because shutdown() has begun."""

    def send() -> None:
        while True:
            try:
                rueda.allreduce_async(np.ones(1))
            except rueda.RuedaError:
                break
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    threading.Thread(target=send, daemon=True).start()


def catch_the_interruption() -> None:
    interrupt_once_in_shutdown()
    try:
        rueda.shutdown()
        say("nothing came")
    except KeyboardInterrupt:
        say(f"KeyboardInterrupt, initialized {rueda.is_initialized()}")
    try:
        rueda.allreduce(np.ones(3), "late")
    except rueda.NotInitialized:
        say("NotInitialized")
    try:
        rueda.init()
    except rueda.InvalidArgument as error:
        say(str(error).split(",")[0])
    (folder / "interrupted").touch()
    rueda.shutdown()
    say(f"shut down, initialized {rueda.is_initialized()}")


def wait_for_abort() -> None:
    while True:
        try:
            rueda.allreduce(np.ones(3), "x")
        except rueda.RuedaError as error:
            if "has shut down" not in str(error):
                say(str(error).removeprefix("tensor 'x': "))
                os._exit(7)
        time.sleep(0.01)


rueda.init()
rank = rueda.rank()
if rank == 0:
    if way == "catch":
        catch_the_interruption()
    elif way == "interrupt at exit":
        interrupt_once_in_shutdown()  # the interpreter calls shutdown() at its end
elif way == "catch":
    while not (folder / "interrupted").exists():
        time.sleep(0.01)
    rueda.shutdown()
    say("shut down")
else:
    wait_for_abort()
