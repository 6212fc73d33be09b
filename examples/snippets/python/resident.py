# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
gradient = rueda.empty((300, 200), "float32")  # of zeros
gradient[:] = rueda.rank()
rueda.allreduce_(gradient, "gradient")  # reduced in place, without copies: the ranks of the host share this memory
assert (gradient == np.float32((rueda.size() - 1) / 2)).all()
