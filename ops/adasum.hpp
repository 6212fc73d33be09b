// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ops/reduce.hpp"

namespace rueda::ops {

/// Adasum (Maleki et al., "Scaling Distributed Training with Adaptive Summation", 2020). For two vectors that are not
/// zero, it is
///
///     adasum(a, b) = (1 − a·b / 2|a|²) a + (1 − a·b / 2|b|²) b
///
/// If one of the two vectors is zero, the result is a + b. More vectors are combined in pairs, in a tree
/// (docs/design/0007-adasum.md). Every vector of the tree is a linear combination of the inputs. The coefficients of
/// this combination depend only on the *Gram matrix*: the dot products of all pairs of inputs. The computation has
/// three steps. DotProducts computes the Gram matrix in a first pass over the inputs. adasum_weights() computes the
/// coefficients from this matrix. weighted_sum() computes the result in a second pass. Both passes compute in float64.
///
/// Threads: any thread may call these functions, each with its own objects. The floating-point environment must be the
/// default one (base::DefaultFloatingPoint).

/// pairs_of() returns the number of pairs (i, j) with i ≤ j for a number of sources. pair_index() returns the position
/// of the pair (i, j). All pairs with the same i are contiguous, in the order of j.
[[nodiscard]] constexpr std::size_t pairs_of(std::size_t sources) { return sources * (sources + 1) / 2; }
[[nodiscard]] constexpr std::size_t pair_index(std::size_t i, std::size_t j, std::size_t sources) {
    return i * sources - i * (i + 1) / 2 + j;
}

/// Returns the byte offset at which part `part` of a tensor of `bytes` bytes begins. The dot products of a tensor are
/// computed in `parts` parts, and then added from the first part to the last. The bits therefore do not depend on which
/// rank computes a part. Parts begin at multiples of 64 bytes, and are otherwise as equal as possible.
[[nodiscard]] constexpr std::uint64_t part_begin(std::uint64_t bytes, std::uint64_t part, std::uint64_t parts) {
    constexpr std::uint64_t kLine = 64;
    const std::uint64_t begin = (bytes + kLine - 1) / kLine * part / parts * kLine;
    return begin < bytes ? begin : bytes;
}

/// Computes the dot products of all pairs of sources over one part of a tensor. The part may be passed in pieces; the
/// result does not depend on the pieces. For each pair there are 8 sums, the lanes. The product of element e of the
/// part is added to lane e mod 8. After every 4096 elements, the lanes are added to a second group of 8 lanes, which
/// keeps the rounding errors of long tensors small. At the end the lanes of the second group are added in pairs.
class DotProducts {
public:
    static constexpr std::size_t kLanes = 8;
    static constexpr std::size_t kBlock = 4096;

    /// Begins a part. Allocates memory only if there are more sources than in all earlier parts.
    void begin(DType dtype, std::size_t sources);
    /// Adds the next `count` elements. A source that is null counts as zeros.
    void add(std::span<const std::byte* const> sources, std::size_t count);
    /// Ends the part, and adds its dot products to `dots`, which is indexed by pair.
    void end(std::span<double> dots);

private:
    void advance(std::size_t count);
    void close_block();

    DType dtype_ = DType::float32;
    std::size_t sources_ = 0;
    std::size_t in_block_ = 0;    // number of elements in the current block
    std::vector<double> open_;    // indexed by pair and lane
    std::vector<double> closed_;  // indexed by pair and lane
    // The sources of the current piece that are not null: `memory_` is their memory, `index_` their position among all
    // sources.
    std::vector<const std::byte*> memory_;
    std::vector<std::uint32_t> index_;
};

/// Computes the weight of each source in the result of the tree. `dots` holds the dot products of the `weights.size()`
/// sources. Every weight is multiplied by `factor`. For n sources, the tree is as follows. Let p be the largest power
/// of two that is not above n, and r = n − p. The first 2r sources are combined in pairs, which leaves p vectors. These
/// are combined in a balanced tree. The sources with the lower numbers are on the left.
///
/// A vector of the tree counts as zero if its norm is below 2.4e-7 of the largest norm that the sum of its inputs could
/// have. In this case its inputs have cancelled each other, and only rounding errors are left.
void adasum_weights(std::span<const double> dots, double factor, std::span<double> weights);

/// Computes weights₀ · s₀ + weights₁ · s₁ + … for each element, from left to right in float64. Rounds once to the dtype
/// (to a 16-bit type via float32). NaNs are treated as in reduce(). Sources that are null are left out. A destination
/// may be identical to a source.
void weighted_sum(DType dtype, std::span<const std::byte* const> sources, std::span<const double> weights,
                  std::span<std::byte* const> destinations, std::size_t count);

/// Computes Adasum of complete tensors. Each tensor is divided into as many parts as there are sources. A source that
/// is null counts as zeros. The factors of `reduction` are applied to the result:
/// adasum(s·a, s·b) = s · adasum(a, b).
void adasum(const Reduction& reduction, std::span<const std::byte* const> sources,
            std::span<std::byte* const> destinations, std::size_t count);

}  // namespace rueda::ops
