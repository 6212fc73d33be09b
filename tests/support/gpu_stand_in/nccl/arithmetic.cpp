// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/support/gpu_stand_in/nccl/arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace rueda::tests::gpu {

using namespace collectives::cuda;

namespace {

/// Values of 16 bits that are calculated as float and rounded.
struct Half {
    std::uint16_t bits;
    [[nodiscard]] float value() const { return from_half(bits); }
    static Half of(float value) { return {to_half(value)}; }
};
struct Bfloat16 {
    std::uint16_t bits;
    [[nodiscard]] float value() const { return from_bfloat16(bits); }
    static Bfloat16 of(float value) { return {to_bfloat16(value)}; }
};
template <typename T>
constexpr bool is_small_float = std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>;

template <typename T>
T load(const std::byte* bytes) {
    T value;
    std::memcpy(&value, bytes, sizeof(T));
    return value;
}
template <typename T>
void store(std::byte* bytes, T value) {
    std::memcpy(bytes, &value, sizeof(T));
}

/// Sums and products of integers wrap.
template <typename T>
T add(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        using Unsigned = std::make_unsigned_t<T>;
        return static_cast<T>(static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
    } else {
        return a + b;
    }
}
template <typename T>
T times(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    } else {
        return a * b;
    }
}

template <typename T>
T apply(T a, T b, NcclReduction reduction) {
    if constexpr (is_small_float<T>) {
        return T::of(apply(a.value(), b.value(), reduction));
    } else {
        switch (reduction) {
            case kNcclProduct:
                return times(a, b);
            case kNcclMax:
                return std::max(a, b);
            case kNcclMin:
                return std::min(a, b);
            default:
                return add(a, b);
        }
    }
}

template <typename Action>
void with_type(NcclType type, Action&& action) {
    switch (type) {
        case kNcclInt8:
            return action(std::int8_t{});
        case kNcclUint8:
            return action(std::uint8_t{});
        case kNcclInt32:
            return action(std::int32_t{});
        case kNcclUint32:
            return action(std::uint32_t{});
        case kNcclInt64:
            return action(std::int64_t{});
        case kNcclUint64:
            return action(std::uint64_t{});
        case kNcclFloat16:
            return action(Half{});
        case kNcclFloat32:
            return action(float{});
        case kNcclFloat64:
            return action(double{});
        case kNcclBfloat16:
            return action(Bfloat16{});
        default:
            return;
    }
}

}  // namespace

float from_bfloat16(std::uint16_t value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16U); }

std::uint16_t to_bfloat16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (std::isnan(value)) {
        return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
    }
    const std::uint32_t to_even = 0x7FFFU + ((bits >> 16U) & 1U);
    return static_cast<std::uint16_t>((bits + to_even) >> 16U);
}

float from_half(std::uint16_t half) {
    const int sign = (half & 0x8000U) != 0 ? -1 : 1;
    const int exponent = (half >> 10U) & 0x1F;
    const int fraction = half & 0x3FF;
    if (exponent == 31) {
        return fraction != 0 ? std::nanf("") : static_cast<float>(sign) * INFINITY;
    }
    const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                          : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
    return sign < 0 ? -magnitude : magnitude;
}

std::uint16_t to_half(float value) {
    const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000U : 0U);
    if (std::isnan(value)) {
        return static_cast<std::uint16_t>(sign | 0x7E00U);
    }
    const float magnitude = std::fabs(value);
    constexpr float kOverflow = 65520.0F;  // the middle between the largest float16 and the next power of two
    if (magnitude >= kOverflow) {
        return static_cast<std::uint16_t>(sign | 0x7C00U);
    }
    if (magnitude == 0) {
        return sign;
    }
    int exponent = 0;
    std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent with f in [0.5, 1)
    // The float16 numbers near the magnitude are multiples of 2^step. std::nearbyint() rounds to even.
    const int step = std::max(exponent - 11, -24);
    const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, -step)));
    // If the result is subnormal, its bits are `units`. Otherwise `units` - 1024 is the fraction. If rounding has made
    // the fraction 1024, the addition correctly increases the exponent.
    const std::uint32_t bits = step == -24 ? units : (static_cast<std::uint32_t>(step + 25) << 10U) + (units - 1024U);
    return static_cast<std::uint16_t>(sign | bits);
}

std::size_t element_bytes(NcclType type) {
    std::size_t bytes = 0;
    with_type(type, [&](auto zero) { bytes = sizeof(zero); });
    return bytes;
}

const char* type_name(NcclType type) {
    constexpr const char* kNames[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                      "uint64", "float16", "float32", "float64", "bfloat16"};
    return type >= 0 && type <= kNcclBfloat16 ? kNames[type] : "unknown";
}

bool is_floating(NcclType type) { return type >= kNcclFloat16 && type <= kNcclBfloat16; }

void combine(std::byte* accumulator, const std::byte* operand, std::size_t count, NcclType type,
             NcclReduction reduction) {
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        for (std::size_t i = 0; i < count; ++i) {
            std::byte* element = accumulator + i * sizeof(T);
            store(element, apply(load<T>(element), load<T>(operand + i * sizeof(T)), reduction));
        }
    });
}

void multiply(std::byte* values, std::size_t count, NcclType type, const Factor& factor) {
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        for (std::size_t i = 0; i < count; ++i) {
            std::byte* element = values + i * sizeof(T);
            store(element, apply(load<T>(element), load<T>(factor.data()), kNcclProduct));
        }
    });
}

Factor one_divided_by(int ranks, NcclType type) {
    Factor factor{};
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (is_small_float<T>) {
            store(factor.data(), T::of(1.0F / static_cast<float>(ranks)));
        } else if constexpr (std::is_floating_point_v<T>) {
            store(factor.data(), static_cast<T>(1.0 / ranks));
        }
    });
    return factor;
}

void divide(std::byte* values, std::size_t count, NcclType type, int divisor) {
    with_type(type, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (std::is_integral_v<T>) {
            for (std::size_t i = 0; i < count; ++i) {
                std::byte* element = values + i * sizeof(T);
                store(element, static_cast<T>(load<T>(element) / static_cast<T>(divisor)));
            }
        }
    });
}

}  // namespace rueda::tests::gpu
