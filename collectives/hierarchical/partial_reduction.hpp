// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

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
struct PartialReduction {
    ops::Reduction within;   ///< a host's inputs, by rank
    ops::Reduction between;  ///< partials, to another partial
    ops::Reduction last;     ///< partials, to the result
    bool in_words = false;
};

[[nodiscard]] PartialReduction in_partials(const ops::Reduction& reduction);

/// Of an element, on the way.
[[nodiscard]] std::uint64_t carried_bytes(const ops::Reduction& reduction);

}  // namespace rueda::collectives
