# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import array

import rueda

rueda.init()
value = array.array("d", [1.0])  # any object with the buffer protocol
slot = rueda.TensorSlot("value")  # saves the look-up of the name
for _step in range(100):
    rueda.allreduce_(value, slot)
rueda.allreduce_(value)  # without a name: matched by the order of the calls
assert value[0] == 1.0
