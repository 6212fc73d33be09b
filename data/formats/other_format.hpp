// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <string_view>

#include "rueda/data/batch.hpp"

namespace rueda::data {

/// The byte order mark, with which a text in UTF-8 may begin.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// Whether the byte is a control character that does not occur in texts.
[[nodiscard]] constexpr bool is_control_byte(char byte) noexcept {
    const auto code = static_cast<unsigned char>(byte);
    return code < 0x20 && (code < 0x09 || code > 0x0d);
}

/// If the file is probably no text, returns a question that names the likely causes. Errors about the first line of the
/// file end with it. Otherwise returns an empty text.
[[nodiscard]] inline std::string_view hint_for_text(std::string_view first_line) noexcept {
    return std::ranges::any_of(first_line, is_control_byte) ? "; the first line has bytes that no text has: is this "
                                                              "file of another format, for example TFRecord, or "
                                                              "is it compressed?"
                                                            : "";
}

/// Like hint_for_text() for a first line, but for an error about a record. Only the first record of a file gets a hint.
[[nodiscard]] inline std::string_view hint_for_text(const Record& record) noexcept {
    return record.number == 0 ? hint_for_text(record.text()) : "";
}

}  // namespace rueda::data
