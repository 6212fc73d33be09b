// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/neutral.hpp"

#include <cstdint>
#include <cstring>
#include <limits>

namespace rueda::ops {
namespace {

/// Numbers of a floating-point type for which C++ has no type, as bit patterns.
template <class Bits>
struct Patterns {
    Bits one;
    Bits largest;  ///< infinity, or the largest number if the type has no infinity
};
constexpr Patterns<std::uint16_t> kFloat16{0x3C00, 0x7C00};
constexpr Patterns<std::uint16_t> kBfloat16{0x3F80, 0x7F80};
constexpr Patterns<std::uint8_t> kFloat8E4M3{0x38, 0x7E};
constexpr Patterns<std::uint8_t> kFloat8E5M2{0x3C, 0x7C};

template <class Bits>
Bits neutral_pattern(ReduceOp op, const Patterns<Bits>& bits) {
    constexpr auto kSign = static_cast<Bits>(1U << (8 * sizeof(Bits) - 1));
    switch (op) {
        case ReduceOp::min:
            return bits.largest;
        case ReduceOp::max:
            return bits.largest | kSign;
        case ReduceOp::product:
            return bits.one;
        case ReduceOp::average:
        case ReduceOp::sum:
        case ReduceOp::adasum:
            break;
    }
    return kSign;
}

template <class T>
T neutral(ReduceOp op) {
    using Limits = std::numeric_limits<T>;
    switch (op) {
        case ReduceOp::min:
            return Limits::has_infinity ? Limits::infinity() : Limits::max();
        case ReduceOp::max:
            return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
        case ReduceOp::product:
            return T{1};
        case ReduceOp::average:
        case ReduceOp::sum:
        case ReduceOp::adasum:
            break;
    }
    return Limits::has_infinity ? -T{0} : T{0};
}

template <class T>
void fill(T value, std::byte* destination, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        std::memcpy(destination + i * sizeof(T), &value, sizeof(T));
    }
}

}  // namespace

void fill_neutral(const Reduction& reduction, std::byte* destination, std::size_t count) {
    const ReduceOp op = reduction.op;
    switch (reduction.dtype) {
        case DType::boolean:
            return fill(static_cast<std::uint8_t>(op == ReduceOp::max ? 0 : 1), destination, count);
        case DType::uint8:
            return fill(neutral<std::uint8_t>(op), destination, count);
        case DType::int8:
            return fill(neutral<std::int8_t>(op), destination, count);
        case DType::int16:
            return fill(neutral<std::int16_t>(op), destination, count);
        case DType::uint16:
            return fill(neutral<std::uint16_t>(op), destination, count);
        case DType::int32:
            return fill(neutral<std::int32_t>(op), destination, count);
        case DType::uint32:
            return fill(neutral<std::uint32_t>(op), destination, count);
        case DType::int64:
            return fill(neutral<std::int64_t>(op), destination, count);
        case DType::uint64:
            return fill(neutral<std::uint64_t>(op), destination, count);
        case DType::float16:
            return fill(neutral_pattern(op, kFloat16), destination, count);
        case DType::bfloat16:
            return fill(neutral_pattern(op, kBfloat16), destination, count);
        case DType::float8_e4m3fn:
            return fill(neutral_pattern(op, kFloat8E4M3), destination, count);
        case DType::float8_e5m2:
            return fill(neutral_pattern(op, kFloat8E5M2), destination, count);
        case DType::float32:
            return fill(neutral<float>(op), destination, count);
        case DType::float64:
            return fill(neutral<double>(op), destination, count);
    }
}

}  // namespace rueda::ops
