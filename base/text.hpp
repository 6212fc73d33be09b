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

/// Changes ASCII letters only, whatever the locale.
[[nodiscard]] bool equal_ignoring_case(std::string_view left, std::string_view right) noexcept;

/// The number of insertions, removals, replacements of one character and swaps of two neighbours that turn one text
/// into the other, each used on a place at most once ("optimal string alignment"). Costs left.size() × right.size()
/// steps.
[[nodiscard]] std::size_t edit_distance(std::string_view left, std::string_view right);

/// The candidate that `name` was probably meant to be: the closest one, or the first of equally close ones, if at most
/// a third of its characters would have to change. Otherwise empty.
[[nodiscard]] std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates);

/// For people: 512 → "512 B", 1536 → "1.5 KiB", 67108864 → "64 MiB"; rounded to one decimal.
[[nodiscard]] std::string format_bytes(std::uint64_t bytes);

/// For people: {4} → "rank 4", {0,1,2,3,5} → "ranks 0-3, 5", {0,1} → "ranks 0, 1", {} → "no rank". The input may have
/// any order.
[[nodiscard]] std::string format_ranks(std::vector<std::int32_t> ranks);

/// Copies as much of the text as there is room for. A cut text ends with "…", and is not cut in the middle of a UTF-8
/// character. Returns the number of bytes. May be used in a signal handler.
std::size_t copy_shortened(std::string_view text, std::span<char> room) noexcept;

/// The same, as a string of at most `limit` bytes.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t limit);

/// Whether a terminal obeys the character instead of showing it.
[[nodiscard]] constexpr bool is_control(char c) noexcept {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
}

/// The character that a message shows instead. May be used in a signal handler.
[[nodiscard]] constexpr char printable(char c) noexcept { return is_control(c) ? '?' : c; }

/// Makes text of another process fit for an error message: one line of limited length, with control characters and
/// bytes that are not UTF-8 as '?'.
[[nodiscard]] std::string printable(std::string_view text, std::size_t limit = 512);

/// Quotes text from outside for use in a one-line message: in single quotes, with control characters and bytes that are
/// not UTF-8 as '?', and cut after `limit` bytes.
[[nodiscard]] std::string quote(std::string_view text, std::size_t limit = 80);

}  // namespace rueda::base
