// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>

#include "rueda/types.hpp"

namespace rueda::ops {

/// The sources of a pass that are not null.
struct PresentSources {
    const std::byte* const* memory;
    const std::uint32_t* index;  ///< each source's position among all sources
    std::size_t count;
    std::size_t all;
};

/// Adds the products of `count` elements to `lanes`, which is indexed by pair and lane. `count` must be a multiple of
/// 8. Element 0 belongs to lane 0.
void add_products(DType dtype, const PresentSources& sources, std::size_t count, double* lanes);
/// Like add_products(), but for up to 8 elements, of which the first belongs to lane `lane`.
void add_products_singly(DType dtype, const PresentSources& sources, std::size_t count, std::size_t lane,
                         double* lanes);
/// Computes the weighted sum of the sources. The first source must not be null; other sources that are null are left
/// out.
void add_weighted(DType dtype, const std::byte* const* sources, const double* weights, std::size_t source_count,
                  std::byte* const* destinations, std::size_t destination_count, std::size_t count);

}  // namespace rueda::ops
