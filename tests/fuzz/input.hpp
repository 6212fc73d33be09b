// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

/// Helpers of the fuzz targets: reading an input, and reporting a violated condition.
namespace rueda::fuzz {

inline void expect(bool holds) {
    if (!holds) {
        std::abort();
    }
}

/// The bytes of the input. After their end, the input continues with zeros.
class Input {
public:
    explicit Input(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

    [[nodiscard]] bool empty() const { return rest_.empty(); }
    template <class T>
    T take() {
        T value{};
        const std::size_t bytes = std::min(sizeof(T), rest_.size());
        std::memcpy(&value, rest_.data(), bytes);
        rest_ = rest_.subspan(bytes);
        return value;
    }

private:
    std::span<const std::uint8_t> rest_;
};

}  // namespace rueda::fuzz
