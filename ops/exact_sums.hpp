// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>

#include "ops/reduce.hpp"

namespace rueda::ops {

/// The average of integers divides the exact sum. Where that is made in several places, the sums between them have no
/// room in the dtype: they travel as *words*, of int64, which are added like any tensor (in any order), each by itself.
/// An element of up to 32 bits is one word; one of 64 bits is two, its upper half (with the sign, if it has one) and
/// its lower one: so 2^31 of them can be added.
[[nodiscard]] bool needs_words(const Reduction& reduction);

/// Of one element: 1 or 2.
[[nodiscard]] std::size_t words_of(DType dtype);

/// `elements`, each times the factor before as reduce() applies it.
void to_words(const Reduction& reduction, const std::byte* elements, std::byte* words, std::size_t count);

/// The result, with divisor and the factor after, from the sums of the words: the same bits as reduce() gives from all
/// elements.
void average_words(const Reduction& reduction, const std::byte* words, std::byte* elements, std::size_t count);

}  // namespace rueda::ops
