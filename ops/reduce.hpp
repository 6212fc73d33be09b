// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <span>

#include "rueda/types.hpp"

namespace rueda::ops {

/// One pass over memory: element i of every destination becomes
///
///     postscale * ( (prescale * s₀[i]) op (prescale * s₁[i]) op … )        combined from left to right
///
/// with s₀, s₁, … in the order given (rank order), so the bits do not depend on who computes the pass or on where it
/// is cut. `average` is a sum whose result is divided by `divisor`. A factor of 1 is left out.
///
/// - float32, float64: every step is rounded in the element's type; the factors are converted to it once. An average is
///   the sum times (postscale / divisor), which is computed in double.
/// - float16, bfloat16: as float32, which is rounded to the 16 bits (to nearest even) once, at the end.
/// - Every NaN in a result is the positive quiet NaN without payload. min and max give NaN where a source has one, and
///   take −0 as less than +0.
/// - Integers: sums and products wrap. An average divides the exact sum, without wrapping, and truncates toward zero.
///   With factors, an input times prescale is computed in double and truncated, and so is the result times postscale
///   (of an average: sum * postscale / divisor, truncated once). Truncation gives the nearest limit for what is out of
///   the type's range, and 0 for NaN. Factors, averages and products are not vectorised, and stored by ordinary stores
///   always.
/// - adasum, of floating-point types, is not made element by element: the sources must be whole tensors, and the range
///   must not be cut (ops/adasum.hpp). A source may be null there, which is a tensor of zeros.
/// - bool: every byte but 0 is true, and results are 0 and 1. min and product are and, max is or. There is no sum, no
///   average and no factor: who asks for them is refused before (core/negotiation/impossible.hpp).
struct Reduction {
    DType dtype = DType::float32;
    ReduceOp op = ReduceOp::sum;
    double prescale = 1.0;
    double postscale = 1.0;
    int divisor = 1;  ///< number of contributing ranks; read for ReduceOp::average only
};

[[nodiscard]] constexpr bool is_floating_point(DType dtype) {
    return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32 || dtype == DType::float64;
}

/// Whether the dtype has that operation and these factors; false for some of bool, and for adasum of integers.
[[nodiscard]] constexpr bool is_defined(const Reduction& reduction) {
    if (reduction.op == ReduceOp::adasum) {
        return is_floating_point(reduction.dtype);
    }
    return reduction.dtype != DType::boolean || (reduction.op != ReduceOp::sum && reduction.op != ReduceOp::average &&
                                                 reduction.prescale == 1.0 && reduction.postscale == 1.0);
}

/// How the destinations are written. Streaming pays for more bytes than the caches hold in destinations that are not
/// sources as well: those are in the cache already.
enum class Store {
    cached,     ///< ordinary stores
    streaming,  ///< non-temporal stores where the CPU has them; ended by an sfence before returning
};

/// Reduces `count` elements. At least one source and one destination, and a reduction that is_defined().
///
/// A destination may be identical to a source (in place) but may not overlap one in any other way; destinations do not
/// overlap each other. Pointers need no alignment beyond that of a byte. Never reads or writes outside [0, count).
/// The floating-point environment must be the default one (base::DefaultFloatingPoint).
/// Threads: any; touches only the memory given, allocates nothing (but for adasum).
void reduce(const Reduction& reduction, std::span<const std::byte* const> sources,
            std::span<std::byte* const> destinations, std::size_t count, Store store = Store::cached);

/// `bytes` from `source` to `destination`; they may be identical but not otherwise overlap.
void copy(std::byte* destination, const std::byte* source, std::size_t bytes, Store store = Store::cached);

/// The SIMD target in use, for example "AVX3" for AVX-512: for log lines and benchmark reports.
[[nodiscard]] const char* simd_target();

}  // namespace rueda::ops
