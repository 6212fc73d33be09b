// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/hierarchical/partial_reduction.hpp"

#include "ops/exact_sums.hpp"
#include "ops/levels.hpp"

namespace rueda::collectives {

namespace {

PartialReduction in_words(const ops::Reduction& reduction) {
    PartialReduction partial;
    partial.in_words = true;
    partial.within = partial.between = partial.last = {.dtype = DType::int64, .op = ReduceOp::sum};
    partial.carried_bytes = ops::words_of(reduction.dtype) * sizeof(std::int64_t);
    return partial;
}

PartialReduction compressed(const ops::Reduction& reduction, Compression compression) {
    PartialReduction partial;
    partial.compressed = ops::Compressed{reduction.dtype, compression};
    partial.expanded_by = reduction.postscale;
    partial.carried_bytes = ops::kCompressedBytes;
    partial.within = reduction;
    partial.within.postscale = 1.0;
    if (reduction.op == ReduceOp::average) {
        partial.within.op = ReduceOp::sum;
        partial.within.postscale = 1.0 / reduction.divisor;
    }
    partial.between = partial.last = {.dtype = reduction.dtype, .op = partial.within.op};
    return partial;
}

}  // namespace

PartialReduction in_partials(const ops::Reduction& reduction, Compression compression) {
    if (ops::needs_words(reduction)) {
        return in_words(reduction);
    }
    if (compression != Compression::none) {
        return compressed(reduction, compression);
    }
    PartialReduction partial;
    // The optional result of levels_of() is empty only for exact sums, and in_words() above has handled these.
    const ops::Levels levels = *ops::levels_of(reduction);
    partial.within = levels.within;
    partial.last = levels.across;
    partial.between = partial.last;
    partial.between.postscale = 1.0;
    if (reduction.op == ReduceOp::average) {
        partial.between.op = ReduceOp::sum;
    }
    partial.carried_bytes = size_of(reduction.dtype);
    return partial;
}

}  // namespace rueda::collectives
