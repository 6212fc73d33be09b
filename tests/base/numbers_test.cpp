// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/numbers.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>

namespace rueda::base {

TEST_CASE("whole numbers are the whole text, and fit", "[numbers]") {
    CHECK(parse_integer<std::int32_t>("0") == 0);
    CHECK(parse_integer<std::int32_t>("-17") == -17);
    CHECK(parse_integer<std::int32_t>("2147483647") == std::numeric_limits<std::int32_t>::max());
    CHECK(parse_integer<std::uint64_t>("18446744073709551615") == std::numeric_limits<std::uint64_t>::max());
    for (const char* wrong : {"", " 1", "1 ", "+1", "1.0", "0x10", "1e3", "-", "2147483648"}) {
        CAPTURE(wrong);
        CHECK_FALSE(parse_integer<std::int32_t>(wrong));
    }
    CHECK_FALSE(parse_integer<std::uint32_t>("-1"));
}

TEST_CASE("decimal numbers are finite and the whole text", "[numbers]") {
    CHECK(parse_real("60") == 60.0);
    CHECK(parse_real("0.25") == 0.25);
    CHECK(parse_real("-1") == -1.0);
    CHECK(parse_real("2e-4") == 0.0002);
    for (const char* wrong : {"", "1,5", "1s", " 1", "nan", "inf", "-inf", "1e999"}) {
        CAPTURE(wrong);
        CHECK_FALSE(parse_real(wrong));
    }
}

TEST_CASE("switches take words in any case", "[numbers]") {
    for (const char* on : {"1", "true", "TRUE", "Yes", "on"}) {
        CAPTURE(on);
        CHECK(parse_switch(on) == true);
    }
    for (const char* off : {"0", "false", "No", "OFF"}) {
        CAPTURE(off);
        CHECK(parse_switch(off) == false);
    }
    for (const char* wrong : {"", "2", "tru", "truee", "y"}) {
        CAPTURE(wrong);
        CHECK_FALSE(parse_switch(wrong));
    }
}

TEST_CASE("bytes take binary suffixes and do not wrap around", "[numbers]") {
    CHECK(parse_bytes("0") == 0U);
    CHECK(parse_bytes("65536") == 65536U);
    CHECK(parse_bytes("64K") == 65536U);
    CHECK(parse_bytes("64k") == 65536U);
    CHECK(parse_bytes("64MiB") == 67108864U);
    CHECK(parse_bytes("2G") == 2147483648U);
    CHECK(parse_bytes("1T") == 1099511627776U);
    CHECK(parse_bytes("16777215T") == 18446742974197923840U);
    for (const char* wrong :
         {"", "K", "12x", "1KB", "1.5G", "-1", "1 K", "1KK", "1Ki", "16777216T", "18446744073709551616"}) {
        CAPTURE(wrong);
        CHECK_FALSE(parse_bytes(wrong));
    }
}

}  // namespace rueda::base
