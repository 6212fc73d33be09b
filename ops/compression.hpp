// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <span>

#include "ops/reduce.hpp"

namespace rueda::ops {

/// Describes float32 or float64 elements that are sent between hosts as 16 bits. `dtype` is their type in memory;
/// `compression` is the 16-bit format, never Compression::none.
///
/// Values are rounded to nearest even, in one step, also from float64. Values beyond the 16-bit range become infinite:
/// from 65520 on in float16, from about 3.396e38 on in bfloat16. Values below the range become subnormals, or zeros
/// that keep their sign. A NaN becomes the positive quiet NaN without payload.
struct Compressed {
    DType dtype = DType::float32;
    Compression compression = Compression::fp16;
};

/// Bytes of one compressed element.
inline constexpr std::size_t kCompressedBytes = 2;

// compress(), expand() and reduce_compressed() process `count` elements. Pointers need only the alignment of a byte.
// The floating-point environment must be the default one. A destination may be identical to a source of the same type.
// Apart from this, it must not overlap a source. Threads: any thread may call these functions.

void compress(const Compressed& way, const std::byte* elements, std::byte* halves, std::size_t count);

/// Expands each 16-bit element to the dtype, and multiplies it by `factor`, which is first converted to the dtype. Only
/// the multiplication rounds. If the factor is 1, there is no multiplication.
void expand(const Compressed& way, const std::byte* halves, std::byte* elements, double factor, std::size_t count);

/// Combines the sources from left to right in the dtype, and rounds the result to 16 bits. `op` must be sum, min, max
/// or product.
void reduce_compressed(const Compressed& way, ReduceOp op, std::span<const std::byte* const> sources,
                       std::byte* destination, std::size_t count);

}  // namespace rueda::ops
