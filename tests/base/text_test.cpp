// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/text.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <string_view>

namespace rueda::base {

TEST_CASE("edit distance counts single changes and swaps", "[text]") {
    CHECK(edit_distance("", "") == 0);
    CHECK(edit_distance("abc", "") == 3);
    CHECK(edit_distance("", "abc") == 3);
    CHECK(edit_distance("kitten", "sitting") == 3);
    CHECK(edit_distance("slots", "slost") == 1);
    CHECK(edit_distance("threshold", "treshold") == 1);
    CHECK(edit_distance("ab", "ba") == 1);
    CHECK(edit_distance("ca", "abc") == 3);
}

TEST_CASE("the nearest name is close, or none", "[text]") {
    constexpr std::array<std::string_view, 3> kNames = {"fusion", "slots", "slot_size"};
    CHECK(nearest_name("slotz", kNames) == "slots");
    CHECK(nearest_name("fusoin", kNames) == "fusion");
    CHECK(nearest_name("slotsize", kNames) == "slot_size");
    CHECK(nearest_name("banana", kNames).empty());
    CHECK(nearest_name("x", {}).empty());
}

TEST_CASE("bytes read as people write them", "[text]") {
    CHECK(format_bytes(0) == "0 B");
    CHECK(format_bytes(512) == "512 B");
    CHECK(format_bytes(1023) == "1023 B");
    CHECK(format_bytes(1024) == "1 KiB");
    CHECK(format_bytes(1536) == "1.5 KiB");
    CHECK(format_bytes(1048575) == "1 MiB");
    CHECK(format_bytes(67108864) == "64 MiB");
    CHECK(format_bytes(std::numeric_limits<std::uint64_t>::max()) == "16 EiB");
}

TEST_CASE("ranks are written as runs", "[text]") {
    CHECK(format_ranks({}) == "no rank");
    CHECK(format_ranks({4}) == "rank 4");
    CHECK(format_ranks({0, 1}) == "ranks 0, 1");
    CHECK(format_ranks({0, 1, 2, 3, 5}) == "ranks 0-3, 5");
    CHECK(format_ranks({7, 3, 1, 2, 7}) == "ranks 1-3, 7");
    CHECK(format_ranks({0, 2, 3, 5, 6, 7}) == "ranks 0, 2, 3, 5-7");
}

TEST_CASE("lists of ranks are read as they were written") {
    using Ranges = std::vector<RankRange>;
    CHECK(parse_ranks(format_ranks({0, 2, 3, 5, 6, 7})) == Ranges{{0, 0}, {2, 2}, {3, 3}, {5, 7}});
    CHECK(parse_ranks(format_ranks({4})) == Ranges{{4, 4}});
    CHECK(parse_ranks(format_ranks({})).empty());
    // the "…" shows that the end of the text was cut off
    CHECK(parse_ranks("ranks 0-3, 8, 1…") == Ranges{{0, 3}, {8, 8}});
    CHECK(parse_ranks("ranks 5-3").empty());
}

TEST_CASE("a shortened text ends with an ellipsis and is cut between characters", "[text]") {
    CHECK(shortened("0123456789", 10) == "0123456789");
    CHECK(shortened("0123456789", 9) == "012345…");
    CHECK(shortened("0123456789", 3) == "…");
    CHECK(shortened("0123456789", 2) == "01");
    CHECK(shortened("0123456789", 0).empty());
    CHECK(shortened("", 5).empty());
    CHECK(shortened("aüüüü", 8) == "aüü…");  // of 9 bytes, 5 are kept (whole characters); "…" has 3 bytes
    CHECK(shortened("üüüü", 7) == "üü…");
    CHECK(shortened("üüüü", 6) == "ü…");
    CHECK(shortened("\x80\x80\x80\x80\x80", 4) == "…");  // continuation bytes without a first byte
    std::string room = "........";
    CHECK(copy_shortened("abc", std::span(room).first(5)) == 3);
    CHECK(room == "abc.....");
}

TEST_CASE("printable text is one line, harms no terminal and ends", "[text]") {
    CHECK(printable("a\x1b[0m\nb\x7f\tü") == "a?[0m?b??ü");
    CHECK(printable("012345\n789", 9) == "012345…");
    CHECK(printable(std::string(5000, 'x')).size() == 512);
    // Bytes of a binary file are not valid UTF-8. Some of them could be 8-bit control characters.
    CHECK(printable("\x80\xff\xc3(\xe2\x82") == "\?\?\?(\?\?");
    CHECK(printable("\xc2\x9b\x31m") == "\?\?1m");
    CHECK(printable("\xc0\xaf\xed\xa0\x80\xf5\x80\x80\x80") == std::string(9, '?'));
    CHECK(printable("ü€\xf0\x9f\x98\x80") == "ü€\xf0\x9f\x98\x80");
}

TEST_CASE("text of another process is made printable line by line", "[text]") {
    CHECK(printable_lines("a\nb\n") == "a\nb");
    CHECK(printable_lines("a\tb\n\x1b[1m") == "a?b\n?[1m");
    CHECK(printable_lines("").empty());
    const std::string once = printable_lines("\n\nx\n\n" + std::string(1000, 'y'));
    CHECK(printable_lines(once) == once);
}

TEST_CASE("quoted text stays on its line", "[text]") {
    CHECK(quote("12x") == "'12x'");
    CHECK(quote("a\nb\033[31mc\x7f") == "'a?b?[31mc?'");
    CHECK(quote("abcdef", 3) == "'abc…'");
    CHECK(quote("abc", 3) == "'abc'");
    CHECK(quote("ab\xff\x80", 80) == "'ab\?\?'");
    CHECK(quote("a€b", 3) == "'a…'");
    CHECK(quote("a€b", 4) == "'a€…'");
    CHECK(quote("\x80\x80\x80\x80\x80\x80", 5) == "'\?\?…'");
}

}  // namespace rueda::base
