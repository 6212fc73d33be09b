// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/formats/parser.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>
#include <variant>

#include "data/crc32c.hpp"
#include "data/formats/output.hpp"

namespace rueda::data {

namespace {

/// The records as they are, in one column of texts.
class BytesParser final : public Parser {
public:
    BytesParser(std::string column, bool check_data) : name_(std::move(column)), check_data_(check_data) {}

    void begin(Batch& batch, std::size_t rows) override {
        texts_ = TextOutput(batch.add_column(name_, DType::uint8), rows);
    }
    Status parse(const Record& record, std::size_t row) override {
        if (check_data_) {
            RUEDA_RETURN_IF_FAILED(check_tfrecord(record));
        }
        texts_.put(row, record.text());
        return {};
    }
    void end(std::size_t rows) override { texts_.end(rows); }

private:
    std::string name_;
    bool check_data_;
    TextOutput texts_;
};

struct MakeParser {
    const std::string& header;
    std::span<const Source> sources;
    using Made = Result<std::unique_ptr<Parser>>;
    Made operator()(const Examples& format) const { return make_example_parser(format); }
    Made operator()(const Libsvm& format) const { return make_libsvm_parser(format); }
    Made operator()(const Csv& format) const { return make_csv_parser(format, header); }
    Made operator()(const Tfrecords& format) const { return make_bytes_parser("record", format.check_data); }
    Made operator()(const Lines& /*format*/) const { return make_bytes_parser("line", false); }
    Made operator()(const Safetensors& format) const { return make_tensor_parser(format); }
    Made operator()(const WholeFiles& format) const { return make_file_parser(format, sources); }
};

}  // namespace

Result<std::unique_ptr<Parser>> make_parser(const Format& format, const std::string& header,
                                            std::span<const Source> sources) {
    return std::visit(MakeParser{header, sources}, format);
}

std::unique_ptr<Parser> make_bytes_parser(std::string column, bool check_data) {
    return std::make_unique<BytesParser>(std::move(column), check_data);
}

Status check_missing(const std::string& column, DType dtype, const std::optional<double>& missing) {
    constexpr double kExact = 9007199254740992.0;  // 2^53; float64 can represent all integers up to 2^53
    if (dtype == DType::uint8 && missing.has_value()) {
        return failure(
            ErrorCode::invalid_argument,
            "pipeline: column '{}' has texts, and its value for missing fields is {}; a missing text is empty, "
            "so leave the value out",
            column, *missing);
    }
    if (dtype == DType::int64 && missing.has_value() &&
        !(std::abs(*missing) <= kExact && std::trunc(*missing) == *missing)) {
        return failure(ErrorCode::invalid_argument,
                       "pipeline: column '{}' has int64 numbers, and its value for missing fields is {}; expected an "
                       "integer of at most 2^53",
                       column, *missing);
    }
    return {};
}

Status check_tfrecord(const Record& record) {
    std::uint32_t stored = 0;
    // the CRC comes directly after the data; the splitter has checked that it is there
    std::memcpy(&stored, record.data + record.size, sizeof stored);
    const std::uint32_t computed = masked(crc32c(record.data, record.size));
    if (stored == computed) {
        return {};
    }
    return failure(
        ErrorCode::invalid_argument,
        "damaged data: the masked CRC of its {} bytes is {:08x}, expected {:08x} as stored; the file is damaged; "
        "copy it again",
        record.size, computed, stored);
}

MalformedRecords parse_all(Parser& parser, std::span<const Record> records, Batch& batch,
                           const std::function<std::string(std::uint32_t source)>& name_of) {
    MalformedRecords malformed;
    parser.begin(batch, records.size());
    std::size_t row = 0;
    for (const Record& record : records) {
        const Status status = parser.parse(record, row);
        if (status.is_ok()) {
            ++row;
            continue;
        }
        if (malformed.count++ == 0) {
            malformed.first = fmt::format("reading '{}', record {} at offset {}: {}", name_of(record.source),
                                          record.number, record.offset, status.message());
        }
    }
    parser.end(row);
    batch.set_rows(static_cast<std::int64_t>(row));
    return malformed;
}

}  // namespace rueda::data
