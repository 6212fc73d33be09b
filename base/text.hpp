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

/// Compares two texts without regard to the case of ASCII letters. The locale does not matter.
[[nodiscard]] bool equal_ignoring_case(std::string_view left, std::string_view right) noexcept;

/// Returns the edit distance of two texts: the smallest number of edits that turn one text into the other. An edit
/// inserts, removes or replaces one character, or swaps two neighbours. No part of the text is edited twice ("optimal
/// string alignment"). The cost is left.size() × right.size() steps.
[[nodiscard]] std::size_t edit_distance(std::string_view left, std::string_view right);

/// Returns the candidate that the user probably meant by `name`: the candidate with the smallest edit distance. If
/// several candidates are equally close, returns the first of them. Returns an empty text if more than a third of the
/// candidate's characters would have to change.
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
/// Parses a list that format_ranks() wrote: "ranks 0-3, 8" gives {0, 3}, {8, 8}. The list may come from another process
/// or may have been cut. If a part of the list is damaged, this part and everything after it are ignored.
[[nodiscard]] std::vector<RankRange> parse_ranks(std::string_view text);

/// Copies as much of the text as fits into `room`. A shortened text ends with "…", and is never cut inside a UTF-8
/// character. Returns the number of copied bytes. May be called in a signal handler.
std::size_t copy_shortened(std::string_view text, std::span<char> room) noexcept;

/// Like copy_shortened(), but returns a string of at most `limit` bytes.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t limit);

/// Whether the character is a control character, which a terminal executes instead of showing it.
[[nodiscard]] constexpr bool is_control(char c) noexcept {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
}

/// Returns the character to show for `c`: '?' for a control character. May be called in a signal handler.
[[nodiscard]] constexpr char printable(char c) noexcept { return is_control(c) ? '?' : c; }

/// Prepares another process's text for an error message. The result is one line of at most `limit` bytes. Control
/// characters and bytes that are not UTF-8 become '?'.
[[nodiscard]] std::string printable(std::string_view text, std::size_t limit = 512);

/// Prepares another process's text of several lines for a report. Control characters and bytes that are not UTF-8
/// become '?'. Empty lines at the beginning are removed.
[[nodiscard]] std::string printable_lines(std::string_view text);

/// Quotes a text from outside the program for a one-line message. The result is in single quotes and cut after `limit`
/// bytes. Control characters and bytes that are not UTF-8 become '?'.
[[nodiscard]] std::string quote(std::string_view text, std::size_t limit = 80);

}  // namespace rueda::base
