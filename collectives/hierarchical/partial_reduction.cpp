// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/partial_reduction.hpp"

#include "ops/groups.hpp"

namespace rueda::collectives {

PartialReduction in_partials(const ops::Reduction& reduction) {
    PartialReduction partial;
    if (const auto levels = ops::levels_of(reduction)) {
        partial.within = levels->within;
        partial.last = levels->across;
    } else {  // an average of integers
        partial.within = partial.last = reduction;
        partial.within.op = ReduceOp::sum;
        partial.within.postscale = 1.0;
        partial.last.prescale = 1.0;
    }
    partial.between = partial.last;
    partial.between.postscale = 1.0;
    if (reduction.op == ReduceOp::average) {
        partial.between.op = ReduceOp::sum;
    }
    return partial;
}

}  // namespace rueda::collectives
