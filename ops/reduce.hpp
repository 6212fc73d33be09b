// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <span>

#include "rueda/types.hpp"

namespace rueda::ops {

/// Describes one pass over memory. Element i of every destination becomes
///
///     postscale * ( (prescale * s₀[i]) op (prescale * s₁[i]) op … )        combined from left to right
///
/// where s₀, s₁, … are the sources in the given order (rank order). So the bits do not depend on which rank computes
/// the pass, or on where the range is cut. `average` is a sum whose result is divided by `divisor`. Nothing is
/// multiplied by a factor of 1.
///
/// - float32, float64: every step is rounded to the element's type. The factors are converted to this type once. An
///   average is the sum times (postscale / divisor), which is computed in double.
/// - float16, bfloat16: computed as float32, and rounded to 16 bits (to nearest even) once at the end.
/// - Every NaN in a result is the positive quiet NaN without payload. min and max give NaN if any source has one, and
///   treat −0 as less than +0.
/// - Integers: sums and products wrap. An average divides the exact sum, without wrapping, and truncates toward zero.
///   With factors, input * prescale is computed in double and truncated. In the same way, result * postscale is
///   computed in double and truncated (for an average: sum * postscale / divisor, truncated once). For a value out of
///   the type's range, truncation gives the nearest limit of the range; for NaN it gives 0. Factors, averages and
///   products are not vectorised and always use ordinary stores.
/// - adasum, for floating-point types only, does not work element by element: the sources must be whole tensors, and
///   the range must not be cut (ops/adasum.hpp). A null source counts as a tensor of zeros.
/// - bool: every byte except 0 is true, and results are 0 or 1. min and product are a logical and, max is a logical or.
///   There is no sum, average or factor; such requests are refused earlier (core/negotiation/impossible.hpp).
struct Reduction {
    DType dtype = DType::float32;
    ReduceOp op = ReduceOp::sum;
    double prescale = 1.0;
    double postscale = 1.0;
    int divisor = 1;  ///< the number of contributing ranks; used for ReduceOp::average only
};

[[nodiscard]] constexpr bool is_floating_point(DType dtype) {
    return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32 || dtype == DType::float64;
}

/// Whether the dtype supports this operation with these factors. It is false for some combinations with bool, and for
/// adasum of integers.
[[nodiscard]] constexpr bool is_defined(const Reduction& reduction) {
    if (reduction.op == ReduceOp::adasum) {
        return is_floating_point(reduction.dtype);
    }
    return reduction.dtype != DType::boolean || (reduction.op != ReduceOp::sum && reduction.op != ReduceOp::average &&
                                                 reduction.prescale == 1.0 && reduction.postscale == 1.0);
}

/// Says how the destinations are written. Streaming is faster if the destinations are not also sources and hold more
/// bytes than the caches. Destinations that are sources are in the cache already.
enum class Store {
    cached,     ///< ordinary stores
    streaming,  ///< non-temporal stores if the CPU has them; reduce() executes an sfence after them, before it returns
};

/// Reduces `count` elements. There must be at least one source and one destination, and the reduction must satisfy
/// is_defined().
///
/// A destination may be identical to a source (in place) but may not overlap one in any other way. Destinations must
/// not overlap each other. Pointers need no alignment beyond that of a byte. The function never reads or writes outside
/// [0, count). The floating-point environment must be the default one (base::DefaultFloatingPoint).
///
/// Threads: any. The function uses only the given memory. It allocates nothing, except for adasum.
void reduce(const Reduction& reduction, std::span<const std::byte* const> sources,
            std::span<std::byte* const> destinations, std::size_t count, Store store = Store::cached);

/// Copies `bytes` bytes from `source` to `destination`. The two may be identical, but may not overlap otherwise.
void copy(std::byte* destination, const std::byte* source, std::size_t bytes, Store store = Store::cached);

/// The name of the SIMD target in use, for log lines and benchmark reports; for example "AVX3", which means AVX-512.
[[nodiscard]] const char* simd_target();

}  // namespace rueda::ops
