# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda

rueda.init()
if rueda.rank() == 0:
    with rueda.busy("preparing the data"):  # a stall report about this rank shows this text
        pass  # … something that only one rank does …
rueda.begin_step(0)  # ruedarun, rueda top and stall reports show this step; it must not decrease
rueda.barrier()  # returns when all ranks have called it
