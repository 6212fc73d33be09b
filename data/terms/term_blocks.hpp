// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.hpp"
#include "rueda/data/batch.hpp"

namespace rueda::data {

/// The number of texts that are processed together. While the processor fetches the memory for one text of the block,
/// it works on the other texts of the block. A processor can fetch only 10 to 16 cache lines at the same time, so
/// larger blocks gain nothing.
inline constexpr std::size_t kTermBlock = 16;

/// TextTerms are the texts of an array, and IntegerTerms are the decimal texts of integers. Threads: any.
class TextTerms {
public:
    TextTerms(std::string_view bytes, std::span<const std::int64_t> offsets) : bytes_(bytes), offsets_(offsets) {}
    [[nodiscard]] std::size_t count() const noexcept { return offsets_.empty() ? 0 : offsets_.size() - 1; }
    /// Checks the offsets, because the program may have made them.
    [[nodiscard]] Status check() const {
        std::int64_t before = 0;
        for (const std::int64_t offset : offsets_) {
            if (offset < before) {
                return failure(ErrorCode::invalid_argument,
                               "texts: an offset is {}, and the one before it is {}; expected offsets that do not "
                               "decrease and begin with 0 or more",
                               offset, before);
            }
            before = offset;
        }
        if (static_cast<std::uint64_t>(before) > bytes_.size()) {
            return failure(ErrorCode::invalid_argument,
                           "texts: the last offset is {}, and there are {} bytes; expected an offset of at most the "
                           "number of bytes",
                           before, bytes_.size());
        }
        return {};
    }
    /// Fills `terms` with the texts from `first` on.
    void fill(std::size_t first, std::span<std::string_view> terms) const noexcept {
        for (std::size_t i = 0; i < terms.size(); ++i) {
            const auto begin = static_cast<std::size_t>(offsets_[first + i]);
            terms[i] = {bytes_.data() + begin, static_cast<std::size_t>(offsets_[first + i + 1]) - begin};
        }
    }

private:
    std::string_view bytes_;
    std::span<const std::int64_t> offsets_;
};

class IntegerTerms {
public:
    explicit IntegerTerms(std::span<const std::int64_t> integers) : integers_(integers) {}
    [[nodiscard]] std::size_t count() const noexcept { return integers_.size(); }
    [[nodiscard]] static Status check() { return {}; }
    /// Fills `terms` with the decimal texts of the integers from `first` on. The next call overwrites these texts.
    void fill(std::size_t first, std::span<std::string_view> terms) noexcept {
        for (std::size_t i = 0; i < terms.size(); ++i) {
            auto& text = texts_[i];
            const char* const end = std::to_chars(text.data(), text.data() + text.size(), integers_[first + i]).ptr;
            terms[i] = {text.data(), static_cast<std::size_t>(end - text.data())};
        }
    }

private:
    static constexpr std::size_t kLongest = 20;  // the number of characters of the smallest integer
    std::span<const std::int64_t> integers_;
    std::array<std::array<char, kLongest>, kTermBlock> texts_{};
};

/// Checks all terms. Then calls the function `process(terms, ids)` for each block of terms. This function puts the ids
/// of these terms into `ids`.
template <class Terms, class Process>
Status process_blocks(Terms terms, std::span<std::int64_t> ids, Process&& process) {
    if (ids.size() != terms.count()) {
        return failure(ErrorCode::invalid_argument,
                       "texts: there are {} of them, and places for {} ids; expected as many places as texts",
                       terms.count(), ids.size());
    }
    RUEDA_RETURN_IF_FAILED(terms.check());
    std::array<std::string_view, kTermBlock> block;
    for (std::size_t first = 0; first < ids.size(); first += kTermBlock) {
        const std::size_t count = std::min(kTermBlock, ids.size() - first);
        terms.fill(first, std::span(block).first(count));
        process(std::span<const std::string_view>(block).first(count), ids.subspan(first, count));
    }
    return {};
}

/// Replaces the texts or integers of a column by ids. `process` is as for process_blocks().
template <class Process>
Status process_column(Column& column, Process&& process) {
    if (column.dtype == DType::int64) {
        const std::span<std::int64_t> values = column.values<std::int64_t>();
        return process_blocks(IntegerTerms(values), values, process);
    }
    if (column.dtype != DType::uint8) {
        return failure(ErrorCode::invalid_argument,
                       "column '{}' has dtype {}; expected texts (uint8) or integers (int64)", column.name,
                       name_of(column.dtype));
    }
    const std::span<const std::int64_t> offsets = column.offsets();
    // A column does not know its number of rows. So the only possible check is that the number of texts is a multiple
    // of the width.
    if (offsets.empty() ? column.data.size() > 0
                        : column.width < 1 || (offsets.size() - 1) % static_cast<std::size_t>(column.width) != 0) {
        return failure(ErrorCode::invalid_argument,
                       "column '{}' has {} bytes and {} offsets; expected texts, with rows x {} + 1 offsets",
                       column.name, column.data.size(), offsets.size(), column.width);
    }
    Array ids(column.data.memory());
    ids.resize((offsets.empty() ? 0 : offsets.size() - 1) * sizeof(std::int64_t));
    RUEDA_RETURN_IF_FAILED(process_blocks(
        TextTerms({reinterpret_cast<const char*>(column.data.data()), column.data.size()}, offsets),
        std::span(reinterpret_cast<std::int64_t*>(ids.data()), ids.size() / sizeof(std::int64_t)), process));
    column.data = std::move(ids);
    column.offset_data.resize(0);
    column.dtype = DType::int64;
    return {};
}

}  // namespace rueda::data
