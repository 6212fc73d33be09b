// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "rueda/data/formats.hpp"

namespace rueda::data {

/// Checks the columns of a format: their names, dtypes and widths. `format` is the name of the format, for messages.
[[nodiscard]] Status check_array_columns(std::string_view format, std::span<const ArrayColumn> columns);

/// The columns of a batch in which every sample has the same number of values. The columns must have passed
/// check_array_columns(). Threads: one at a time.
class ArrayOutputs {
public:
    explicit ArrayOutputs(std::vector<ArrayColumn> columns) : columns_(std::move(columns)), places_(columns_.size()) {}

    [[nodiscard]] const std::vector<ArrayColumn>& columns() const noexcept { return columns_; }
    /// Adds the columns to the batch, with room for `rows` rows.
    void begin(Batch& batch, std::size_t rows);
    /// Returns the place of a row's first value in the column with the index `column`.
    [[nodiscard]] std::byte* row(std::size_t column, std::size_t row) const noexcept {
        return places_[column].data + row * places_[column].row_bytes;
    }
    /// Shortens the columns to `rows` rows.
    void end(Batch& batch, std::size_t rows);

private:
    struct Place {
        std::byte* data = nullptr;
        std::size_t row_bytes = 0;
    };

    std::vector<ArrayColumn> columns_;
    std::vector<Place> places_;
};

}  // namespace rueda::data
