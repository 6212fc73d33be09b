// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/settings/compression_rules.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <string>

namespace rueda::base {
namespace {

constexpr std::uint64_t kKilo = 1024;

CompressionRules rules_of(std::string_view text) {
    const auto rules = CompressionRules::parse(text);
    INFO(text);
    REQUIRE(rules);
    return *rules;
}

TEST_CASE("one word is a rule for all tensors") {
    CHECK(rules_of("").empty());
    CHECK(rules_of("").of("w", 4) == Compression::none);
    for (const char* text : {"bf16", "BF16", "Bf16"}) {
        CHECK_FALSE(rules_of(text).empty());
        CHECK(rules_of(text).of("w", 4) == Compression::bf16);
        CHECK(rules_of(text).of("", 0) == Compression::bf16);
    }
    CHECK(rules_of("fp16").of("w", 4) == Compression::fp16);
    CHECK(rules_of("none").of("w", 4) == Compression::none);
}

TEST_CASE("the first rule counts of which all conditions hold") {
    const CompressionRules rules = rules_of("none:*.bias,fp16:conv*:>=4K:<1MiB,bf16:>=64K");
    CHECK(rules.of("conv1.bias", 10 * kKilo) == Compression::none);
    CHECK(rules.of("conv1.weight", 4 * kKilo) == Compression::fp16);
    CHECK(rules.of("conv1.weight", 4 * kKilo - 1) == Compression::none);
    CHECK(rules.of("conv1.weight", kKilo * kKilo - 1) == Compression::fp16);
    CHECK(rules.of("conv1.weight", kKilo * kKilo) == Compression::bf16);
    CHECK(rules.of("dense", 64 * kKilo) == Compression::bf16);
    CHECK(rules.of("dense", 64 * kKilo - 1) == Compression::none);
    CHECK(rules.of("", 64 * kKilo) == Compression::bf16);

    const CompressionRules both = rules_of("fp16:a*:*z:>=1:>=8:<100:<50");
    CHECK(both.of("abz", 8) == Compression::fp16);
    CHECK(both.of("abc", 8) == Compression::none);
    CHECK(both.of("abz", 7) == Compression::none);
    CHECK(both.of("abz", 50) == Compression::none);
    CHECK(rules_of("fp16:<0").of("w", 0) == Compression::none);
}

TEST_CASE("an invalid rule is refused") {
    for (const char* text : {"f16",        "fp16,",     ",fp16",
                             "fp16,,bf16", "fp16:",     "fp16::w",
                             ":w",         "fp16 ",     " fp16",
                             "fp16, bf16", "fp16:>=",   "fp16:>=64KB",
                             "fp16:>=-1",  "fp16:<",    "fp16:<=4",
                             "fp16:>4",    "fp16:=4",   "fp16:a b",
                             "1",          "fp16;bf16", "fp16:>=99999999999999999999"}) {
        INFO(text);
        CHECK_FALSE(CompressionRules::parse(text));
    }
}

TEST_CASE("patterns are compared with the whole name") {
    CHECK(fits_pattern("", "*"));
    CHECK(fits_pattern("", "**"));
    CHECK_FALSE(fits_pattern("", "?"));
    CHECK(fits_pattern("layer1.weight", "layer?.weight"));
    CHECK_FALSE(fits_pattern("layer10.weight", "layer?.weight"));
    CHECK(fits_pattern("layer10.weight", "layer*.weight"));
    CHECK_FALSE(fits_pattern("layer1.weight", "layer1"));
    CHECK_FALSE(fits_pattern("layer1", "layer1.weight"));
    CHECK(fits_pattern("aab", "*ab"));
    CHECK(fits_pattern("abcabcd", "a*bcd"));
    CHECK_FALSE(fits_pattern("abcabc", "a*bcd"));
    CHECK(fits_pattern("a*b", "a?b"));
    CHECK(fits_pattern(std::string(100'000, 'a'), "*a*a*a*a*a*a*a*a*"));
    // must not try all ways to divide the text
    CHECK_FALSE(fits_pattern(std::string(100'000, 'a'), "*a*a*a*a*a*a*a*b"));
}

/// By definition.
bool fits(std::string_view text, std::string_view pattern) {
    if (pattern.empty()) {
        return text.empty();
    }
    if (pattern.front() == '*') {
        return fits(text, pattern.substr(1)) || (!text.empty() && fits(text.substr(1), pattern));
    }
    return !text.empty() && (pattern.front() == '?' || pattern.front() == text.front()) &&
           fits(text.substr(1), pattern.substr(1));
}

TEST_CASE("patterns mean what they are defined to") {
    std::mt19937 random(1);
    const auto any = [&](std::string_view letters, std::size_t most) {
        std::string text;
        for (auto length = random() % (most + 1); length > 0; --length) {
            text += letters[random() % letters.size()];
        }
        return text;
    };
    int fitting = 0;
    for (int i = 0; i < 20'000; ++i) {
        const std::string text = any("ab", 8);
        const std::string pattern = any("ab?**", 6);
        INFO(text << " and " << pattern);
        REQUIRE(fits_pattern(text, pattern) == fits(text, pattern));
        fitting += fits(text, pattern) ? 1 : 0;
    }
    CHECK(fitting > 1000);
}

}  // namespace
}  // namespace rueda::base
