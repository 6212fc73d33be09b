// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.hpp"
#include "data/terms/term_counts.hpp"
#include "data/terms/term_table.hpp"

namespace rueda::data {

/// Returns why a text cannot be a term, or nothing if it can.
[[nodiscard]] std::optional<std::string> why_no_term(std::string_view text);

/// Says where terms come from. An error message about a term begins with "<what>, <unit> <number>". The first term has
/// the number `first`.
struct TermOrigin {
    std::string what;
    const char* unit;
    std::int64_t first;
};
/// Adds a term. Fails if the text cannot be a term, if it is already there, or if there are `most` terms.
[[nodiscard]] Status add_term(TermTable& table, std::string_view text, std::int64_t most, const TermOrigin& origin);

/// Adds the terms of a vocabulary file, one in each line. `name` is the name of the file.
[[nodiscard]] Status read_term_lines(std::string_view content, const std::string& name, std::int64_t most,
                                     TermTable& table);

/// The numbers on which the ids of texts depend. They are part of the state in a checkpoint.
struct IdLayout {
    std::int64_t most_terms = 0;
    std::int64_t unknown_buckets = 0;
    std::uint64_t seed = 0;

    [[nodiscard]] bool operator==(const IdLayout&) const = default;
};

/// The state of a vocabulary that is saved in a checkpoint.
struct VocabularyState {
    explicit VocabularyState(std::uint64_t seed) : table(seed) {}

    bool grows = false;
    TermTable table;
    TermCounts candidates;  ///< texts that have not become terms, and their counts, which all ranks know
};
/// Returns the state as a text: a line that names the format, a line with numbers, the terms, and the candidates.
[[nodiscard]] std::string to_text(const VocabularyState& state, const IdLayout& layout);
/// Reads a text from to_text() into an empty state. Fails if the text is damaged, or if its layout is not `layout`.
[[nodiscard]] Status read_state(std::string_view text, const IdLayout& layout, VocabularyState& state);

}  // namespace rueda::data
