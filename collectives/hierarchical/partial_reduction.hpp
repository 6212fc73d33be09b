// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>

#include "ops/compression.hpp"
#include "ops/reduce.hpp"

namespace rueda::collectives {

/// A reduction over ranks of several hosts, of which each makes a partial result of the tensor's dtype.
///
/// The factor before belongs to the inputs; the one after, and the division of an average, to the result, and are
/// applied once. But of a sum or an average of float16, whose range ends at 65504, they are applied to the partials
/// (ops::levels_of).
///
/// An average of integers divides the exact sum, which the dtype cannot hold: its elements are carried as words
/// (ops/exact_sums.hpp) from the inputs to the outputs, and on their way are nothing but int64 that are added.
///
/// A compressed tensor's partials are 16 bits from when its host has combined them, and so is the result until it is
/// written; `between` and `last` combine such, in the tensor's own dtype. The division of an average is applied to the
/// partials, so that an average that fits passes through partials that do; the factor after, to what the result has
/// become (`expanded_by`), so that the two factors can bring small values into float16's range and back.
struct PartialReduction {
    ops::Reduction within;   ///< a host's inputs, by rank
    ops::Reduction between;  ///< partials, to another partial
    ops::Reduction last;     ///< partials, to the result
    bool in_words = false;
    std::optional<ops::Compressed> compressed;
    double expanded_by = 1.0;         ///< where compressed
    std::uint64_t carried_bytes = 0;  ///< of an element, between hosts and in results

    /// How much longer an element is as a host's ranks stage it.
    [[nodiscard]] std::uint64_t staged_ratio() const {
        return compressed ? size_of(compressed->dtype) / carried_bytes : 1;
    }
};

[[nodiscard]] PartialReduction in_partials(const ops::Reduction& reduction, Compression compression);

}  // namespace rueda::collectives
