# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda

rueda.init()
if rueda.rank() == 0:
    with rueda.busy("preparing the data"):  # a stall report about this rank shows this text
        pass  # … something that only one rank does …
rueda.begin_step(0)  # the number of the step, which must not decrease: for ruedarun, rueda top and stall reports
rueda.barrier()  # no rank continues before all ranks have called this
