// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <charconv>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace rueda::base {

/// Functions that read numbers from outside the program (environment, files, command line). They are strict: the text
/// must consist of the number alone, without spaces, and the number must fit into the type. They do not depend on the
/// locale.

template <std::integral T>
[[nodiscard]] std::optional<T> parse_integer(std::string_view text) noexcept {
    T value{};
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || rest != end) {
        return std::nullopt;
    }
    return value;
}

/// Reads a finite decimal number such as 60, 0.25, -1 or 2e-4.
[[nodiscard]] std::optional<double> parse_real(std::string_view text) noexcept;

/// Reads one of 0, 1, true, false, yes, no, on, off, in upper or lower case.
[[nodiscard]] std::optional<bool> parse_switch(std::string_view text) noexcept;

/// Reads a number of bytes, for example 65536, 64K, 64M, 2G, 1T, 64KiB. The suffix is binary, and may be in upper or
/// lower case. "KB" is refused, because it could mean 1000 or 1024 bytes.
[[nodiscard]] std::optional<std::uint64_t> parse_bytes(std::string_view text) noexcept;

}  // namespace rueda::base
