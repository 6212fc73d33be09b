// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "rueda/data/batch.hpp"
#include "rueda/data/formats.hpp"

namespace rueda::data {

/// Finds the records in the bytes of one source, from its beginning to its end. Threads: one at a time.
class Splitter {
public:
    virtual ~Splitter() = default;
    /// Appends the complete records at the beginning of `bytes` to `records`: data, size and offset. Returns how many
    /// bytes these records take; the caller passes the remaining bytes again, with more bytes behind them. `offset` is
    /// the place of `bytes` in the source. With `at_end`, no bytes follow, and all bytes must be used. A failure means
    /// that no further record can be found; its text says what was found at which offset, without the name of the
    /// source. Records that were found before are in `records`. The code of the failure is Mismatch if the source does
    /// not fit the options of the format, and another one if the source is damaged.
    [[nodiscard]] virtual Result<std::size_t> split(std::string_view bytes, std::uint64_t offset, bool at_end,
                                                    std::vector<Record>& records) = 0;
};

/// Makes the splitter for a format. `header` is the first row that a CSV file must have; empty for all other formats.
/// Returns a null pointer for Safetensors and WholeFiles, whose records are not found by splitting.
[[nodiscard]] std::unique_ptr<Splitter> make_splitter(const Format& format, const std::string& header);

/// Splits TFRecord files.
[[nodiscard]] std::unique_ptr<Splitter> make_tfrecord_splitter();
/// Splits lines. With `quotes`, a newline between two double quotes does not end a line. If `header` is not empty, the
/// first line must be equal to it, and is left out. Empty lines are left out.
[[nodiscard]] std::unique_ptr<Splitter> make_line_splitter(bool quotes, const std::string& header);

/// The largest size of a record. A longer record is refused, so that a damaged or hostile file cannot fill the memory.
/// Protocol buffers have the same limit, so no tf.train.Example is longer.
inline constexpr std::size_t kMostRecordBytes = (std::size_t{1} << 31) - 1;

/// The bytes of a record's head and foot in a TFRecord file. Record::data points behind the head; the masked CRC of the
/// data follows the data.
inline constexpr std::size_t kTfrecordHeadBytes = 12;
inline constexpr std::size_t kTfrecordFootBytes = 4;

}  // namespace rueda::data
