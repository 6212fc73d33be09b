// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "data/crc32c.hpp"
#include "data/decimal.hpp"
#include "rueda/training/random.hpp"

namespace {

using namespace rueda::data;
using rueda::training::Random;

/// The definition of the CRC, one bit after another.
std::uint32_t crc_by_definition(const std::string& bytes) {
    std::uint32_t crc = 0xffffffff;
    for (const char byte : bytes) {
        crc ^= static_cast<unsigned char>(byte);
        for (int bit = 0; bit < 8; ++bit) {
            crc = (crc & 1) != 0 ? (crc >> 1) ^ 0x82f63b78 : crc >> 1;
        }
    }
    return ~crc;
}

/// Returns a random number as text, in one of the forms that occur in data sets.
std::string random_number(Random& random) {
    std::string text(random.below(3) == 0 ? "-" : "");
    const auto digits = [&](std::uint64_t count) {
        for (std::uint64_t i = 0; i < count; ++i) {
            text += static_cast<char>('0' + random.below(10));
        }
    };
    digits(1 + random.below(random.below(4) == 0 ? 25 : 4));
    if (random.below(3) != 0) {
        text += '.';
        digits(random.below(random.below(4) == 0 ? 25 : 10));
    }
    if (random.below(3) == 0) {
        text += random.below(2) == 0 ? "e-" : "E";
        text += std::to_string(random.below(45));
    }
    return text;
}

template <class Real>
Real read(const std::string& text, std::size_t used) {
    Real value = 77;
    const char* const end = text.data() + text.size();
    const char* const behind = read_real(text.data(), end, value);
    CAPTURE(text);
    REQUIRE(behind != nullptr);
    CHECK(static_cast<std::size_t>(behind - text.data()) == used);
    return value;
}

TEST_CASE("CRC-32C has the values of RFC 3720", "[unit]") {
    std::string ascending;
    std::string descending;
    for (int i = 0; i < 32; ++i) {
        ascending += static_cast<char>(i);
        descending += static_cast<char>(31 - i);
    }
    for (const auto function : {crc32c, portable_crc32c}) {
        CHECK(function("123456789", 9) == 0xe3069283);
        CHECK(function(std::string(32, '\0').data(), 32) == 0x8a9136aa);
        CHECK(function(std::string(32, '\xff').data(), 32) == 0x62a8ab43);
        CHECK(function(ascending.data(), 32) == 0x46dd794e);
        CHECK(function(descending.data(), 32) == 0x113fdb5c);
        CHECK(function("", 0) == 0);
    }
    CHECK(masked(0xe3069283) == 0xc78ab0e5);  // TensorFlow's masked value of this CRC is the same
}

TEST_CASE("A fraction with very many digits is read exactly", "[unit]") {
    // The number is 10^-(zeros + 1) × 10^99999. If the reader stopped counting the digits of the fraction at 100000,
    // the texts with more digits would have the value of the text with 100000 digits.
    for (const std::size_t zeros : {99'999U, 100'000U, 200'000U}) {
        const std::string text = "0." + std::string(zeros, '0') + "1e99999";
        const double expected = zeros == 99'999 ? 0.1 : zeros == 100'000 ? 0.01 : 0.0;
        CHECK(read<double>(text, text.size()) == expected);
    }
}

TEST_CASE("CRC-32C of random bytes is what its definition says, for any length and alignment", "[unit]") {
    Random random(1);
    for (std::size_t length = 0; length < 200; ++length) {
        std::string bytes(random.below(9), 'x');
        const std::size_t begin = bytes.size();
        for (std::size_t i = 0; i < length; ++i) {
            bytes += static_cast<char>(random.below(256));
        }
        const std::uint32_t expected = crc_by_definition(bytes.substr(begin));
        CHECK(crc32c(bytes.data() + begin, length) == expected);
        CHECK(portable_crc32c(bytes.data() + begin, length) == expected);
    }
}

TEST_CASE("Decimal numbers are rounded as strtof and strtod round them", "[unit]") {
    Random random(2);
    for (int i = 0; i < 200000; ++i) {
        const std::string text = random_number(random);
        const double wide = std::strtod(text.c_str(), nullptr);
        const float narrow = std::strtof(text.c_str(), nullptr);
        CAPTURE(text);
        double read_wide = 0;
        float read_narrow = 0;
        const char* const end = text.data() + text.size();
        REQUIRE(read_real(text.data(), end, read_wide) == end);
        REQUIRE(std::memcmp(&read_wide, &wide, sizeof wide) == 0);
        if (std::isinf(narrow)) {
            REQUIRE(read_real(text.data(), end, read_narrow) == nullptr);  // too large for float32
        } else {
            REQUIRE(read_real(text.data(), end, read_narrow) == end);
            REQUIRE(std::memcmp(&read_narrow, &narrow, sizeof narrow) == 0);
        }
    }
}

TEST_CASE("Decimal numbers in the middle between two float32 numbers are rounded once", "[unit]") {
    // 1 + 2^-24 lies in the middle between 1 and the next float32. The texts are this number, and numbers just above
    // and just below it.
    CHECK(read<float>("1.000000059604644775390625", 26) == 1.0F);
    CHECK(read<float>("1.00000005960464477539062500000001", 34) == std::nextafter(1.0F, 2.0F));
    CHECK(read<float>("1.0000000596046448", 18) == std::nextafter(1.0F, 2.0F));
    CHECK(read<float>("1.0000000596046447", 18) == 1.0F);
    CHECK(read<float>("18446744073709551616", 20) == 18446744073709551616.0F);  // 2^64 has twenty digits
    CHECK(read<double>("18446744073709551616", 20) == 18446744073709551616.0);
}

TEST_CASE("Decimal numbers may have a sign, no digits on one side of the point, and an end inside of the text",
          "[unit]") {
    CHECK(read<float>("+1.5", 4) == 1.5F);
    CHECK(read<float>(".5", 2) == 0.5F);
    CHECK(read<float>("5.", 2) == 5.0F);
    CHECK(read<float>("1e", 1) == 1.0F);
    CHECK(read<float>("0.25 next", 4) == 0.25F);
    CHECK(read<float>("1e-60", 5) == 0.0F);
    CHECK(read<double>("-1e-400", 7) == 0.0);
    CHECK(read<float>("inf", 3) == std::numeric_limits<float>::infinity());
    CHECK(std::isnan(read<float>("nan", 3)));
    for (const std::string text : {"", "-", "+", ".", "x", "+-1", "--1", "1e39", "-1e400"}) {
        float value = 0;
        CAPTURE(text);
        CHECK(read_real(text.data(), text.data() + text.size(), value) == nullptr);
    }
}

TEST_CASE("Integers have 64 bits and a sign", "[unit]") {
    const auto read_all = [](const std::string& text, std::int64_t& value) {
        return read_integer(text.data(), text.data() + text.size(), value) == text.data() + text.size();
    };
    std::int64_t value = 0;
    CHECK((read_all("9223372036854775807", value) && value == std::numeric_limits<std::int64_t>::max()));
    CHECK((read_all("-9223372036854775808", value) && value == std::numeric_limits<std::int64_t>::min()));
    CHECK((read_all("+12", value) && value == 12));
    CHECK((read_all("0000000000000000000000012", value) && value == 12));
    for (const char* const text : {"9223372036854775808", "-9223372036854775809", "18446744073709551617", "", "-", "a",
                                   "99999999999999999999"}) {
        CAPTURE(text);
        CHECK_FALSE(read_all(text, value));
    }
}

}  // namespace
