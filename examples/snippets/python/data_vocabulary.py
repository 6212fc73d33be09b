# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import pathlib
import tempfile

import rueda
import rueda.data

rueda.init()
colours = rueda.data.Vocabulary(most_terms=10, grows=True)


def add_length(batch):  # a function of the program, with NumPy
    batch["length"] = batch["page"] % 7


with tempfile.TemporaryDirectory() as folder:  # each rank writes the same file for itself
    path = pathlib.Path(folder, "train.tfrecord")
    with rueda.data.TfrecordWriter(path) as writer:
        for number in range(60):
            colour = "red" if number % 3 == 0 else "green" if number % 2 == 0 else "blue"
            writer.write_example({"label": float(number % 2), "page": f"page-{number}", "colour": colour})

    features = [rueda.data.Feature("page", "uint8"), rueda.data.Feature("colour", "uint8")]
    pipeline = rueda.data.Pipeline(
        path,
        rueda.data.Examples(features),
        batch=10,
        rank=rueda.rank(),
        size=rueda.size(),
        epochs=2,
        maps=[rueda.data.Hash("page", buckets=1000), rueda.data.LookUp("colour", colours), add_length],
    )
    for _epoch in range(2):
        ids = {int(id) for batch in pipeline for id in batch["colour"]}
        colours.agree()  # all ranks now have the same terms
state = colours.state_dict()  # for the checkpoint
assert colours.terms() == ["blue", "green", "red"]
assert ids == {0, 1, 2}  # in the first epoch, all colours had the id 10
