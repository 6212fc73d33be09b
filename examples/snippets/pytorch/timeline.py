# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import json
import os
import tempfile

import rueda.torch as hvd
import torch

hvd.init()
path = hvd.broadcast_object(os.path.join(tempfile.gettempdir(), f"timeline-{os.getpid()}.json"))
hvd.start_timeline(path)  # one file for all ranks
hvd.allreduce(torch.ones(1000), name="ones")
hvd.stop_timeline()
hvd.barrier()
if hvd.rank() == 0:
    with open(path, encoding="utf-8") as file:  # chrome://tracing and ui.perfetto.dev can show this file
        assert {event["pid"] for event in json.load(file)} == set(range(hvd.size()))
    os.remove(path)
