// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/options/shell_words.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>
#include <vector>

namespace rueda::launcher {
namespace {

using Words = std::vector<std::string>;

/// Returns the output of a command that this machine's shell runs.
std::string output_of_shell(const std::string& command) {
    FILE* const pipe = ::popen(command.c_str(), "r");
    REQUIRE(pipe != nullptr);
    std::string text;
    std::array<char, 256> buffer{};
    while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
        text.append(buffer.data(), got);
    }
    REQUIRE(::pclose(pipe) == 0);
    return text;
}

const Words kHardWords = {"plain", "",   "two words", "it's", "\"quoted\"", "$HOME",    "`ls`",  "a\\b",
                          "*",     "~",  "a;b",       "a\nb", "'",          "''",       "tab\t", "--name=v!",
                          "é",     "#x", "a=b c",     "\\",   "{a,b}",      "x|y&z<>(", "-n"};

TEST_CASE("quoted words come back from a shell unchanged", "[unit]") {
    std::string expected;
    for (const std::string& word : kHardWords) {
        expected += "<" + word + ">\n";
    }
    CHECK(output_of_shell("printf '<%s>\\n' " + shell_join(kHardWords)) == expected);
}

TEST_CASE("quoted words come back from our own splitting unchanged", "[unit]") {
    const Result<Words> words = split_shell_words(shell_join(kHardWords));
    REQUIRE(words.is_ok());
    CHECK(words.value() == kHardWords);
}

TEST_CASE("words that need no quotes get none", "[unit]") {
    CHECK(shell_quote("--output-dir=/a/b_c.d") == "--output-dir=/a/b_c.d");
    CHECK(shell_quote("") == "''");
    CHECK(shell_quote("it's") == "'it'\\''s'");
}

TEST_CASE("splitting follows the shell", "[unit]") {
    const Result<Words> words = split_shell_words(R"(  --bind-to  core -x 'A=b c' "d\"e\n" f\ g ''  h"i"'j' )");
    REQUIRE(words.is_ok());
    CHECK(words.value() == Words{"--bind-to", "core", "-x", "A=b c", "d\"e\\n", "f g", "", "hij"});
    CHECK(split_shell_words(" \t\n").value().empty());
}

TEST_CASE("unfinished quoting is refused", "[unit]") {
    for (const char* text : {"'a", "\"a", "a\\", "\"a\\\""}) {
        CAPTURE(text);
        CHECK(split_shell_words(text).status().code() == ErrorCode::invalid_argument);
    }
}

}  // namespace
}  // namespace rueda::launcher
