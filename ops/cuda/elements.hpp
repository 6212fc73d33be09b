// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

// The element types: how an element is stored, and in which type it is computed. `Bits` is an unsigned integer with the
// size of an element, `Lane` is the type of the computation. ops/elements-inl.hpp and ops/compression.cpp have the same
// conversions of the 16-bit types for CPUs, and explain them. ops/reduce_float8.cpp uses the 8-bit types of this file.

#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/cuda/device.hpp"

namespace rueda::ops::cuda {

template <class To, class From>
RUEDA_DEVICE To bits_as(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    __builtin_memcpy(&to, &value, sizeof(to));
    return to;
}

RUEDA_DEVICE bool is_nan(float v) { return v != v; }
RUEDA_DEVICE bool is_nan(double v) { return v != v; }

/// Turns every NaN into the positive quiet NaN without payload.
RUEDA_DEVICE float canonical_nan(float v) { return is_nan(v) ? bits_as<float>(std::uint32_t{0x7FC00000}) : v; }
RUEDA_DEVICE double canonical_nan(double v) {
    return is_nan(v) ? bits_as<double>(std::uint64_t{0x7FF8000000000000}) : v;
}

/// Prepares a double for rounding to 16 bits via float32, so that the result is the same as if it were rounded once.
RUEDA_DEVICE double shortened(double v) {
    constexpr std::uint64_t kTail = (std::uint64_t{1} << 29) - 1;
    constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
    const auto bits = bits_as<std::uint64_t>(v);
    const auto magnitude = bits_as<double>(bits & ~kSign);
    if (magnitude < 0x1p-126) {
        const double tiny = (magnitude + 0x1p-81) - 0x1p-81;
        return bits_as<double>(bits_as<std::uint64_t>(tiny) | (bits & kSign));
    }
    const std::uint64_t sticky = ((bits & kTail) + kTail) & (kTail + 1);
    return bits_as<double>((bits & ~kTail) | sticky);
}

struct Float32 {
    using Bits = std::uint32_t;
    using Lane = float;
    static RUEDA_DEVICE Lane load(Bits bits) { return bits_as<float>(bits); }
    static RUEDA_DEVICE Bits store(Lane v) { return bits_as<Bits>(canonical_nan(v)); }
    static RUEDA_DEVICE Bits store(double v) { return store(static_cast<float>(v)); }
};

struct Float64 {
    using Bits = std::uint64_t;
    using Lane = double;
    static RUEDA_DEVICE Lane load(Bits bits) { return bits_as<double>(bits); }
    static RUEDA_DEVICE Bits store(Lane v) { return bits_as<Bits>(canonical_nan(v)); }
};

struct BFloat16 {
    using Bits = std::uint16_t;
    using Lane = float;
    static RUEDA_DEVICE Lane load(Bits bits) { return bits_as<float>(static_cast<std::uint32_t>(bits) << 16); }
    static RUEDA_DEVICE Bits store(Lane v) {
        const auto bits = bits_as<std::uint32_t>(canonical_nan(v));
        return static_cast<Bits>((bits + ((bits >> 16) & 1U) + 0x7FFFU) >> 16);
    }
    static RUEDA_DEVICE Bits store(double v) { return store(static_cast<float>(shortened(v))); }
};

struct Float16 {
    using Bits = std::uint16_t;
    using Lane = float;
    static RUEDA_DEVICE Bits store(double v) { return store(static_cast<float>(shortened(v))); }

#if defined(__CUDA_ARCH__)
    // GPUs have instructions for the conversions between float16 and float32. Their results follow IEEE 754, which
    // leaves only the bits of a NaN open. This code therefore sets the bits of a NaN itself.
    static RUEDA_DEVICE Lane load(Bits bits) {
        float v = 0;
        asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
        return v;
    }
    static RUEDA_DEVICE Bits store(Lane v) {
        Bits bits = 0;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
        return is_nan(v) ? Bits{0x7E00} : bits;
    }
#else
    static RUEDA_DEVICE Lane load(Bits bits) {
        const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
        const std::uint32_t magnitude = bits & 0x7FFFU;
        constexpr std::uint32_t kBias = 112U << 23;
        std::uint32_t all = (magnitude << 13) + kBias;
        if (magnitude < 0x0400U) {
            all = bits_as<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24F);
        } else if (magnitude > 0x7BFFU) {
            all += kBias;
        }
        return bits_as<float>(sign | all);
    }
    static RUEDA_DEVICE Bits store(Lane v) {
        if (is_nan(v)) {
            return 0x7E00;
        }
        const auto bits = bits_as<std::uint32_t>(v);
        const std::uint32_t sign = (bits & 0x80000000U) >> 16;
        const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
        std::uint32_t all = 0x7C00;
        if (magnitude < 0x38800000U) {
            all = bits_as<std::uint32_t>(bits_as<float>(magnitude) + 0.5F) - bits_as<std::uint32_t>(0.5F);
        } else if (magnitude <= 0x477FEFFFU) {
            all = (magnitude + ((magnitude >> 13) & 1U) + 0x0FFFU - (112U << 23)) >> 13;
        }
        return static_cast<Bits>(sign | all);
    }
#endif
};

/// The 8-bit floats of the OCP specification, computed in float32. A float has kFraction bits of fraction and 7 −
/// kFraction bits of exponent. It follows IEEE 754 except at the top of its range. As in float32, the larger of two
/// positive numbers has the larger bits, if the bits are read as an integer. Parameters:
/// - kMost: the bits of the largest float32 that is rounded to a finite 8-bit number.
/// - kOverflow: the bits of the result for larger numbers.
/// - kNan: the bits of every NaN. If kOverflow equals kNan, the type has no infinity.
template <std::uint32_t kFraction, std::uint32_t kMost, std::uint8_t kOverflow, std::uint8_t kNan>
struct Float8 {
    using Bits = std::uint8_t;
    using Lane = float;
    static constexpr bool kHasInfinity = kOverflow != kNan;
    static constexpr std::uint32_t kShift = 23 - kFraction;
    /// The exponent field of a number is larger by kBias in float32 than in this 8-bit type.
    static constexpr std::uint32_t kBias = 128U - (1U << (6U - kFraction));
    /// The float32 exponent field of the smallest 8-bit number. Results below 2^kFraction times the smallest number are
    /// subnormal: they are multiples of the smallest number.
    static constexpr std::uint32_t kSmallest = kBias + 1 - kFraction;

    static RUEDA_DEVICE Lane load(Bits bits) {
        const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24;
        const std::uint32_t magnitude = bits & 0x7FU;
        std::uint32_t all = (magnitude << kShift) + (kBias << 23);
        if (magnitude < (1U << kFraction)) {
            all = bits_as<std::uint32_t>(static_cast<float>(magnitude) * bits_as<float>(kSmallest << 23));
        } else if (magnitude >= kOverflow) {
            all = kHasInfinity ? all + (kBias << 23) : 0x7FC00000U;
        }
        return bits_as<float>(sign | all);
    }
    /// This function has no branches, so that compilers for CPUs turn a loop of it into vector code.
    static RUEDA_DEVICE Bits store(Lane v) {
        const auto bits = bits_as<std::uint32_t>(v);
        const std::uint32_t sign = (bits & 0x80000000U) >> 24;
        const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
        // kUnit has the bits of a float32 whose last bit stands for the smallest 8-bit number. So adding this float32
        // rounds to a multiple of the smallest number.
        constexpr std::uint32_t kUnit = (kSmallest + 23) << 23;
        const float multiple = bits_as<float>(magnitude) + bits_as<float>(kUnit);
        const std::uint32_t subnormal = bits_as<std::uint32_t>(multiple) - kUnit;
        const std::uint32_t odd = (magnitude >> kShift) & 1U;
        const std::uint32_t normal = (magnitude + odd + ((1U << (kShift - 1)) - 1U) - (kBias << 23)) >> kShift;
        const std::uint32_t number = selected(magnitude < ((kBias + 1) << 23), subnormal, normal);
        const std::uint32_t all = sign | selected(magnitude > kMost, kOverflow, number);
        constexpr std::uint32_t kLargest = kHasInfinity ? 0x7F800000U : kMost;  // a larger magnitude becomes NaN
        return static_cast<Bits>(selected(magnitude > kLargest, kNan, all));
    }

private:
    static RUEDA_DEVICE std::uint32_t selected(bool condition, std::uint32_t yes, std::uint32_t no) {
        return no ^ ((no ^ yes) & (0U - static_cast<std::uint32_t>(condition)));
    }
};
using Float8E4M3 = Float8<3, 0x43E80000, 0x7F, 0x7F>;  // the largest number is 448; numbers up to 464 are rounded to it
using Float8E5M2 = Float8<2, 0x476FFFFF, 0x7C, 0x7E>;  // the largest number is 57344; numbers from 61440 on are rounded
                                                       // to infinity

template <class T>
struct Integer {
    using Bits = std::make_unsigned_t<T>;
    using Lane = T;
    static RUEDA_DEVICE Lane load(Bits bits) { return static_cast<T>(bits); }
    static RUEDA_DEVICE Bits store(Lane v) { return static_cast<Bits>(v); }
};

/// bool: every byte except 0 is true. With 0 and 1, min and product are a logical AND, and max is a logical OR.
struct Boolean {
    using Bits = std::uint8_t;
    using Lane = std::uint8_t;
    static RUEDA_DEVICE Lane load(Bits bits) { return bits != 0 ? 1 : 0; }
    static RUEDA_DEVICE Bits store(Lane v) { return v; }
};

/// Returns `value` without its fraction, limited to the range of T. Returns 0 for NaN.
template <class T>
RUEDA_DEVICE T truncated(double value) {
    constexpr T kMax = std::numeric_limits<T>::max();
    constexpr T kMin = std::numeric_limits<T>::min();
    // The first integer above the range of T. It is a power of two, so a double represents it exactly.
    // NOLINTNEXTLINE(bugprone-integer-division): the half of an integer, before it becomes a double
    constexpr double kEnd = static_cast<double>(kMax / 2 + 1) * 2.0;
    if (value >= kEnd) {
        return kMax;
    }
    if (value <= static_cast<double>(kMin)) {
        return kMin;
    }
    return is_nan(value) ? T{0} : static_cast<T>(value);
}

}  // namespace rueda::ops::cuda
