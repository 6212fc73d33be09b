// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "data/formats/output.hpp"
#include "data/formats/wire.hpp"
#include "rueda/data/formats.hpp"

namespace rueda::data {

/// Writes one feature of tf.train.Example messages into its column. Threads: one at a time.
class FeatureOutput {
public:
    explicit FeatureOutput(Feature feature);

    [[nodiscard]] const Feature& feature() const noexcept { return feature_; }
    /// Adds the feature's column to the batch.
    void add_column(Batch& batch) const;
    /// Begins to write into this column. The column must not move in memory until end().
    void begin(Column& column, std::size_t rows);
    /// Reads a message tf.train.Feature into row `row`. Sets `has_value` to false if the feature has no list; the
    /// feature then counts as missing. A second call for the same row replaces the values.
    [[nodiscard]] Status read(wire::Cursor message, std::size_t row, bool& has_value);
    /// Reads the most common form of the message: one packed list, with the expected number of values. Returns false
    /// for any other form; the caller then calls read().
    [[nodiscard]] bool read_simple(wire::Cursor message, std::size_t row) const noexcept {
        std::uint64_t tag = 0;
        std::uint64_t list_bytes = 0;
        std::uint64_t packed_bytes = 0;
        const bool is_simple = simple_tag_ != 0 && !message.empty() && wire::read_varint(message, tag) &&
                               tag == simple_tag_ && wire::read_varint(message, list_bytes) &&
                               list_bytes == message.size() && wire::read_varint(message, tag) && tag == kPackedTag &&
                               wire::read_varint(message, packed_bytes) && packed_bytes == message.size();
        if (!is_simple) {
            return false;
        }
        if (feature_.dtype == DType::float32) {
            if (packed_bytes != length() * sizeof(float)) {
                return false;
            }
            std::memcpy(floats_.row(row), message.place, packed_bytes);
            return true;
        }
        std::int64_t* const values = integers_.row(row);
        for (std::size_t i = 0; i < length(); ++i) {
            std::uint64_t value = 0;
            if (!wire::read_any_varint(message, value)) {
                return false;
            }
            values[i] = static_cast<std::int64_t>(value);
        }
        return message.empty();
    }
    /// Fills row `row` for a sample that does not have the feature.
    [[nodiscard]] Status fill_missing(std::size_t row);
    void end(std::size_t rows);

private:
    [[nodiscard]] bool is_ragged() const noexcept { return feature_.length == 0; }
    [[nodiscard]] std::size_t length() const noexcept { return static_cast<std::size_t>(feature_.length); }
    using Append = Status (FeatureOutput::*)(wire::Cursor packed, std::size_t row, std::size_t& count);
    [[nodiscard]] Status read_numbers(wire::Cursor list, std::size_t row, std::uint64_t single_tag, Append append);
    [[nodiscard]] Status read_texts(wire::Cursor list, std::size_t row);
    [[nodiscard]] Status append_floats(wire::Cursor packed, std::size_t row, std::size_t& count);
    [[nodiscard]] Status append_integers(wire::Cursor packed, std::size_t row, std::size_t& count);
    [[nodiscard]] Status check_count(std::size_t count) const;
    [[nodiscard]] Status invalid_list() const;

    static constexpr std::uint64_t kPackedTag = wire::tag_of(1, wire::kLength);  ///< the tag of the values in a list

    Feature feature_;
    std::uint64_t simple_tag_ = 0;  ///< the tag of the list in a Feature; 0 if read_simple() cannot read such lists
    FixedOutput<float> floats_;
    FixedOutput<std::int64_t> integers_;
    OffsetOutput offsets_;
    GrowingOutput<float> ragged_floats_;
    GrowingOutput<std::int64_t> ragged_integers_;
    TextOutput texts_;
};

}  // namespace rueda::data
