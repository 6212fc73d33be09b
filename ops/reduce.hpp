// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <span>

#include "rueda/types.hpp"

namespace rueda::ops {

/// Describes a reduction. Element i of every destination becomes
///
///     postscale * ( (prescale * s₀[i]) op (prescale * s₁[i]) op … )        combined from left to right
///
/// where s₀, s₁, … are the sources in the given order (the order of the ranks). The bits therefore do not depend on
/// which rank computes the reduction, or on where the range is cut. `average` is a sum whose result is divided by
/// `divisor`. If a factor is 1, there is no multiplication.
///
/// - float32, float64: every step is rounded to the element's type. The factors are converted to this type once. An
///   average is the sum times (postscale / divisor), and this factor is computed in double.
/// - float16, bfloat16: computed in float32, and rounded to 16 bits (to nearest even) once at the end.
/// - float8_e4m3fn, float8_e5m2: computed in float32, and rounded to 8 bits (to nearest even) once at the end. A result
///   above the range becomes infinity in float8_e5m2. float8_e4m3fn has no infinity, and the result becomes NaN.
/// - Every NaN in a result is the positive quiet NaN without payload. min and max give NaN if any source has one, and
///   treat −0 as less than +0.
/// - Integers: sums and products wrap. An average divides the exact sum, without wrapping, and truncates toward zero.
///   With factors, input * prescale is computed in double and truncated. Then result * postscale is computed in double
///   and truncated (for an average: sum * postscale / divisor, truncated once). A value outside the type's range
///   becomes the nearest limit of the range, and NaN becomes 0. Factors, averages and products are not vectorised, and
///   always use ordinary stores.
/// - adasum, only for floating-point types of 16 bits or more: it does not work element by element, so the sources must
///   be whole tensors, and the range must not be cut (ops/adasum.hpp). A source that is null counts as a tensor of
///   zeros.
/// - bool: every byte except 0 is true, and results are 0 or 1. min and product are a logical AND, max is a logical OR.
///   Sum, average and factors do not exist; such requests are refused earlier (core/negotiation/impossible.hpp).
struct Reduction {
    DType dtype = DType::float32;
    ReduceOp op = ReduceOp::sum;
    double prescale = 1.0;
    double postscale = 1.0;
    int divisor = 1;  ///< the number of ranks that contribute; used only for ReduceOp::average
};

[[nodiscard]] constexpr bool is_float8(DType dtype) {
    return dtype == DType::float8_e4m3fn || dtype == DType::float8_e5m2;
}

/// Whether Adasum can combine tensors of this dtype.
[[nodiscard]] constexpr bool has_adasum(DType dtype) {
    return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32 || dtype == DType::float64;
}

[[nodiscard]] constexpr bool is_floating_point(DType dtype) { return has_adasum(dtype) || is_float8(dtype); }

/// Whether the dtype supports this operation with these factors. The result is false for Adasum of integers and of
/// 8-bit floats, and for some combinations with bool.
[[nodiscard]] constexpr bool is_defined(const Reduction& reduction) {
    if (reduction.op == ReduceOp::adasum) {
        return has_adasum(reduction.dtype);
    }
    return reduction.dtype != DType::boolean || (reduction.op != ReduceOp::sum && reduction.op != ReduceOp::average &&
                                                 reduction.prescale == 1.0 && reduction.postscale == 1.0);
}

/// How destinations are written. Streaming stores are faster if the destinations are larger than the caches. They are
/// not faster if the destinations are also sources, because the memory of sources is already in the cache.
enum class Store {
    cached,     ///< ordinary stores
    streaming,  ///< non-temporal stores, if the CPU has them, and an sfence after them
};

/// Reduces `count` elements. There must be at least one source and one destination, and is_defined(reduction) must be
/// true.
///
/// A destination may be identical to a source (in place). Apart from this, it must not overlap a source. Destinations
/// must not overlap each other. Pointers need only the alignment of a byte. The function never reads or writes outside
/// [0, count). The floating-point environment must be the default one (base::DefaultFloatingPoint).
///
/// Threads: any thread may call this function. It uses only the given memory, and allocates memory only for Adasum.
void reduce(const Reduction& reduction, std::span<const std::byte* const> sources,
            std::span<std::byte* const> destinations, std::size_t count, Store store = Store::cached);

/// Copies `bytes` bytes from `source` to `destination`. The two may be identical; apart from this, they must not
/// overlap.
void copy(std::byte* destination, const std::byte* source, std::size_t bytes, Store store = Store::cached);

/// Returns the name of the SIMD target in use, for log lines and benchmark reports. For example, "AVX3" means AVX-512.
[[nodiscard]] const char* simd_target();

}  // namespace rueda::ops
