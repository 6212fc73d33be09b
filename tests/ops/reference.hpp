// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/reduce.hpp"

namespace rueda::ops::test {

using Bytes = std::vector<std::byte>;

/// What reduce() must give, bit for bit, computed one element at a time in wider arithmetic: integers in 128 bits,
/// float32 in double and float64 in 128-bit floating point (each step rounded back once), 16-bit types through their
/// value and a search for the nearest representable one.
Bytes expected(const Reduction& reduction, const std::vector<Bytes>& sources, std::size_t count);

/// What reduce_in_groups() must give: the definition, spelt out. Partial results are of the dtype, and the factors
/// where they belong; integers are the same in any order.
using GroupSizes = std::vector<std::uint32_t>;
Bytes expected_in_groups(const Reduction& reduction, const std::vector<Bytes>& sources, const GroupSizes& sizes,
                         std::size_t count);

/// The value of a 16-bit pattern, and the nearest pattern of a value (ties to even).
double decode(DType dtype, std::uint16_t bits);
std::uint16_t encode(DType dtype, double value);

}  // namespace rueda::ops::test
