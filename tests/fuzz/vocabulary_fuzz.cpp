// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes what a vocabulary reads: its file, the state in a checkpoint, and the counts of other ranks. The first byte
// chooses one of these three.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/terms/term_counts.hpp"
#include "data/terms/vocabulary_text.hpp"
#include "rueda/data/vocabulary.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace rueda;
using namespace rueda::data;
using fuzz::expect;

constexpr std::int64_t kMost = 6;

/// Each accepted term must be found again. A file with these terms must give the same terms.
void check_table(const TermTable& table) {
    std::string lines;
    expect(table.size() <= kMost);
    for (std::int64_t id = 0; id < table.size(); ++id) {
        const std::string_view term = table.term(id);
        expect(!why_no_term(term) && table.find(term, table.hash(term)) == id);
        lines.append(term).push_back('\n');
    }
    TermTable again(0);
    expect(read_term_lines(lines, "again", kMost, again).is_ok());
    expect(again.digest() == table.digest());
}

void read_file(std::string_view content) {
    TermTable table(0);
    const Status status = read_term_lines(content, "input", kMost, table);
    expect(status.is_ok() == status.message().empty());
    check_table(table);
}

void read_state_text(std::string_view text) {
    const IdLayout layout{kMost, 2, 7};
    VocabularyState state(layout.seed);
    if (read_state(text, layout, state).is_ok()) {
        VocabularyState again(layout.seed);
        expect(read_state(to_text(state, layout), layout, again).is_ok());
        expect(again.table.digest() == state.table.digest() && again.candidates == state.candidates);
        expect(again.grows == state.grows);
    }
}

void read_counts(std::string_view bytes) {
    const auto messages = read_messages(bytes);
    if (!messages.is_ok()) {
        return;
    }
    Vocabulary vocabulary(std::vector<std::string>(), {.most_terms = kMost, .grows = true, .most_unknown = 3});
    try {
        const std::int64_t added = vocabulary.merge(bytes);
        expect(added == vocabulary.size() && added <= kMost);
        const std::string state = vocabulary.state();
        vocabulary.restore(state);
        expect(vocabulary.state() == state);
    } catch (const InvalidArgument&) {
        expect(messages.value().size() > 1);  // the ranks' vocabularies differ
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const std::string_view rest(reinterpret_cast<const char*>(bytes) + 1, size - 1);
    switch (bytes[0] % 3) {
        case 0:
            read_file(rest);
            break;
        case 1:
            read_state_text(rest);
            break;
        default:
            read_counts(rest);
    }
    return 0;
}
