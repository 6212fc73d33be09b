# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
even_ranks = range(0, rueda.size(), 2)
if len(even_ranks) < rueda.size():  # a set of all ranks always exists: rueda.global_process_set
    even = rueda.add_process_set(even_ranks)  # every rank calls this, even if it is not a member
    if even.included():
        total = rueda.allreduce(np.ones(3), "total", rueda.Sum, process_set=even)
        assert total[0] == even.size()
        assert rueda.broadcast_object(rueda.rank(), root_rank=0, process_set=even) == 0  # a rank of the job
    rueda.remove_process_set(even)  # again by all
rueda.shutdown()
