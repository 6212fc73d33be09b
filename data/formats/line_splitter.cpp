// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/text.hpp"
#include "data/formats/other_format.hpp"
#include "data/formats/splitter.hpp"

namespace rueda::data {

namespace {

class LineSplitter final : public Splitter {
public:
    LineSplitter(bool quotes, std::string header) : quotes_(quotes), header_(std::move(header)) {}

    Result<std::size_t> split(std::string_view bytes, std::uint64_t offset, bool at_end,
                              std::vector<Record>& records) override {
        std::size_t used = 0;
        while (used != bytes.size()) {
            const std::size_t end = find_end(bytes, used);
            if (end == std::string_view::npos && !at_end) {
                break;
            }
            if (end == std::string_view::npos && is_in_quotes_) {
                return failure(
                    ErrorCode::invalid_argument,
                    "the row that begins at offset {} has a double quote without a second one; quotes must come in "
                    "pairs; repair the row, or set Csv::quotes = false if quotes are ordinary characters{}",
                    offset + used, offset + used == 0 ? hint_for_text(bytes) : "");
            }
            const std::size_t line_end = end == std::string_view::npos ? bytes.size() : end;
            RUEDA_RETURN_IF_FAILED(take_line(bytes.substr(used, line_end - used), offset + used, records));
            used = end == std::string_view::npos ? bytes.size() : end + 1;
            searched_ = 0;
        }
        return used;
    }

private:
    /// Returns the place of the newline that ends the line at `begin`, or npos. A long line may arrive in pieces. This
    /// function notes how far it has searched, so that it searches each piece only once.
    std::size_t find_end(std::string_view bytes, std::size_t begin) {
        std::size_t place = begin + searched_;
        if (searched_ == 0) {
            is_in_quotes_ = false;
        }
        while (true) {
            const std::size_t found = bytes.find('\n', place);
            if (quotes_) {
                const std::string_view part = bytes.substr(place, std::min(found, bytes.size()) - place);
                is_in_quotes_ ^= std::count(part.begin(), part.end(), '"') % 2 != 0;
            }
            if (found == std::string_view::npos) {
                searched_ = bytes.size() - begin;
                return found;
            }
            if (!is_in_quotes_) {
                return found;
            }
            place = found + 1;
        }
    }
    Status take_line(std::string_view line, std::uint64_t offset, std::vector<Record>& records) {
        if (offset == 0 && line.starts_with(kByteOrderMark)) {
            line.remove_prefix(kByteOrderMark.size());
            offset += kByteOrderMark.size();
        }
        if (line.ends_with('\r')) {
            line.remove_suffix(1);
        }
        if (line.empty()) {
            return {};
        }
        if (!header_.empty() && !has_header_) {
            has_header_ = true;
            if (line != header_) {
                return failure(
                    ErrorCode::mismatch,
                    "the first row is {}, expected {} as in the first file; give all files the same header, or set "
                    "Csv::header = false",
                    base::quote(line), base::quote(header_));
            }
            return {};
        }
        records.push_back({line.data(), line.size(), offset, 0, 0});
        return {};
    }

    bool quotes_;
    std::string header_;
    bool has_header_ = false;
    bool is_in_quotes_ = false;  ///< whether the searched part ends inside a quoted text
    std::size_t searched_ = 0;   ///< how many bytes of an incomplete line were searched
};

}  // namespace

std::unique_ptr<Splitter> make_line_splitter(bool quotes, const std::string& header) {
    return std::make_unique<LineSplitter>(quotes, header);
}

}  // namespace rueda::data
