// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rueda::base {

namespace {

char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool equal_ignoring_case(std::string_view left, std::string_view right) noexcept {
    return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                      [](char a, char b) { return lower(a) == lower(b); });
}

std::size_t edit_distance(std::string_view left, std::string_view right) {
    // Row i holds the distances of the first i characters of `left` to every beginning of `right`; a swap looks two
    // rows back.
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
    // 1023.95 would print as 1024.0.
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
        // Two neighbours read better as "0, 1" than as "0-1".
        last = last == first + 1 ? first : last;
        text += first == 0 ? "" : ", ";
        text += last == first ? fmt::format("{}", ranks[first]) : fmt::format("{}-{}", ranks[first], ranks[last]);
        first = last + 1;
    }
    return text;
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
    std::string result = shortened(text, limit);
    std::transform(result.begin(), result.end(), result.begin(), [](char c) { return printable(c); });
    return result;
}

std::string quote(std::string_view text, std::size_t limit) {
    return fmt::format("'{}{}'", printable(text.substr(0, limit), limit), text.size() > limit ? "…" : "");
}

}  // namespace rueda::base
