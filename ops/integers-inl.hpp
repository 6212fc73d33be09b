// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

// Helpers for averages and scale factors of integers. Only source files of this folder include it.

#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/assert.hpp"
#include "ops/reduce.hpp"

namespace rueda::ops {

__extension__ using Int128 = __int128;

/// A type for the sum of many sources. It is large enough for one source from each of 2^22 processes, the maximum on
/// Linux.
template <class T>
using Wide = std::conditional_t<sizeof(T) == 1, std::int32_t, std::conditional_t<sizeof(T) <= 4, std::int64_t, Int128>>;

/// Returns `value` without its fraction, limited to the range of T. Returns 0 for NaN.
template <class T>
T truncated(double value) {
    // The first integer above the range of T. It is a power of two, so a double represents it exactly.
    // NOLINTNEXTLINE(bugprone-integer-division): the halves of an integer, before it becomes a double
    constexpr double kEnd = static_cast<double>(std::numeric_limits<T>::max() / 2 + 1) * 2.0;
    if (value >= kEnd) {
        return std::numeric_limits<T>::max();
    }
    if (value <= static_cast<double>(std::numeric_limits<T>::min())) {
        return std::numeric_limits<T>::min();
    }
    return value == value ? static_cast<T>(value) : T{0};
}

/// Divides the sum. A 64-bit division is one instruction, and is enough for most sums. A 128-bit division calls a
/// library function.
template <class T>
T quotient(Wide<T> sum, int divisor) {
    if constexpr (sizeof(T) == 8) {
        const auto narrow = static_cast<std::int64_t>(sum);
        if (narrow == sum) {
            return static_cast<T>(narrow / divisor);
        }
    }
    return static_cast<T>(sum / divisor);
}

/// Computes the result of an average from the exact sum.
template <class T>
T average_of(Wide<T> sum, const Reduction& reduction) {
    return reduction.postscale == 1.0
               ? quotient<T>(sum, reduction.divisor)
               : truncated<T>(static_cast<double>(sum) * reduction.postscale / reduction.divisor);
}

constexpr bool is_integer(DType dtype) {
    switch (dtype) {
        case DType::uint8:
        case DType::int8:
        case DType::int16:
        case DType::uint16:
        case DType::int32:
        case DType::uint32:
        case DType::int64:
        case DType::uint64:
            return true;
        case DType::boolean:
        case DType::float16:
        case DType::bfloat16:
        case DType::float32:
        case DType::float64:
        case DType::float8_e4m3fn:
        case DType::float8_e5m2:
            break;
    }
    return false;
}

/// Calls f with a value of the integer type.
template <class F>
void with_integer(DType dtype, F&& f) {
    switch (dtype) {
        case DType::uint8:
            return f(std::uint8_t{});
        case DType::int8:
            return f(std::int8_t{});
        case DType::int16:
            return f(std::int16_t{});
        case DType::uint16:
            return f(std::uint16_t{});
        case DType::int32:
            return f(std::int32_t{});
        case DType::uint32:
            return f(std::uint32_t{});
        case DType::int64:
            return f(std::int64_t{});
        case DType::uint64:
            return f(std::uint64_t{});
        case DType::boolean:
        case DType::float16:
        case DType::bfloat16:
        case DType::float32:
        case DType::float64:
        case DType::float8_e4m3fn:
        case DType::float8_e5m2:
            break;
    }
    constexpr bool kIsIntegerDType = false;
    RUEDA_ASSERT(kIsIntegerDType);
}

}  // namespace rueda::ops
