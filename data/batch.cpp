// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/data/batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/text.hpp"
#include "rueda/error.hpp"

namespace rueda::data {

namespace {

constexpr std::size_t kAlignment = 64;  ///< the size of a cache line

}  // namespace

Array::Array(Array&& other) noexcept
    // memory_ says where an array gets its memory. It is copied and not moved, because `other` may grow again later,
    // and then needs the same kind of memory.
    : memory_(other.memory_),  // NOLINT(performance-move-constructor-init): see above
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)) {}

Array& Array::operator=(Array&& other) noexcept {
    if (this != &other) {
        release();
        memory_ = other.memory_;
        data_ = std::exchange(other.data_, nullptr);
        size_ = std::exchange(other.size_, 0);
        capacity_ = std::exchange(other.capacity_, 0);
    }
    return *this;
}

Array::~Array() { release(); }

void Array::release() noexcept {
    if (memory_ != nullptr && data_ != nullptr) {
        memory_->free(data_);
    } else {
        std::free(data_);
    }
}

std::byte* Array::allocate(std::size_t bytes) const {
    auto* const memory =
        static_cast<std::byte*>(memory_ != nullptr ? memory_->allocate(bytes) : std::aligned_alloc(kAlignment, bytes));
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    if (reinterpret_cast<std::uintptr_t>(memory) % kAlignment != 0) {
        memory_->free(memory);
        throw InvalidArgument(fmt::format(
            "batch: BatchMemory::allocate returned memory that does not begin at a multiple of {}", kAlignment));
    }
    return memory;
}

void Array::grow(std::size_t bytes) {
    const std::size_t capacity = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (capacity < bytes) {
        throw std::bad_alloc();
    }
    std::byte* const grown = allocate(capacity);
    if (size_ > 0) {
        std::memcpy(grown, data_, size_);
    }
    release();
    data_ = grown;
    capacity_ = capacity;
}

std::string_view Column::text(std::size_t index) const {
    if (dtype != DType::uint8 || offsets().empty() || index >= offsets().size() - 1) {
        throw InvalidArgument(fmt::format("batch: column '{}' (dtype {}) has no text {}; it has {} texts", name,
                                          name_of(dtype), index,
                                          dtype != DType::uint8 || offsets().empty() ? 0 : offsets().size() - 1));
    }
    const auto begin = static_cast<std::size_t>(offsets()[index]);
    const auto end = static_cast<std::size_t>(offsets()[index + 1]);
    return {reinterpret_cast<const char*>(data.data()) + begin, end - begin};
}

void Column::check_type(DType asked) const {
    if (dtype != asked) {
        throw InvalidArgument(fmt::format("batch: column '{}' has dtype {}, and values of {} were asked for", name,
                                          name_of(dtype), name_of(asked)));
    }
}

Column& Batch::column(std::string_view name) {
    return const_cast<Column&>(static_cast<const Batch*>(this)->column(name));
}

const Column& Batch::column(std::string_view name) const {
    std::string names;
    for (const Column& column : columns_) {
        if (column.name == name) {
            return column;
        }
        names += (names.empty() ? "" : ", ") + column.name;
    }
    throw InvalidArgument(
        fmt::format("batch: there is no column {}; there are: {}", base::quote(name), names.empty() ? "none" : names));
}

Column& Batch::add_column(std::string_view name, DType dtype, std::int64_t width) {
    const auto found =
        std::find_if(columns_.begin(), columns_.end(), [name](const Column& column) { return column.name == name; });
    const bool is_new = found == columns_.end();
    if (is_new) {
        columns_.emplace_back();
        columns_.back().data = Array(memory_);
        columns_.back().offset_data = Array(memory_);
    }
    Column& column = is_new ? columns_.back() : *found;
    column.name = name;
    column.dtype = dtype;
    column.width = width;
    return column;
}

void Batch::keep_columns(std::size_t count) {
    if (count < columns_.size()) {
        columns_.erase(columns_.begin() + static_cast<std::ptrdiff_t>(count), columns_.end());
    }
}

}  // namespace rueda::data
