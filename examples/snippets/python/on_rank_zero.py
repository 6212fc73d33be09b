# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
import rueda
from rueda import training

rueda.init()


def evaluate(samples: range) -> int:
    return sum(sample % 3 == 0 for sample in samples)  # stands for the number of right answers


# Rank 0 evaluates, and the other ranks go on. Stall reports and `rueda top` say that rank 0 is busy with "evaluate".
training.on_rank_zero("evaluate", lambda: print(evaluate(range(100))))

# All ranks get the result, so all ranks wait for rank 0.
right = training.on_rank_zero("evaluate", lambda: evaluate(range(100)), share=True)
assert right == 34

# All ranks evaluate a share, which takes less time.
assert sum(training.on_all_ranks("evaluate", lambda: evaluate(training.shard(100)))) == 34
