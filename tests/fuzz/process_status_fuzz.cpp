// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes the parser of /proc/<pid>/stat, in which the name of the process may be any text. The parser must find the
// same fields as a simple search after the last parenthesis.
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/system/process_status.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using rueda::fuzz::expect;

std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    std::string word;
    for (const char c : text) {
        if (c != ' ' && c != '\n') {
            word += c;
        } else if (!word.empty()) {
            words.push_back(std::move(word));
            word.clear();
        }
    }
    return words;  // does not return a last word that has no space after it
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const auto status = rueda::base::parse_process_status(text);
    if (!status) {
        return 0;
    }
    // The text after the parenthesis begins with field 3 of proc(5), so field n is words[n - 3].
    const std::vector<std::string> words = words_of(text.substr(text.rfind(')') + 1));
    expect(words.size() >= 22);
    expect(words[0] == std::string(1, status->state));
    expect(status->threads >= 0 && std::stoll(words[17]) == status->threads);
    expect(std::stoull(words[11]) + std::stoull(words[12]) == status->cpu_ticks);
    expect(std::stoull(words[19]) == status->start_time);
    expect(std::stoull(words[21]) == status->resident_pages);
    expect(!rueda::base::describe_process_state(status->state).empty());
    expect(!status->has_ended() || status->state == 'X' || status->state == 'x' || status->threads <= 1);
    return 0;
}
