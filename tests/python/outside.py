# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A user's program that works without NumPy. It prints the sum of rank + 1 over all ranks."""

import array
import asyncio
import importlib.util

import rueda


async def reduced(tensor):
    return await rueda.allreduce_async_(tensor, "sum", rueda.Sum)


rueda.init()
total = asyncio.run(reduced(array.array("d", [rueda.rank() + 1.0])))
assert rueda.broadcast_(bytearray([rueda.rank() + 5]), 0) == b"\x05"
(member,) = rueda.grouped_allreduce_([array.array("f", [2.0])], op=rueda.Max)
assert member[0] == 2.0
gathered = bytearray(rueda.size())
assert rueda.allgather(bytes([rueda.rank()]), out=gathered) is gathered and list(gathered) == list(range(rueda.size()))
rueda.barrier()
if importlib.util.find_spec("numpy") is None:
    try:
        rueda.allgather(total)
    except ImportError as error:
        assert "pip install numpy" in str(error)
    else:
        raise SystemExit("made a NumPy array without NumPy")
print(f"rank {rueda.rank()} of {rueda.size()}: {total[0]}", flush=True)
