// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/numbers.hpp"

namespace rueda::base {

namespace {

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Whether `c` is a continuation byte of UTF-8, that is, not the first byte of a character.
bool is_continuation(char c) noexcept { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; }

/// Returns the length in bytes of the first UTF-8 character of the text. Returns 0 if the text does not begin with a
/// valid character (RFC 3629, section 4). Also returns 0 for the control characters U+0080 to U+009F, because some
/// terminals execute them.
std::size_t character_bytes(std::string_view text) noexcept {
    const auto byte = [text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    const unsigned first = byte(0);
    if (first < 0x80U) {
        return 1;
    }
    const std::size_t length = first >= 0xf0U ? 4 : first >= 0xe0U ? 3 : 2;
    if (first < 0xc2U || first > 0xf4U) {
        return 0;
    }
    for (std::size_t i = 1; i < length; ++i) {
        if (i >= text.size() || !is_continuation(text[i])) {
            return 0;
        }
    }
    const unsigned second = byte(1);
    const bool is_control_character = first == 0xc2U && second < 0xa0U;
    const bool is_overlong = (first == 0xe0U && second < 0xa0U) || (first == 0xf0U && second < 0x90U);
    const bool is_surrogate = first == 0xedU && second > 0x9fU;
    const bool is_too_large = first == 0xf4U && second > 0x8fU;
    return is_control_character || is_overlong || is_surrogate || is_too_large ? 0 : length;
}

/// Replaces control characters, and bytes that are not UTF-8, by '?'.
std::string printable_characters(std::string_view text) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const std::size_t length = character_bytes(text);
        if (length < 2) {
            result += length == 0 ? '?' : printable(text.front());
        } else {
            result += text.substr(0, length);
        }
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return result;
}

}  // namespace

bool equal_ignoring_case(std::string_view left, std::string_view right) noexcept {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                      [](char a, char b) { return lower(a) == lower(b); });
}

std::size_t edit_distance(std::string_view left, std::string_view right) {
    // Row i holds the distances between the first i characters of `left` and every prefix of `right`. To compute a swap
    // of two characters, the loop needs row i − 2.
    std::vector<std::size_t> before_last(right.size() + 1);
    std::vector<std::size_t> last(right.size() + 1);
    std::vector<std::size_t> row(right.size() + 1);
    for (std::size_t j = 0; j <= right.size(); ++j) {
        row[j] = j;
    }
    for (std::size_t i = 1; i <= left.size(); ++i) {
        std::swap(before_last, last);
        std::swap(last, row);
        row[0] = i;
        for (std::size_t j = 1; j <= right.size(); ++j) {
            const std::size_t exchange = last[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1);
            row[j] = std::min({exchange, last[j] + 1, row[j - 1] + 1});
            if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1]) {
                row[j] = std::min(row[j], before_last[j - 2] + 1);
            }
        }
    }
    return row[right.size()];
}

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
    std::string_view nearest;
    std::size_t smallest = 0;
    for (const std::string_view candidate : candidates) {
        const std::size_t distance = edit_distance(name, candidate);
        if (distance * 3 <= candidate.size() && (nearest.empty() || distance < smallest)) {
            nearest = candidate;
            smallest = distance;
        }
    }
    return nearest;
}

std::string format_bytes(std::uint64_t bytes) {
    constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    // Numbers from 1023.95 on would be rounded to 1024.0, so they are shown in the next unit.
    while (value >= (unit == 0 ? 1024.0 : 1023.95) && unit + 1 < kUnits.size()) {
        value /= 1024.0;
        ++unit;
    }
    std::string number = fmt::format("{:.1f}", value);
    if (number.ends_with(".0")) {
        number.resize(number.size() - 2);
    }
    return fmt::format("{} {}", number, kUnits[unit]);
}

std::string format_ranks(std::vector<std::int32_t> ranks) {
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    if (ranks.empty()) {
        return "no rank";
    }
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t first = 0; first < ranks.size();) {
        std::size_t last = first;
        while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) {
            ++last;
        }
        // Two consecutive ranks are printed as "0, 1", which is easier to read than "0-1".
        last = last == first + 1 ? first : last;
        text += first == 0 ? "" : ", ";
        text += last == first ? fmt::format("{}", ranks[first]) : fmt::format("{}-{}", ranks[first], ranks[last]);
        first = last + 1;
    }
    return text;
}

std::vector<RankRange> parse_ranks(std::string_view text) {
    constexpr std::string_view kSeparator = ", ";
    text.remove_prefix(std::min(text.find(' '), text.size()));
    std::vector<RankRange> ranges;
    while (!text.empty()) {
        text.remove_prefix(std::min(text.find_first_not_of(kSeparator), text.size()));
        const std::string_view part = text.substr(0, text.find_first_of(kSeparator));
        text.remove_prefix(part.size());
        const std::size_t dash = part.find('-');
        const auto first = parse_integer<std::int32_t>(part.substr(0, dash));
        const auto last = dash == std::string_view::npos ? first : parse_integer<std::int32_t>(part.substr(dash + 1));
        if (!first || !last || *last < *first) {
            break;
        }
        ranges.push_back({*first, *last});
    }
    return ranges;
}

std::size_t copy_shortened(std::string_view text, std::span<char> room) noexcept {
    constexpr std::string_view kCut = "…";
    if (text.size() <= room.size()) {
        text.copy(room.data(), text.size());
        return text.size();
    }
    const std::string_view mark = kCut.substr(0, room.size() < kCut.size() ? 0 : kCut.size());
    std::size_t length = room.size() - mark.size();
    while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0U) == 0x80U) {
        --length;
    }
    text.copy(room.data(), length);
    mark.copy(room.data() + length, mark.size());
    return length + mark.size();
}

std::string shortened(std::string_view text, std::size_t limit) {
    std::string result(std::min(text.size(), limit), '\0');
    result.resize(copy_shortened(text, result));
    return result;
}

std::string printable(std::string_view text, std::size_t limit) {
    const std::string cut = shortened(text, limit);
    return printable_characters(cut);
}

std::string printable_lines(std::string_view text) {
    constexpr std::size_t kLongestLine = 400;
    std::string lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        lines += (lines.empty() ? "" : "\n") + printable(text.substr(0, end), kLongestLine);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

std::string quote(std::string_view text, std::size_t limit) {
    std::size_t length = std::min(text.size(), limit);
    // The text must not be cut inside a UTF-8 character, which has at most three bytes after its first byte.
    for (int i = 0; i < 3 && length < text.size() && length > 0 && is_continuation(text[length]); ++i) {
        --length;
    }
    return fmt::format("'{}{}'", printable_characters(text.substr(0, length)), length < text.size() ? "…" : "");
}

}  // namespace rueda::base
