// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/partial_reduction.hpp"

#include "ops/exact_sums.hpp"
#include "ops/groups.hpp"

namespace rueda::collectives {

PartialReduction in_partials(const ops::Reduction& reduction) {
    PartialReduction partial;
    if (ops::needs_words(reduction)) {
        partial.in_words = true;
        partial.within = partial.between = partial.last = {.dtype = DType::int64, .op = ReduceOp::sum};
        return partial;
    }
    const ops::Levels levels = *ops::levels_of(reduction);  // what has none is in words
    partial.within = levels.within;
    partial.last = levels.across;
    partial.between = partial.last;
    partial.between.postscale = 1.0;
    if (reduction.op == ReduceOp::average) {
        partial.between.op = ReduceOp::sum;
    }
    return partial;
}

std::uint64_t carried_bytes(const ops::Reduction& reduction) {
    return ops::needs_words(reduction) ? ops::words_of(reduction.dtype) * sizeof(std::int64_t)
                                       : size_of(reduction.dtype);
}

}  // namespace rueda::collectives
