# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
settings = rueda.broadcast_object({"epochs": 3} if rueda.rank() == 0 else None)
assert settings["epochs"] == 3

accuracies = rueda.allgather_object({"rank": rueda.rank(), "accuracy": 0.5})
assert [entry["rank"] for entry in accuracies] == list(range(rueda.size()))

model = {"weight": np.full((2, 2), float(rueda.rank())), "layers": [np.full(3, rueda.rank())]}
rueda.broadcast_parameters(model, root_rank=0)
assert not model["weight"].any() and not model["layers"][0].any()
