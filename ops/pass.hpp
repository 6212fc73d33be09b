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

/// Reductions of integers with an average, with scale factors or with a product.
void reduce_exact(const Reduction& reduction, const Pass& pass);

/// Reductions of float32 and float64, and of float16 and bfloat16, with any operation and any factors. These functions
/// are compiled separately, because each takes seconds for each SIMD target.
void reduce_floats(const Reduction& reduction, const Pass& pass);
void reduce_half_floats(const Reduction& reduction, const Pass& pass);

/// Reductions of integers and bool with sum, minimum or maximum and without factors.
void reduce_integers(const Reduction& reduction, const Pass& pass);

}  // namespace rueda::ops
