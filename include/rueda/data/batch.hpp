// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Batches: the samples of one step, as columns of plain arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "rueda/rueda.h"
#include "rueda/types.hpp"

namespace rueda::data {

/// One sample's bytes, as they stand in a source. The bytes are valid while a map function or a parser works on the
/// batch.
struct Record {
    const char* data = nullptr;
    std::size_t size = 0;
    std::uint64_t offset = 0;  ///< where the bytes begin in the source, counted after decompression
    std::uint64_t number = 0;  ///< number of the record in its source, from 0
    std::uint32_t source = 0;  ///< index of the source in PipelineOptions::sources

    [[nodiscard]] std::string_view text() const noexcept { return {data, size}; }
};

/// An array of bytes that begins at a multiple of 64. It grows, and keeps its memory when it shrinks, so that a batch
/// can be used again without allocations. New bytes have no defined value.
class RUEDA_API Array {
public:
    Array() = default;
    Array(Array&& other) noexcept;
    Array& operator=(Array&& other) noexcept;
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    ~Array();

    [[nodiscard]] std::byte* data() noexcept { return data_; }
    [[nodiscard]] const std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    /// Changes the size. The old bytes that fit into the new size stay unchanged. Throws std::bad_alloc.
    void resize(std::size_t bytes) {
        if (bytes > capacity_) {
            grow(bytes);
        }
        size_ = bytes;
    }

private:
    void grow(std::size_t bytes);

    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

/// The values of one feature in all rows of a batch. The values are contiguous, in row order.
///
/// - A column with a fixed width has rows × width values.
/// - A ragged column has a different number of values in each row. Row i has the values offsets()[i] … offsets()[i + 1]
///   − 1, as in the CSR format of sparse matrices.
/// - A column of texts has dtype uint8 and rows × width texts. Text j has the bytes offsets()[j] … offsets()[j + 1]
/// − 1.
struct Column {
    std::string name;
    DType dtype = DType::float32;
    std::int64_t width = 1;  ///< values (or texts) per row; 0 in a ragged column
    Array data;
    Array offset_data;  ///< int64 numbers; empty in a column of numbers with a fixed width

    /// Returns the values. Throws InvalidArgument if T is not the type of the column.
    template <class T>
    [[nodiscard]] std::span<T> values() {
        check_type(dtype_of<std::remove_const_t<T>>());
        return {reinterpret_cast<T*>(data.data()), data.size() / sizeof(T)};
    }
    template <class T>
    [[nodiscard]] std::span<const T> values() const {
        check_type(dtype_of<std::remove_const_t<T>>());
        return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
    }
    [[nodiscard]] std::span<const std::int64_t> offsets() const noexcept {
        return {reinterpret_cast<const std::int64_t*>(offset_data.data()), offset_data.size() / sizeof(std::int64_t)};
    }
    /// Returns text `index` of a column of texts.
    [[nodiscard]] RUEDA_API std::string_view text(std::size_t index) const;

private:
    template <class T>
    [[nodiscard]] static constexpr DType dtype_of() {
        if constexpr (std::is_same_v<T, float>) {
            return DType::float32;
        } else if constexpr (std::is_same_v<T, double>) {
            return DType::float64;
        } else if constexpr (std::is_same_v<T, std::int64_t>) {
            return DType::int64;
        } else {
            static_assert(std::is_same_v<T, std::uint8_t>, "columns hold float, double, std::int64_t or std::uint8_t");
            return DType::uint8;
        }
    }
    RUEDA_API void check_type(DType asked) const;
};

/// The samples of one step on this rank. The caller owns the batch and may change its columns. Threads: one at a time.
class RUEDA_API Batch {
public:
    [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
    /// The epoch and the step of the batch; both begin with 0.
    [[nodiscard]] std::int64_t epoch() const noexcept { return epoch_; }
    [[nodiscard]] std::int64_t step() const noexcept { return step_; }
    [[nodiscard]] std::span<Column> columns() noexcept { return columns_; }
    [[nodiscard]] std::span<const Column> columns() const noexcept { return columns_; }
    /// Returns the column with this name. Throws InvalidArgument, with the existing names, if there is none.
    [[nodiscard]] Column& column(std::string_view name);
    [[nodiscard]] const Column& column(std::string_view name) const;
    /// Returns the values of the column with this name.
    template <class T>
    [[nodiscard]] std::span<const T> values(std::string_view name) const {
        return column(name).values<T>();
    }

    /// Returns the column with this name; if there is none, adds it. A map function uses it to add results.
    Column& add_column(std::string_view name, DType dtype, std::int64_t width = 1);
    /// Keeps the first `count` columns, and removes the others.
    void keep_columns(std::size_t count);
    void set_rows(std::int64_t rows) noexcept { rows_ = rows; }
    void set_place(std::int64_t epoch, std::int64_t step) noexcept {
        epoch_ = epoch;
        step_ = step;
    }

private:
    std::vector<Column> columns_;
    std::int64_t rows_ = 0;
    std::int64_t epoch_ = 0;
    std::int64_t step_ = 0;
};

}  // namespace rueda::data
