// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <string_view>

namespace rueda::launcher {

/// Removes blanks at both ends of the text, and also '\r', which Windows editors write at the end of a line.
[[nodiscard]] inline std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t\r");
    return begin == std::string_view::npos ? std::string_view()
                                           : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// Returns the part of `text` before the first character `end`. Removes this part and the character from `text`. If
/// `text` does not contain the character, returns the whole text and leaves `text` empty.
[[nodiscard]] inline std::string_view take_until(std::string_view& text, char end) {
    const std::string_view part = text.substr(0, text.find(end));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    return part;
}

}  // namespace rueda::launcher
