// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rueda/types.hpp"

namespace rueda::bench {

/// The values are small integers. They and their sums over up to 40 ranks are exact in every type, so results can be
/// compared bit by bit.
inline constexpr int kModulus = 7;

/// Returns element i of a rank's input in an iteration.
[[nodiscard]] inline int value_at(std::uint64_t i, int rank, std::uint64_t iteration) {
    return static_cast<int>((i + static_cast<std::uint64_t>(rank) + iteration) % kModulus);
}

/// Encodes small integers (0 … 255) in a type.
class Encoding {
public:
    explicit Encoding(DType dtype) : bytes_(size_of(dtype)) {
        for (int value = 0; value < kCount; ++value) {
            encode(dtype, value, table_[static_cast<std::size_t>(value)].data());
        }
    }
    void write(std::byte* element, int value) const {
        std::memcpy(element, table_[static_cast<std::size_t>(value)].data(), bytes_);
    }
    [[nodiscard]] bool equals(const std::byte* element, int value) const {
        return std::memcmp(element, table_[static_cast<std::size_t>(value)].data(), bytes_) == 0;
    }

private:
    static constexpr int kCount = 256;

    template <class T>
    static void put(std::byte* to, T value) {
        std::memcpy(to, &value, sizeof(value));
    }
    static void encode(DType dtype, int value, std::byte* to) {
        switch (dtype) {
            case DType::boolean:
            case DType::uint8:
            case DType::int8:
                return put(to, static_cast<std::uint8_t>(value));
            case DType::int16:
            case DType::uint16:
                return put(to, static_cast<std::uint16_t>(value));
            case DType::int32:
            case DType::uint32:
                return put(to, static_cast<std::uint32_t>(value));
            case DType::int64:
            case DType::uint64:
                return put(to, static_cast<std::uint64_t>(value));
            case DType::float32:
                return put(to, static_cast<float>(value));
            case DType::float64:
                return put(to, static_cast<double>(value));
            case DType::bfloat16:
                return put(to,
                           static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
            case DType::float8_e4m3fn: {  // This conversion is exact for integers of at most four significant bits.
                const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
                return put(to, static_cast<std::uint8_t>(value == 0 ? 0 : (bits >> 20) - ((127U - 7U) << 3)));
            }
            case DType::float8_e5m2:
                return;  // no benchmark uses this type, because too many of the integers are not exact in it
            case DType::float16: {
                // A float16 has the first 10 bits of the float32's fraction, and an exponent with another offset. For
                // integers below 2048, this conversion is exact.
                const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
                const std::uint32_t half = value == 0 ? 0 : ((bits >> 13) - ((127U - 15U) << 10));
                return put(to, static_cast<std::uint16_t>(half));
            }
        }
    }

    std::size_t bytes_;
    std::array<std::array<std::byte, 8>, kCount> table_{};
};

}  // namespace rueda::bench
