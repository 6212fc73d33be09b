# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import os
import pathlib
import tempfile
import threading

import rueda
import rueda.data

rueda.init()
form = rueda.data.Csv([rueda.data.CsvColumn("number", "int64")], header=False)


def numbers_of(source, batch, **share):
    """Returns the numbers that this rank reads in one epoch."""
    pipeline = rueda.data.Pipeline(source, form, batch=batch, **share)
    return [int(number) for step in pipeline for number in step["number"]]


with tempfile.TemporaryDirectory() as folder:  # each rank writes the same files for itself
    for part in range(4):
        lines = "".join(f"{10 * part + number}\n" for number in range(10))
        (pathlib.Path(folder) / f"part-{part}").write_text(lines)
    # Each rank reads its share of files that all ranks see.
    mine = numbers_of(f"{folder}/part-*", 8, rank=rueda.rank(), size=rueda.size())
    assert sorted(sum(rueda.allgather_object(mine), [])) == list(range(40))
    # All ranks of a host read the same samples, and each host has its share.
    same = numbers_of(f"{folder}/part-*", 8, rank=rueda.cross_rank(), size=rueda.cross_size())
    of_hosts = dict(rueda.allgather_object((rueda.cross_rank(), same)))
    assert sorted(sum(of_hosts.values(), [])) == list(range(40))

# Each host has FIFOs of its own, one for each of its ranks, in a folder that its first rank makes.
channels = tempfile.mkdtemp() if rueda.local_rank() == 0 else None
folders = rueda.allgather_object((rueda.cross_rank(), channels))
channels = next(path for host, path in folders if host == rueda.cross_rank() and path)
paths = [pathlib.Path(channels, f"channel-{number}") for number in range(rueda.local_size())]
path = paths[rueda.local_rank()]
os.mkfifo(path)
rueda.barrier()
lines = "".join(f"{100 * rueda.rank() + number}\n" for number in range(10))
threading.Thread(target=path.write_text, args=(lines,), daemon=True).start()  # in place of the storage service
fifos = [rueda.data.fifo(path) for path in paths]
mine = numbers_of(fifos, 4 * len(fifos), rank=rueda.local_rank(), size=rueda.local_size(), lanes=len(fifos))
assert mine == [100 * rueda.rank() + number for number in range(10)]
rueda.barrier()
path.unlink()
rueda.barrier()
if rueda.local_rank() == 0:
    os.rmdir(channels)
