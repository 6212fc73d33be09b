// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/decimal.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <system_error>

namespace rueda::data {

namespace {

/// The powers of ten that are exact in float64.
constexpr std::array<double, 23> kPowersOfTen = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                                 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/// A decimal number in parts: sign × digits × 10^exponent.
struct DecimalParts {
    bool negative = false;
    std::uint64_t digits = 0;
    int count = 0;     ///< the number of digits that were read; leading zeros do not count
    int exponent = 0;  ///< at least −1099999 and at most 99999
};

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// Reads digits. With more than 19 digits the sum may overflow; the caller sees this in `count` and ignores the sum.
const char* read_digits(const char* place, const char* end, DecimalParts& parts) noexcept {
    while (place != end && is_digit(*place)) {
        parts.digits = parts.digits * 10 + static_cast<std::uint64_t>(*place - '0');
        // Leading zeros are not counted. `digits` alone does not show whether a zero is a leading one, because `digits`
        // may have overflowed to zero. So `count` is checked, too.
        parts.count += (parts.count != 0 || parts.digits != 0) ? 1 : 0;
        ++place;
    }
    return place;
}

const char* read_exponent(const char* place, const char* end, DecimalParts& parts) noexcept {
    if (place == end || (*place != 'e' && *place != 'E')) {
        return place;
    }
    const char* digit = place + 1;
    bool negative = false;
    if (digit != end && (*digit == '+' || *digit == '-')) {
        negative = *digit == '-';
        ++digit;
    }
    if (digit == end || !is_digit(*digit)) {
        return place;  // "1e" is read as the number 1, and the "e" follows it, as with std::from_chars
    }
    int exponent = 0;
    for (; digit != end && is_digit(*digit); ++digit) {
        exponent = exponent < 10000 ? exponent * 10 + (*digit - '0') : exponent;
    }
    parts.exponent += negative ? -exponent : exponent;
    return digit;
}

/// Splits a number into its parts. Returns a null pointer if there are no digits.
const char* read_parts(const char* place, const char* end, DecimalParts& parts) noexcept {
    if (place != end && (*place == '-' || *place == '+')) {
        parts.negative = *place == '-';
        ++place;
    }
    const char* const whole = place;
    place = read_digits(place, end, parts);
    auto digits = place - whole;
    if (place != end && *place == '.') {
        const char* const fraction = place + 1;
        place = read_digits(fraction, end, parts);
        digits += place - fraction;
        // The limit keeps the exponent small enough for an int. For a number with a longer fraction, the exponent is
        // then wrong. But the number is still read correctly: is_exact() refuses it, even if read_exponent() adds the
        // largest exponent, so read_slowly() reads it.
        constexpr std::ptrdiff_t kLongestFraction = 1'000'000;
        parts.exponent = -static_cast<int>(std::min(place - fraction, kLongestFraction));
    }
    return digits == 0 ? nullptr : read_exponent(place, end, parts);
}

/// Reads a number with std::from_chars, which accepts any number of digits, but no plus sign. If a number is out of
/// range, std::from_chars does not say whether it is too large or too small. This function finds out: the number is too
/// small if its first digit other than zero stands for a negative power of ten.
template <class Real>
const char* read_slowly(const char* place, const char* end, const DecimalParts& parts, Real& value) noexcept {
    const char* const begin = place != end && *place == '+' ? place + 1 : place;
    if (begin != place && begin != end && (*begin == '-' || *begin == '+')) {
        return nullptr;
    }
    const auto [rest, error] = std::from_chars(begin, end, value);
    if (error == std::errc()) {
        return rest;
    }
    if (error == std::errc::result_out_of_range && parts.count + parts.exponent <= 0) {
        value = parts.negative ? -Real{0} : Real{0};
        return rest;
    }
    return nullptr;
}

/// Returns whether exact_product() gives the nearest float64 (Clinger 1990). For this, float64 must represent the
/// digits and the power of ten exactly, so that only the multiplication or division rounds. The result is false if the
/// number has too many digits or too large an exponent.
bool is_exact(const DecimalParts& parts) noexcept {
    return parts.count <= 19 && parts.digits <= (std::uint64_t{1} << 53) && parts.exponent >= -22 &&
           parts.exponent <= 22;
}

double exact_product(const DecimalParts& parts) noexcept {
    const auto digits = static_cast<double>(parts.digits);
    const double magnitude = parts.exponent < 0 ? digits / kPowersOfTen[static_cast<std::size_t>(-parts.exponent)]
                                                : digits * kPowersOfTen[static_cast<std::size_t>(parts.exponent)];
    return parts.negative ? -magnitude : magnitude;
}

/// Whether rounding `wide` to float32 gives the float32 that is nearest to the decimal number. `wide` is the float64
/// that is nearest to the decimal number. Rounding to float32 changes its direction at the middle between two
/// neighbouring float32 numbers. `wide` and the decimal number lie on the same side of each middle, unless `wide` is
/// itself a middle. The function therefore checks that `wide` is no middle. It accepts only normal float32 numbers and
/// zero: for normal numbers, a middle has the bits 1000… below the 23 bits of a float32.
bool rounds_like_decimal(double wide) noexcept {
    constexpr std::uint64_t kBelow = (std::uint64_t{1} << 29) - 1;
    constexpr std::uint64_t kMiddle = std::uint64_t{1} << 28;
    const double magnitude = std::abs(wide);
    const bool is_normal = magnitude >= static_cast<double>(std::numeric_limits<float>::min()) &&
                           magnitude <= static_cast<double>(std::numeric_limits<float>::max());
    return (is_normal && (std::bit_cast<std::uint64_t>(wide) & kBelow) != kMiddle) || wide == 0;
}

}  // namespace

const char* read_integer(const char* place, const char* end, std::int64_t& value) noexcept {
    DecimalParts parts;
    if (place != end && (*place == '-' || *place == '+')) {
        parts.negative = *place == '-';
        ++place;
    }
    const char* const begin = place;
    place = read_digits(place, end, parts);
    // A number of 19 digits is below 10^19. So without its sign, it fits 64 bits.
    const std::uint64_t most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) +
                               static_cast<std::uint64_t>(parts.negative);
    if (place == begin || parts.count > 19 || parts.digits > most) {
        return nullptr;
    }
    value = static_cast<std::int64_t>(parts.negative ? 0 - parts.digits : parts.digits);
    return place;
}

const char* read_real(const char* place, const char* end, double& value) noexcept {
    DecimalParts parts;
    const char* const rest = read_parts(place, end, parts);
    if (rest == nullptr || !is_exact(parts)) {
        return read_slowly(place, end, parts, value);
    }
    value = exact_product(parts);
    return rest;
}

const char* read_real(const char* place, const char* end, float& value) noexcept {
    DecimalParts parts;
    const char* const rest = read_parts(place, end, parts);
    if (rest == nullptr || !is_exact(parts)) {
        return read_slowly(place, end, parts, value);
    }
    const double wide = exact_product(parts);
    if (!rounds_like_decimal(wide)) {
        return read_slowly(place, end, parts, value);
    }
    value = static_cast<float>(wide);
    return rest;
}

}  // namespace rueda::data
