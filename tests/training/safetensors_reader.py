# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Reads and writes safetensors files. The code follows the description of the format and shares nothing with the
library."""

import json
import struct


def read(path):
    """Returns {name: (dtype, shape, bytes)} and the metadata."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length].decode("utf-8"))
    data = content[8 + length :]
    metadata = header.pop("__metadata__", {})
    covered = sorted(entry["data_offsets"] for entry in header.values())
    ends = [0] + [end for _, end in covered]
    assert [begin for begin, _ in covered] == ends[:-1] and ends[-1] == len(data), "gaps or overlaps"
    tensors = {
        name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])]) for name, entry in header.items()
    }
    return tensors, metadata


def write(path, tensors, metadata):
    """Writes `tensors` (as returned by read()) in the given order."""
    header = {"__metadata__": metadata} if metadata else {}
    place = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [place, place + len(data)]}
        place += len(data)
    text = json.dumps(header).encode("utf-8")
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            file.write(data)
