// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ops/reduce.hpp"

namespace rueda::ops {

/// A reduction in two levels: the sources of each group to a partial result, and those to the result.
struct Levels {
    Reduction within;  ///< a group's sources, from left to right
    Reduction across;  ///< the groups' partial results, from left to right
};

/// A partial result is of the dtype itself, rounded like any result. The factor before belongs to `within` and the one
/// after to `across`; but of a sum or an average of float16, whose range ends at 65504, the factor after belongs to
/// `within` too, so that an average that fits does not pass through partial results that do not.
///
/// Nothing for adasum, whose tree of pairs is by rank; and nothing for an average of integers: it divides the exact
/// sum, which a partial result of the type cannot hold. No order of the sources changes it, nor any other reduction of
/// integers.
[[nodiscard]] std::optional<Levels> levels_of(const Reduction& reduction);

/// As reduce(), in two levels: `sources` group by group, of which each has the next `group_sizes[g]` (1 and more).
/// Gives the bits that reduce() gives with levels_of() for one group after the other, wherever the range is cut. At
/// most kMostInGroups groups, sources and destinations.
void reduce_in_groups(const Reduction& reduction, std::span<const std::byte* const> sources,
                      std::span<const std::uint32_t> group_sizes, std::span<std::byte* const> destinations,
                      std::size_t count, Store store = Store::cached);

inline constexpr std::size_t kMostInGroups = 64;

}  // namespace rueda::ops
