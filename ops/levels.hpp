// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <optional>

#include "ops/reduce.hpp"

namespace rueda::ops {

/// A reduction in two levels. First the sources of each group are combined into a partial result. Then the groups'
/// partial results are combined into the result.
struct Levels {
    Reduction within;  ///< combines the sources of a group, from left to right
    Reduction across;  ///< combines the groups' partial results, from left to right
};

/// Splits a reduction into two levels. A partial result has the same dtype as the elements, and is rounded like any
/// result. The first level (`within`) applies prescale. The second level (`across`) applies postscale and the division
/// of an average. There is an exception: for sums and averages of float16 and of 8-bit floats, the first level applies
/// all of them. The range of these types is small (the largest float16 is 65504). Thanks to this exception, the partial
/// results of an average fit into the type if the average fits.
///
/// Returns nothing for Adasum, because its tree of pairs depends on the ranks. Also returns nothing for an average of
/// integers. Such an average divides the exact sum, and this sum can be too large for a partial result of the dtype.
[[nodiscard]] std::optional<Levels> levels_of(const Reduction& reduction);

}  // namespace rueda::ops
