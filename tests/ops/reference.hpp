// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/reduce.hpp"

namespace rueda::ops::test {

using Bytes = std::vector<std::byte>;

/// Computes the bits that reduce() must give, one element at a time. The arithmetic is wider than the type: integers in
/// 128 bits, float32 in double, and float64 in 128-bit floating point. Each step is rounded once. The 8-bit and 16-bit
/// floats are computed exactly, with a search for the nearest representable number.
Bytes expected(const Reduction& reduction, const std::vector<Bytes>& sources, std::size_t count);

/// Computes the bits of a reduction in two levels (levels_of()) from its definition. Partial results have the tensor's
/// type, and each factor is applied at its level. For integers the order does not matter.
using GroupSizes = std::vector<std::uint32_t>;
Bytes expected_in_groups(const Reduction& reduction, const std::vector<Bytes>& sources, const GroupSizes& sizes,
                         std::size_t count);

/// decode() returns the value of a pattern of 8 or 16 bits. encode() returns the pattern that is nearest to a value
/// (ties to even).
double decode(DType dtype, std::uint16_t bits);
std::uint16_t encode(DType dtype, double value);

}  // namespace rueda::ops::test
