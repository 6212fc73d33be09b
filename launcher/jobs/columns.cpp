// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/jobs/columns.hpp"

#include <algorithm>

namespace rueda::launcher {

namespace {

/// Whether the byte begins a character of UTF-8.
bool is_first_byte(char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }

std::string padded(const std::string& text, const Column& column, std::size_t width, bool is_last) {
    const std::string blanks(width - columns_of(text), ' ');
    return column.is_right ? blanks + text : is_last ? text : text + blanks;
}

}  // namespace

std::size_t columns_of(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), is_first_byte));
}

std::string_view cut_to_columns(std::string_view text, std::size_t columns) {
    std::size_t end = 0;
    while (end < text.size() && (columns > 0 || !is_first_byte(text[end]))) {
        columns -= is_first_byte(text[end]) ? 1U : 0U;
        ++end;
    }
    return text.substr(0, end);
}

std::vector<std::string> wrap_to_columns(std::string_view text, std::size_t columns) {
    std::vector<std::string> lines;
    while (columns > 0 && columns_of(text) > columns) {
        const std::string_view fits = cut_to_columns(text, columns);
        // Searches for the last blank at which the line can end. A word may fill the line exactly, so the search
        // includes the byte after the line: this byte is then the blank.
        const std::size_t blank = text.substr(0, fits.size() + 1).find_last_of(' ');
        const bool has_blank = blank != std::string_view::npos && blank > 0;
        lines.emplace_back(text.substr(0, has_blank ? blank : fits.size()));
        text.remove_prefix(has_blank ? blank + 1 : fits.size());
    }
    lines.emplace_back(text);
    return lines;
}

std::vector<std::string> lay_out(const std::vector<Column>& columns,
                                 const std::vector<std::vector<std::string>>& rows) {
    std::vector<std::string> titles;
    std::vector<std::size_t> widths;
    for (std::size_t i = 0; i < columns.size(); ++i) {
        titles.push_back(columns[i].title);
        widths.push_back(columns_of(columns[i].title));
        for (const std::vector<std::string>& row : rows) {
            widths[i] = std::max(widths[i], columns_of(row[i]));
        }
    }
    const auto line_of = [&](const std::vector<std::string>& cells) {
        std::string line;
        for (std::size_t i = 0; i < cells.size(); ++i) {
            line += (i > 0 ? "  " : "") + padded(cells[i], columns[i], widths[i], i + 1 == cells.size());
        }
        return line;
    };
    std::vector<std::string> lines = {line_of(titles)};
    for (const std::vector<std::string>& row : rows) {
        lines.push_back(line_of(row));
    }
    return lines;
}

}  // namespace rueda::launcher
