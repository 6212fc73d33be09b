# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""One rank of a job of test_faults.py. Rank 1 is killed. Every other rank prints one line with the error that it got.

With the argument "members", the other ranks are creating a process set with rank 1 when rank 1 dies. Each of them waits
for rank 1, or for a member that waits for rank 1.
"""

import asyncio
import os
import signal
import sys
import time

import numpy as np
import rueda


async def waited_for(handle):
    return await handle


rueda.init()
rueda.barrier()
if rueda.rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
begin = time.monotonic()
if sys.argv[1:] == ["members"]:
    try:
        rueda.add_process_set_among(range(rueda.size()))
        how = "no error"
    except rueda.Aborted as error:
        how = "Aborted, naming rank 1" if "rank 1" in str(error) else f"Aborted: {error}"
    seconds = time.monotonic() - begin
    os.write(1, f"<{rueda.rank()}: {how}; {'in time' if seconds < 5 else f'after {seconds:.1f} s'}>\n".encode())
    sys.exit()
handles = [rueda.allreduce_async(np.ones(1000), name) for name in ("awaited", "waited for")]
ends = []
for end in (lambda: asyncio.run(waited_for(handles[0])), handles[1].wait, rueda.barrier):
    try:
        end()
        ends.append("no error")
    except rueda.Aborted as error:
        ends.append("Aborted, naming rank 1" if "rank 1" in str(error) else f"Aborted: {error}")
seconds = time.monotonic() - begin
line = f"<{rueda.rank()}: {'; '.join(ends)}; {'in time' if seconds < 5 else f'after {seconds:.1f} s'}>\n"
os.write(1, line.encode())
