// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "rueda/data/batch.hpp"

namespace rueda::data {

/// The classes with which a parser writes the values of a column. They point into a column of the batch that is being
/// filled, and do not own this column. Threads: one at a time.

/// Values of a column with a fixed width.
template <class T>
class FixedOutput {
public:
    FixedOutput() = default;
    FixedOutput(Column& column, std::size_t rows) : column_(&column), width_(static_cast<std::size_t>(column.width)) {
        column.data.resize(rows * width_ * sizeof(T));
        column.offset_data.resize(0);
        values_ = reinterpret_cast<T*>(column.data.data());
    }
    /// The place of the first value of a row.
    [[nodiscard]] T* row(std::size_t row) const noexcept { return values_ + row * width_; }
    void end(std::size_t rows) { column_->data.resize(rows * width_ * sizeof(T)); }

private:
    Column* column_ = nullptr;
    std::size_t width_ = 0;
    T* values_ = nullptr;
};

/// Offsets of a ragged column or of a column of texts.
class OffsetOutput {
public:
    OffsetOutput() = default;
    OffsetOutput(Column& column, std::size_t rows) : column_(&column) {
        column.offset_data.resize((rows + 1) * sizeof(std::int64_t));
        offsets_ = reinterpret_cast<std::int64_t*>(column.offset_data.data());
        offsets_[0] = 0;
    }
    [[nodiscard]] std::size_t begin_of(std::size_t row) const noexcept {
        return static_cast<std::size_t>(offsets_[row]);
    }
    void set_end(std::size_t row, std::size_t end) noexcept { offsets_[row + 1] = static_cast<std::int64_t>(end); }
    /// Shortens the offsets to `rows` rows. Returns the number of values.
    std::size_t end(std::size_t rows) {
        column_->offset_data.resize((rows + 1) * sizeof(std::int64_t));
        return begin_of(rows);
    }

private:
    Column* column_ = nullptr;
    std::int64_t* offsets_ = nullptr;
};

/// Writes the values of a column whose number of values is not known in advance. The column grows.
template <class T>
class GrowingOutput {
public:
    GrowingOutput() = default;
    explicit GrowingOutput(Column& column) : column_(&column) {
        values_ = reinterpret_cast<T*>(column.data.data());
        capacity_ = column.data.size() / sizeof(T);
    }
    /// Makes room for `count` values after the first `begin` values, and returns the place for the new values.
    T* reserve(std::size_t begin, std::size_t count) {
        if (begin + count > capacity_) {
            capacity_ = (begin + count) * 2;
            column_->data.resize(capacity_ * sizeof(T));
            values_ = reinterpret_cast<T*>(column_->data.data());
        }
        return values_ + begin;
    }
    void end(std::size_t count) { column_->data.resize(count * sizeof(T)); }

private:
    Column* column_ = nullptr;
    T* values_ = nullptr;
    std::size_t capacity_ = 0;
};

/// Texts of a column. Row i has one text.
class TextOutput {
public:
    TextOutput() = default;
    TextOutput(Column& column, std::size_t rows) : offsets_(column, rows), bytes_(column) {}
    void put(std::size_t row, std::string_view text) {
        const std::size_t begin = offsets_.begin_of(row);
        if (!text.empty()) {
            std::memcpy(bytes_.reserve(begin, text.size()), text.data(), text.size());
        }
        offsets_.set_end(row, begin + text.size());
    }
    void end(std::size_t rows) { bytes_.end(offsets_.end(rows)); }

private:
    OffsetOutput offsets_;
    GrowingOutput<char> bytes_;
};

}  // namespace rueda::data
