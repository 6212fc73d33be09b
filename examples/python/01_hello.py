# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Every process runs this program. init() makes the processes ranks of one job."""

import rueda

rueda.init()
print(f"hello from rank {rueda.rank()} of {rueda.size()}", flush=True)
