// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Batches: the samples of one step, as columns of plain arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rueda/rueda.h"
#include "rueda/types.hpp"

namespace rueda::data {

/// One sample's bytes, as they stand in a source. The bytes are valid while a map function or a parser works on the
/// batch.
struct Record {
    const char* data = nullptr;
    std::size_t size = 0;
    std::uint64_t offset = 0;  ///< position of these bytes in the source, counted after decompression
    std::uint64_t number = 0;  ///< number of the record in its source, from 0
    std::uint32_t source = 0;  ///< index of the source in PipelineOptions::sources

    [[nodiscard]] std::string_view text() const noexcept { return {data, size}; }
};

/// The functions that allocate and free the arrays of batches, for a program that needs a special kind of memory, for
/// example pinned memory. Several threads may call them at the same time.
struct BatchMemory {
    /// Returns memory of this size, which begins at a multiple of 64. Throws an exception if there is no such memory.
    std::function<void*(std::size_t bytes)> allocate;
    std::function<void(void* memory)> free;  ///< must not throw
    /// A function for memory that a device may still read when the program gives a batch back to the pipeline;
    /// otherwise null. When the pipeline gets a batch back, it calls this function for each array of the batch. The
    /// function records the work that the device still has to do. As an exception, the pipeline frees the batch without
    /// calling the function if the program has put arrays of other memory into the batch.
    std::function<void(void* memory)> note_work = {};
    /// A function that tells whether the device has done the work that note_work() has recorded, or null. The function
    /// must not wait. The pipeline writes to the memory again only after the function has returned true.
    std::function<bool(void* memory)> is_idle = {};
};

/// An array of bytes that begins at a multiple of 64. It grows, and keeps its memory when it shrinks, so that a batch
/// can be used again without allocations. New bytes have no defined value.
class RUEDA_API Array {
public:
    Array() = default;
    /// Makes an empty array. Its bytes will lie in `memory`, or in ordinary memory if the pointer is null.
    explicit Array(std::shared_ptr<const BatchMemory> memory) noexcept : memory_(std::move(memory)) {}
    Array(Array&& other) noexcept;
    Array& operator=(Array&& other) noexcept;
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    ~Array();

    [[nodiscard]] std::byte* data() noexcept { return data_; }
    [[nodiscard]] const std::byte* data() const noexcept { return data_; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    /// The functions that allocate the bytes; null for ordinary memory. Moving an array copies this pointer: both
    /// arrays then have the functions of the array that was moved from.
    [[nodiscard]] const std::shared_ptr<const BatchMemory>& memory() const noexcept { return memory_; }
    /// Changes the size. The old bytes that fit into the new size stay unchanged. Throws std::bad_alloc.
    void resize(std::size_t bytes) {
        if (bytes > capacity_) {
            grow(bytes);
        }
        size_ = bytes;
    }

private:
    void grow(std::size_t bytes);
    [[nodiscard]] std::byte* allocate(std::size_t bytes) const;
    void release() noexcept;

    std::shared_ptr<const BatchMemory> memory_;
    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

/// The values of one feature in all rows of a batch. The values are contiguous, in row order.
///
/// - A column with a fixed width has rows × width values.
/// - A ragged column has a different number of values in each row. Row i has the values offsets()[i] … offsets()[i + 1]
///   − 1, as in the CSR format of sparse matrices.
/// - A column of texts has dtype uint8 and offsets, and has rows × width texts. Text j has the bytes offsets()[j] …
///   offsets()[j + 1] − 1. A column of dtype uint8 without offsets has a fixed width, like a column of numbers.
struct Column {
    std::string name;
    DType dtype = DType::float32;
    std::int64_t width = 1;  ///< values (or texts) per row; 0 in a ragged column
    Array data;
    Array offset_data;  ///< the offsets (int64) of a ragged column or of a column of texts; otherwise empty

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

/// The samples of one step on this rank. The caller owns the batch and may change its columns. Threads: one thread at a
/// time may use an object.
class RUEDA_API Batch {
public:
    Batch() = default;
    /// Makes an empty batch. Its columns will lie in `memory`, or in ordinary memory if the pointer is null.
    explicit Batch(std::shared_ptr<const BatchMemory> memory) noexcept : memory_(std::move(memory)) {}
    [[nodiscard]] const std::shared_ptr<const BatchMemory>& memory() const noexcept { return memory_; }

    [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
    /// Returns the number of rows that are samples. The samples are the first rows of the batch; the other rows are
    /// padding (Remainder::pad).
    [[nodiscard]] std::int64_t counted() const noexcept { return rows_ - padding_; }
    /// The epoch and the step of the batch; both begin with 0.
    [[nodiscard]] std::int64_t epoch() const noexcept { return epoch_; }
    [[nodiscard]] std::int64_t step() const noexcept { return step_; }
    [[nodiscard]] std::span<Column> columns() noexcept { return columns_; }
    [[nodiscard]] std::span<const Column> columns() const noexcept { return columns_; }
    /// Returns the column with this name. If there is none, throws InvalidArgument; the message lists the existing
    /// columns.
    [[nodiscard]] Column& column(std::string_view name);
    [[nodiscard]] const Column& column(std::string_view name) const;
    /// Returns the values of the column with this name.
    template <class T>
    [[nodiscard]] std::span<const T> values(std::string_view name) const {
        return column(name).values<T>();
    }

    /// Returns the column with this name. If the batch has no such column, adds it. Map functions call add_column() for
    /// their results.
    Column& add_column(std::string_view name, DType dtype, std::int64_t width = 1);
    /// Keeps the first `count` columns, and removes the others.
    void keep_columns(std::size_t count);
    /// Sets the number of rows. The last `padding` rows are not samples.
    void set_rows(std::int64_t rows, std::int64_t padding = 0) noexcept {
        rows_ = rows;
        padding_ = padding;
    }
    void set_place(std::int64_t epoch, std::int64_t step) noexcept {
        epoch_ = epoch;
        step_ = step;
    }

private:
    std::shared_ptr<const BatchMemory> memory_;
    std::vector<Column> columns_;
    std::int64_t rows_ = 0;
    std::int64_t padding_ = 0;
    std::int64_t epoch_ = 0;
    std::int64_t step_ = 0;
};

/// The name and the bytes of a file, for a decode function. They are valid until the function returns.
struct FileBytes {
    std::string_view name;
    std::span<const std::byte> bytes;  ///< after decompression
};

/// The place in a batch where a decode function writes the values of one sample. Threads: one thread at a time may use
/// an object.
class SampleRow {
public:
    SampleRow(Batch& batch, std::size_t row) noexcept : batch_(batch), row_(row) {}

    /// Returns the memory for the values of this sample in a column. The memory has room for `width` values of the
    /// column, and the decode function must write all of them. Throws InvalidArgument if there is no such column, or if
    /// T is not its type.
    template <class T>
    [[nodiscard]] std::span<T> values(std::string_view column) const {
        Column& found = batch_.column(column);
        const auto width = static_cast<std::size_t>(found.width);
        return found.values<T>().subspan(row_ * width, width);
    }

private:
    Batch& batch_;
    std::size_t row_;
};

}  // namespace rueda::data
