# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda

rueda.init()
print(
    f"rank {rueda.rank()} of {rueda.size()}; local rank {rueda.local_rank()} of {rueda.local_size()}; "
    f"cross rank {rueda.cross_rank()} of {rueda.cross_size()}; hosts alike: {rueda.is_homogeneous()}"
)
rueda.shutdown()
assert not rueda.is_initialized()
