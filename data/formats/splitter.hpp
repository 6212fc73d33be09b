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
    /// Appends the complete records at the beginning of `bytes` to `records`, and fills in their data, size and offset.
    /// Returns how many bytes these records take. The caller passes the remaining bytes again, with more bytes behind
    /// them. `offset` is the place of `bytes` in the source. If `at_end` is true, no bytes follow, so the function must
    /// use all bytes. A failure means that no further record can be found; the records that were found before are in
    /// `records`. The text of the failure says what was found at which offset, without the name of the source. Its code
    /// is Mismatch if the source does not fit the options of the format. If the source is damaged, the code is another
    /// one.
    [[nodiscard]] virtual Result<std::size_t> split(std::string_view bytes, std::uint64_t offset, bool at_end,
                                                    std::vector<Record>& records) = 0;
};

/// Makes the splitter for a format. `header` is the first row that a CSV file must have. For all other formats it is
/// empty. Returns a null pointer for Safetensors and WholeFiles, whose records are not found by splitting.
[[nodiscard]] std::unique_ptr<Splitter> make_splitter(const Format& format, const std::string& header);

/// Splits TFRecord files.
[[nodiscard]] std::unique_ptr<Splitter> make_tfrecord_splitter();
/// Splits lines. If `quotes` is true, a newline between two double quotes does not end a line. If `header` is not
/// empty, the first line must be equal to it, and is left out. Empty lines are left out.
[[nodiscard]] std::unique_ptr<Splitter> make_line_splitter(bool quotes, const std::string& header);

/// The largest size of a record. A longer record is refused, so that a damaged or hostile file cannot fill the memory.
/// Protocol buffers have the same limit, so no tf.train.Example is longer.
inline constexpr std::size_t kMostRecordBytes = (std::size_t{1} << 31) - 1;

/// The sizes of the head and the foot of a record in a TFRecord file. The head is before the data, to which
/// Record::data points. The foot, the masked CRC of the data, is behind the data.
inline constexpr std::size_t kTfrecordHeadBytes = 12;
inline constexpr std::size_t kTfrecordFootBytes = 4;

}  // namespace rueda::data
