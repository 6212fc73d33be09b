# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import ctypes

import rueda

rueda.init()
buffer = (ctypes.c_float * 6)(*range(6))
view = rueda.TensorView(ctypes.addressof(buffer), (3, 2), rueda.DType.float32, owner=buffer)
rueda.allreduce_(view, "values")
assert list(buffer) == [0, 1, 2, 3, 4, 5]
