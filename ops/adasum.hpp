// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/reduce.hpp"

namespace rueda::ops {

/// Adasum (Maleki et al., "Scaling Distributed Training with Adaptive Summation", 2020). For two vectors it is
///
///     adasum(a, b) = (1 − a·b / 2|a|²) a + (1 − a·b / 2|b|²) b
///
/// or a + b if one of them is zero. More vectors are combined in pairs, in a tree (docs/design/0007-adasum.md). Every
/// vector of the tree is a linear combination of the inputs. The coefficients depend only on the dot products of the
/// inputs with each other, their *Gram matrix*. A first pass over the inputs computes this matrix (DotProducts),
/// adasum_weights() computes the tree with numbers only, and a second pass computes the result (weighted_sum()). Both
/// passes compute in float64.
///
/// Threads: any thread may call these functions, each with its own objects. The floating-point environment must be the
/// default one, as for reduce().

/// The first function returns the number of pairs (i, j) with i ≤ j for a number of sources; the second returns the
/// position of one pair. All pairs with the same i are contiguous, in the order of j.
[[nodiscard]] constexpr std::size_t pairs_of(std::size_t sources) { return sources * (sources + 1) / 2; }
[[nodiscard]] constexpr std::size_t pair_index(std::size_t i, std::size_t j, std::size_t sources) {
    return i * sources - i * (i + 1) / 2 + j;
}

/// The dot products of a tensor are computed in this many parts, which are then added from the first to the last. So
/// the bits do not depend on which rank computes a part. The parts begin at multiples of 64 bytes and are otherwise as
/// equal as possible. All numbers here are byte offsets.
[[nodiscard]] constexpr std::uint64_t part_begin(std::uint64_t bytes, std::uint64_t part, std::uint64_t parts) {
    constexpr std::uint64_t kLine = 64;
    const std::uint64_t begin = (bytes + kLine - 1) / kLine * part / parts * kLine;
    return begin < bytes ? begin : bytes;
}

/// Computes the dot products of all pairs of sources over one part. The part may be passed in pieces; the pieces do not
/// affect the result. Element e of the part is added to lane e mod 8. Every 4096 elements the lanes are added to a
/// second level of lanes, which keeps the rounding errors of long tensors small. At the end the lanes of the second
/// level are added pair by pair.
class DotProducts {
public:
    static constexpr std::size_t kLanes = 8;
    static constexpr std::size_t kBlock = 4096;

    /// Begins a part. Allocates memory only if there are more sources than in all earlier parts.
    void begin(DType dtype, std::size_t sources);
    /// Adds the next `count` elements. A null source counts as zeros.
    void add(std::span<const std::byte* const> sources, std::size_t count);
    /// Ends the part and adds its sums to `dots`, which is indexed by pair.
    void end(std::span<double> dots);

private:
    void advance(std::size_t count);
    void close_block();

    DType dtype_ = DType::float32;
    std::size_t sources_ = 0;
    std::size_t in_block_ = 0;    // elements
    std::vector<double> open_;    // indexed by pair and lane
    std::vector<double> closed_;  // indexed by pair and lane
    // The sources of the current piece that are not null: their memory, and their index among all sources.
    std::vector<const std::byte*> memory_;
    std::vector<std::uint32_t> index_;
};

/// Computes the weight of each source in the result of the tree. `dots` holds the dot products of the `weights.size()`
/// sources; every weight is multiplied by `factor`. The tree over n sources is this: let p be the largest power of two
/// that is not above n, and r = n − p. The first 2r sources are combined in pairs. The results and the other sources
/// are p vectors. They are combined in a balanced tree, with lower sources on the left.
///
/// A vector of the tree counts as zero if its norm is below 2.4e-7 of the largest norm that the sum of its inputs could
/// have. In this case the inputs have cancelled each other, and only rounding errors are left.
void adasum_weights(std::span<const double> dots, double factor, std::span<double> weights);

/// Computes weights₀ · s₀ + weights₁ · s₁ + … for each element, from left to right in float64, and rounds once to the
/// dtype (a 16-bit type via float32). NaNs are treated as in reduce(). Null sources are left out. A destination may be
/// identical to a source.
void weighted_sum(DType dtype, std::span<const std::byte* const> sources, std::span<const double> weights,
                  std::span<std::byte* const> destinations, std::size_t count);

/// Runs the complete algorithm on complete tensors, in as many parts as there are sources. A null source counts as
/// zeros. The factors of `reduction` are applied to the result, because adasum(s·a, s·b) = s · adasum(a, b).
void adasum(const Reduction& reduction, std::span<const std::byte* const> sources,
            std::span<std::byte* const> destinations, std::size_t count);

}  // namespace rueda::ops
