// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "ops/neutral.hpp"

#include <cstdint>
#include <cstring>
#include <limits>

namespace rueda::ops {
namespace {

/// Bit patterns of the 16-bit floating-point types.
struct HalfBits {
    std::uint16_t one;
    std::uint16_t infinity;
};
constexpr HalfBits kFloat16{0x3C00, 0x7C00};
constexpr HalfBits kBfloat16{0x3F80, 0x7F80};
constexpr std::uint16_t kSign = 0x8000;

std::uint16_t neutral_half(ReduceOp op, const HalfBits& bits) {
    switch (op) {
        case ReduceOp::min:
            return bits.infinity;
        case ReduceOp::max:
            return bits.infinity | kSign;
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
            return fill(neutral_half(op, kFloat16), destination, count);
        case DType::bfloat16:
            return fill(neutral_half(op, kBfloat16), destination, count);
        case DType::float32:
            return fill(neutral<float>(op), destination, count);
        case DType::float64:
            return fill(neutral<double>(op), destination, count);
    }
}

}  // namespace rueda::ops
