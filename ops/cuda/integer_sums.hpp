// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

// Sums for averages of integers. A sum is exact, because it has room for all sources of a launch.

#include <cstdint>
#include <type_traits>

#include "ops/cuda/device.hpp"
#include "ops/cuda/elements.hpp"

namespace rueda::ops::cuda {

/// A signed integer of 128 bits in two's complement. Device code cannot use the compiler's own 128-bit type: clang
/// implements the division of this type as a call of a library that GPUs do not have.
struct Sum128 {
    std::uint64_t low;
    std::uint64_t high;
};

/// The absolute value of a Sum128.
struct Magnitude128 {
    std::uint64_t low;
    std::uint64_t high;
    bool is_negative;
};

template <class T>
RUEDA_DEVICE void add_to(Sum128& sum, T value) {
    const auto low = static_cast<std::uint64_t>(value);
    std::uint64_t extension = 0;
    if constexpr (std::is_signed_v<T>) {
        extension = value < 0 ? ~std::uint64_t{0} : std::uint64_t{0};
    }
    sum.low += low;
    sum.high += extension + (sum.low < low ? 1U : 0U);
}

RUEDA_DEVICE Magnitude128 magnitude_of(const Sum128& sum) {
    if ((sum.high >> 63) == 0) {
        return {sum.low, sum.high, false};
    }
    return {~sum.low + 1, ~sum.high + (sum.low == 0 ? 1U : 0U), true};
}

/// Divides, truncates toward zero, and returns the lower 64 bits. The function first divides the upper 64 bits, and
/// then two digits of 32 bits each. The remainder of each step is less than the divisor, so the remainder and the next
/// digit fit into 64 bits.
RUEDA_DEVICE std::uint64_t quotient_bits(const Sum128& sum, std::int32_t divisor) {
    const Magnitude128 m = magnitude_of(sum);
    const auto by = static_cast<std::uint64_t>(divisor);
    std::uint64_t low = m.low;
    std::uint64_t rest = 0;
    if (m.high != 0) {
        rest = m.high % by;
        const std::uint64_t upper = (rest << 32) | (low >> 32);
        const std::uint64_t lower = ((upper % by) << 32) | (low & 0xFFFFFFFFU);
        low = ((upper / by) << 32) + lower / by;
    } else {
        low /= by;
    }
    return m.is_negative ? ~low + 1 : low;
}

/// Rounds to the nearest double, ties to even.
RUEDA_DEVICE double as_double(const Sum128& sum) {
    const Magnitude128 m = magnitude_of(sum);
    double value = static_cast<double>(m.low);
    if (m.high != 0) {
        // `top` gets the 64 bits that begin with the highest bit that is set. If any bit below these 64 bits is set,
        // the lowest bit of `top` is set too. This makes the conversion to a double (53 bits) round correctly.
        std::uint64_t top = m.high;
        std::uint64_t rest = m.low;
        double unit = 0x1p64;
        while ((top >> 63) == 0) {
            top = (top << 1) | (rest >> 63);
            rest <<= 1;
            unit *= 0.5;
        }
        value = static_cast<double>(top | (rest != 0 ? 1U : 0U)) * unit;
    }
    return m.is_negative ? -value : value;
}

/// A sum of elements with up to 32 bits.
struct Sum64 {
    std::int64_t value;
};

template <class T>
RUEDA_DEVICE void add_to(Sum64& sum, T value) {
    sum.value += static_cast<std::int64_t>(value);
}
RUEDA_DEVICE std::uint64_t quotient_bits(const Sum64& sum, std::int32_t divisor) {
    return static_cast<std::uint64_t>(sum.value / divisor);
}
RUEDA_DEVICE double as_double(const Sum64& sum) { return static_cast<double>(sum.value); }

template <class T>
using SumFor = std::conditional_t<sizeof(T) == 8, Sum128, Sum64>;

/// Returns the result of an average. If there is no factor, the sum is divided as an integer.
template <class T>
RUEDA_DEVICE T average_of(const SumFor<T>& sum, double after, std::int32_t divisor) {
    return after == 1.0 ? static_cast<T>(quotient_bits(sum, divisor)) : truncated<T>(as_double(sum) * after / divisor);
}

}  // namespace rueda::ops::cuda
