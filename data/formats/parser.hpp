// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "rueda/data/batch.hpp"
#include "rueda/data/formats.hpp"
#include "rueda/data/source.hpp"

namespace rueda::data {

/// Turns records into columns. Threads: one object per thread, because a parser remembers the order of features in the
/// last record.
class Parser {
public:
    virtual ~Parser() = default;
    /// Prepares the batch's columns for `rows` rows.
    virtual void begin(Batch& batch, std::size_t rows) = 0;
    /// Parses the record into row `row`. The rows are filled in order: `row` is the number of records that were parsed
    /// with success since begin(). After a failure, another record can be parsed into the same row. The text of the
    /// failure says what was found and what was expected, but not where the record is.
    [[nodiscard]] virtual Status parse(const Record& record, std::size_t row) = 0;
    /// Shortens the columns to `rows` rows.
    virtual void end(std::size_t rows) = 0;
    /// Returns the number of bytes that parse() has read from sources since begin(). Most parsers return 0, because
    /// they get the bytes with the records.
    [[nodiscard]] virtual std::size_t bytes_read() const { return 0; }
};

/// Makes the parser for a format. `header` is the first row of the CSV files. The parser for WholeFiles reads
/// `sources`, which must outlive it. Fails with InvalidArgument if the format's options cannot be used.
[[nodiscard]] Result<std::unique_ptr<Parser>> make_parser(const Format& format, const std::string& header,
                                                          std::span<const Source> sources = {});

[[nodiscard]] Result<std::unique_ptr<Parser>> make_example_parser(const Examples& format);
[[nodiscard]] std::unique_ptr<Parser> make_libsvm_parser(const Libsvm& format);
[[nodiscard]] Result<std::unique_ptr<Parser>> make_csv_parser(const Csv& format, const std::string& header);
[[nodiscard]] Result<std::unique_ptr<Parser>> make_tensor_parser(const Safetensors& format);
[[nodiscard]] Result<std::unique_ptr<Parser>> make_file_parser(const WholeFiles& format,
                                                               std::span<const Source> sources);
/// If `check_data` is true, the parser checks the CRC of each record. The records must then come from TFRecord files.
[[nodiscard]] std::unique_ptr<Parser> make_bytes_parser(std::string column, bool check_data);

/// Checks that the value for missing fields fits its column.
[[nodiscard]] Status check_missing(const std::string& column, DType dtype, const std::optional<double>& missing);

/// Computes the CRC of a TFRecord's data, and compares it with the CRC that the file has behind the data.
[[nodiscard]] Status check_tfrecord(const Record& record);

/// The records that parse_all() could not parse.
struct MalformedRecords {
    std::int64_t count = 0;
    std::string first;  ///< the message about the first malformed record
};
/// Parses all records, and leaves out malformed ones. Returns their number, and a message about the first one with its
/// place. `name_of` returns the name of a source.
[[nodiscard]] MalformedRecords parse_all(Parser& parser, std::span<const Record> records, Batch& batch,
                                         const std::function<std::string(std::uint32_t source)>& name_of);

}  // namespace rueda::data
