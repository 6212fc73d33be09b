// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/parser.hpp"
#include "data/formats/record_reader.hpp"
#include "tests/fuzz/input.hpp"

/// Helpers of the fuzz targets for the formats of the input pipeline.
namespace rueda::data::fuzz {

using rueda::fuzz::expect;

/// The bytes of a source, followed by the padding that parsers may read.
class PaddedBytes {
public:
    explicit PaddedBytes(std::string_view bytes) : size_(bytes.size()), bytes_(bytes) {
        bytes_.append(kChunkPadding, '\n');
    }
    [[nodiscard]] std::string_view view() const { return std::string_view(bytes_).substr(0, size_); }

private:
    std::size_t size_;
    std::string bytes_;
};

struct SplitRecords {
    std::vector<Record> records;
    std::string problem;  ///< why the splitting failed; empty if it did not fail
};

/// Splits the bytes into records. The bytes arrive in two pieces. The records are views into `bytes`.
inline SplitRecords split(const Format& format, const std::string& header, std::string_view bytes, std::size_t first) {
    const auto splitter = make_splitter(format, header);
    SplitRecords split;
    std::size_t used = 0;
    for (const std::size_t end : {first, bytes.size()}) {
        const auto step = splitter->split(bytes.substr(used, end - used), used, end == bytes.size(), split.records);
        if (!step.is_ok()) {
            split.problem = step.status().message();
            expect(!split.problem.empty());
            break;
        }
        used += step.value();
        expect(used <= end);
        if (end == bytes.size()) {
            expect(used == end);
            break;
        }
    }
    std::uint64_t behind = 0;
    for (const Record& record : split.records) {
        expect(record.data >= bytes.data() && record.data + record.size <= bytes.data() + bytes.size());
        expect(record.offset >= behind);
        behind = record.offset + record.size;
    }
    return split;
}

/// Checks that a column has as many values as its rows, width and offsets say.
inline void check_column(const Column& column, std::size_t rows) {
    const std::size_t value = size_of(column.dtype);
    const auto offsets = column.offsets();
    if (offsets.empty()) {
        expect(column.data.size() == rows * static_cast<std::size_t>(column.width) * value);
        return;
    }
    expect(offsets.size() == rows * static_cast<std::size_t>(column.width == 0 ? 1 : column.width) + 1);
    expect(offsets.front() == 0);
    for (std::size_t i = 1; i < offsets.size(); ++i) {
        expect(offsets[i - 1] <= offsets[i]);
    }
    expect(column.data.size() == static_cast<std::size_t>(offsets.back()) * value);
}

/// Splits and parses the bytes. Checks that batches are consistent, and that each record is either a row or counted as
/// malformed. The result must not depend on the pieces in which the bytes arrive.
inline void check_format(const Format& format, const std::string& header, std::string_view input, std::size_t first) {
    const PaddedBytes bytes(input);
    const SplitRecords records = split(format, header, bytes.view(), first % (input.size() + 1));
    const SplitRecords whole = split(format, header, bytes.view(), input.size());
    expect(records.problem == whole.problem && records.records.size() == whole.records.size());
    const auto parser = make_parser(format, header);
    expect(parser.is_ok());
    Batch batch;
    const auto malformed = parse_all(*parser.value(), records.records, batch, [](std::uint32_t) { return "input"; });
    expect(static_cast<std::size_t>(malformed.count + batch.rows()) == records.records.size());
    expect((malformed.count == 0) == malformed.first.empty());
    for (const Column& column : batch.columns()) {
        check_column(column, static_cast<std::size_t>(batch.rows()));
    }
}

}  // namespace rueda::data::fuzz
