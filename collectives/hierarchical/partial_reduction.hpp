// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>

#include "ops/compression.hpp"
#include "ops/reduce.hpp"

namespace rueda::collectives {

/// A reduction over ranks of several hosts. Each host computes a partial result in the tensor's dtype.
///
/// Prescale is applied to the inputs. Postscale and the division of an average are applied to the result, once. There
/// is one exception: for a sum or an average of float16, whose largest value is 65504, they are applied to the partials
/// (ops::levels_of).
///
/// An average of integers divides the exact sum, which the dtype cannot hold. Its elements are carried as words
/// (ops/exact_sums.hpp) from the inputs to the outputs. In between, words are simply int64 values that are added.
///
/// The elements of a compressed tensor have 16 bits, from the moment when a host has combined its inputs until the
/// result is written. `between` and `last` combine such elements, in the tensor's own dtype. The division of an average
/// is applied to the partials, so that an average that fits into the 16-bit range has partials that fit as well.
/// Postscale is applied to the expanded result (`expanded_by`), so a user can move small values into float16's range by
/// prescale, and back by postscale.
struct PartialReduction {
    ops::Reduction within;   ///< combines the inputs of one host's ranks, in rank order
    ops::Reduction between;  ///< combines partials into another partial
    ops::Reduction last;     ///< combines partials into the result
    bool in_words = false;
    std::optional<ops::Compressed> compressed;
    double expanded_by = 1.0;         ///< the factor applied when the result is expanded; only if compressed
    std::uint64_t carried_bytes = 0;  ///< the size of an element between hosts and in results, in bytes

    /// How many times longer an element is when the ranks of a host stage it than when it crosses between hosts.
    [[nodiscard]] std::uint64_t staged_ratio() const {
        return compressed ? size_of(compressed->dtype) / carried_bytes : 1;
    }
};

[[nodiscard]] PartialReduction in_partials(const ops::Reduction& reduction, Compression compression);

}  // namespace rueda::collectives
