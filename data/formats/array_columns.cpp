// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/formats/array_columns.hpp"

#include <fmt/format.h>

#include <set>

namespace rueda::data {

namespace {

/// The largest width of a column. With this limit and the limit of PipelineOptions::batch, a column has fewer than 2^63
/// bytes.
constexpr std::int64_t kMostWidth = std::int64_t{1} << 28;

bool is_array_dtype(DType dtype) {
    return dtype == DType::float32 || dtype == DType::float64 || dtype == DType::int64 || dtype == DType::uint8;
}

}  // namespace

Status check_array_columns(std::string_view format, std::span<const ArrayColumn> columns) {
    if (columns.empty()) {
        return failure(ErrorCode::invalid_argument, "pipeline: {} has no columns; list at least one", format);
    }
    std::set<std::string_view> names;
    for (const ArrayColumn& column : columns) {
        if (column.name.empty() || !names.insert(column.name).second) {
            return failure(ErrorCode::invalid_argument,
                           "pipeline: {} has {} column '{}'; expected names that are not empty and differ", format,
                           column.name.empty() ? "a" : "two times the", column.name);
        }
        if (!is_array_dtype(column.dtype)) {
            return failure(ErrorCode::invalid_argument,
                           "pipeline: column '{}' of {} has dtype {}; expected float32, float64, int64 or uint8",
                           column.name, format, name_of(column.dtype));
        }
        if (column.width < 1 || column.width > kMostWidth) {
            return failure(ErrorCode::invalid_argument,
                           "pipeline: column '{}' of {} has the width {}; expected 1 to {}, the number of values in "
                           "each sample",
                           column.name, format, column.width, kMostWidth);
        }
    }
    return {};
}

void ArrayOutputs::begin(Batch& batch, std::size_t rows) {
    // Adding a column can move the other columns in memory, so all columns are added before any of them is used.
    for (const ArrayColumn& column : columns_) {
        batch.add_column(column.name, column.dtype, column.width);
    }
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        Column& column = batch.column(columns_[i].name);
        const std::size_t row_bytes = static_cast<std::size_t>(column.width) * size_of(column.dtype);
        column.data.resize(rows * row_bytes);
        column.offset_data.resize(0);
        places_[i] = {column.data.data(), row_bytes};
    }
}

void ArrayOutputs::end(Batch& batch, std::size_t rows) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        batch.column(columns_[i].name).data.resize(rows * places_[i].row_bytes);
    }
}

}  // namespace rueda::data
