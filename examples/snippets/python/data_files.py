# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import pathlib
import tempfile

import numpy as np
import rueda
import rueda.data


def decode(name, content):
    """Reads an image in the simple format PGM. A real program calls the library of its image format here."""
    head, pixels = content.split(b"\n", 1)
    width, height = map(int, head.split()[1:3])
    image = np.frombuffer(pixels, np.uint8).reshape(height, width)
    return {"image": image, "label": float(pathlib.Path(name).parent.name == "bright")}


rueda.init()
with tempfile.TemporaryDirectory() as folder:  # each rank writes the same files for itself
    for number in range(20):
        path = pathlib.Path(folder, "bright" if number % 2 else "dark", f"{number}.pgm")
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"P5 4 4 255\n" + bytes([99 if number % 2 else 9]) * 16)

    pipeline = rueda.data.Pipeline(
        f"{folder}/*/*.pgm",
        rueda.data.WholeFiles(),
        batch=4,
        rank=rueda.rank(),
        size=rueda.size(),
        shuffle=20,
        maps=[rueda.data.Decode(decode)],
        map_ahead=2,
    )
    sums = np.zeros(2)  # of samples and labels
    for batch in pipeline:  # batch["image"] has the shape (samples, 4, 4)
        assert (batch["image"][:, 0, 0] == np.where(batch["label"] > 0, 99, 9)).all()
        sums += len(batch["label"]), batch["label"].sum()
total = rueda.allreduce(sums, "sums", op=rueda.Sum)
assert total.tolist() == [20, 10]
