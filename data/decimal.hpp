// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>

namespace rueda::data {

/// Fast functions that read numbers from the middle of a text. Each one reads the longest number that begins at
/// `place`, writes it to `value`, and returns the place behind it. It returns a null pointer if there is no number, or
/// if the number does not fit the type. The byte at `end` must be readable and must not be a digit. The loops over
/// digits stop at this byte, so they need not compare the place with `end`. Threads: any.

/// Reads an integer with an optional sign: 12, -3, +4.
[[nodiscard]] const char* read_integer(const char* place, const char* end, std::int64_t& value) noexcept;

/// Reads a decimal number: 1, -0.25, +.5, 1e-3, inf, nan. The result is the nearest number of the type, as with
/// std::from_chars. A number that is too large is an error, and a number that is too small becomes zero or a subnormal
/// number.
[[nodiscard]] const char* read_real(const char* place, const char* end, float& value) noexcept;
[[nodiscard]] const char* read_real(const char* place, const char* end, double& value) noexcept;

/// Reads the digits at `place`, appends them to the decimal number `digits`, and returns the place behind them.
/// `digits` may overflow if there are more than 19 digits.
[[nodiscard]] inline const char* add_digits(const char* place, std::uint64_t& digits) noexcept {
    for (unsigned digit = 0; (digit = static_cast<unsigned char>(*place) - unsigned{'0'}) <= 9; ++place) {
        digits = digits * 10 + digit;
    }
    return place;
}

/// Does the same as read_integer(), but is faster for numbers of at most 18 digits without a sign.
[[nodiscard]] inline const char* read_short_integer(const char* place, const char* end, std::int64_t& value) noexcept {
    std::uint64_t digits = 0;
    const char* const behind = add_digits(place, digits);
    if (behind == place || behind - place > 18) {
        return read_integer(place, end, value);
    }
    value = static_cast<std::int64_t>(digits);
    return behind;
}

/// Does the same as read_real(), but is faster for short numbers such as 1 and 0.123456. A short number has no sign and
/// no exponent. Its digits without the point make an integer of at most 2^24. At most 10 digits are behind the point.
/// The integer and the power of ten are exact in float32, so one division gives the nearest float32 (Clinger 1990).
[[nodiscard]] inline const char* read_short_real(const char* place, const char* end, float& value) noexcept {
    constexpr float kPowers[] = {1e0F, 1e1F, 1e2F, 1e3F, 1e4F, 1e5F, 1e6F, 1e7F, 1e8F, 1e9F, 1e10F};
    std::uint64_t digits = 0;
    const char* behind = add_digits(place, digits);
    auto count = behind - place;
    std::int64_t behind_point = 0;
    if (*behind == '.' && behind != end) {
        const char* const fraction = behind + 1;
        behind = add_digits(fraction, digits);
        behind_point = behind - fraction;
        count += behind_point;
    }
    const bool is_short = count > 0 && count <= 19 && behind_point <= 10 && digits <= (std::uint64_t{1} << 24) &&
                          (behind == end || (*behind != 'e' && *behind != 'E'));
    if (!is_short) {
        return read_real(place, end, value);
    }
    value = static_cast<float>(digits) / kPowers[behind_point];
    return behind;
}

}  // namespace rueda::data
