# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import numpy as np
import rueda

rueda.init()
rank, size = rueda.rank(), rueda.size()

# This is the gradient of an embedding of 1000 words. This rank's batch had the words 7 and 100 + rank.
words = np.array([100 + rank, 7])
gradient = np.full((2, 16), 1.0)

rows, total = rueda.sparse_allreduce(words, gradient, (1000, 16), "embedding", rueda.Sum)
assert rows.tolist() == [7, *range(100, 100 + size)]  # each once, ascending
assert total[0, 0] == size and (total[1:] == 1).all()
