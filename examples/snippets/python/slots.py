# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import array

import rueda

rueda.init()
value = array.array("d", [1.0])  # any object with the buffer protocol can be a tensor
slot = rueda.TensorSlot("value")  # operations with a slot need not look up the name
for _step in range(100):
    rueda.allreduce_(value, slot)
rueda.allreduce_(value)  # has no name, so the ranks match it by the order of their calls
assert value[0] == 1.0
