// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>

#include "ops/reduce.hpp"

namespace rueda::ops {

/// Whether the sums of this reduction must be exchanged as words. An average of integers divides the exact sum. If
/// several ranks compute parts of this sum, these parts may be too large for the dtype. The parts are therefore sent as
/// *words*, numbers of type int64. An element of up to 32 bits becomes one word. An element of 64 bits becomes two
/// words: its upper half (with the sign, if it has one) and its lower half. Each word is added by itself, in any order.
/// 2^31 elements can be added without overflow.
[[nodiscard]] bool needs_words(const Reduction& reduction);

/// Returns the number of words for one element: 1 or 2.
[[nodiscard]] std::size_t words_of(DType dtype);

/// Converts `elements` to words (see needs_words()). Each element is first multiplied by prescale, as in reduce().
void to_words(const Reduction& reduction, const std::byte* elements, std::byte* words, std::size_t count);

/// Computes the result from the sums of the words, with the division and postscale. The bits are the same as those of
/// reduce() over all elements.
void average_words(const Reduction& reduction, const std::byte* words, std::byte* elements, std::size_t count);

}  // namespace rueda::ops
