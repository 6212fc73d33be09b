// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rueda::launcher {

/// The places that a text takes in a line of a terminal: one for each character of its UTF-8. Wide characters, of which
/// only names of users may have some, count as one too.
[[nodiscard]] std::size_t columns_of(std::string_view text);

/// As much of the text as fits into so many places.
[[nodiscard]] std::string_view cut_to_columns(std::string_view text, std::size_t columns);

struct Column {
    std::string title;
    bool is_right = false;  ///< numbers are flush right
};

/// The title and the rows as lines, with the columns as wide as they need to be. The last column is not padded.
[[nodiscard]] std::vector<std::string> lay_out(const std::vector<Column>& columns,
                                               const std::vector<std::vector<std::string>>& rows);

}  // namespace rueda::launcher
