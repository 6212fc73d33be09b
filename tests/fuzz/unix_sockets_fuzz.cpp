// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes the parser of /proc/net/unix, in which other users choose the names of sockets. The name of a socket is the
// rest of its line after seven words. The parser must find exactly the named sockets whose sixth word says that they
// are not connected.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/host/sockets/unix_socket.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using rueda::collectives::UnixSocketLine;
using rueda::fuzz::expect;

constexpr std::string_view kBlanks = " \t\v\f\r";

/// Removes the first word and the blanks around it from `rest`, and returns the word.
std::string_view next_word(std::string_view& rest) {
    rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
    const std::string_view word = rest.substr(0, rest.find_first_of(kBlanks));
    rest.remove_prefix(word.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
    return word;
}

std::vector<UnixSocketLine> expected_in(std::string_view text) {
    std::vector<UnixSocketLine> found;
    while (!text.empty()) {
        std::string_view rest = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(rest.size() + 1, text.size()));
        std::vector<std::string_view> words;
        while (words.size() < 7) {
            words.push_back(next_word(rest));
        }
        if (words[5] == "01" && !rest.empty()) {
            found.push_back({std::string(rest), words[3] == "00010000"});
        }
    }
    return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    std::istringstream list(text);
    expect(rueda::collectives::parse_unix_sockets(list) == expected_in(text));
    return 0;
}
