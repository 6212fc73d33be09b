// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rueda::base {

/// Compares two texts. It ignores the case of ASCII letters only, whatever the locale is.
[[nodiscard]] bool equal_ignoring_case(std::string_view left, std::string_view right) noexcept;

/// The edit distance of two texts: the smallest number of insertions, removals, replacements of one character and swaps
/// of two neighbours that turns one text into the other. Each place is edited at most once ("optimal string
/// alignment"). It takes left.size() × right.size() steps.
[[nodiscard]] std::size_t edit_distance(std::string_view left, std::string_view right);

/// The candidate that `name` was probably meant to be. This is the closest candidate, or the first one if several are
/// equally close. The result is empty if more than a third of its characters would have to change.
[[nodiscard]] std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);

/// Formats a number of bytes for people: 512 → "512 B", 1536 → "1.5 KiB", 67108864 → "64 MiB". The number is rounded to
/// one decimal.
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

/// Formats a list of ranks for people: {4} → "rank 4", {0,1,2,3,5} → "ranks 0-3, 5", {0,1} → "ranks 0, 1", {} → "no
/// rank". The input may have any order.
[[nodiscard]] std::string format_ranks(std::vector<std::int32_t> ranks);

/// The ranks from `first` to `last`.
struct RankRange {
    std::int32_t first = 0;
    std::int32_t last = 0;
    [[nodiscard]] bool operator==(const RankRange&) const = default;
};
/// Reads a list that format_ranks() wrote, for example "ranks 0-3, 8" → {0, 3}, {8, 8}. The list may come from another
/// process, and its end may have been cut: everything from the first damaged part on is left out.
[[nodiscard]] std::vector<RankRange> parse_ranks(std::string_view text);

/// Copies as much of the text as fits. A shortened text ends with "…", and is never cut inside a UTF-8 character.
/// Returns the number of bytes. May be called in a signal handler.
std::size_t copy_shortened(std::string_view text, std::span<char> room) noexcept;

/// Does the same, and returns a string of at most `limit` bytes.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t limit);

/// Whether the character is a control character, which a terminal executes instead of showing it.
[[nodiscard]] constexpr bool is_control(char c) noexcept {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
}

/// The character to show in its place. May be called in a signal handler.
[[nodiscard]] constexpr char printable(char c) noexcept { return is_control(c) ? '?' : c; }

/// Prepares a text of another process for an error message. The result is one line of limited length. Control
/// characters and bytes that are not UTF-8 become '?'.
[[nodiscard]] std::string printable(std::string_view text, std::size_t limit = 512);

/// Prepares a text of another process for a report of several lines, as printable() does it for one. Empty lines at the
/// beginning are left out.
[[nodiscard]] std::string printable_lines(std::string_view text);

/// Quotes a text from outside the program for a one-line message. The result is in single quotes and cut after `limit`
/// bytes. Control characters and bytes that are not UTF-8 become '?'.
[[nodiscard]] std::string quote(std::string_view text, std::size_t limit = 80);

}  // namespace rueda::base
