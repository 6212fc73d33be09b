// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "reference.hpp"

namespace rueda::ops::test {

/// The paper's definition: pair by pair, vectors all the way, in long double and never rounded to the dtype. By rank,
/// then by element.
std::vector<long double> adasum_of_vectors(std::vector<std::vector<long double>> vectors);

/// What docs/design/0007-adasum.md says about the bits, spelt out: the dot products in so many parts, `of_each` after
/// one another for every owner, and the tree in numbers.
Bytes expected_adasum(const Reduction& reduction, const std::vector<Bytes>& sources, std::size_t count,
                      std::uint32_t owners, std::uint32_t of_each);

std::vector<long double> values_of(DType dtype, const Bytes& elements);

/// Numbers around 1, as gradients are not alike; now and then a tensor of zeros, and seldom one with a NaN.
Bytes random_gradients(DType dtype, std::size_t count, std::mt19937_64& random);

}  // namespace rueda::ops::test
