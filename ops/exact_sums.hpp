// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>

#include "ops/reduce.hpp"

namespace rueda::ops {

/// The average of integers divides the exact sum. If several ranks compute parts of this sum, the intermediate sums may
/// not fit into the dtype. So they are sent as *words* of type int64. Words are added like the elements of any tensor,
/// in any order, each word by itself. An element of up to 32 bits becomes one word. An element of 64 bits becomes two
/// words: its upper half (with the sign, if it has one) and its lower half. So 2^31 elements can be added without
/// overflow.
[[nodiscard]] bool needs_words(const Reduction& reduction);

/// The number of words of one element: 1 or 2.
[[nodiscard]] std::size_t words_of(DType dtype);

/// Converts `elements` to words, after multiplying each by prescale in the same way as reduce().
void to_words(const Reduction& reduction, const std::byte* elements, std::byte* words, std::size_t count);

/// Computes the result from the sums of the words, including the division and postscale. The bits are the same as those
/// of reduce() over all elements.
void average_words(const Reduction& reduction, const std::byte* words, std::byte* elements, std::size_t count);

}  // namespace rueda::ops
