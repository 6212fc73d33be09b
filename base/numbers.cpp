// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/numbers.hpp"

#include <cmath>
#include <limits>

#include "base/text.hpp"

namespace rueda::base {

std::optional<double> parse_real(std::string_view text) noexcept {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || rest != end || !std::isfinite(value)) {
        return std::nullopt;
    }
    return value;
}

std::optional<bool> parse_switch(std::string_view text) noexcept {
    for (const std::string_view word : {"1", "true", "yes", "on"}) {
        if (equal_ignoring_case(text, word)) {
            return true;
        }
    }
    for (const std::string_view word : {"0", "false", "no", "off"}) {
        if (equal_ignoring_case(text, word)) {
            return false;
        }
    }
    return std::nullopt;
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) noexcept {
    const std::size_t digits = text.find_first_not_of("0123456789");
    const std::optional<std::uint64_t> number = parse_integer<std::uint64_t>(text.substr(0, digits));
    if (!number || digits == std::string_view::npos) {
        return number;
    }
    const std::string_view suffix = text.substr(digits);
    unsigned shift = 0;
    for (const std::string_view unit : {"K", "M", "G", "T"}) {
        shift += 10;
        const bool named = equal_ignoring_case(suffix.substr(0, 1), unit);
        if (named && (suffix.size() == 1 || equal_ignoring_case(suffix.substr(1), "iB"))) {
            const bool fits = *number <= (std::numeric_limits<std::uint64_t>::max() >> shift);
            return fits ? std::optional(*number << shift) : std::nullopt;
        }
    }
    return std::nullopt;
}

}  // namespace rueda::base
