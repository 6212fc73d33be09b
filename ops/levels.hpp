// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>

#include "ops/reduce.hpp"

namespace rueda::ops {

/// A reduction in two levels: first the sources of each group are combined into a partial result, then the partial
/// results are combined into the result.
struct Levels {
    Reduction within;  ///< combines the sources of a group, from left to right
    Reduction across;  ///< combines the groups' partial results, from left to right
};

/// Splits a reduction into two levels. A partial result has the same dtype and is rounded like any result. Prescale
/// belongs to `within`, and postscale to `across`. There is one exception: for a sum or an average of float16, whose
/// largest value is 65504, postscale also belongs to `within`. So if an average fits into this range, its partial
/// results fit as well.
///
/// Returns nothing for adasum, because its tree of pairs depends on the ranks. Also returns nothing for an average of
/// integers, because it divides the exact sum, which may not fit into a partial result of the dtype.
[[nodiscard]] std::optional<Levels> levels_of(const Reduction& reduction);

}  // namespace rueda::ops
