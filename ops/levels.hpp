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

/// Splits a reduction into two levels. A partial result has the dtype itself and is rounded like any result. Prescale
/// belongs to `within`, and postscale to `across`. Exception: for a sum or an average of float16, whose range ends at
/// 65504, postscale belongs to `within` too. An average that fits into the range then has partial results that fit as
/// well.
///
/// Returns nothing for adasum, because its tree of pairs follows the ranks. Returns nothing for an average of integers
/// either: it divides the exact sum, which a partial result of the dtype cannot hold.
[[nodiscard]] std::optional<Levels> levels_of(const Reduction& reduction);

}  // namespace rueda::ops
