# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Lets stall reports show the Python frames of a rank's main thread (docs/design/0015-stacks.md).

Python's faulthandler has a signal handler that writes the traceback of the interrupted thread without the GIL. The
handler therefore works while a C extension holds the GIL. The native library has its own handler for the signal, which
calls faulthandler's handler.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import os

from rueda import _native
from rueda.errors import RuedaError

# The file that faulthandler writes to. It stays open, because faulthandler's handler stays registered.
_descriptor: int | None = None


def offer() -> None:
    """Lets the native library write Python tracebacks into stall reports. Call this function after each init. If there
    is no signal for stacks, or no memory for the file, the reports show only native frames.
    """
    global _descriptor
    number = _native.stack_signal()
    if number == 0:
        return
    with contextlib.suppress(RuedaError, OSError, RuntimeError, ValueError):
        if _descriptor is None:
            # faulthandler.register() replaces no handler of the program: the native library uses only a signal that
            # had no handler before.
            descriptor = os.memfd_create("rueda-traceback")
            faulthandler.register(number, file=descriptor, all_threads=False, chain=False)
            _descriptor = descriptor
            # When the interpreter ends, it frees what faulthandler's handler needs. After that, the native library must
            # not call the handler.
            atexit.register(_native.adopt_traceback_handler, -1)
        _native.adopt_traceback_handler(_descriptor)
