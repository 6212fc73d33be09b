// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>

#include "ops/reduce.hpp"

namespace rueda::ops {

/// One call of reduce(), with checked arguments, in the form that the kernels need.
struct Pass {
    const std::byte* const* sources;
    std::size_t source_count;
    std::byte* const* destinations;
    std::size_t destination_count;
    std::size_t count;  ///< number of elements
    bool streaming;
};

/// Reduces integers with an average, with factors, or with a product.
void reduce_exact(const Reduction& reduction, const Pass& pass);

/// Reduce float32 and float64, or float16 and bfloat16, with any operation and any factors. These functions are in
/// separate files, because each takes seconds to compile for each SIMD target.
void reduce_floats(const Reduction& reduction, const Pass& pass);
void reduce_half_floats(const Reduction& reduction, const Pass& pass);

/// Reduces float8_e4m3fn and float8_e5m2 with any operation and any factors. Always uses ordinary stores.
void reduce_float8(const Reduction& reduction, const Pass& pass);

/// Reduces integers and bool with sum, minimum or maximum, without factors.
void reduce_integers(const Reduction& reduction, const Pass& pass);

}  // namespace rueda::ops
