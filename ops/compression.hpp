// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <span>

#include "ops/reduce.hpp"

namespace rueda::ops {

/// float32 or float64 elements that travel as 16 bits: `dtype` and what they become, which is not Compression::none.
///
/// Rounding is to nearest even, in one step, also from float64. What is beyond the 16 bits' range becomes infinite:
/// from 65520 on in float16, from about 3.396e38 on in bfloat16. What is below it ends in its subnormals, and in zeros
/// that keep their sign. A NaN becomes the positive quiet NaN without payload.
struct Compressed {
    DType dtype = DType::float32;
    Compression compression = Compression::fp16;
};

/// Of an element on its way.
inline constexpr std::size_t kCompressedBytes = 2;

// Of all: `count` elements; pointers need no alignment beyond that of a byte; the floating-point environment must be
// the default one. A destination may be identical to a source of the same type, but may not overlap one in any other
// way. Threads: any.

void compress(const Compressed& way, const std::byte* elements, std::byte* halves, std::size_t count);

/// Each times `factor`, which is converted to the dtype and left out where it is 1: that rounds, and nothing else.
void expand(const Compressed& way, const std::byte* halves, std::byte* elements, double factor, std::size_t count);

/// From left to right, in the dtype; the result is rounded to the 16 bits. `op`: sum, min, max or product.
void reduce_compressed(const Compressed& way, ReduceOp op, std::span<const std::byte* const> sources,
                       std::byte* destination, std::size_t count);

}  // namespace rueda::ops
