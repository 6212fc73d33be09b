// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/terms/vocabulary_text.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <system_error>

#include "base/text.hpp"

namespace rueda::data {

namespace {

constexpr std::string_view kVocabularyMark = "\xef\xbb\xbf";
constexpr std::string_view kStateFormat = "rueda vocabulary 1";

/// For the UTF-8 sequences whose first byte is from `first_from` to `first_to`: their length, and the range of their
/// second byte (Unicode 15, table 3-7). All further bytes are from 0x80 to 0xbf.
struct Utf8Form {
    unsigned char first_from;
    unsigned char first_to;
    unsigned char length;
    unsigned char second_from;
    unsigned char second_to;
};
constexpr std::array kUtf8Forms = {Utf8Form{0xc2, 0xdf, 2, 0x80, 0xbf}, Utf8Form{0xe0, 0xe0, 3, 0xa0, 0xbf},
                                   Utf8Form{0xe1, 0xec, 3, 0x80, 0xbf}, Utf8Form{0xed, 0xed, 3, 0x80, 0x9f},
                                   Utf8Form{0xee, 0xef, 3, 0x80, 0xbf}, Utf8Form{0xf0, 0xf0, 4, 0x90, 0xbf},
                                   Utf8Form{0xf1, 0xf3, 4, 0x80, 0xbf}, Utf8Form{0xf4, 0xf4, 4, 0x80, 0x8f}};

bool lies_in(char c, unsigned char from, unsigned char to) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= from && byte <= to;
}

/// Returns the length of the UTF-8 sequence at the beginning of the text, or 0 if there is none.
std::size_t utf8_length(std::string_view text) {
    if (static_cast<unsigned char>(text[0]) < 0x80) {
        return 1;
    }
    for (const Utf8Form& form : kUtf8Forms) {
        if (lies_in(text[0], form.first_from, form.first_to)) {
            bool valid = text.size() >= form.length && lies_in(text[1], form.second_from, form.second_to);
            for (std::size_t i = 2; valid && i < form.length; ++i) {
                valid = lies_in(text[i], 0x80, 0xbf);
            }
            return valid ? form.length : 0;
        }
    }
    return 0;
}

/// Returns the position of the first byte that is not UTF-8, or the size of the text.
std::size_t valid_utf8_bytes(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t length = utf8_length(text.substr(at));
        if (length == 0) {
            break;
        }
        at += length;
    }
    return at;
}

/// Removes the text before the next separator, and the separator, from `rest`. Puts this text into `taken`. Returns
/// false if there is no separator.
bool take_until(std::string_view& rest, char separator, std::string_view& taken) {
    const std::size_t end = rest.find(separator);
    if (end == std::string_view::npos) {
        return false;
    }
    taken = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    return true;
}

template <class Number>
bool is_number(std::string_view text, Number& number) {
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    return !text.empty() && read.ec == std::errc() && read.ptr == end;
}

/// Removes a number and the separator behind it from the beginning of `rest`.
template <class Number>
bool take_number_until(std::string_view& rest, char separator, Number& number) {
    std::string_view text;
    return take_until(rest, separator, text) && is_number(text, number);
}

Status damaged_state(std::string_view what) {
    return failure(ErrorCode::invalid_argument,
                   "vocabulary: the state is damaged: {}; give restore() a text that state() returned", what);
}

bool take_candidate(std::string_view& rest, TermCount& candidate) {
    return take_number_until(rest, ' ', candidate.count) && take_until(rest, '\n', candidate.text) &&
           candidate.count >= 1 && candidate.count <= kLargestCount && !why_no_term(candidate.text);
}

}  // namespace

std::optional<std::string> why_no_term(std::string_view text) {
    if (text.empty()) {
        return "it is empty, expected a term";
    }
    if (text.size() > TermTable::kLongestTerm) {
        return fmt::format("it has {} bytes, expected at most {}", text.size(), TermTable::kLongestTerm);
    }
    if (text.find_first_of("\r\n") != std::string_view::npos) {
        return "it contains the end of a line, which no term may contain";
    }
    if (text.starts_with(kVocabularyMark)) {
        return "it begins with a byte-order mark, which would be lost at the beginning of a file";
    }
    if (const std::size_t valid = valid_utf8_bytes(text); valid < text.size()) {
        return fmt::format("its byte {} (0x{:02x}) is not UTF-8, expected a text in UTF-8", valid + 1,
                           static_cast<unsigned char>(text[valid]));
    }
    return std::nullopt;
}

Status add_term(TermTable& table, std::string_view text, std::int64_t most, const TermOrigin& origin) {
    const std::int64_t number = table.size() + origin.first;
    if (const auto reason = why_no_term(text)) {
        return failure(ErrorCode::invalid_argument, "{}, {} {}: {}; correct or remove it", origin.what, origin.unit,
                       number, *reason);
    }
    if (const std::int32_t earlier = table.find(text, table.hash(text)); earlier != TermTable::kUnknown) {
        return failure(ErrorCode::invalid_argument,
                       "{}, {} {}: {} is already {} {}; each term has one id, so remove one of the two", origin.what,
                       origin.unit, number, base::quote(text), origin.unit, earlier + origin.first);
    }
    if (table.size() == most) {
        return failure(ErrorCode::invalid_argument,
                       "{}, {} {}: there are more than {} terms; remove terms, or raise most_terms (at most {})",
                       origin.what, origin.unit, number, most, TermTable::kMostTerms);
    }
    table.add(text);
    return {};
}

Status read_term_lines(std::string_view content, const std::string& name, std::int64_t most, TermTable& table) {
    const TermOrigin origin{fmt::format("reading the vocabulary '{}'", name), "line", 1};
    if (content.starts_with(kVocabularyMark)) {
        content.remove_prefix(kVocabularyMark.size());
    }
    while (!content.empty()) {
        std::string_view line;
        if (!take_until(content, '\n', line)) {
            line = content;  // the last line has no newline
            content = {};
        }
        if (line.ends_with('\r')) {
            line.remove_suffix(1);
        }
        RUEDA_RETURN_IF_FAILED(add_term(table, line, most, origin));
    }
    return {};
}

std::string to_text(const VocabularyState& state, const IdLayout& layout) {
    const TermTable& table = state.table;
    std::string text = fmt::format("{}\n{} {} {} {:d} {} {}\n", kStateFormat, layout.most_terms, layout.unknown_buckets,
                                   layout.seed, state.grows, table.size(), state.candidates.size());
    for (std::int64_t id = 0; id < table.size(); ++id) {
        text.append(table.term(id)).push_back('\n');
    }
    // The candidates are sorted, so that the text is the same on all ranks. The order of the hash table would depend on
    // its history.
    for (const TermCount& candidate : in_order(state.candidates)) {
        text.append(fmt::format("{} ", candidate.count)).append(candidate.text).push_back('\n');
    }
    return text;
}

Status read_state(std::string_view text, const IdLayout& layout, VocabularyState& state) {
    std::string_view line;
    if (!take_until(text, '\n', line) || line != kStateFormat) {
        return damaged_state(fmt::format("its first line is not '{}'", kStateFormat));
    }
    IdLayout saved;
    int grows = 0;
    std::int64_t terms = 0;
    std::int64_t count = 0;
    if (!take_number_until(text, ' ', saved.most_terms) || !take_number_until(text, ' ', saved.unknown_buckets) ||
        !take_number_until(text, ' ', saved.seed) || !take_number_until(text, ' ', grows) ||
        !take_number_until(text, ' ', terms) || !take_number_until(text, '\n', count)) {
        return damaged_state("its second line does not consist of six numbers");
    }
    if (saved != layout) {
        return failure(ErrorCode::invalid_argument,
                       "vocabulary: the state has most_terms = {}, unknown_buckets = {} and seed = {}, and this "
                       "vocabulary has {}, {} and {}; ids depend on them, so make the vocabulary with the same options",
                       saved.most_terms, saved.unknown_buckets, saved.seed, layout.most_terms, layout.unknown_buckets,
                       layout.seed);
    }
    state.grows = grows != 0;
    const TermOrigin origin{"reading the state of a vocabulary", "term", 0};
    for (std::int64_t i = 0; i < terms; ++i) {
        if (!take_until(text, '\n', line)) {
            return damaged_state(fmt::format("it has {} terms, expected {}", i, terms));
        }
        RUEDA_RETURN_IF_FAILED(add_term(state.table, line, layout.most_terms, origin));
    }
    for (std::int64_t i = 0; i < count; ++i) {
        TermCount candidate;
        if (!take_candidate(text, candidate) || state.candidates.contains(candidate.text) ||
            state.table.find(candidate.text, state.table.hash(candidate.text)) != TermTable::kUnknown) {
            return damaged_state(fmt::format("count {} of {} is wrong", i, count));
        }
        state.candidates.emplace(candidate.text, candidate.count);
    }
    return text.empty() ? Status() : damaged_state(fmt::format("{} bytes follow its last line", text.size()));
}

}  // namespace rueda::data
