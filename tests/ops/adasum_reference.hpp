// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "reference.hpp"

namespace rueda::ops::test {

/// The paper's definition: pair by pair, with whole vectors, in long double and never rounded to the dtype. Indexed by
/// rank, then by element.
std::vector<long double> adasum_of_vectors(std::vector<std::vector<long double>> vectors);

/// The definition of the bits in docs/design/0007-adasum.md, written as code. The dot products are computed in parts,
/// `of_each` consecutive ones for every owner, and the tree in numbers.
Bytes expected_adasum(const Reduction& reduction, const std::vector<Bytes>& sources, std::size_t count,
                      std::uint32_t owners, std::uint32_t of_each);

std::vector<long double> values_of(DType dtype, const Bytes& elements);

/// Numbers around 1, like gradients that differ between ranks. Some tensors are zeros, and a few contain a NaN.
Bytes random_gradients(DType dtype, std::size_t count, std::mt19937_64& random);

}  // namespace rueda::ops::test
