// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>

#include "ops/reduce.hpp"

namespace rueda::ops {

/// One call of reduce() with checked arguments, in the form that the kernels take.
struct Pass {
    const std::byte* const* sources;
    std::size_t source_count;
    std::byte* const* destinations;
    std::size_t destination_count;
    std::size_t count;  ///< elements
    bool streaming;
};

/// Handles what reduce_simd() does not: integers with an average, with scale factors or with a product.
void reduce_exact(const Reduction& reduction, const Pass& pass);

/// Handles floating-point types with any operation and any factors, integers with sum, min or max and without factors,
/// and bool.
void reduce_simd(const Reduction& reduction, const Pass& pass);

}  // namespace rueda::ops
