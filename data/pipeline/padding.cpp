// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/pipeline/padding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "rueda/error.hpp"

namespace rueda::data {

namespace {

void pad_values(Column& column, std::size_t before, std::size_t after) {
    const std::size_t row_bytes = static_cast<std::size_t>(column.width) * size_of(column.dtype);
    if (column.data.size() != before * row_bytes) {
        return;
    }
    column.data.resize(after * row_bytes);
    std::memset(column.data.data() + before * row_bytes, 0, (after - before) * row_bytes);
}

void pad_offsets(Column& column, std::size_t before, std::size_t after) {
    // A row of a column of texts has `width` texts, and each text has one offset.
    const auto per_row = static_cast<std::size_t>(std::max<std::int64_t>(column.width, 1));
    if (column.offsets().size() != before * per_row + 1) {
        return;
    }
    const std::int64_t end = column.offsets().back();
    column.offset_data.resize((after * per_row + 1) * sizeof end);
    auto* const offsets = reinterpret_cast<std::int64_t*>(column.offset_data.data());
    std::fill(offsets + before * per_row + 1, offsets + after * per_row + 1, end);
}

}  // namespace

void add_weights(Batch& batch, const std::string& name) {
    if (std::ranges::find(batch.columns(), name, &Column::name) != batch.columns().end()) {
        throw InvalidArgument(
            fmt::format("pipeline: remainder is pad, and a map function added the column '{}', which is also the name "
                        "of the column of weights; give `weights` another name",
                        name));
    }
    Column& column = batch.add_column(name, DType::float32);
    column.data.resize(static_cast<std::size_t>(batch.rows()) * sizeof(float));
    std::ranges::fill(column.values<float>(), 1.0F);
}

void pad_rows(Batch& batch, std::int64_t rows) {
    if (batch.rows() >= rows) {
        return;
    }
    for (Column& column : batch.columns()) {
        const auto before = static_cast<std::size_t>(batch.rows());
        const auto after = static_cast<std::size_t>(rows);
        if (column.offsets().empty()) {
            pad_values(column, before, after);
        } else {
            pad_offsets(column, before, after);
        }
    }
    batch.set_rows(rows, rows - batch.rows());
}

}  // namespace rueda::data
