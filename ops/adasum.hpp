// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/reduce.hpp"

namespace rueda::ops {

/// Adasum (Maleki et al., "Scaling Distributed Training with Adaptive Summation", 2020). Of two vectors
///
///     adasum(a, b) = (1 − a·b / 2|a|²) a + (1 − a·b / 2|b|²) b
///
/// and a + b where one of them is zero; of more, a tree of pairs (docs/design/0007-adasum.md). Every vector of the tree
/// is a linear combination of the inputs, so the dot products of the inputs with each other, their *Gram matrix*, are
/// all that its coefficients depend on. One pass over the inputs finds it (DotProducts), the tree is worked out in
/// numbers (adasum_weights()), and a second pass makes the result (weighted_sum()). Both passes compute in float64.
///
/// Threads: any, each with its own objects. The floating-point environment must be the default one, as of reduce().

/// Pairs (i, j) of so many sources with i ≤ j; the pairs of one i lie together, in the order of j.
[[nodiscard]] constexpr std::size_t pairs_of(std::size_t sources) { return sources * (sources + 1) / 2; }
[[nodiscard]] constexpr std::size_t pair_index(std::size_t i, std::size_t j, std::size_t sources) {
    return i * sources - i * (i + 1) / 2 + j;
}

/// The dot products of a tensor are made in so many parts, one by one, and added from the first to the last: whoever
/// makes a part, the bits are those of the whole. Cut at lines of 64 bytes, as even as these allow; offsets in bytes.
[[nodiscard]] constexpr std::uint64_t part_begin(std::uint64_t bytes, std::uint64_t part, std::uint64_t parts) {
    constexpr std::uint64_t kLine = 64;
    const std::uint64_t begin = (bytes + kLine - 1) / kLine * part / parts * kLine;
    return begin < bytes ? begin : bytes;
}

/// The dot products of all pairs of sources over one part, which comes piece by piece; where it is cut into pieces
/// changes nothing. Element e of the part is added to lane e mod 8; every 4096 elements the lanes are added to lanes of
/// a second level, which keeps the rounding errors of long tensors small; at the end these are added pair by pair.
class DotProducts {
public:
    static constexpr std::size_t kLanes = 8;
    static constexpr std::size_t kBlock = 4096;

    /// A part begins. Allocates where there were fewer sources before.
    void begin(DType dtype, std::size_t sources);
    /// The next `count` elements. A source that is null is zero.
    void add(std::span<const std::byte* const> sources, std::size_t count);
    /// The part ends: adds what it has to `dots`, by pair.
    void end(std::span<double> dots);

private:
    void advance(std::size_t count);
    void close_block();

    DType dtype_ = DType::float32;
    std::size_t sources_ = 0;
    std::size_t in_block_ = 0;    // elements
    std::vector<double> open_;    // by pair and lane
    std::vector<double> closed_;  // likewise
    // Of the piece under way: the sources that are there.
    std::vector<const std::byte*> memory_;
    std::vector<std::uint32_t> index_;
};

/// What each source counts in the result: the tree of `weights.size()` sources, whose dot products are `dots`, times
/// `factor`. The tree: of n = p + r sources, p being the largest power of two in n, the first 2r are combined in pairs,
/// and the p that there are then in a balanced tree, lower ones to the left.
///
/// A vector of the tree is taken for zero where its norm is below 2.4e-7 of what its inputs could add up to: they have
/// cancelled, and what is left is their rounding errors.
void adasum_weights(std::span<const double> dots, double factor, std::span<double> weights);

/// Element by element weights₀ · s₀ + weights₁ · s₁ + …, from left to right in float64, rounded to the dtype once (a
/// 16-bit type by way of float32); NaNs as reduce() gives them. Sources that are null are left out. A destination may
/// be a source.
void weighted_sum(DType dtype, std::span<const std::byte* const> sources, std::span<const double> weights,
                  std::span<std::byte* const> destinations, std::size_t count);

/// All of it, of whole tensors, in as many parts as there are sources; null is zero. `reduction`: the factors are
/// applied to the result, as adasum(s·a, s·b) = s · adasum(a, b).
void adasum(const Reduction& reduction, std::span<const std::byte* const> sources,
            std::span<std::byte* const> destinations, std::size_t count);

}  // namespace rueda::ops
