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
    explicit FeatureOutput(Feature feature) : feature_(std::move(feature)) {}

    [[nodiscard]] const Feature& feature() const noexcept { return feature_; }
    /// Adds the feature's column to the batch.
    void add_column(Batch& batch) const;
    /// Begins to write into this column, which must stay at its place until end().
    void begin(Column& column, std::size_t rows);
    /// Reads a message tf.train.Feature into row `row`. Returns false in `has_value` if the feature has no list, so
    /// that it counts as missing. Calling it again for the same row replaces the values.
    [[nodiscard]] Status read(wire::Cursor message, std::size_t row, bool& has_value);
    /// Fills row `row` of a sample that lacks the feature.
    [[nodiscard]] Status fill_missing(std::size_t row);
    void end(std::size_t rows);

private:
    [[nodiscard]] bool is_ragged() const noexcept { return feature_.length == 0; }
    [[nodiscard]] std::size_t length() const noexcept { return static_cast<std::size_t>(feature_.length); }
    [[nodiscard]] Status read_floats(wire::Cursor list, std::size_t row);
    [[nodiscard]] Status read_integers(wire::Cursor list, std::size_t row);
    [[nodiscard]] Status read_texts(wire::Cursor list, std::size_t row);
    [[nodiscard]] Status append_floats(wire::Cursor packed, std::size_t row, std::size_t& count);
    [[nodiscard]] Status append_integers(wire::Cursor packed, std::size_t row, std::size_t& count);
    [[nodiscard]] Status check_count(std::size_t count) const;
    [[nodiscard]] Status invalid_list() const;

    Feature feature_;
    FixedOutput<float> floats_;
    FixedOutput<std::int64_t> integers_;
    OffsetOutput offsets_;
    GrowingOutput<float> ragged_floats_;
    GrowingOutput<std::int64_t> ragged_integers_;
    TextOutput texts_;
};

}  // namespace rueda::data
