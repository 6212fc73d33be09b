// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/reduce.hpp"

namespace rueda::ops::test {

using Bytes = std::vector<std::byte>;

/// What reduce() must give, bit for bit, computed one element at a time in wider arithmetic. Integers are computed in
/// 128 bits, float32 in double, and float64 in 128-bit floating point, each step rounded back once. 16-bit types are
/// computed by value, with a search for the nearest representable number.
Bytes expected(const Reduction& reduction, const std::vector<Bytes>& sources, std::size_t count);

/// What a reduction in two levels (levels_of()) must give, written directly from its definition. Partial results have
/// the dtype, and the factors are applied where they belong. For integers the order does not matter.
using GroupSizes = std::vector<std::uint32_t>;
Bytes expected_in_groups(const Reduction& reduction, const std::vector<Bytes>& sources, const GroupSizes& sizes,
                         std::size_t count);

/// The value of a 16-bit pattern, and the nearest pattern for a value (ties to even).
double decode(DType dtype, std::uint16_t bits);
std::uint16_t encode(DType dtype, double value);

}  // namespace rueda::ops::test
