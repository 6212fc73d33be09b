// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rueda::launcher {

/// Returns how many columns of a terminal a UTF-8 text takes: one for each character. A wide character counts as one
/// column too, although it takes two; such characters occur only in names that users choose.
[[nodiscard]] std::size_t columns_of(std::string_view text);

/// Returns the beginning of the text that fits into `columns` columns.
[[nodiscard]] std::string_view cut_to_columns(std::string_view text, std::size_t columns);

/// Breaks the text at blanks into lines of at most `columns` columns. A word that is longer than a line is broken too.
/// Returns the text as one line if `columns` is 0.
[[nodiscard]] std::vector<std::string> wrap_to_columns(std::string_view text, std::size_t columns);

struct Column {
    std::string title;
    bool is_right = false;  ///< numbers are right-aligned
};

/// Returns the titles and the rows as lines. Each column is as wide as its longest text. The last column is not padded.
[[nodiscard]] std::vector<std::string> lay_out(const std::vector<Column>& columns,
                                               const std::vector<std::vector<std::string>>& rows);

}  // namespace rueda::launcher
