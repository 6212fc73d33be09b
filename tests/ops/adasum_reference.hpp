// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "reference.hpp"

namespace rueda::ops::test {

/// Computes Adasum as the paper defines it: pair by pair, with whole vectors. All numbers are long double, and are not
/// rounded to a tensor's type. `vectors` is indexed by rank and element.
std::vector<long double> adasum_of_vectors(std::vector<std::vector<long double>> vectors);

/// Computes Adasum's result with the exact bits that docs/design/0007-adasum.md prescribes. Each owner (a rank that
/// computes a share of the tensor) divides its share into `of_each` consecutive parts, and sums the parts' dot
/// products. The tree combines weights instead of vectors.
Bytes expected_adasum(const Reduction& reduction, const std::vector<Bytes>& sources, std::size_t count,
                      std::uint32_t owners, std::uint32_t of_each);

std::vector<long double> values_of(DType dtype, const Bytes& elements);

/// Returns numbers around 1, like gradients; some tensors are zeros, and a few contain a NaN.
Bytes random_gradients(DType dtype, std::size_t count, std::mt19937_64& random);

}  // namespace rueda::ops::test
