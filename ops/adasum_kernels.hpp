// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "rueda/types.hpp"

namespace rueda::ops {

/// Some sources, of which those that are zero are left out.
struct PresentSources {
    const std::byte* const* memory;
    const std::uint32_t* index;  ///< of each among all
    std::size_t count;
    std::size_t all;
};

/// Adds the products of `count` elements, a multiple of 8, to `lanes` (by pair and lane). Element 0 is of lane 0.
void add_products(DType dtype, const PresentSources& sources, std::size_t count, double* lanes);
/// The same of up to 8 elements, of which the first is of lane `lane`.
void add_products_singly(DType dtype, const PresentSources& sources, std::size_t count, std::size_t lane,
                         double* lanes);
/// The first source is not null; others that are, are left out.
void add_weighted(DType dtype, const std::byte* const* sources, const double* weights, std::size_t source_count,
                  std::byte* const* destinations, std::size_t destination_count, std::size_t count);

}  // namespace rueda::ops
