// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "rueda/types.hpp"

/// Converts between numbers and the bytes of tensors. The numbers of the tests are exact in every type.
namespace rueda::tests {

namespace detail {

struct HalfFormat {
    int mantissa;
    int exponent;
};
inline HalfFormat half_format(DType dtype) { return dtype == DType::float16 ? HalfFormat{10, 5} : HalfFormat{7, 8}; }

inline std::uint16_t encode_half(double value, HalfFormat format) {
    if (value == 0) {
        return 0;
    }
    int exponent = 0;
    const double part = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
    const auto mantissa = static_cast<unsigned>((2 * part - 1) * (1 << format.mantissa));
    const auto field = static_cast<unsigned>(exponent - 1 + (1 << (format.exponent - 1)) - 1);
    return static_cast<std::uint16_t>((value < 0 ? 0x8000U : 0U) | field << format.mantissa | mantissa);
}

inline double decode_half(std::uint16_t bits, HalfFormat format) {
    const int field = (bits & 0x7fff) >> format.mantissa;
    const int mantissa = bits & ((1 << format.mantissa) - 1);
    const int bias = (1 << (format.exponent - 1)) - 1;
    const double value = field == 0 ? std::ldexp(mantissa, 1 - bias - format.mantissa)
                                    : std::ldexp(mantissa + (1 << format.mantissa), field - bias - format.mantissa);
    return (bits & 0x8000) != 0 ? -value : value;
}

/// Passes a value of the C++ type that corresponds to `dtype` to the function `with`. Throws for 16-bit floats, which
/// have no such type.
template <class F>
auto with_type(DType dtype, F&& with) {
    switch (dtype) {
        case DType::boolean:
        case DType::uint8:
            return with(std::uint8_t{});
        case DType::int8:
            return with(std::int8_t{});
        case DType::int16:
            return with(std::int16_t{});
        case DType::uint16:
            return with(std::uint16_t{});
        case DType::int32:
            return with(std::int32_t{});
        case DType::uint32:
            return with(std::uint32_t{});
        case DType::int64:
            return with(std::int64_t{});
        case DType::uint64:
            return with(std::uint64_t{});
        case DType::float32:
            return with(float{});
        case DType::float64:
            return with(double{});
        default:
            throw std::logic_error("no type");
    }
}

}  // namespace detail

inline bool is_half(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

inline std::vector<std::byte> encode(DType dtype, std::span<const double> values) {
    std::vector<std::byte> bytes(values.size() * size_of(dtype));
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (is_half(dtype)) {
            const std::uint16_t bits = detail::encode_half(values[i], detail::half_format(dtype));
            std::memcpy(bytes.data() + 2 * i, &bits, 2);
        } else {
            detail::with_type(dtype, [&](auto type) {
                const auto element = static_cast<decltype(type)>(values[i]);
                std::memcpy(bytes.data() + i * sizeof(element), &element, sizeof(element));
            });
        }
    }
    return bytes;
}

inline std::vector<double> decode(DType dtype, std::span<const std::byte> bytes) {
    std::vector<double> values(bytes.size() / size_of(dtype));
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (is_half(dtype)) {
            std::uint16_t bits = 0;
            std::memcpy(&bits, bytes.data() + 2 * i, 2);
            values[i] = detail::decode_half(bits, detail::half_format(dtype));
        } else {
            values[i] = detail::with_type(dtype, [&](auto type) {
                auto element = type;
                std::memcpy(&element, bytes.data() + i * sizeof(element), sizeof(element));
                return static_cast<double>(element);
            });
        }
    }
    return values;
}

}  // namespace rueda::tests
