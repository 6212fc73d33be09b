// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/launcher_notification.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace rueda::base {
namespace {

using Kind = LauncherNotification::Kind;

/// Returns an encoded notification: four 32-bit numbers in little-endian order, and the text.
std::string bytes_of(std::vector<std::uint32_t> numbers, const std::string& text) {
    std::string bytes;
    for (const std::uint32_t number : numbers) {
        for (unsigned shift = 0; shift < 32; shift += 8) {
            bytes += static_cast<char>((number >> shift) & 0xFFU);
        }
    }
    return bytes + text;
}

constexpr std::uint32_t kMagic = 0x31574452;

TEST_CASE("a notification of the launcher and its bytes", "[unit]") {
    const std::string bytes = bytes_of({kMagic, 2, 3, 5}, "hello");
    CHECK(encode({Kind::failed, 3, "hello"}) == bytes);
    const Result<LauncherNotification> word = parse_launcher_notification(bytes);
    REQUIRE(word.is_ok());
    CHECK(word.value().kind == Kind::failed);
    CHECK(word.value().rank == 3);
    CHECK(word.value().text == "hello");
    CHECK(encode({Kind::ended_well, 0, ""}) == bytes_of({kMagic, 1, 0, 0}, ""));
}

TEST_CASE("a text is cut, and harms no terminal", "[unit]") {
    const Result<LauncherNotification> word =
        parse_launcher_notification(encode({Kind::aborted, 0, "a\x1b[31m\n" + std::string(2000, 'x')}));
    REQUIRE(word.is_ok());
    CHECK(word.value().text.size() == 704);
    CHECK(word.value().text.starts_with("a?[31m?xxx"));
}

TEST_CASE("bytes that are no notification are refused", "[unit]") {
    for (const std::string& bytes :
         {std::string(), std::string("hello"), bytes_of({kMagic, 2, 3}, ""), bytes_of({kMagic + 1, 2, 3, 5}, "hello"),
          bytes_of({kMagic, 0, 3, 5}, "hello"), bytes_of({kMagic, 10, 3, 5}, "hello"),
          bytes_of({kMagic, 2, 0xFFFFFFFF, 5}, "hello"), bytes_of({kMagic, 2, 3, 4}, "hello"),
          bytes_of({kMagic, 2, 3, 0xFFFFFFFF}, "hello"), bytes_of({kMagic, 2, 3, 5}, "hel\no"),
          bytes_of({kMagic, 2, 3, 705}, std::string(705, 'x'))}) {
        CAPTURE(bytes.size());
        const Result<LauncherNotification> word = parse_launcher_notification(bytes);
        REQUIRE_FALSE(word.is_ok());
        CHECK(word.status().code() == ErrorCode::internal);
    }
}

TEST_CASE("a place in an elastic job and its text", "[unit]") {
    const Result<std::string> text = encode_place({{"RUEDA_RANK", "1"}, {"RUEDA_SIZE", "3"}, {"EMPTY", ""}});
    REQUIRE(text.is_ok());
    CHECK(text.value() == "RUEDA_RANK=1 RUEDA_SIZE=3 EMPTY=");
    const Result<LauncherPlace> place = parse_place({Kind::place, 1, text.value()});
    REQUIRE(place.is_ok());
    CHECK(place.value().rank == 1);
    CHECK(place.value().ranks == 3);
    REQUIRE(place.value().variables.size() == 3);
    CHECK(place.value().variables[1].name == "RUEDA_SIZE");
    CHECK(place.value().variables[1].value == "3");
    CHECK(place.value().variables[2].value.empty());
    CHECK_FALSE(encode_place({{"LONG", std::string(2048, 'x')}}).is_ok());
}

TEST_CASE("the text of a place may be longer than other texts", "[unit]") {
    const std::string addresses(1500, 'x');
    const Result<std::string> text = encode_place({{"RUEDA_RANK", "1"}, {"RUEDA_SIZE", "3"}, {"LONG", addresses}});
    REQUIRE(text.is_ok());
    const Result<LauncherNotification> arrived = parse_launcher_notification(encode({Kind::place, 1, text.value()}));
    REQUIRE(arrived.is_ok());
    const Result<LauncherPlace> place = parse_place(arrived.value());
    REQUIRE(place.is_ok());
    CHECK(place.value().variables[2].value == addresses);
}

TEST_CASE("a damaged place is refused", "[unit]") {
    for (const char* text :
         {"", "RUEDA_RANK=1", "RUEDA_SIZE=3", "RUEDA_RANK=2 RUEDA_SIZE=3", "RUEDA_RANK=1 RUEDA_SIZE=1",
          "RUEDA_RANK=x RUEDA_SIZE=3", "RUEDA_RANK=1 RUEDA_SIZE=3 =x", "RUEDA_RANK=1 RUEDA_SIZE=3 x",
          "RUEDA_RANK=1  RUEDA_SIZE=3", "RUEDA_RANK=1 RUEDA_SIZE=3 LD-PRELOAD=x"}) {
        CAPTURE(text);
        const Result<LauncherPlace> place = parse_place({Kind::place, 1, text});
        REQUIRE_FALSE(place.is_ok());
        CHECK(place.status().code() == ErrorCode::internal);
    }
}

TEST_CASE("the address of the launcher's socket is formatted and parsed", "[unit]") {
    CHECK(format_launcher_address({7, 123456, 3, 8}) == "7:123456:3:8");
    const Result<LauncherAddress> address = parse_launcher_address("7:123456:3:8");
    REQUIRE(address.is_ok());
    CHECK(address.value().fd == 7);
    CHECK(address.value().inode == 123456);
    CHECK(address.value().rank == 3);
    CHECK(address.value().ranks == 8);
    for (const char* text : {"", "7", "7:1", "7:1:0", "7:1:0:", "x:1:0:2", "-1:1:0:2", "7:1:2:2", "7:1:-1:2",
                             "7:1:0:2:", "7:1:0:2:3", " 7:1:0:2", "7:99999999999999999999:0:2"}) {
        CAPTURE(text);
        const Result<LauncherAddress> refused = parse_launcher_address(text);
        REQUIRE_FALSE(refused.is_ok());
        CHECK(refused.status().message().find("RUEDA_LAUNCHER_FD is '") == 0);
    }
}

}  // namespace
}  // namespace rueda::base
